import { labelCountOf, printMcsRange, type McsRange } from './mcs-range.ts';
import { blockCountOf, printUidRange, type UidRange } from './uid-range.ts';

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
export function rangesProblem({ uidRange, mcsRange, labelsPerBlock }: RangeSettings): string | undefined {
  const blocks = blockCountOf(uidRange);
  if (blocks > MAX_BLOCKS) return `uid range ${printUidRange(uidRange)} has ${blocks} blocks, more than ${MAX_BLOCKS}`;
  const wanted = blocks * Math.max(1, labelsPerBlock);
  const labels = labelCountOf(mcsRange);
  if (wanted <= labels) return undefined;
  return `mcs range ${printMcsRange(mcsRange)} has ${labels} labels, ${wanted} are needed for the ${blocks} blocks of uid range ${printUidRange(uidRange)}`;
}
