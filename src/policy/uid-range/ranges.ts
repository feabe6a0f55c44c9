import type { Result } from '../../kube/types.ts';
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
export function parseUidRange(text: string): Result<UidRange> {
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
export function formatUidRange({ start, end, blockSize }: UidRange): string {
  return `${start}-${end}/${blockSize}`;
}

/** How many whole blocks there are; they are numbered from 0. */
export function blockCount({ start, end, blockSize }: UidRange): number {
  return Math.floor((end - start + 1) / blockSize);
}

/** The ids of a block. */
export function blockAt({ start, blockSize }: UidRange, index: number): IdBlock {
  const min = start + index * blockSize;
  return { min, max: min + blockSize - 1 };
}

/** A block as namespaces are annotated with it: `<start>/<size>`. */
export function formatBlock({ min, max }: IdBlock): string {
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
  const last = Math.min(blockCount(range) - 1, Math.floor((max - range.start) / range.blockSize));
  return min <= max && first <= last ? { first, last } : undefined;
}

/** Categories that SELinux knows: `c0` to `c1023`. */
const CATEGORIES = 1024;

/** A level of SELinux with categories, for example `s0:c26,c5`. */
interface McsLabel {
  /** What stands before the categories, its colon included. */
  readonly prefix: string;
  /** From the highest down, each once. */
  readonly categories: readonly number[];
}

/**
 * Reads a label, its categories in any order.
 * @see https://github.com/openshift/cluster-policy-controller/blob/master/pkg/security/mcs/label.go
 */
export function parseMcsLabel(text: string): Result<McsLabel> {
  const colon = text.lastIndexOf(':');
  const list = text.slice(colon + 1);
  const categories: number[] = [];
  for (const category of list.split(',')) {
    if (!/^c\d+$/.test(category)) return { error: `categories must start with 'c': ${list}` };
    categories.push(Number(category.slice(1)));
  }
  if (new Set(categories).size < categories.length) {
    return { error: `labels may not contain duplicate categories: ${text}` };
  }
  return { value: { prefix: text.slice(0, colon + 1), categories: categories.sort((a, b) => b - a) } };
}

export function formatMcsLabel({ prefix, categories }: McsLabel): string {
  return prefix + categories.map((category) => `c${category}`).join(',');
}

/**
 * The place of a set of categories among all sets of its size, in the order of their highest one, then of the next:
 * the combinatorial number system. Exact for categories that SELinux knows and up to 5 of them.
 * @see https://en.wikipedia.org/wiki/Combinatorial_number_system
 */
export function labelRank(categories: readonly number[]): number {
  return categories.reduce((rank, category, index) => rank + binomial(category, categories.length - index), 0);
}

/** The set of that many categories at a place, which is not negative. Beyond the last set the categories are none that SELinux knows. */
export function categoriesAt(rank: number, length: number): readonly number[] {
  const categories: number[] = [];
  let rest = rank;
  for (let size = length; size > 0; size--) {
    const category = highestWithin(rest, size);
    categories.push(category);
    rest -= binomial(category, size);
  }
  return categories;
}

/** The highest category of which the sets below it are no more than the rest. */
function highestWithin(rest: number, size: number): number {
  let low = 0;
  let high = CATEGORIES;
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if (binomial(middle, size) <= rest) low = middle;
    else high = middle - 1;
  }
  return low;
}

/** How many sets of `k` there are among `n`. All steps stay below 2^53 for `n` up to 1024 and `k` up to 5. */
function binomial(n: number, k: number): number {
  if (n < k) return 0;
  let sets = 1;
  for (let i = 0; i < k; i++) sets = (sets * (n - i)) / (i + 1);
  return sets;
}

/** All labels with that prefix and that many categories. */
interface McsRange {
  readonly prefix: string;
  /** Categories in a label: 1 to 5. */
  readonly length: number;
  /** Categories to choose from: `c0` to the one below this. */
  readonly categories: number;
}

const MCS_RANGE_FORMAT = /^([^/]*)\/(\d+)(?:,(\d+))?$/;

/**
 * Reads `<prefix>/<categories in a label>[,<categories to choose from>]`.
 * @see https://github.com/openshift/cluster-policy-controller/blob/master/pkg/security/mcs/label.go
 */
export function parseMcsRange(text: string): Result<McsRange> {
  const [, prefix, k, n = String(CATEGORIES)] = MCS_RANGE_FORMAT.exec(text) ?? [];
  if (prefix === undefined) return { error: 'range not in the format "<prefix>/<numLabel>[,<maxCategory>]"' };
  const length = Number(k);
  const categories = Number(n);
  if (length > 5) return { error: 'range may not include more than 5 labels' };
  if (categories > CATEGORIES) return { error: `range may not include more than ${CATEGORIES} categories` };
  if (categories === 0) return { error: 'label max value must be a positive integer' };
  if (length === 0) return { error: 'label length must be a positive integer' };
  return { value: { prefix, length, categories } };
}

/** The text that `parseMcsRange` reads. */
export function formatMcsRange({ prefix, length, categories }: McsRange): string {
  return `${prefix}/${length}${categories === CATEGORIES ? '' : `,${categories}`}`;
}

/** How many labels there are. */
export function labelCount({ length, categories }: McsRange): number {
  return binomial(categories, length);
}

export function isInMcsRange({ length, categories, ...range }: McsRange, label: McsLabel): boolean {
  return (
    label.prefix === withSeparator(range.prefix) &&
    label.categories.length === length &&
    label.categories.every((category) => category < categories)
  );
}

/** The label at a place among those of the range; beyond the last one it has categories that are none of the range. */
export function labelAt({ prefix, length }: McsRange, rank: number): McsLabel {
  return { prefix: withSeparator(prefix), categories: categoriesAt(rank, length) };
}

function withSeparator(prefix: string): string {
  return prefix === '' || /[:,]$/.test(prefix) ? prefix : `${prefix}:`;
}

/** What namespaces get their ids and labels from. */
export interface RangeSettings {
  readonly uidRange: UidRange;
  readonly mcsRange: McsRange;
  /** Labels for each block of ids, of which its namespace gets the first; 0 counts as 1. */
  readonly labelsPerBlock: number;
}

/** As on OpenShift: 100,000 blocks. */
export const DEFAULT_RANGES: RangeSettings = {
  uidRange: { start: 1_000_000_000, end: 1_999_999_999, blockSize: 10_000 },
  mcsRange: { prefix: 's0:', length: 2, categories: 1024 },
  labelsPerBlock: 5,
};

/** What one object can hold: the API server takes no larger ones than 1.5 MiB. */
const MAX_BLOCKS = 8_000_000;

/** Says why the parts do not go together; `undefined` if they do. */
export function validateRangeSettings({ uidRange, mcsRange, labelsPerBlock }: RangeSettings): string | undefined {
  const blocks = blockCount(uidRange);
  if (blocks > MAX_BLOCKS) return `uid range ${formatUidRange(uidRange)} has ${blocks} blocks, more than ${MAX_BLOCKS}`;
  const wanted = blocks * Math.max(1, labelsPerBlock);
  const labels = labelCount(mcsRange);
  if (wanted <= labels) return undefined;
  return `mcs range ${formatMcsRange(mcsRange)} has ${labels} labels, ${wanted} are needed for the ${blocks} blocks of uid range ${formatUidRange(uidRange)}`;
}
