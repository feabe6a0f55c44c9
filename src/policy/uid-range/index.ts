/** Allocates the UID ranges and the SELinux categories of namespaces. */
export {
  blockAnnotations,
  createAllocator,
  createRangePreview,
  findMissingRanges,
  findRangeProblems,
  formatState,
  namespaceBlocks,
  ORPHANED_MS,
  type Orphans,
  planRepair,
  RANGE_ALLOCATION_NAME,
  readState,
} from './allocation.ts';
export { type Blocks, formatBlocks, parseBlocks, uniteBlocks } from './blocks.ts';
export {
  DEFAULT_RANGES,
  formatMcsLabel,
  formatMcsRange,
  formatUidRange,
  isInMcsRange,
  labelCount,
  labelRank,
  parseMcsLabel,
  parseMcsRange,
  parseUidRange,
  type RangeSettings,
  validateRangeSettings,
} from './ranges.ts';
