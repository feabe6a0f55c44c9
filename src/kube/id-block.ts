import type { Found } from './found.ts';

/** Ids in a row, both ends included; there are none if `min` is above `max`. */
export interface IdBlock {
  readonly min: number;
  readonly max: number;
}

/**
 * A block of ids, written as `<start>/<size>` or `<start>-<end>`, as Go scans it: in 32 bits without a sign, which may
 * wrap; blanks before a number and anything behind the second one do not count.
 * @see https://github.com/openshift/library-go/blob/master/pkg/security/uid/uid.go
 */
export function parseIdBlock(text: string): Found<IdBlock> {
  const isSized = text.includes('/');
  const first = scanNumber(text);
  if ('error' in first) return first;
  const { value: start, rest } = first.value;
  if (rest === '') return { error: 'unexpected EOF' };
  if (!rest.startsWith(isSized ? '/' : '-')) return { error: 'input does not match format' };
  const second = scanNumber(rest.slice(1));
  if ('error' in second) return second;
  const { value } = second.value;
  return { value: { min: start, max: isSized ? (start + value - 1) >>> 0 : value } };
}

/** Blocks joined by commas; the first that is wrong is told. */
export function parseIdBlocks(text: string): Found<readonly IdBlock[]> {
  const blocks: IdBlock[] = [];
  for (const part of text.split(',')) {
    const block = parseIdBlock(part);
    if ('error' in block) return block;
    blocks.push(block.value);
  }
  return { value: blocks };
}

function scanNumber(text: string): Found<{ readonly value: number; readonly rest: string }> {
  const input = text.trimStart();
  if (input === '') return { error: 'unexpected EOF' };
  const digits = /^\d*/.exec(input)?.[0] ?? '';
  if (digits === '') return { error: 'expected integer' };
  const value = Number(digits);
  if (value > 0xffffffff) return { error: `unsigned integer overflow on token ${digits}` };
  return { value: { value, rest: input.slice(digits.length) } };
}
