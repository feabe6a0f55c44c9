import { UserError } from '../config/files.ts';
import { quote } from '../kube/text.ts';
import { boolean } from './values.ts';

/** Turns what was typed into a value; throws a `UserError` that says what is wrong with it. */
export type Parse<T> = (text: string) => T;

/** What the help says of an option, and how else it may be given. */
export interface OptionText {
  readonly help: string;
  /** The letter of its short form. */
  readonly short?: string;
  /** Other names of it; the help does not show them. */
  readonly aliases?: readonly string[];
  /** The environment variable that counts where the option is not given. */
  readonly env?: string;
  /** The default as the help shows it, where it is not what was typed: `10s` of 10000. */
  readonly shown?: string;
  /** `hidden`: works, but the help does not show it. */
  readonly visibility?: 'hidden';
}

/** An option of a command; its name is its key in `Options`. */
export interface Option<T> extends OptionText {
  /** What stands for the value in the help; `undefined` for a flag, which needs none. */
  readonly value?: string;
  /** The default, if the help shows it. */
  readonly fallback?: string | number;
  /** The value of all that was typed, in order; of nothing the default. */
  resolve(texts: readonly string[]): T;
}

/** The options of a command, by their long names. */
export type Options = Readonly<Record<string, Option<unknown>>>;

/** The values of options, by the same names. */
export type Values<O extends Options> = { readonly [Name in keyof O]: O[Name] extends Option<infer T> ? T : never };

/** An option with a value. Given again, the last one counts. */
export function option<T, const D>(value: string, parse: Parse<T>, fallback: D, text: OptionText): Option<T | D> {
  const shown = text.shown ?? (typeof fallback === 'string' || typeof fallback === 'number' ? fallback : undefined);
  return {
    ...text,
    value,
    ...(shown === undefined ? {} : { fallback: shown }),
    resolve(texts) {
      const last = texts.at(-1);
      return last === undefined ? fallback : parse(last);
    },
  };
}

/** An option that may be given several times, and with several values between commas, as the help says. */
export function list<T>(value: string, parse: Parse<T>, text: OptionText): Option<readonly T[]> {
  return {
    ...text,
    value: `${value},...`,
    resolve: (texts) => texts.flatMap((items) => items.split(',')).map((item) => parse(item)),
  };
}

/** An option that is on or off, and off if nothing is said: `--name`, `--name=false`. */
export function flag(text: OptionText): Option<boolean> {
  return { ...text, resolve: (texts) => boolean(texts.at(-1) ?? 'false') };
}

/** An option that is on unless it is switched off: `--name=false`. */
export function flagOn(text: OptionText): Option<boolean> {
  return { ...text, fallback: 'true', resolve: (texts) => boolean(texts.at(-1) ?? 'true') };
}

/** The option, its value turned into another. What the function throws is told as a wrong value. */
export function mapped<T, U>(one: Option<T>, change: (value: T) => U): Option<U> {
  return { ...one, resolve: (texts) => change(one.resolve(texts)) };
}

/** The same options, each with `PREFIX_` and its name in capitals as environment variable. */
export function withEnvironment<O extends Options>(prefix: string, options: O): O {
  const named = Object.entries(options).map(([name, one]) => [
    name,
    { ...one, env: `${prefix}_${name.toUpperCase().replaceAll('-', '_')}` },
  ]);
  return Object.fromEntries(named) as O;
}

/** Where values may come from, the first that has one counts: the arguments, the environment, a configuration file. */
export interface Given {
  readonly typed: ReadonlyMap<string, readonly string[]>;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly file?: ReadonlyMap<string, readonly string[]>;
}

/** The values of all options of a command; what is given nowhere has its default. */
export function resolveValues<O extends Options>(options: O, given: Given): Values<O> {
  const values = Object.entries(options).map(([name, one]) => {
    const { source, texts } = findTexts(name, one, given);
    return [name, explain(source, texts, one)];
  });
  return Object.fromEntries(values) as Values<O>;
}

function findTexts(name: string, one: OptionText, given: Given): { source: string; texts: readonly string[] } {
  const flag = { source: `${quote(printFlags(name, one))} flag`, texts: given.typed.get(name) };
  if (flag.texts) return { source: flag.source, texts: flag.texts };
  const fromEnv = one.env === undefined ? undefined : given.env[one.env];
  if (fromEnv !== undefined) return { source: `environment variable ${one.env ?? ''}`, texts: [fromEnv] };
  const fromFile = given.file?.get(name);
  if (fromFile) return { source: `option ${quote(name)} of the configuration file`, texts: fromFile };
  return { source: flag.source, texts: [] };
}

/** How the help and messages write an option: `-o, --output`. */
export function printFlags(name: string, { short }: OptionText): string {
  return short === undefined ? `--${name}` : `-${short}, --${name}`;
}

/** Says of a wrong value where it stands, in the words of Kubernetes' own commands. */
function explain(source: string, texts: readonly string[], one: Option<unknown>): unknown {
  try {
    return one.resolve(texts);
  } catch (error) {
    if (!(error instanceof UserError)) throw error;
    const { message } = error;
    const wrong = texts.findLast((text) => messageOf(text, one) === message) ?? texts.join(',');
    throw new UserError(`invalid argument ${quote(wrong)} for ${source}: ${message}`, { cause: error });
  }
}

/** What is wrong with a text by itself; `undefined` if nothing is. */
function messageOf(text: string, { resolve }: Option<unknown>): string | undefined {
  try {
    resolve([text]);
    return undefined;
  } catch (error) {
    return error instanceof UserError ? error.message : undefined;
  }
}
