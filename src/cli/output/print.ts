import { styleText } from 'node:util';
import { printYaml } from '../../config/yaml.ts';
import type { Io, Output } from '../command.ts';
import { oneOf, type Option, option } from '../options.ts';

/** Control characters, those beyond ASCII too, and what turns the direction of writing or ends a line. */
const STEERING = /[\p{Cc}\p{Bidi_Control}\u2028\u2029]/gu;

/** The text with such characters escaped: names come from files, and must neither steer the terminal nor deceive. */
export function printable(text: string): string {
  return text.replace(STEERING, (character) => {
    const short = JSON.stringify(character).slice(1, -1);
    return short === character ? `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}` : short;
  });
}

/** How data for programs is written. */
type DataFormat = 'json' | 'yaml';

/** For programs: the value as indented JSON, or as a YAML document. */
export function printData(format: DataFormat, value: unknown): string {
  return format === 'json' ? `${JSON.stringify(value, undefined, 2)}\n` : printYaml([value]);
}

/** Makes a text stand out, or leaves it as it is. */
export type Style = (format: 'bold' | 'dim' | 'red' | 'yellow', text: string) => string;

export const PLAIN: Style = (_format, text) => text;
const COLOURED: Style = (format, text) => styleText(format, text, { validateStream: false });

/** Colours on a terminal that can show them, unless they are not wanted. @see https://no-color.org */
export function styleOf({ stdout, env }: Pick<Io, 'stdout' | 'env'>): Style {
  return stdout.isTTY === true && !env.NO_COLOR && env.TERM !== 'dumb' ? COLOURED : PLAIN;
}

/** A table as kubectl writes them: a header in capitals, and as many blanks between columns as it takes. */
export function printColumns(header: readonly string[], rows: readonly (readonly string[])[]): string {
  const lines = [header, ...rows.map((row) => row.map(printable))];
  const widths = header.map((_title, column) => longest(lines, column));
  return lines
    .map(
      (cells) =>
        `${cells
          .map((cell, column) => cell.padEnd(widths[column] ?? 0))
          .join('   ')
          .trimEnd()}\n`,
    )
    .join('');
}

function longest(lines: readonly (readonly string[])[], column: number): number {
  return lines.reduce((width, cells) => Math.max(width, cells[column]?.length ?? 0), 0);
}

/** How a command that finds something prints it: a table for people, data for programs. */
export const DATA_AND_TABLE = ['table', 'json', 'yaml'] as const;

/** `-o`: one of these formats, the first unless another is asked for. */
export function outputOption<const F extends readonly [string, ...string[]]>(formats: F): Option<F[number]> {
  const parse = oneOf<F[number]>(formats);
  const help = `One of ${formats.join(', ')}`;
  return option('FORMAT', parse, formats[0] as F[number], { short: 'o', help });
}

/** Shows how far a long work is, in one line that goes away at the end; on a terminal only. */
interface Progress {
  show(text: string): void;
  clear(): void;
}

const CLEAR_LINE = '\r\u001b[K';

export function createProgress(output: Output): Progress {
  let isShown = false;
  const write = (text: string): void => {
    if (output.isTTY === true) output.write(`${CLEAR_LINE}${text}`);
  };
  return {
    show(text) {
      isShown = true;
      write(text);
    },
    clear() {
      if (isShown) write('');
      isShown = false;
    },
  };
}
