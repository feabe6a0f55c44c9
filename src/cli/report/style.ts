import { styleText } from 'node:util';
import type { Io } from '../command.ts';

/** Makes a text stand out, or leaves it as it is. */
export type Style = (format: 'bold' | 'dim' | 'red' | 'yellow', text: string) => string;

export const PLAIN: Style = (_format, text) => text;
const COLOURED: Style = (format, text) => styleText(format, text, { validateStream: false });

/** Colours on a terminal that can show them, unless they are not wanted. @see https://no-color.org */
export function styleOf({ stdout, env }: Pick<Io, 'stdout' | 'env'>): Style {
  return stdout.isTTY === true && !env.NO_COLOR && env.TERM !== 'dumb' ? COLOURED : PLAIN;
}
