/**
 * Recognizes Operator Lifecycle Manager (OLM) workloads. Users can forge the labels, so a match must never make a pod
 * less restricted.
 */
import { isObject, type JsonObject, type KubeObject } from '../../kube/types.ts';
import type { ProfileId } from './hardening.ts';

const OLM_GROUP = 'operators.coreos.com';
const OLM_API = /^operators\.coreos\.com\//;

/** Label on catalog pods with the CatalogSource's name. It is empty on pods that poll for updates. */
const CATALOG_SOURCE_LABEL = 'olm.catalogSource';

/**
 * Label on pods that poll for updates, with the CatalogSource's name. It is empty once the pod becomes a serving pod.
 */
const CATALOG_UPDATE_LABEL = 'catalogsource.operators.coreos.com/update';
const MANAGED_LABEL = 'olm.managed';

/** Label on unpack Jobs and their pods with the name of the bundle's ConfigMap. */
const UNPACK_LABEL = 'operatorframework.io/bundle-unpack-ref';

/** Label on Deployments that OLM creates and restores, with the ClusterServiceVersion's name. */
const OWNER_LABEL = 'olm.owner';
const OWNER_KIND_LABEL = 'olm.owner.kind';

/** The namespaces of OLM in its release manifests, in its Helm chart, and on OpenShift. */
export const OLM_NAMESPACES: readonly string[] = [
  'olm',
  'operator-lifecycle-manager',
  'openshift-operator-lifecycle-manager',
];
export const MARKETPLACE_NAMESPACE = 'openshift-marketplace';
const CONTROLLER_NAMESPACES: ReadonlySet<unknown> = new Set([...OLM_NAMESPACES, MARKETPLACE_NAMESPACE]);

const COLLECT_PROFILES = 'olm-collect-profiles';

/** Values of the `app` label on OLM controllers. */
const CONTROLLER_APPS: readonly string[] = [
  'olm-operator',
  'catalog-operator',
  'packageserver',
  'package-server-manager',
  COLLECT_PROFILES,
];
const MARKETPLACE_OPERATOR = 'marketplace-operator';

/** Container of a catalog pod that `operator-sdk run bundle` creates. */
const RUN_BUNDLE_CONTAINER = 'registry-grpc';

/** A pod, or a workload that has a pod template. */
export interface Candidate {
  readonly kind: string;
  readonly metadata?: KubeObject['metadata'];
  /** Labels of the pod template. Absent for a pod. */
  readonly templateLabels?: Readonly<Record<string, string>> | undefined;
  readonly containers: readonly string[];
  readonly initContainers: readonly string[];
}

export interface Recognized {
  readonly profile: ProfileId;
  /** True if the containers write to the root filesystem, contrary to the profile. */
  readonly writesRootFilesystem?: boolean;
}

/**
 * Returns the profile of an OLM workload, or `undefined` for other workloads. The catalog label is checked last,
 * because it can name a catalog whose pods are not hardened.
 */
export function recognizeWorkload(candidate: Candidate): Recognized | undefined {
  const controller = recognizeController(candidate);
  if (controller !== undefined) return controller;
  if (isUnpackWorkload(candidate)) return { profile: 'bundle-unpack' };
  const catalog = isCatalogPod(candidate);
  return catalog && { profile: catalog };
}

function isCatalogPod({ kind, metadata = {}, containers }: Candidate): ProfileId | undefined {
  if (kind !== 'Pod') return undefined;
  if (metadata.labels?.[CATALOG_SOURCE_LABEL] !== undefined) return 'catalog-source';
  if (findCatalogOwner(metadata) === undefined) return undefined;
  return containers.includes(RUN_BUNDLE_CONTAINER) ? 'run-bundle' : 'catalog-source';
}

/**
 * Returns true for an unpack Job or its pod. Some OLM releases set no labels on these Jobs, so they are also recognized
 * by their containers and by the ConfigMap that owns them.
 */
function isUnpackWorkload({ kind, metadata = {}, templateLabels, containers, initContainers }: Candidate): boolean {
  if (kind !== 'Pod' && kind !== 'Job') return false;
  const isLabeled = [metadata.labels, templateLabels].some(
    (labels) => labels?.[MANAGED_LABEL] === 'true' && Boolean(labels[UNPACK_LABEL]),
  );
  const isOwned = (metadata.ownerReferences ?? []).some(
    (owner) => owner.apiVersion === 'v1' && owner.kind === 'ConfigMap',
  );
  const hasContainers =
    containers.includes('extract') && ['util', 'pull'].every((name) => initContainers.includes(name));
  return isLabeled || (isOwned && hasContainers);
}

