/** Reads workloads and the pods that they create. */
import type { Store } from '../cluster/store.ts';
import type { CustomPodSource, PodCreator } from '../kube/controller-pod.ts';
import { defined } from '../kube/defined.ts';
import type { Kind, Kinds } from '../kube/kinds.ts';
import { hasFinished } from '../kube/pod.ts';
import { getApiVersion, objectName } from '../kube/resources.ts';
import { compareBytes } from '../kube/text.ts';
import type { KubeObject, Pod } from '../kube/types.ts';
import { podOwner } from '../policy/rollout/index.ts';

/** Kinds that define pods, including Pod itself, in alphabetical order. */
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

/** The kinds of objects that contain a pod template. */
export const TEMPLATE_KINDS = POD_SOURCES.filter((kind) => kind !== 'Pod');

/** An object that defines pods. */
interface PodSource {
  readonly kind: PodSourceKind;
  readonly object: Kinds[PodSourceKind];
}

/**
 * Lists the objects in a namespace that define pods, sorted by kind and name. Omits objects that another object in the
 * list controls, but includes objects controlled by other owners, such as custom resources. Omits finished Jobs and
 * pods, because they create no more pods. Yields after each object.
 */
export function* listPodSources(
  store: Store,
  namespace: string,
  kinds: readonly PodSourceKind[] = POD_SOURCES,
): Generator<undefined, readonly PodSource[]> {
  const sources: PodSource[] = [];
  for (const kind of kinds) {
    const found: PodSource[] = [];
    for (const object of store.list(kind, namespace)) {
      if (!hasFinished(object) && !hasPodSourceOwner(store, object, namespace)) found.push({ kind, object });
      yield;
    }
    found.sort((a, b) => compareBytes(objectName(a.object), objectName(b.object)));
    for (const source of found) sources.push(source);
    yield;
  }
  return sources;
}

/**
 * Like `listPodSources`, but also lists the pod templates in custom resources. Omits ReplicaSets and pods that a listed
 * custom resource controls. Includes other objects that it controls, because they may have other templates.
 */
export function* listPodCreators(
  store: Store,
  namespace: string,
  customSources: readonly CustomPodSource[],
  kinds?: readonly PodSourceKind[],
): Generator<undefined, readonly PodCreator[]> {
  const custom = customSources.filter(({ object }) => object.metadata?.namespace === namespace);
  const listed = new Set(custom.map(({ kind, object }) => ownerKey(object.apiVersion, kind, objectName(object))));
  const isControlled = ({ kind, object }: PodSource): boolean => {
    const owner = findController(object);
    const isCopy = kind === 'ReplicaSet' || kind === 'Pod';
    return isCopy && owner !== undefined && listed.has(ownerKey(owner.apiVersion, owner.kind, owner.name));
  };
  const sources = yield* listPodSources(store, namespace, kinds);
  return [...sources.filter((source) => !isControlled(source)), ...custom];
}

/** Returns a key that identifies an owner. It contains the API group but not the version, which may differ. */
function ownerKey(apiVersion: string | undefined, kind: string, name: string): string {
  return `${apiVersion?.split('/')[0]} ${kind} ${name}`;
}

function findController({ metadata }: Kinds[PodSourceKind]) {
  const owners: unknown = metadata?.ownerReferences;
  return Array.isArray(owners) ? metadata?.ownerReferences?.find(({ controller }) => controller === true) : undefined;
}

function hasPodSourceOwner(store: Store, object: Kinds[PodSourceKind], namespace: string): boolean {
  const owner = findController(object);
  const kind = POD_SOURCES.find((known) => known === owner?.kind);
  if (owner === undefined || kind === undefined || owner.apiVersion !== getApiVersion(kind)) return false;
  return store.get(kind, owner.name, namespace) !== undefined;
}

/** The workload's type, name, namespace and UID. */
export type WorkloadReference = Required<Pick<KubeObject, 'apiVersion' | 'kind' | 'metadata'>>;

/**
 * Returns the outermost controller of a pod, or the pod itself if it has none. The store does not contain the
 * ReplicaSets of Deployments or the Jobs of CronJobs, so the names of Deployments and CronJobs are derived from the
 * names of these objects.
 */
export function findPodWorkload(pod: Pod, store: Store): WorkloadReference {
  const { namespace = '' } = pod.metadata ?? {};
  const { kind, name } = podOwner(pod, (ownerKind, owner) => store.get(ownerKind, owner, namespace) !== undefined);
  const direct = pod.metadata?.ownerReferences?.find(
    (owner) => owner.controller === true && owner.kind === kind && owner.name === name,
  );
  const source = POD_SOURCES.find((known) => known === kind);
  const isSource = source !== undefined && (direct?.apiVersion ?? getApiVersion(source)) === getApiVersion(source);
  const stored = isSource ? store.get(source, name, namespace) : undefined;
  const uid = stored?.metadata?.uid ?? direct?.uid;
  return {
    apiVersion: direct?.apiVersion ?? (source ? getApiVersion(source) : ''),
    kind,
    metadata: { name, namespace, ...defined({ uid }) },
  };
}

/** Returns true if the pod has not finished, or if its workload still creates pods with the same policy decision. */
export function isReplaced(pod: Pod, store: Store): boolean {
  if (!hasFinished(pod)) return true;
  const { kind, metadata } = findPodWorkload(pod, store);
  if (kind !== 'Job') return kind !== 'Pod';
  const job = store.get('Job', metadata.name ?? '', metadata.namespace);
  return job !== undefined && !hasFinished(job);
}
