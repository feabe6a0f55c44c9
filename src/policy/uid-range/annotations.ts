import { NAMESPACE_RANGE_ANNOTATIONS } from '../../kube/scc.ts';
import type { Namespace } from '../../kube/types.ts';
import { ownBlockOf } from './in-use.ts';
import { printMcsLabel } from './mcs-label.ts';
import { labelAt } from './mcs-range.ts';
import type { RangeSettings } from './settings.ts';
import { blockAt, printBlock } from './uid-range.ts';

const { uidRange, supplementalGroups, mcs } = NAMESPACE_RANGE_ANNOTATIONS;

/** What a namespace needs: a block; the rest of what belongs to the block it has; nothing. */
export type NamespaceNeed = 'block' | { readonly annotations: Readonly<Record<string, string>> } | undefined;

/** Says what a namespace needs. Ids that somebody else has chosen stay as they are, and so does all beside them. */
export function needOf(namespace: Namespace, settings: RangeSettings): NamespaceNeed {
  const annotations = namespace.metadata?.annotations ?? {};
  const deletionTimestamp = namespace.metadata?.deletionTimestamp;
  if (deletionTimestamp !== undefined) return undefined;
  if (annotations[uidRange] === undefined) return 'block';
  if (annotations[mcs] !== undefined && annotations[supplementalGroups] !== undefined) return undefined;
  const block = ownBlockOf(namespace, settings.uidRange);
  return block === undefined ? undefined : { annotations: annotationsOfBlock(block, namespace, settings) };
}

/** The annotations of a namespace that has this block; those that it has already stay as they are. */
export function annotationsOfBlock(
  index: number,
  namespace: Namespace,
  { uidRange: range, mcsRange, labelsPerBlock }: RangeSettings,
): Readonly<Record<string, string>> {
  const present = namespace.metadata?.annotations ?? {};
  const block = printBlock(blockAt(range, index));
  return {
    [uidRange]: present[uidRange] ?? block,
    [supplementalGroups]: present[supplementalGroups] ?? block,
    [mcs]: present[mcs] ?? printMcsLabel(labelAt(mcsRange, index * Math.max(1, labelsPerBlock))),
  };
}
