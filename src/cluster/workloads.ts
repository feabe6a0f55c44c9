import { compareBytes } from '../kube/text.ts';
import { getApiVersion } from '../kube/resources.ts';
import type { Kind, Kinds } from '../kube/types.ts';
import type { Store } from './store.ts';

/** The kinds that pods come from, pods that nobody makes among them, in the order of their names. */
export const POD_SOURCES = [
  'CronJob',
  'DaemonSet',
  'Deployment',
  'Job',
  'Pod',
  'ReplicaSet',
  'ReplicationController',
  'StatefulSet',
] as const satisfies readonly Kind[];

export type PodSourceKind = (typeof POD_SOURCES)[number];

/** An object that pods come from. */
export interface PodSource {
  readonly kind: PodSourceKind;
  readonly object: Kinds[PodSourceKind];
}

/**
 * The objects in a namespace that pods come from, sorted by kind and name. What another of them made is left out; what
 * anything else made, a custom resource or an object that is gone, is not.
 */
export function listPodSources(
  store: Store,
  namespace: string,
  kinds: readonly PodSourceKind[] = POD_SOURCES,
): readonly PodSource[] {
  return kinds.flatMap((kind) =>
    store
      .list(kind, namespace)
      .filter((object) => !isMadeByPodSource(store, object, namespace))
      .map((object) => ({ kind, object }))
      .sort((a, b) => compareBytes(nameOf(a), nameOf(b))),
  );
}

function isMadeByPodSource(store: Store, { metadata }: Kinds[PodSourceKind], namespace: string): boolean {
  const owners: unknown = metadata?.ownerReferences;
  const owner = Array.isArray(owners)
    ? metadata?.ownerReferences?.find(({ controller }) => controller === true)
    : undefined;
  const kind = POD_SOURCES.find((one) => one === owner?.kind);
  if (owner === undefined || kind === undefined || owner.apiVersion !== getApiVersion(kind)) return false;
  return store.get(kind, owner.name, namespace) !== undefined;
}

function nameOf({ object }: PodSource): string {
  return object.metadata?.name ?? '';
}
