/**
 * The command tree. Each command is a row in `GROUPS` and a file in the folder of its subject. The file is loaded
 * when the command is used.
 */
import { Command as CommanderCommand, CommanderError, Help, Option as CommanderOption } from 'commander';
import { defined } from '../kube/defined.ts';
import { ConnectionError } from '../kube/status.ts';
import { printable, quote } from '../kube/text.ts';
import { UserError } from '../kube/user-error.ts';
import {
  type Command,
  type CommandEntry,
  EXIT,
  type Io,
  MANIFEST_PATHS,
  type Output,
  type ProcessIo,
  PROGRAM,
  VERSION,
} from './command.ts';
import {
  type Option,
  type Options,
  printFlags,
  resolveValues,
  type Sources,
  UsageError,
  type Values,
} from './options.ts';

/** All commands by help heading, in display order. Each row has the name, the summary, and the import of the file. */
const GROUPS: Readonly<
  Record<string, readonly (readonly [name: string, summary: string, load: CommandEntry['load']])[]>
> = {
  'Server:': [
    ['serve', 'Serve admission reviews for a cluster or a development cluster', () => import('./serve/serve.ts')],
  ],
  'Manifests, workloads and namespaces:': [
    ['check', 'Check manifests against the Pod Security Standards', () => import('./check/check.ts')],
    ['explain', 'Explain admission decisions and the levels of namespaces', () => import('./explain/explain.ts')],
    ['report', 'Write an HTML report for a cluster or for manifests', () => import('./report/report.ts')],
    ['dashboard', 'Show a live report of a cluster in a browser', () => import('./report/dashboard.ts')],
    ['audit user-namespaces', 'Find pods that depend on user namespaces', () => import('./audit/user-namespaces.ts')],
    ['audit exemptions', 'List exempt namespaces, users and runtime classes', () => import('./audit/exemptions.ts')],
    ['migrate', 'Convert pod security policies of Kyverno and other systems', () => import('./migrate/migrate.ts')],
  ],
  'Security context constraints (SCCs):': [
    ['scc plan', 'Preview which pods SCC admission would admit, change and deny', () => import('./scc/plan.ts')],
    [
      'scc pods',
      'Show which SCC admitted each pod, and the grants to its service account',
      () => import('./scc/pods.ts'),
    ],
    ['scc review', 'Review which SCC admits a pod for a user or for service accounts', () => import('./scc/review.ts')],
    ['scc who-can', 'Show the subjects that may use an SCC, and their grants', () => import('./scc/who-can.ts')],
    ['scc grant', 'Grant the use of an SCC to users, groups and service accounts', () => import('./scc/grant.ts')],
    ['scc revoke', 'Revoke grants of an SCC', () => import('./scc/revoke.ts')],
    ['scc create', 'Create a custom SCC for a workload', () => import('./scc/create.ts')],
  ],
  'Exceptions from Pod Security:': [
    ['exception create', 'Print the smallest exception that admits a workload', () => import('./exception/create.ts')],
    ['exception approve', 'Approve an exception', () => import('./exception/approve.ts')],
    ['exception list', 'List exceptions, their approvals, expiry times and uses', () => import('./exception/list.ts')],
  ],
  'Enforcement rollout:': [
    ['rollout status', 'Show the state of the rollout and the next action', () => import('./rollout/status.ts')],
    [
      'rollout plan',
      'Preview the planned level and the denied workloads of each namespace',
      () => import('./rollout/plan.ts'),
    ],
  ],
  'Operators (Operator Lifecycle Manager):': [
    ['olm status', 'Show namespaces with operators, and the auto-labeler state', () => import('./olm/status.ts')],
    ['olm harden', 'Propose hardened security contexts and Pod Security labels', () => import('./olm/harden.ts')],
  ],
  'Minimum kubelet version:': [
    ['kubelet status', 'Show the minimum kubelet version and the nodes below it', () => import('./kubelet/status.ts')],
    ['kubelet plan', 'List the nodes that a minimum kubelet version would exclude', () => import('./kubelet/plan.ts')],
  ],
  'Installation:': [
    ['install', 'Print the installation manifests for a cluster', () => import('./install/install.ts')],
    ['upgrade', 'Print the manifests to upgrade an installation to this version', () => import('./install/upgrade.ts')],
    ['doctor', 'Diagnose an installation and print fixes', () => import('./doctor/command.ts')],
    ['break-glass', 'Turn all enforcement off in an emergency, and back on', () => import('./install/break-glass.ts')],
    ['uninstall', 'Remove Portcullis from a cluster', () => import('./install/uninstall.ts')],
    ['completion', 'Print a shell completion script', () => import('./completion.ts')],
    ['version', 'Show the version', () => import('./version.ts')],
  ],
};

