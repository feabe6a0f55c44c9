import { PROGRAM, type Command } from '../../src/cli/command.ts';
import { printFlags, type Option } from '../../src/cli/options.ts';
import { cell, code, printMarkdownTable } from './markdown.ts';

const HEAD = `# Commands and flags

Made by \`npm run docs\` from the tables of options that the program reads its arguments by; \`${PROGRAM} COMMAND --help\` shows the same.
What is behind them: [reference](reference.md).

Flags are written \`--flag=value\` or \`--flag value\`; one that takes no value is on when it is named, and \`--flag=false\` turns it off. What ends
in \`,...\` takes several values, between commas or by being given again; of others, given again, the last counts. Unknown flags are errors.
`;

/** The reference of all commands and their flags. */
export function printFlagReference(commands: readonly Command[]): string {
  const list = commands.map(({ name, summary }) => `- [\`${PROGRAM} ${name}\`](#${anchorOf(name)}): ${summary}\n`);
  return [HEAD, list.join(''), ...commands.map(printCommand)].join('\n');
}

function anchorOf(name: string): string {
  return `${PROGRAM}-${name.replaceAll(' ', '-')}`;
}

function printCommand({ name, summary, operands, options, details }: Command): string {
  const shown = Object.entries(options).filter(([, { visibility }]) => visibility !== 'hidden');
  return [
    `## ${PROGRAM} ${name}\n`,
    `${summary}: \`${PROGRAM} ${name} [options]${operands === undefined ? '' : ` ${operands}`}\`\n`,
    ...(shown.length === 0 ? [] : [printOptions(shown)]),
    ...(details === undefined ? [] : [`\`\`\`text\n${details.trim()}\n\`\`\`\n`]),
  ].join('\n');
}

function printOptions(options: readonly (readonly [name: string, option: Option<unknown>])[]): string {
  const rows = options.map(([name, one]) => [
    code(`${printFlags(name, one)}${one.value === undefined ? '' : ` ${one.value}`}`),
    code(String(one.fallback ?? '')),
    code(one.env ?? ''),
    cell(one.help) + printAliases(one),
  ]);
  return printMarkdownTable(['flag', 'default', 'environment', 'what'], rows);
}

function printAliases({ aliases = [] }: Option<unknown>): string {
  return aliases.length === 0 ? '' : `. Also ${aliases.map((alias) => code(`--${alias}`)).join(', ')}`;
}
