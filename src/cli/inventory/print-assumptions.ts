import { printable } from '../report/text.ts';

/** For people, a line on what was assumed, below an empty one; nothing if nothing was. */
export function printAssumptions(assumptions: readonly string[]): string {
  return assumptions.length === 0 ? '' : `\nAssumed: ${printable(assumptions.join('; '))}.\n`;
}
