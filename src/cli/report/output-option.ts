import { oneOf, type Option, option } from '../options.ts';

/** How a command that finds something prints it: a table for people, data for programs. */
export const DATA_AND_TABLE = ['table', 'json', 'yaml'] as const;

/** `-o`: one of these formats, the first unless another is asked for. */
export function outputOption<const F extends readonly [string, ...string[]]>(formats: F): Option<F[number]> {
  const parse = oneOf<F[number]>(formats);
  const help = `One of ${formats.join(', ')}`;
  return option('FORMAT', parse, formats[0] as F[number], { short: 'o', help });
}