export const COMMANDS: readonly CommandEntry[] = Object.entries(GROUPS).flatMap(([group, rows]) =>
  rows.map(([name, summary, load]) => ({ name, group, summary, load })),
);

/** Width of the help if the output is not a terminal. */
const HELP_WIDTH = 100;

/**
 * Additional names under which the program can be called. For `kubectl scc`, kubectl calls the plugin `kubectl-scc`.
 */
const PLUGINS: ReadonlyMap<string, Invocation> = new Map([
  ['kubectl-portcullis', { name: 'kubectl portcullis', prefix: [] }],
  ['kubectl-scc', { name: 'kubectl', prefix: ['scc'] }],
]);

/** The name under which the program was called, and the effect of this name on the arguments. */
interface Invocation {
  /** Program name in the help. */
  readonly name: string;
  /** Words to insert before the arguments. */
  readonly prefix: readonly string[];
}

const DIRECT: Invocation = { name: PROGRAM, prefix: [] };
const COMPLETE = '__complete';

/**
 * Runs the command in the arguments and resolves to the exit code. Prints user errors instead of throwing them. `file`
 * is the file name under which the program was called.
 */
export async function run(
  args: readonly string[],
  processIo: ProcessIo,
  { commands = COMMANDS, file = PROGRAM }: { readonly commands?: readonly CommandEntry[]; readonly file?: string } = {},
): Promise<number> {
  const invocation = PLUGINS.get(file.replace('_complete', '')) ?? DIRECT;
  const io = createIo(processIo, invocation);
  const isCompletion = file.startsWith('kubectl_complete-') || args[0] === COMPLETE;
  if (isCompletion) {
    const { complete } = await import('./completion.ts');
    const typed = args[0] === COMPLETE ? args.slice(1) : args;
    return await complete([...invocation.prefix, ...typed], commands, io);
  }
  const allWords = [...invocation.prefix, ...withHelp(args)];
  const entry = commands.find(({ name }) => name.split(' ').every((word, index) => word === allWords[index]));
  const program = createProgram(io, commands, invocation);
  const node = entry ? findNode(program, entry.name) : program;
  let exitCode: number = EXIT.passed;
  try {
    const definition = entry && (await entry.load()).command;
    if (definition) {
      addDefinition(node, definition, invocation).action(async () => {
        const sources = { typed: typedOptions(node, definition.options), env: io.env };
        const values = resolveValues(definition.options, sources);
        const isPaths = definition.operands === MANIFEST_PATHS;
        exitCode = await definition.run(isPaths ? addPaths(values, node.args) : values, node.args, io, sources);
      });
    }
    await program.parseAsync(normalize(allWords, definition?.options ?? {}), { from: 'user' });
    return exitCode;
  } catch (error) {
    // Commander has already printed its error.
    if (error instanceof CommanderError) return error.exitCode === 0 ? EXIT.passed : EXIT.usage;
    if (!(error instanceof UserError || error instanceof ConnectionError)) throw error;
    const lines = error.message.split('\n').map(printable);
    io.stderr.write(`error: ${lines.join('\n')}\n${error instanceof UsageError ? `${usageHint(node)}\n` : ''}`);
    return EXIT.usage;
  }
}

/**
 * Converts arguments that request help. `help scc plan` is equivalent to `scc plan --help`, and `kubectl scc` without
 * arguments shows its help.
 */
function withHelp(args: readonly string[]): readonly string[] {
  const [first, ...rest] = args;
  return first === undefined || first === 'help' ? [...rest, '--help'] : args;
}

