import { getApiVersion, objectName } from '../kube/resources.ts';
import { compareBytes } from '../kube/text.ts';
import type { Kind, Kinds } from '../kube/types.ts';
import type { Store } from './store.ts';

/** The kinds that define pods, including pods themselves, sorted by name. */
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

/** An object that defines pods. */
export interface PodSource {
  readonly kind: PodSourceKind;
  readonly object: Kinds[PodSourceKind];
}

/**
 * Lists the objects of a namespace that define pods, sorted by kind and name. Objects whose controller is also such an
 * object are omitted. Objects of other controllers, such as custom resources, are included.
 */
export function listPodSources(
  store: Store,
  namespace: string,
  kinds: readonly PodSourceKind[] = POD_SOURCES,
): readonly PodSource[] {
  return kinds.flatMap((kind) =>
    store
      .list(kind, namespace)
      .filter((object) => !hasPodSourceOwner(store, object, namespace))
      .map((object) => ({ kind, object }))
      .sort((a, b) => compareBytes(objectName(a.object), objectName(b.object))),
  );
}

function hasPodSourceOwner(store: Store, { metadata }: Kinds[PodSourceKind], namespace: string): boolean {
  const owners: unknown = metadata?.ownerReferences;
  const owner = Array.isArray(owners)
    ? metadata?.ownerReferences?.find(({ controller }) => controller === true)
    : undefined;
  const kind = POD_SOURCES.find((one) => one === owner?.kind);
  if (owner === undefined || kind === undefined || owner.apiVersion !== getApiVersion(kind)) return false;
  return store.get(kind, owner.name, namespace) !== undefined;
}
