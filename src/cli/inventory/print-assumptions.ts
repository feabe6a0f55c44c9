import { printable } from '../report/text.ts';

/** For people, a line on what was assumed, below an empty one; nothing if nothing was. */
export function printAssumptions(assumptions: readonly string[]): string {
  return assumptionBlocks(assumptions)
    .map((block) => `\n${block}`)
    .join('');
}

/** The line alone, for output that is made of blocks; no block if nothing was assumed. */
export function assumptionBlocks(assumptions: readonly string[]): readonly string[] {
  return assumptions.length === 0 ? [] : [`Assumed: ${printable(assumptions.join('; '))}.\n`];
}
