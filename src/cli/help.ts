import { PROGRAM, type Command } from './command.ts';
import { printFlags, type Option } from './options.ts';

/** The help of the program: its commands. */
export function printProgramHelp(commands: readonly Command[]): string {
  return [
    `${PROGRAM} is a pod security admission server for Kubernetes.`,
    '',
    'Usage:',
    `  ${PROGRAM} COMMAND [options]`,
    '',
    'Commands:',
    ...printCommands(commands.map(({ name, summary }) => [name, summary])),
    '',
    'Options:',
    '  -h, --help     Show this help',
    '      --version  Show the version',
    '',
    `Use "${PROGRAM} COMMAND --help" for the options of a command.`,
    '',
  ].join('\n');
}

/** The help of the commands that begin with the same word. */
export function printGroupHelp(word: string, commands: readonly Command[]): string {
  return [
    'Usage:',
    `  ${PROGRAM} ${word} COMMAND [options]`,
    '',
    'Commands:',
    ...printCommands(commands.map(({ name, summary }) => [name.slice(word.length + 1), summary])),
    '',
    `Use "${PROGRAM} ${word} COMMAND --help" for the options of a command.`,
    '',
  ].join('\n');
}

function printCommands(rows: readonly (readonly [name: string, summary: string])[]): string[] {
  const width = Math.max(...rows.map(([name]) => name.length));
  return rows.map(([name, summary]) => `  ${name.padEnd(width)}  ${summary}`);
}

/** The help of one command. */
export function printCommandHelp(command: Command): string {
  const operands = command.operands === undefined ? '' : ` ${command.operands}`;
  const shown = Object.entries(command.options).filter(([, { visibility }]) => visibility !== 'hidden');
  return [
    `${command.summary}.`,
    '',
    'Usage:',
    `  ${PROGRAM} ${command.name} [options]${operands}`,
    '',
    'Options:',
    ...printOptions([...shown, ['help', { help: 'Show this help', short: 'h' }]]),
    '',
    ...(command.details === undefined ? [] : [command.details.trim(), '']),
  ].join('\n');
}

type OptionHelp = Omit<Option<unknown>, 'resolve'>;

function printOptions(options: readonly (readonly [name: string, option: OptionHelp])[]): string[] {
  const rows = options.map(([name, one]): [string, string] => [printName(name, one), printText(one)]);
  const width = Math.max(...rows.map(([name]) => name.length));
  return rows.map(([name, text]) => `  ${name.padEnd(width)}  ${text.replaceAll('\n', `\n${' '.repeat(width + 4)}`)}`);
}

function printName(name: string, { short, value, ...rest }: OptionHelp): string {
  const flags = printFlags(name, { ...rest, ...(short === undefined ? {} : { short }) });
  return `${short === undefined ? '    ' : ''}${flags}${value === undefined ? '' : ` ${value}`}`;
}

function printText({ help, fallback, env }: OptionHelp): string {
  const remarks = [
    fallback === undefined ? [] : [`default ${JSON.stringify(fallback)}`],
    env === undefined ? [] : [`$${env}`],
  ];
  const remark = remarks.flat().join(', ');
  return remark === '' ? help : `${help} (${remark})`;
}
