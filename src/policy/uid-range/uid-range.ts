import type { Found } from '../../kube/types.ts';
import type { IdBlock } from '../../kube/scc.ts';

/** User ids in a row, cut into blocks of one size: one block for each namespace. Ids have 32 bits. */
export interface UidRange {
  readonly start: number;
  /** Belongs to the range. */
  readonly end: number;
  readonly blockSize: number;
}

const FORMAT = /^(\d+)-(\d+)\/(\d+)$/;
const MAX_ID = 0xffffffff;

/**
 * Reads `<start>-<end>/<size of a block>`.
 * @see https://github.com/openshift/library-go/blob/master/pkg/security/uid/uid.go
 */
export function parseUidRange(text: string): Found<UidRange> {
  const [start = NaN, end = NaN, blockSize = NaN] = FORMAT.exec(text)?.slice(1).map(Number) ?? [];
  if (!(start <= MAX_ID && end <= MAX_ID && blockSize <= MAX_ID)) {
    return { error: 'range not in the format "<start>-<end>/<blockSize>"' };
  }
  if (start > end) return { error: `start ${start} must be less than end ${end}` };
  if (blockSize === 0) return { error: 'block size must be a positive integer' };
  if (end - start < blockSize) return { error: 'block size must be less than or equal to the range' };
  return { value: { start, end, blockSize } };
}

/** The text that `parseUidRange` reads. */
export function printUidRange({ start, end, blockSize }: UidRange): string {
  return `${start}-${end}/${blockSize}`;
}

/** How many whole blocks there are; they are numbered from 0. */
export function blockCountOf({ start, end, blockSize }: UidRange): number {
  return Math.floor((end - start + 1) / blockSize);
}

/** The ids of a block. */
export function blockAt({ start, blockSize }: UidRange, index: number): IdBlock {
  const min = start + index * blockSize;
  return { min, max: min + blockSize - 1 };
}

/** A block as namespaces are annotated with it: `<start>/<size>`. */
export function printBlock({ min, max }: IdBlock): string {
  return `${min}/${max - min + 1}`;
}

/** The number of a block of the range; `undefined` for ids that are no block of it. */
export function indexOfBlock(range: UidRange, { min, max }: IdBlock): number | undefined {
  const index = (min - range.start) / range.blockSize;
  const isBlock = Number.isInteger(index) && index >= 0 && max <= range.end && max - min + 1 === range.blockSize;
  return isBlock ? index : undefined;
}

/** The first and the last block that share ids with these; `undefined` if there are none. */
export function blocksTouching(
  range: UidRange,
  { min, max }: IdBlock,
): { readonly first: number; readonly last: number } | undefined {
  const first = Math.max(0, Math.floor((min - range.start) / range.blockSize));
  const last = Math.min(blockCountOf(range) - 1, Math.floor((max - range.start) / range.blockSize));
  return min <= max && first <= last ? { first, last } : undefined;
}