function addPaths(values: Values<Options>, paths: readonly string[]): Values<Options> {
  if (paths.length === 0) return values;
  return { ...values, filename: [...(values['filename'] as readonly string[]), ...paths] };
}

/**
 * Accepts `--flag=false` and `-o=json` as kubectl does. Removes the value from an unknown `--flag=value`, so commander
 * can suggest a similar option.
 */
function normalize(args: readonly string[], options: Options): readonly string[] {
  const end = args.includes('--') ? args.indexOf('--') : args.length;
  const normalized = args.slice(0, end).flatMap((arg, index) => {
    // Keeps the value of an option, which may have the form of another option.
    if (index > 0 && takesValue(args[index - 1], options)) return [arg];
    const [, short, name, value = ''] = /^(?:(-[^-])|--([^=]+))=(.*)$/s.exec(arg) ?? [];
    if (short !== undefined) return [short, value];
    const bare = Object.hasOwn(options, arg.slice(2)) ? options[arg.slice(2)]?.bare : undefined;
    if (bare !== undefined && arg.startsWith('--')) return [`${arg}=${bare}`];
    if (name === undefined) return [arg];
    const definition = Object.hasOwn(options, name) ? options[name] : undefined;
    if (definition === undefined) return [`--${name}`];
    if (definition.value !== undefined) return [arg];
    if (value === 'true') return [`--${name}`];
    if (value === 'false') return name.startsWith('no-') ? [] : [`--no-${name}`];
    throw new UsageError(
      `invalid argument ${quote(value)} for "${printFlags(name, definition)}" flag: must be true or false`,
    );
  });
  return [...normalized, ...args.slice(end)];
}

/** Returns true if an argument is an option whose value is the next argument. */
function takesValue(arg: string | undefined, options: Options): boolean {
  return Object.entries(options).some(
    ([name, definition]) =>
      definition.value !== undefined &&
      definition.bare === undefined &&
      (arg === `--${name}` || arg === `-${definition.short}`),
  );
}

/**
 * Matches the error for the `check` commands of other tools. Commander itself suggests only commands with similar
 * names.
 */
const OTHER_NAMES = /^(error: unknown command '(?:lint|scan|test|validate)')(?:\n\(Did you mean .*\))?/;

/** Creates the command tree without command options. */
function createProgram(
  { stdout, stderr }: Io,
  commands: readonly CommandEntry[],
  { name: programName }: Invocation,
): CommanderCommand {
  const program = new CommanderCommand(programName)
    .description('Pod security admission server for Kubernetes')
    .usage('COMMAND [options]')
    .version(`${PROGRAM} v${VERSION}`, '--version', 'Show the version')
    .helpOption('-h, --help', 'Show this help')
    .helpCommand(false)
    .enablePositionalOptions()
    .exitOverride()
    .configureOutput({
      writeOut: (text) => stdout.write(text),
      writeErr: (text) => stderr.write(text),
      outputError: (text, write) => write(text.replace(OTHER_NAMES, '$1\n(Did you mean check?)')),
      getOutHelpWidth: () => stdout.columns ?? HELP_WIDTH,
      getErrHelpWidth: () => stderr.columns ?? HELP_WIDTH,
      getOutHasColors: () => false,
      getErrHasColors: () => false,
    })
    .configureHelp({ formatHelp: printHelp })
    .addHelpText('after', `\nUse "${programName} COMMAND --help" for more information about a command.`);
  program.showHelpAfterError(usageHint(program));
  for (const { name, group, summary } of commands) findNode(program, name, group).summary(summary);
  return program;
}

/**
 * Returns the command with the given name below `program`. Creates commands that are missing, and lists them in the
 * given group of the help.
 */
function findNode(program: CommanderCommand, name: string, group = ''): CommanderCommand {
  return name.split(' ').reduce((parent, word) => {
    const existing = parent.commands.find((command) => command.name() === word);
    if (existing) return existing;
    const node = parent.command(word).helpGroup(group);
    return node.showHelpAfterError(usageHint(node));
  }, program);
}

/**
 * Returns the help of a command. The program help lists subcommands under their full names, such as `scc plan`. The
 * help of a group omits the group name.
 */
