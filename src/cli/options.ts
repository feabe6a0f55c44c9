/**
 * Typed tables of command options. A table maps each option name to its description and parser. `program.ts` registers
 * the table with commander, which parses the arguments, and then converts the raw option values.
 */
import { defined } from '../kube/defined.ts';
import { LIMITS } from '../kube/limits.ts';
import { dnsLabelErrors } from '../kube/names.ts';
import { quote } from '../kube/text.ts';
import { parseDurationMs } from '../kube/units.ts';
import { UserError } from '../kube/user-error.ts';

/** An error in the options of a command. The program prints the error with a hint to use `--help`. */
export class UsageError extends UserError {}

/** Parses one option value. Throws a `UserError` with the expected format, such as `must be true or false`. */
interface Parse<T> {
  (text: string): T;
  /** The accepted values, if they can be listed. */
  readonly choices?: readonly string[];
}

/** Help text of an option, and the other sources of its value. */
export interface OptionText {
  readonly help: string;
  /** Single-letter name of the option. */
  readonly short?: string;
  /** Environment variable that sets the value if the command line does not. */
  readonly env?: string;
  /** Default that the help shows, if it differs from the value, such as `10s` for 10000. */
  readonly shown?: string;
  /** Value if the option is given as `--name` without a value. Other values must be given as `--name=value`. */
  readonly bare?: string;
  /** Names of options that cannot be combined with this option. */
  readonly conflicts?: readonly string[];
}

/** An option of a command. Its name is its key in `Options`. */
export interface Option<T> extends OptionText {
  /** Placeholder for the value in the help. `undefined` for flags, which have no value. */
  readonly value?: string;
  readonly choices?: readonly string[];
  /** Default that the help shows. */
  readonly fallback?: string;
  /** True if the command line may contain the option only once. */
  readonly isSingle?: boolean;
  /** Combines all occurrences, in order, into one value. Returns the default if there are none. */
  resolve(texts: readonly string[]): T;
}

/** The options of a command by their long names. */
export type Options = Readonly<Record<string, Option<unknown>>>;

/** Option values by option name. */
export type Values<O extends Options> = { readonly [Name in keyof O]: O[Name] extends Option<infer T> ? T : never };

/** Defines an option with one value. */
export function option<T, const D>(value: string, parse: Parse<T>, fallback: D, text: OptionText): Option<T | D> {
  const shown = text.shown ?? (typeof fallback === 'string' || typeof fallback === 'number' ? fallback : undefined);
  return {
    ...text,
    value,
    isSingle: true,
    ...defined({ choices: parse.choices }),
    ...(shown === undefined ? {} : { fallback: String(shown) }),
    resolve: ([value]) => (value === undefined ? fallback : parse(value)),
  };
}

/** Defines a repeatable option that accepts comma-separated values. */
export function list<T>(value: string, parse: Parse<T>, text: OptionText): Option<readonly T[]> {
  return {
    ...text,
    value: `${value},...`,
    resolve: (texts) => texts.flatMap((items) => items.split(',')).map((item) => parse(item)),
  };
}

/** Defines a repeatable option whose values may contain commas. */
export function repeated<T>(value: string, parse: Parse<T>, text: OptionText): Option<readonly T[]> {
  return { ...text, value, resolve: (texts) => texts.map((item) => parse(item)) };
}

/** Defines a flag that is off by default. `--name` turns it on. */
export function flag(text: OptionText): Option<boolean> {
  return { ...text, resolve: (texts) => boolean(texts.at(-1) ?? 'false') };
}

/** Defines a flag that is on by default. `--no-name` or `--name=false` turns it off. */
export function flagOn(text: OptionText): Option<boolean> {
  return { ...text, fallback: 'true', resolve: (texts) => boolean(texts.at(-1) ?? 'true') };
}

/** Defines an option whose value is converted. A `UserError` from the conversion is reported as an invalid value. */
export function mapped<T, U>(source: Option<T>, change: (value: T) => U): Option<U> {
  return { ...source, resolve: (texts) => change(source.resolve(texts)) };
}

/** Adds an environment variable to each option. Its name is `PREFIX_` followed by the option name in capitals. */
export function withEnvironment<O extends Options>(prefix: string, options: O): O {
  const named = Object.entries(options).map(([name, definition]) => [
    name,
    { ...definition, env: `${prefix}_${name.toUpperCase().replaceAll('-', '_')}` },
  ]);
  return Object.fromEntries(named) as O;
}

/** Unparsed option values by source. Arguments take precedence over environment variables. */
export interface Sources {
  readonly typed: ReadonlyMap<string, readonly string[]>;
  readonly env: Readonly<Record<string, string | undefined>>;
}

/**
 * Returns the values of all options of a command.
 * @throws {UsageError} for an invalid value, with its source and the expected format, and for several values of an
 * option that takes only one value
 */
