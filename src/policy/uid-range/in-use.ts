import { parseIdBlock } from '../../kube/id-block.ts';
import { NAMESPACE_RANGE_ANNOTATIONS } from '../../kube/scc.ts';
import type { Namespace } from '../../kube/types.ts';
import type { Bitmap } from './bitmap.ts';
import { parseMcsLabel, rankOf } from './mcs-label.ts';
import { isInMcsRange } from './mcs-range.ts';
import type { RangeSettings } from './settings.ts';
import { blockCountOf, blocksTouching, indexOfBlock, type UidRange } from './uid-range.ts';

const { uidRange: UID_RANGE, mcs: MCS } = NAMESPACE_RANGE_ANNOTATIONS;

/** The block that a namespace has; `undefined` if it has no ids, or ids that are no block of the range. */
export function ownBlockOf(namespace: Namespace, range: UidRange): number | undefined {
  const block = parseIdBlock(namespace.metadata?.annotations?.[UID_RANGE] ?? '');
  return 'value' in block ? indexOfBlock(range, block.value) : undefined;
}

/** Blocks in a row, both ends included. */
interface Blocks {
  readonly first: number;
  readonly last: number;
}

/**
 * Makes a function that adds the blocks that nobody else should get: the ids or the label of such a block are those of
 * a namespace, in part or as a whole, whoever wrote them there. Namespaces are read once and then remembered.
 */
export function createBlocksInUse(settings: RangeSettings): (blocks: Bitmap, namespaces: readonly Namespace[]) => void {
  const remembered = new WeakMap<Namespace, readonly Blocks[]>();
  return (blocks, namespaces) => {
    for (const namespace of namespaces) {
      const found = remembered.get(namespace) ?? blocksOf(namespace, settings);
      remembered.set(namespace, found);
      for (const { first, last } of found) for (let index = first; index <= last; index++) blocks.add(index);
    }
  };
}

function blocksOf(namespace: Namespace, settings: RangeSettings): readonly Blocks[] {
  const annotations = namespace.metadata?.annotations ?? {};
  const byIds = touchedBy(annotations[UID_RANGE], settings.uidRange);
  const byLabel = labelledBy(annotations[MCS], settings);
  return [...(byIds ? [byIds] : []), ...(byLabel ? [byLabel] : [])];
}

function touchedBy(ids: string | undefined, range: UidRange): Blocks | undefined {
  const block = parseIdBlock(ids ?? '');
  return 'value' in block ? blocksTouching(range, block.value) : undefined;
}

function labelledBy(text: string | undefined, settings: RangeSettings): Blocks | undefined {
  const label = parseMcsLabel(text ?? '');
  if ('error' in label || !isInMcsRange(settings.mcsRange, label.value)) return undefined;
  const index = Math.floor(rankOf(label.value.categories) / Math.max(1, settings.labelsPerBlock));
  return index < blockCountOf(settings.uidRange) ? { first: index, last: index } : undefined;
}
