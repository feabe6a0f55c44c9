import type { Namespace } from '../../kube/types.ts';
import { annotationsOfBlock, needOf } from '../../policy/uid-range/annotations.ts';
import { createBlocksInUse } from '../../policy/uid-range/in-use.ts';
import { DEFAULT_RANGES } from '../../policy/uid-range/settings.ts';
import { blocksOfNamespaces } from '../../policy/uid-range/state.ts';
import { blockCountOf } from '../../policy/uid-range/uid-range.ts';

/** Those of the namespaces that lack ranges of ids, with the ranges that would be allotted to them one after another. */
export function assignRanges(namespaces: readonly Namespace[]): readonly Namespace[] {
  const count = blockCountOf(DEFAULT_RANGES.uidRange);
  const taken = blocksOfNamespaces(namespaces, DEFAULT_RANGES.uidRange);
  const inUse = createBlocksInUse(DEFAULT_RANGES)(namespaces);
  return namespaces.flatMap((namespace) => {
    const need = needOf(namespace, DEFAULT_RANGES);
    if (need === undefined) return [];
    if (need !== 'block') return [withAnnotations(namespace, need.annotations)];
    const block = taken.lowestClear(count, inUse) ?? taken.lowestClear(count);
    if (block === undefined) return [];
    taken.add(block);
    return [withAnnotations(namespace, annotationsOfBlock(block, namespace, DEFAULT_RANGES))];
  });
}

function withAnnotations(namespace: Namespace, more: Readonly<Record<string, string>>): Namespace {
  const { metadata } = namespace;
  return { ...namespace, metadata: { ...metadata, annotations: { ...metadata?.annotations, ...more } } };
}