export function resolveValues<O extends Options>(options: O, sources: Sources): Values<O> {
  const values = Object.entries(options).map(([name, definition]) => {
    const flags = `"${printFlags(name, definition)}" flag`;
    const fromEnv = definition.env === undefined ? undefined : sources.env[definition.env];
    const typed = sources.typed.get(name);
    if (typed) return [name, resolveOption(flags, typed, definition)];
    if (fromEnv !== undefined)
      return [name, resolveOption(`environment variable ${definition.env}`, [fromEnv], definition)];
    return [name, definition.resolve([])];
  });
  return Object.fromEntries(values) as Values<O>;
}

/** Returns the option names as shown in help and messages, such as `-o, --output`. */
export function printFlags(name: string, { short }: OptionText): string {
  return `${short === undefined ? '' : `-${short}, `}--${name}`;
}

function resolveOption(source: string, texts: readonly string[], definition: Option<unknown>): unknown {
  const long = texts.find((text) => text.length > LIMITS.optionCharacters);
  if (long !== undefined) {
    const start = `${long.slice(0, 40)}…`;
    throw new UsageError(
      `invalid argument ${quote(start)} for ${source}: may not be more than ${LIMITS.optionCharacters} characters`,
    );
  }
  if (definition.isSingle === true && texts.length > 1) {
    throw new UsageError(`${source} takes one value, not ${texts.length}: ${texts.map(quote).join(', ')}`);
  }
  try {
    return definition.resolve(texts);
  } catch (error) {
    if (!(error instanceof UserError)) throw error;
    const { message } = error;
    const invalid = texts.findLast((text) => errorMessage(text, definition) === message) ?? texts.join(',');
    throw new UsageError(`invalid argument ${quote(invalid)} for ${source}: ${message}`, { cause: error });
  }
}

/** Returns the error message for a single value, or `undefined` if the value is valid. */
function errorMessage(text: string, { resolve }: Option<unknown>): string | undefined {
  try {
    resolve([text]);
    return undefined;
  } catch (error) {
    return error instanceof UserError ? error.message : undefined;
  }
}

/** Accepts a date or an RFC 3339 time. */
export function time(value: string): Date {
  const date = new Date(value);
  if (/^\d{4}-\d{2}-\d{2}(T.*)?$/.test(value) && !Number.isNaN(date.getTime())) return date;
  throw new UserError('must be a date such as 2027-01-31, or a time such as 2027-01-31T12:00:00Z');
}

/** Accepts any text. */
export function text(value: string): string {
  return value;
}

/** Accepts an object name, which is any text that is not empty. The API server validates names. */
export function nonEmpty(value: string): string {
  if (value === '') throw new UserError('must not be empty');
  return value;
}

export function namespaceName(value: string): string {
  const [problem] = dnsLabelErrors(value);
  if (problem !== undefined) throw new UserError(`${quote(value)} is not a valid namespace name: ${problem}`);
  return value;
}

/** Accepts only the given words. */
export function oneOf<T extends string>(words: readonly T[]): Parse<T> {
  const parse = (value: string): T => {
    const word = words.find((word) => word === value);
    if (word === undefined) throw new UserError(`must be one of ${words.join(', ')}`);
    return word;
  };
  return Object.assign(parse, { choices: words });
}

/** Accepts `true` or `false`, in any spelling that Go's flag package accepts. */
export function boolean(value: string): boolean {
  if (/^(?:1|t|T|true|True|TRUE)$/.test(value)) return true;
  if (/^(?:0|f|F|false|False|FALSE)$/.test(value)) return false;
  throw new UserError('must be true or false');
}

/** Accepts an integer within inclusive bounds. */
export function integer(min: number, max: number): Parse<number> {
  return (value) => {
    const number = /^-?\d+$/.test(value) ? Number(value) : NaN;
    if (number >= min && number <= max) return number;
    throw new UserError(`must be a whole number from ${min} to ${max}`);
  };
}

/** Converts a Go duration, such as `5s` or `1m30s`, to milliseconds. */
export function durationMs(value: string): number {
  const duration = parseDurationMs(value);
  if (duration === undefined) throw new UserError('must be a duration such as 5s or 1m30s');
  return duration;
}

/** Converts a number of days, such as `14d`, or a Go duration to milliseconds. */
export function lifetimeMs(value: string): number {
  const [, days] = /^(\d+)d$/.exec(value) ?? [];
  const lifetime = parseDurationMs(days === undefined ? value : `${Number(days) * 24}h`);
  if (!lifetime) throw new UserError('must be a duration such as 14d or 12h');
  return lifetime;
}

/** Parses `key=value`. */
export function keyValue(value: string): readonly [key: string, value: string] {
  const separator = value.indexOf('=');
  if (separator < 1) throw new UserError('must have the form key=value');
  return [value.slice(0, separator), value.slice(separator + 1)];
}

/** Parses `host:port`, with brackets around an IPv6 host. An empty host means all addresses. */
export function listenAddress(value: string): { readonly host: string; readonly port: number } {
  const [, host = '', digits = ''] = /^(.*):(\d+)$/.exec(value) ?? [];
  const port = Number(digits);
  if (digits === '' || port > 65_535) throw new UserError('must be an address and a port, such as 127.0.0.1:8081');
  return { host: host === '' ? '0.0.0.0' : host.replace(/^\[(.*)\]$/, '$1'), port };
}
