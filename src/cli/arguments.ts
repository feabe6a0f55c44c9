import { parseArgs } from 'node:util';
import { UserError } from '../config/files.ts';
import type { Options } from './options.ts';

/** The arguments of a command, sorted. */
export interface Arguments {
  /** What was typed for each option, in order. */
  readonly typed: ReadonlyMap<string, readonly string[]>;
  readonly operands: readonly string[];
}

/** What the parser of Node needs to know of an option. */
interface Flag {
  readonly type: 'boolean' | 'string';
  readonly short?: string;
}

/**
 * Sorts the arguments of a command into options and operands. Values are not looked at.
 * @throws {UserError} for an option that the command has not, or that lacks its value
 */
export function readArguments(args: readonly string[], options: Options): Arguments {
  const names = namesOf(options);
  // Not strict: the messages of Node are long, and unlike those of kubectl.
  const { tokens, positionals } = parseArgs({
    args: [...args],
    options: flagsOf(options),
    strict: false,
    tokens: true,
  });
  const typed = new Map<string, string[]>();
  for (const token of tokens) {
    if (token.kind !== 'option') continue;
    const name = names.get(token.name);
    if (name === undefined) throw new UserError(unknownFlag(token.rawName));
    const value = valueOf(token) ?? (options[name]?.value === undefined ? 'true' : undefined);
    if (value === undefined) throw new UserError(`flag needs an argument: ${token.rawName}`);
    typed.set(name, [...(typed.get(name) ?? []), value]);
  }
  return { typed, operands: positionals };
}

/** The value beside an option; Node takes the equals sign of `-o=json` for a part of it. */
function valueOf({ rawName, value, inlineValue }: OptionToken): string | undefined {
  const isShort = !rawName.startsWith('--');
  return isShort && inlineValue === true ? value?.replace(/^=/, '') : value;
}

interface OptionToken {
  readonly rawName: string;
  readonly value: string | undefined;
  readonly inlineValue: boolean | undefined;
}

function flagsOf(options: Options): Record<string, Flag> {
  const flags = Object.entries(options).flatMap(([name, { value, short, aliases = [] }]): [string, Flag][] => {
    const type = value === undefined ? 'boolean' : 'string';
    const others = aliases.map((alias): [string, Flag] => [alias, { type }]);
    return [[name, short === undefined ? { type } : { type, short }], ...others];
  });
  return Object.fromEntries(flags);
}

/** Every name that an option goes by, with the one that counts. */
function namesOf(options: Options): Map<string, string> {
  const names = new Map<string, string>();
  for (const [name, { aliases = [] }] of Object.entries(options)) {
    for (const one of [name, ...aliases]) names.set(one, name);
  }
  return names;
}

function unknownFlag(flag: string): string {
  return flag.startsWith('--') ? `unknown flag: ${flag}` : `unknown shorthand flag: ${flag}`;
}