function printHelp(command: CommanderCommand, help: Help): string {
  const own = command.parent ? commandPath(command).length + 1 : 0;
  const subcommandTerm = (subcommand: CommanderCommand): string => commandPath(subcommand).slice(own);
  const flat = Object.assign(help, { visibleCommands: leaves, subcommandTerm });
  return new Help().formatHelp(command, flat);
}

function leaves({ commands }: CommanderCommand): CommanderCommand[] {
  return commands.flatMap((command) => (command.commands.length === 0 ? [command] : leaves(command)));
}

/** Returns the names of a command and its parents without the program name, such as `scc plan`. */
function commandPath(command: CommanderCommand): string {
  const { parent } = command;
  return parent?.parent ? `${commandPath(parent)} ${command.name()}` : command.name();
}

function usageHint(command: CommanderCommand): string {
  const names = [command.name()];
  for (let { parent } = command; parent; { parent } = parent) names.unshift(parent.name());
  return `See '${names.join(' ')} --help' for usage.`;
}

/** Adds the operands, options and details of a command to its node, and returns the node. */
function addDefinition(
  command: CommanderCommand,
  { operands, details, options }: Command,
  invocation: Invocation,
): CommanderCommand {
  command.description(`${command.summary()}.`);
  if (operands !== undefined) command.arguments(operands);
  if (details !== undefined) command.addHelpText('after', `\n${renameCalls(details.trim(), invocation)}`);
  for (const [name, definition] of Object.entries(options)) addOption(command, name, definition);
  return command;
}

/** Creates the streams of a command, which print the name under which the program was called. */
function createIo(io: ProcessIo, invocation: Invocation): Io {
  const renamed = (output: Output): Output => ({
    ...defined({ isTTY: output.isTTY, columns: output.columns }),
    write: (text) => output.write(renameCalls(text, invocation)),
  });
  const { stdout, env, signal } = io;
  return {
    get stdin() {
      return io.stdin;
    },
    stdout,
    text: renamed(stdout),
    stderr: renamed(io.stderr),
    env,
    signal,
  };
}

const FIRST_WORDS = [...new Set(COMMANDS.map(({ name }) => name.split(' ')[0]))].join('|');

/** Replaces the program name in all commands in a text with the name under which the user called the program. */
function renameCalls(text: string, invocation: Invocation): string {
  if (invocation === DIRECT) return text;
  const { name, prefix } = invocation;
  const words = prefix.map((word) => `${word} `).join('');
  const first = prefix.length > 0 ? '\\w' : `(?:${FIRST_WORDS})\\b`;
  // Excludes the namespace in kubectl arguments, which has the same name as the program.
  const calls = new RegExp(`(?<!kubectl |-n |--namespace |[\\w./=-])${PROGRAM} ${words}(?=${first})`, 'g');
  return text.replaceAll(calls, `${name} ${words}`);
}

/** Registers an option. Commander collects the raw values, and `resolveValues` converts them. */
function addOption(command: CommanderCommand, name: string, definition: Option<unknown>): void {
  const { value, help, fallback, choices, conflicts = [] } = definition;
  const flags = printFlags(name, definition);
  const option = new CommanderOption(value === undefined ? flags : `${flags} <${value.toLowerCase()}>`, help);
  option.conflicts(conflicts.map((other) => new CommanderOption(`--${other}`).attributeName()));
  if (choices) option.choices(choices);
  if (value === undefined) {
    command.addOption(fallback === undefined ? option : option.default(fallback === 'true'));
    if (!option.negate) command.addOption(new CommanderOption(`--no-${name}`).hideHelp());
  } else {
    if (fallback !== undefined) option.default([], fallback);
    command.addOption(option.argParser((text, previous: readonly string[] | undefined) => [...(previous ?? []), text]));
  }
}

/** Returns the raw values of the options on the command line. */
function typedOptions(command: CommanderCommand, options: Options): Sources['typed'] {
  const typed = Object.keys(options).flatMap((name) => {
    const option = new CommanderOption(`--${name}`);
    const attribute = option.attributeName();
    if (command.getOptionValueSource(attribute) !== 'cli') return [];
    const value: unknown = command.getOptionValue(attribute);
    return [[name, [option.negate ? value === false : value].flat().map(String)] as const];
  });
  return new Map(typed);
}
