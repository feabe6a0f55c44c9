import {
  type Namespace,
  isObject,
  type ClusterRole,
  type JsonObject,
  type Kind,
  type KubeObject,
  type Pod,
  type ServiceAccount,
} from '../../kube/types.ts';
import {
  annotationsOfBlock,
  needOf,
  createBlocksInUse,
  blocksOfNamespaces,
} from '../../policy/uid-range/allocation.ts';
import { DEFAULT_RANGES, blockCountOf } from '../../policy/uid-range/ranges.ts';
import type { WritableStore } from '../../cluster/store.ts';
import { getPodTemplate, podTemplatePath } from '../../kube/pod.ts';
import { RESOURCES } from '../../kube/resources.ts';
import { sortedSet, quote } from '../../kube/text.ts';
import { STANDARD_CLUSTER_ROLE_BINDINGS, STANDARD_CLUSTER_ROLES, STANDARD_SCCS } from '../../policy/scc/standard.ts';
import { printable } from '../output/print.ts';
import { isMirrorPod } from '../../kube/controller-pod.ts';

/** Those of the namespaces that lack ranges of ids, with the ranges that would be allotted to them one after another. */
function assignRanges(namespaces: readonly Namespace[]): readonly Namespace[] {
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

const KINDS = Object.keys(RESOURCES) as readonly Kind[];

/** The SCCs that ship with the platform, with their grants. What is there already stays. */
export function assumeStandardSccs(store: WritableStore): readonly string[] {
  for (const { scc } of STANDARD_SCCS) putMissing(store, 'SecurityContextConstraints', scc);
  for (const role of STANDARD_CLUSTER_ROLES) putMissing(store, 'ClusterRole', role);
  for (const binding of STANDARD_CLUSTER_ROLE_BINDINGS) putMissing(store, 'ClusterRoleBinding', binding);
  return [
    `the ${STANDARD_SCCS.length} standard SecurityContextConstraints, with their ClusterRoles and ClusterRoleBindings`,
  ];
}

/** True if the store has any of the SCCs that ship with the platform. */
export function hasStandardSccs(store: WritableStore): boolean {
  return STANDARD_SCCS.some(({ scc }) => store.get('SecurityContextConstraints', nameOf(scc)) !== undefined);
}

const CLUSTER_ADMIN: ClusterRole = {
  apiVersion: 'rbac.authorization.k8s.io/v1',
  kind: 'ClusterRole',
  metadata: { name: 'cluster-admin' },
  rules: [
    { apiGroups: ['*'], resources: ['*'], verbs: ['*'] },
    { nonResourceURLs: ['*'], verbs: ['*'] },
  ],
};

/** The one role that every cluster has, and that grants the use of SCCs; where something is bound to it. */
export function assumeClusterAdmin(store: WritableStore): readonly string[] {
  const bindings = [...store.list('ClusterRoleBinding'), ...store.list('RoleBinding')];
  const isBound = bindings.some(
    ({ roleRef }) => roleRef?.kind === 'ClusterRole' && roleRef.name === nameOf(CLUSTER_ADMIN),
  );
  if (!isBound || store.get('ClusterRole', nameOf(CLUSTER_ADMIN))) return [];
  store.put('ClusterRole', CLUSTER_ADMIN);
  return ['ClusterRole cluster-admin'];
}

/** The namespaces in which there is something, and others. */
export function assumeNamespaces(store: WritableStore, others: readonly string[] = []): readonly string[] {
  const named = KINDS.flatMap((kind) => store.list(kind).map(({ metadata }) => metadata?.namespace ?? ''));
  const missing = sortedSet([...named, ...others]).filter((name) => name !== '' && !store.get('Namespace', name));
  for (const name of missing) {
    const metadata = { name, labels: { 'kubernetes.io/metadata.name': name } };
    store.put('Namespace', { apiVersion: 'v1', kind: 'Namespace', metadata });
  }
  return missing.length === 0 ? [] : [`namespaces: ${summarize(missing)}`];
}

/** The service accounts that pods and pod templates name, or have by default. */
export function assumeServiceAccounts(store: WritableStore): readonly string[] {
  const missing = new Map<string, { readonly name: string; readonly namespace: string }>();
  for (const kind of KINDS) {
    for (const object of store.list(kind)) {
      const spec = podSpecOf(kind, object);
      const namespace = object.metadata?.namespace;
      if (spec === undefined || namespace === undefined) continue;
      const name = accountOf(spec);
      if (!store.get('ServiceAccount', name, namespace)) missing.set(`${namespace}/${name}`, { name, namespace });
    }
  }
  for (const metadata of missing.values())
    store.put('ServiceAccount', { apiVersion: 'v1', kind: 'ServiceAccount', metadata });
  return missing.size === 0 ? [] : [`service accounts: ${summarize(sortedSet(missing.keys()))}`];
}

/** Ranges of ids for the namespaces that lack them: those that would be allotted. */
export function assumeRanges(store: WritableStore): readonly string[] {
  const assigned = assignRanges(store.list('Namespace'));
  for (const namespace of assigned) store.put('Namespace', namespace);
  return assigned.length === 0
    ? []
    : [`ranges of ids: for the namespaces ${summarize(sortedSet(assigned.map(nameOf)))}`];
}

function putMissing<K extends Kind>(store: WritableStore, kind: K, object: Parameters<typeof store.put<K>>[1]): void {
  if (!store.get(kind, nameOf(object))) store.put(kind, object);
}

/** The spec of a pod or a pod template; `undefined` if there is none that could run. */
function podSpecOf(kind: Kind, object: KubeObject): JsonObject | undefined {
  const path = kind === 'Pod' ? [] : podTemplatePath(RESOURCES[kind].group, kind);
  const spec: unknown = path && getPodTemplate(object, path)?.spec;
  return isObject(spec) ? spec : undefined;
}

function accountOf(spec: JsonObject): string {
  const name = spec['serviceAccountName'];
  return typeof name === 'string' && name !== '' ? name : 'default';
}

function nameOf({ metadata }: KubeObject): string {
  return metadata?.name ?? '';
}

const SHOWN = 5;

function summarize(names: readonly string[]): string {
  const shown = names.slice(0, SHOWN).join(', ');
  return names.length > SHOWN ? `${shown} and ${names.length - SHOWN} more` : shown;
}

/** For people, a line on what was assumed, below an empty one; nothing if nothing was. */
export function printAssumptions(assumptions: readonly string[]): string {
  return assumptionBlocks(assumptions)
    .map((block) => `\n${block}`)
    .join('');
}

/** The line alone, for output that is made of blocks; no block if nothing was assumed. */
export function assumptionBlocks(assumptions: readonly string[]): readonly string[] {
  return assumptions.length === 0 ? [] : [`Assumed: ${printable(assumptions.join('; '))}.\n`];
}

type FindAccount = (name: string) => ServiceAccount | undefined;

/**
 * Why the API server refuses to create the pod, if its service account is not there.
 * @see https://github.com/kubernetes/kubernetes/blob/v1.36.0/plugin/pkg/admission/serviceaccount/admission.go
 */
export function missingAccount(pod: Pod, namespace: string, findAccount: FindAccount): string | undefined {
  const name: unknown = pod.spec?.serviceAccountName;
  if (isMirrorPod(pod) || typeof name !== 'string' || findAccount(name) !== undefined) return undefined;
  return `error looking up service account ${namespace}/${name}: serviceaccount ${quote(name)} not found`;
}
