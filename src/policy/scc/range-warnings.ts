/** What is wrong with the annotations of a namespace that pods are judged by. */
import { NAMESPACE_RANGE_ANNOTATIONS } from '../../kube/scc.ts';
import { isObject, type Namespace } from '../../kube/types.ts';
import { namespaceRangesOf } from './namespace-ranges.ts';
import type { SearchResult } from './search.ts';
import { fit, named, printValues } from './sentence.ts';

const { uidRange, mcs, supplementalGroups } = NAMESPACE_RANGE_ANNOTATIONS;

/** Of a namespace that lacks annotations: which, and what to do. */
export function missingRangeWarnings(namespace: Namespace): readonly string[] {
  const { name, problem } = namespaceRangesOf(namespace);
  if (problem === undefined || !isObject(namespace)) return [];
  const ids = valueOf(namespace, uidRange);
  if (ids === undefined) {
    const remedy =
      'try again in a few seconds; if that does not help, the controller that allocates it does not run, or has none left (event UIDRangeFull).';
    return [fit(`Namespace ${named(name)} has no annotation ${uidRange} yet: ${remedy}`)];
  }
  const remedy = `set it, or remove ${uidRange}=${printValues([ids])}, so that both are allocated.`;
  return [fit(`Namespace ${named(name)} has no annotation ${mcs}: ${remedy}`)];
}

/** By annotation: what is read from it, and the parts of an SCC that need it. */
const READINGS = [
  { key: uidRange, read: 'uidRange', needs: ['uidRange'] },
  { key: mcs, read: 'seLinuxLevel', needs: ['seLinuxLevel'] },
  { key: supplementalGroups, read: 'groupRanges', needs: ['fsGroup', 'supplementalGroups'] },
] as const;

/** Of a namespace whose annotations keep SCCs that may be used from working: before anything else, these are to be mended. */
export function unusableRangeWarning(namespace: Namespace, { passedOver }: SearchResult): string | undefined {
  const ranges = namespaceRangesOf(namespace);
  for (const { key, read, needs } of READINGS) {
    const found = ranges[read];
    if (!('error' in found)) continue;
    const isInTheWay = passedOver.some(
      ({ scc, because }) => because === 'errors' && needs.some((need) => scc.needs[need]),
    );
    if (isInTheWay) return unusableText(ranges.name, key, valueOf(namespace, key) ?? '', found.error);
  }
  return undefined;
}

function unusableText(name: string, key: string, value: string, error: string): string {
  const why = value === '' ? 'is empty' : `cannot be read (${error})`;
  return fit(
    `Annotation ${key}=${printValues([value])} of namespace ${named(name)} ${why}: correct it, or remove it so that it is allocated.`,
  );
}

function valueOf(namespace: Namespace, key: string): string | undefined {
  const value: unknown = namespace.metadata?.annotations?.[key];
  return typeof value === 'string' ? value : undefined;
}
