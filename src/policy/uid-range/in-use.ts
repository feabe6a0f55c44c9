import { parseIdBlock, NAMESPACE_RANGE_ANNOTATIONS } from '../../kube/scc.ts';
import type { Namespace } from '../../kube/types.ts';
import { emptyBitmap, type Bitmap, type NumberRow } from './bitmap.ts';
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

/**
 * Makes a function that tells the blocks that nobody else should get: the ids or the label of such a block are those of
 * a namespace, in part or as a whole, whoever wrote them there. Namespaces that stay the same are read once.
 */
export function createBlocksInUse(settings: RangeSettings): (namespaces: readonly Namespace[]) => Bitmap {
  let seen: readonly Namespace[] = [];
  let inUse = emptyBitmap();
  return (namespaces) => {
    if (namespaces === seen) return inUse;
    const isLess = namespaces.length < seen.length || seen.some((before, index) => hasLost(before, namespaces[index]));
    if (isLess) inUse = emptyBitmap();
    const fresh = isLess ? namespaces : namespaces.filter((namespace, index) => namespace !== seen[index]);
    const blocks = fresh.flatMap((namespace) => blocksOf(namespace, settings));
    for (const { first, last } of joined(blocks)) inUse.addRange(first, last);
    seen = namespaces;
    return inUse;
  };
}

/** The same blocks, each once: ids that are written by hand may span the whole range, in many namespaces. */
function joined(blocks: readonly NumberRow[]): readonly NumberRow[] {
  const rows: NumberRow[] = [];
  for (const row of blocks.toSorted((a, b) => a.first - b.first)) {
    const before = rows.at(-1);
    if (before && row.first <= before.last + 1) {
      rows[rows.length - 1] = { first: before.first, last: Math.max(before.last, row.last) };
    } else rows.push(row);
  }
  return rows;
}

/** True if in the place of a namespace there is one without its ids and its label. */
function hasLost(before: Namespace, now: Namespace | undefined): boolean {
  if (before === now) return false;
  const { annotations: old } = before.metadata ?? {};
  const { annotations } = now?.metadata ?? {};
  return [UID_RANGE, MCS].some((key) => old?.[key] !== undefined && old[key] !== annotations?.[key]);
}

function blocksOf(namespace: Namespace, settings: RangeSettings): readonly NumberRow[] {
  const annotations = namespace.metadata?.annotations ?? {};
  const byIds = touchedBy(annotations[UID_RANGE], settings.uidRange);
  const byLabel = labelledBy(annotations[MCS], settings);
  return [...(byIds ? [byIds] : []), ...(byLabel ? [byLabel] : [])];
}

function touchedBy(ids: string | undefined, range: UidRange): NumberRow | undefined {
  const block = parseIdBlock(ids ?? '');
  return 'value' in block ? blocksTouching(range, block.value) : undefined;
}

function labelledBy(text: string | undefined, settings: RangeSettings): NumberRow | undefined {
  const label = parseMcsLabel(text ?? '');
  if ('error' in label || !isInMcsRange(settings.mcsRange, label.value)) return undefined;
  const index = Math.floor(rankOf(label.value.categories) / Math.max(1, settings.labelsPerBlock));
  return index < blockCountOf(settings.uidRange) ? { first: index, last: index } : undefined;
}
