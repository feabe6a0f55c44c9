/** An inclusive range of block indexes. */
export interface BlockRange {
  readonly first: number;
  readonly last: number;
}

/** A set of blocks, which is stored as maximal index ranges in ascending order. */
export type Blocks = readonly BlockRange[];

/** Returns the union of the ranges, which may overlap and be in any order. */
export function uniteBlocks(ranges: readonly BlockRange[]): Blocks {
  const united: BlockRange[] = [];
  for (const range of ranges.toSorted((a, b) => a.first - b.first)) {
    const before = united.at(-1);
    if (before && range.first <= before.last + 1) {
      united[united.length - 1] = { first: before.first, last: Math.max(before.last, range.last) };
    } else united.push(range);
  }
  return united;
}

/** Returns the blocks that are in the first set but not in the second. */
export function subtractBlocks(blocks: Blocks, removed: Blocks): Blocks {
  const rest: BlockRange[] = [];
  let position = 0;
  for (const { first, last } of blocks) {
    let start = first;
    while ((removed[position]?.last ?? last) < first) position++;
    for (let index = position; start <= last; index++) {
      const hole = removed[index];
      if (!hole || hole.first > last) {
        rest.push({ first: start, last });
        break;
      }
      if (hole.first > start) rest.push({ first: start, last: hole.first - 1 });
      start = Math.max(start, hole.last + 1);
    }
  }
  return rest;
}

/** Returns the lowest index below `count` that is not in the set, or `undefined` if there is none. */
export function lowestFreeBlock([range]: Blocks, count: number): number | undefined {
  const lowest = range?.first === 0 ? range.last + 1 : 0;
  return lowest < count ? lowest : undefined;
}

const BASE64 = /^[A-Za-z0-9+/]*={0,2}$/;
const MAX_LENGTH = 4 * 1024 * 1024;

/**
 * Parses a set from a base64-encoded big-endian integer. Bit 0 is block 0. An empty string is an empty set. Returns
 * `undefined` if the text is not base64.
 */
export function parseBlocks(text: string): Blocks | undefined {
  if (text.length % 4 !== 0 || text.length > MAX_LENGTH || !BASE64.test(text)) return undefined;
  const bytes = Buffer.from(text, 'base64').reverse();
  const blocks: BlockRange[] = [];
  let first: number | undefined;
  for (let index = 0; index <= bytes.length * 8; index++) {
    const isTaken = ((bytes[index >> 3] ?? 0) & (1 << (index & 7))) !== 0;
    if (isTaken) first ??= index;
    else if (first !== undefined) {
      blocks.push({ first, last: index - 1 });
      first = undefined;
    }
  }
  return blocks;
}

/** Formats a set as `parseBlocks` parses it. Omits leading zero bytes. */
export function formatBlocks(blocks: Blocks): string {
  const bytes = Buffer.alloc(((blocks.at(-1)?.last ?? -1) >> 3) + 1);
  for (const { first, last } of blocks) {
    for (let index = first; index <= last; index++) {
      bytes[index >> 3] = (bytes[index >> 3] ?? 0) | (1 << (index & 7));
    }
  }
  return bytes.reverse().toString('base64');
}
