import { NAMESPACE_RANGE_ANNOTATIONS } from '../../kube/scc.ts';
import { isObject, type Namespace } from '../../kube/types.ts';

const FIRST = 1_000_000_000;
const SIZE = 10_000;

/** The namespaces with ranges: each gets the lowest block that no namespace has. */
export function assignRanges(without: readonly Namespace[], all: readonly Namespace[]): readonly Namespace[] {
  const taken = new Set(all.map(startOf));
  let start = FIRST;
  return without.map((namespace) => {
    while (taken.has(start)) start += SIZE;
    taken.add(start);
    return withRanges(namespace, start);
  });
}

function startOf({ metadata }: Namespace): number {
  const range: unknown = metadata?.annotations?.[NAMESPACE_RANGE_ANNOTATIONS.uidRange];
  return typeof range === 'string' ? Number.parseInt(range) : NaN;
}

function withRanges(namespace: Namespace, start: number): Namespace {
  const given: unknown = namespace.metadata?.annotations;
  const range = `${start}/${SIZE}`;
  const { uidRange, supplementalGroups, mcs } = NAMESPACE_RANGE_ANNOTATIONS;
  const annotations = {
    [mcs]: `s0:${categories(((start - FIRST) / SIZE) * 5)}`,
    ...(isObject(given) ? (given as Record<string, string>) : {}),
    [uidRange]: range,
    [supplementalGroups]: range,
  };
  return { ...namespace, metadata: { ...namespace.metadata, annotations } };
}

/** The pair of categories of that rank. */
function categories(rank: number): string {
  let high = 1;
  while ((high * (high + 1)) / 2 <= rank) high++;
  return `c${high},c${rank - (high * (high - 1)) / 2}`;
}
