import type { Namespace } from '../../kube/types.ts';
import type { Bitmap } from './bitmap.ts';
import { createBlocksInUse } from './in-use.ts';
import type { RangeSettings } from './settings.ts';
import { blockCountOf } from './uid-range.ts';

/**
 * Makes a function that chooses the next block: the lowest one that is not taken, if possible one whose ids and label
 * no namespace has in any other way. `undefined` if all are taken.
 */
export function createAllocator(
  settings: RangeSettings,
): (taken: Bitmap, namespaces: readonly Namespace[]) => number | undefined {
  const blocksInUse = createBlocksInUse(settings);
  const count = blockCountOf(settings.uidRange);
  return (taken, namespaces) =>
    // Ids that somebody has given to a namespace by hand may span the whole range.
    taken.lowestClear(count, blocksInUse(namespaces)) ?? taken.lowestClear(count);
}
