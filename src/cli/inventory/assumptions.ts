/**
 * Adds objects that decisions need but that are missing from the manifests or the cluster. Each function returns
 * descriptions of the objects that it adds.
 */
import type { WritableStore } from '../../cluster/store.ts';
import { isKustomization, type ManifestObject } from '../../config/objects.ts';
import type { CustomPodSource } from '../../kube/controller-pod.ts';
import type { Kind } from '../../kube/kinds.ts';
import { getPodTemplate, podTemplatePath } from '../../kube/pod.ts';
import { objectName, RESOURCES } from '../../kube/resources.ts';
import { sortedSet, summarizeNames } from '../../kube/text.ts';
import { isObject, type Namespace } from '../../kube/types.ts';
import { CLUSTER_ADMIN } from '../../policy/rbac/index.ts';
import {
  type Compatibility,
  STANDARD_CLUSTER_ROLE_BINDINGS,
  STANDARD_CLUSTER_ROLES,
  STANDARD_SCCS,
  standardScc,
} from '../../policy/scc/index.ts';
import {
  blockAnnotations,
  createAllocator,
  DEFAULT_RANGES,
  findMissingRanges,
  namespaceBlocks,
  uniteBlocks,
} from '../../policy/uid-range/index.ts';

/** Maximum number of names in a description. */
const MAX_SHOWN = 5;

const KINDS = Object.keys(RESOURCES) as readonly Kind[];

/**
 * If no standard SCC exists, adds the standard SCCs with their roles and bindings. Does not replace existing roles and
 * bindings.
 */
export function assumeStandardSccs(
  store: WritableStore,
  compatibility: Compatibility = 'portcullis',
): readonly string[] {
  if (STANDARD_SCCS.some(({ scc }) => store.get('SecurityContextConstraints', objectName(scc)))) return [];
  for (const standard of STANDARD_SCCS)
    putMissing(store, 'SecurityContextConstraints', standardScc(standard, compatibility));
  for (const role of STANDARD_CLUSTER_ROLES) putMissing(store, 'ClusterRole', role);
  for (const binding of STANDARD_CLUSTER_ROLE_BINDINGS) putMissing(store, 'ClusterRoleBinding', binding);
  return [
    `the ${STANDARD_SCCS.length} standard SecurityContextConstraints, with their ClusterRoles and ClusterRoleBindings`,
  ];
}

function putMissing<K extends Kind>(store: WritableStore, kind: K, object: Parameters<typeof store.put<K>>[1]): void {
  if (!store.get(kind, objectName(object))) store.put(kind, object);
}

/** Describes the kustomizations, because manifests are evaluated without the changes that kustomizations make. */
export function assumeBuilt(objects: readonly ManifestObject[]): readonly string[] {
  const files = objects.filter(isKustomization).map(({ document }) => document.file);
  return files.length === 0 ? [] : [`no changes by kustomizations: ${summarizeNames(files, MAX_SHOWN)}`];
}

/**
 * Adds the cluster-admin ClusterRole if a binding refers to it. The role exists in every cluster and grants all SCCs.
 */
export function assumeClusterAdmin(store: WritableStore): readonly string[] {
  const bindings = [...store.list('ClusterRoleBinding'), ...store.list('RoleBinding')];
  const isBound = bindings.some(
    ({ roleRef }) => roleRef?.kind === 'ClusterRole' && roleRef.name === objectName(CLUSTER_ADMIN),
  );
  if (!isBound || store.get('ClusterRole', objectName(CLUSTER_ADMIN))) return [];
  store.put('ClusterRole', CLUSTER_ADMIN);
  return ['ClusterRole cluster-admin'];
}

/** Adds the namespaces of all objects and the given namespaces. */
export function assumeNamespaces(store: WritableStore, others: readonly string[] = []): readonly string[] {
  const used = KINDS.flatMap((kind) => store.list(kind).map(({ metadata }) => metadata?.namespace ?? ''));
  const missing = sortedSet([...used, ...others]).filter((name) => name !== '' && !store.get('Namespace', name));
  for (const name of missing) {
    const metadata = { name, labels: { 'kubernetes.io/metadata.name': name } };
    store.put('Namespace', { apiVersion: 'v1', kind: 'Namespace', metadata });
  }
  return missing.length === 0 ? [] : [`namespaces: ${summarizeNames(missing, MAX_SHOWN)}`];
}

/** Adds the service accounts of all pods and pod templates. */
export function assumeServiceAccounts(store: WritableStore, others: readonly CustomPodSource[]): readonly string[] {
  const sources = KINDS.flatMap((kind) => {
    const template = kind === 'Pod' ? [] : podTemplatePath(RESOURCES[kind].group, kind);
    return template ? store.list(kind).map((object) => ({ object, template })) : [];
  });
  const added: string[] = [];
  for (const { object, template } of [...sources, ...others]) {
    const spec: unknown = getPodTemplate(object, template)?.spec;
    const { namespace } = object.metadata ?? {};
    if (!isObject(spec) || namespace === undefined) continue;
    const account = spec['serviceAccountName'];
    const name = typeof account === 'string' && account !== '' ? account : 'default';
    if (store.get('ServiceAccount', name, namespace)) continue;
    store.put('ServiceAccount', { apiVersion: 'v1', kind: 'ServiceAccount', metadata: { name, namespace } });
    added.push(`${namespace}/${name}`);
  }
  return added.length === 0 ? [] : [`service accounts: ${summarizeNames(added, MAX_SHOWN)}`];
}

/** Adds UID ranges to namespaces that have none, as the allocator of `serve` does. */
export function assumeRanges(store: WritableStore): readonly string[] {
  const assigned = assignRanges(store.list('Namespace'));
  for (const namespace of assigned) store.put('Namespace', namespace);
  return assigned.length === 0
    ? []
    : [`UID ranges of namespaces: ${summarizeNames(assigned.map(objectName), MAX_SHOWN)}`];
}

function assignRanges(namespaces: readonly Namespace[]): readonly Namespace[] {
  const allocate = createAllocator(DEFAULT_RANGES);
  let taken = namespaceBlocks(namespaces, DEFAULT_RANGES.uidRange);
  return namespaces.flatMap((namespace) => {
    const missing = findMissingRanges(namespace, DEFAULT_RANGES);
    if (missing === undefined) return [];
    if (missing !== 'block') return [withAnnotations(namespace, missing.annotations)];
    const block = allocate(taken, namespaces);
    if (block === undefined) return [];
    taken = uniteBlocks([...taken, { first: block, last: block }]);
    return [withAnnotations(namespace, blockAnnotations(block, namespace, DEFAULT_RANGES))];
  });
}

function withAnnotations(namespace: Namespace, added: Readonly<Record<string, string>>): Namespace {
  const { metadata } = namespace;
  return { ...namespace, metadata: { ...metadata, annotations: { ...metadata?.annotations, ...added } } };
}