function recognizeController({ metadata = {}, templateLabels }: Candidate): Recognized | undefined {
  const { namespace = '', labels } = metadata;
  const has = (key: string, values: readonly string[]): boolean =>
    values.includes(templateLabels?.[key] ?? '') || values.includes(labels?.[key] ?? '');
  const isController =
    (OLM_NAMESPACES.includes(namespace) && has('app', CONTROLLER_APPS)) ||
    (namespace === MARKETPLACE_NAMESPACE && has('name', [MARKETPLACE_OPERATOR]));
  if (!isController) return undefined;
  return { profile: 'olm-controller', ...(has('app', [COLLECT_PROFILES]) ? { writesRootFilesystem: true } : {}) };
}

/** Returns true for pods that may have a profile. `metadata` is not validated. */
export function mayBeOlmPod(metadata: JsonObject, namespace: unknown): boolean {
  const { labels, ownerReferences } = metadata;
  if (isObject(labels) && (labels[CATALOG_SOURCE_LABEL] !== undefined || labels[UNPACK_LABEL] !== undefined))
    return true;
  const owners: readonly unknown[] = Array.isArray(ownerReferences) ? ownerReferences : [];
  return (
    owners.some((owner) => isObject(owner) && OWNER_KINDS.has(owner['kind'])) || CONTROLLER_NAMESPACES.has(namespace)
  );
}

const has = (field: string, condition: string): string => `(has(object.metadata.${field}) && ${condition})`;

/**
 * CEL expression that matches catalog pods (even without the label), unpack pods, pods that `operator-sdk run bundle`
 * creates, and all pods in the namespaces of OLM controllers.
 */
export const OLM_POD_EXPRESSION = [
  has('labels', `'${CATALOG_SOURCE_LABEL}' in object.metadata.labels`),
  has(
    'ownerReferences',
    `object.metadata.ownerReferences.exists(owner, owner.kind == 'CatalogSource' && owner.apiVersion.startsWith('${OLM_GROUP}/'))`,
  ),
  has('labels', `'${UNPACK_LABEL}' in object.metadata.labels`),
  `request.namespace in ${JSON.stringify([...CONTROLLER_NAMESPACES])}`,
].join(' || ');

const OWNER_KINDS: ReadonlySet<unknown> = new Set(['CatalogSource', 'ConfigMap']);

/** Returns the ClusterServiceVersion of a Deployment that OLM restores, or `undefined` for any other object. */
export function findOwningCsv({ metadata }: KubeObject): string | undefined {
  const { labels = {} } = metadata ?? {};
  const kind = labels[OWNER_KIND_LABEL] ?? 'ClusterServiceVersion';
  return kind === 'ClusterServiceVersion' ? labels[OWNER_LABEL] || undefined : undefined;
}

interface CatalogReference {
  readonly name: string;
  readonly uid: string;
}

function findCatalogOwner({ ownerReferences }: NonNullable<KubeObject['metadata']>): CatalogReference | undefined {
  return ownerReferences?.find(({ apiVersion, kind }) => kind === 'CatalogSource' && OLM_API.test(apiVersion));
}

/**
 * Returns the CatalogSource of a pod. It is the owner if its name and UID match, or else the CatalogSource that the
 * first non-empty label names.
 */
export function resolveCatalogSource<T extends KubeObject>(
  metadata: NonNullable<KubeObject['metadata']>,
  get: (name: string) => T | undefined,
): { readonly name: string; readonly catalog: T | undefined } {
  const owner = findCatalogOwner(metadata);
  const owned = owner && get(owner.name);
  if (owner && owned?.metadata?.uid === owner.uid) return { name: owner.name, catalog: owned };
  const { labels = {} } = metadata;
  const labeled = labels[CATALOG_SOURCE_LABEL] || labels[CATALOG_UPDATE_LABEL];
  if (labeled) return { name: labeled, catalog: get(labeled) };
  return { name: owner?.name ?? '', catalog: undefined };
}

export function containerNames(list: unknown): readonly string[] {
  const items: readonly unknown[] = Array.isArray(list) ? list : [];
  return items
    .filter((item): item is JsonObject => isObject(item))
    .map(({ name }) => (typeof name === 'string' ? name : ''));
}
