import { type CommandEntry, defineCommand, EXIT, type Io, PROGRAM } from './command.ts';
import { type Option, type Options, printFlags, UsageError } from './options.ts';

const SCRIPTS: Readonly<Record<string, string>> = {
  bash: `_portcullis() {
  local current=\${COMP_WORDS[COMP_CWORD]} line output
  output=$(portcullis __complete "\${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null) || return
  COMPREPLY=()
  if [[ \${output##*$'\\n'} == :0 ]]; then
    while read -r line; do COMPREPLY+=("$line"); done < <(compgen -f -- "\${current#=}")
    compopt -o filenames 2>/dev/null
    return
  fi
  while read -r line; do COMPREPLY+=("\${line%%$'\\t'*}"); done <<< "\${output%:*}"
  unset 'COMPREPLY[-1]'
}
complete -F _portcullis portcullis
`,
  zsh: `#compdef portcullis
_portcullis() {
  local -a lines candidates
  lines=("\${(@f)$(portcullis __complete "\${(@)words[2,CURRENT]}" 2>/dev/null)}")
  if [[ $lines[-1] == :0 ]]; then
    _files
    return
  fi
  candidates=("\${(@)\${(@)\${(@)lines[1,-2]%$'\\t'}//:/\\\\:}/$'\\t'/:}")
  _describe portcullis candidates
}
compdef _portcullis portcullis
`,
  fish: `function __portcullis_complete
  set -l words (commandline -opc)
  set -l current (commandline -ct)
  set -e words[1]
  set -l lines (portcullis __complete $words "$current" 2>/dev/null)
  if test "$lines[-1]" = :0
    __fish_complete_path "$current"
  else
    printf '%s\\n' $lines | string match -v -r '^:'
  end
end
complete -c portcullis -f -a '(__portcullis_complete)'
`,
};

const DETAILS = `
Prints a script that completes commands, flags and their values.

Examples:
  source <(portcullis completion bash)
  portcullis completion zsh > "\${fpath[1]}/_portcullis"
  portcullis completion fish > ~/.config/fish/completions/portcullis.fish

Completion for "kubectl portcullis" and "kubectl scc" needs no script, because kubectl runs the programs
kubectl_complete-portcullis and kubectl_complete-scc from the package.
`;

export const command = defineCommand({
  operands: '<bash|zsh|fish>',
  details: DETAILS,
  options: {},
  run(_values, [shell = ''], io) {
    const script = Object.hasOwn(SCRIPTS, shell) ? SCRIPTS[shell] : undefined;
    if (script === undefined) throw new UsageError(`unsupported shell ${shell}: must be one of bash, zsh, fish`);
    io.stdout.write(script);
    return Promise.resolve(EXIT.passed);
  },
});

interface Candidate {
  readonly word: string;
  readonly description: string;
}

const FILES = 'files';

/**
 * Prints the candidates for the last word, one per line, with their descriptions. The last line is a directive. `:4`
 * disables file completion, and `:0` enables it. kubectl uses the same cobra protocol for plugins.
 */
export async function complete(
  words: readonly string[],
  commands: readonly CommandEntry[],
  { stdout }: Pick<Io, 'stdout'>,
): Promise<number> {
  const last = words.at(-1) ?? '';
  // Bash passes the equals sign of `--flag=value` as a separate word.
  const before = words.slice(0, -1).filter((word) => word !== '=');
  const found = await findCandidates(before, last === '=' ? '' : last, commands);
  const candidates = found === FILES ? [] : found;
  stdout.write(candidates.map(({ word, description }) => `${word}\t${description}\n`).join(''));
  stdout.write(found === FILES ? ':0\n' : ':4\n');
  return EXIT.passed;
}

async function findCandidates(
  before: readonly string[],
  current: string,
  commands: readonly CommandEntry[],
): Promise<readonly Candidate[] | typeof FILES> {
  const entry = commands.find(({ name }) => name.split(' ').every((word, index) => word === before[index]));
  if (entry === undefined) return startingWith(current, subcommands(before, commands));
  const { options, operands = '' } = (await entry.load()).command;
  const [prefix = '', flag] = /^(--[^=]+)=/.exec(current) ?? [];
  const option = findOption(flag ?? before.at(-1) ?? '', options);
  if (flag !== undefined || option?.value !== undefined) {
    if (FILE_VALUES.has(option?.value ?? '')) return FILES;
    return startingWith(
      current,
      (option?.choices ?? []).map((word) => candidate(prefix + word)),
    );
  }
  if (current.startsWith('-')) return startingWith(current, flags(options));
  if (operands.includes('path')) return FILES;
  const choices = /^<([a-z]+(?:\|[a-z]+)+)>$/.exec(operands)?.[1]?.split('|') ?? [];
  return startingWith(
    current,
    choices.map((word) => candidate(word)),
  );
}

function candidate(word: string): Candidate {
  return { word, description: '' };
}

function startingWith(prefix: string, candidates: readonly Candidate[]): readonly Candidate[] {
  return candidates.filter(({ word }) => word.startsWith(prefix));
}

/** Returns the next word of each command that starts with the given words. Command groups have no description. */
function subcommands(before: readonly string[], commands: readonly CommandEntry[]): readonly Candidate[] {
  const next = commands.flatMap(({ name, summary }) => {
    const words = name.split(' ');
    const word = words[before.length];
    if (word === undefined || before.some((typed, index) => typed !== words[index])) return [];
    return [[word, words.length === before.length + 1 ? summary : `${PROGRAM} ${words[0]} COMMAND`] as const];
  });
  return Array.from(new Map(next), ([word, description]) => ({ word, description }));
}

function findOption(text: string, options: Options): Option<unknown> | undefined {
  const found = Object.entries(options).find(([name, { short }]) => text === `--${name}` || text === `-${short ?? ''}`);
  return text === '-' ? undefined : found?.[1];
}

const FILE_VALUES: ReadonlySet<string> = new Set(['FILE', 'PATH,...', 'DIR']);

function flags(options: Options): readonly Candidate[] {
  const own = Object.entries(options).map(([name, { help }]) => ({
    word: printFlags(name, { help }),
    description: help,
  }));
  return [...own, { word: '--help', description: 'Show this help' }];
}
