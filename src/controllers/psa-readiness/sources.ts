import { POD_SOURCES } from '../../cluster/workloads.ts';
import { deepEqual } from '../../kube/equal.ts';
import type { Kind, KubeObject } from '../../kube/types.ts';
import { reachOf, type Reach, type SyncChange } from '../../policy/rollout/label-sync.ts';
import { onNews, type Happened, type Source } from '../controller.ts';
import type { Store } from '../../cluster/store.ts';

/** Kinds on which it hangs how pods are admitted, and to what level a namespace would be held. */
const SURROUNDINGS = [
  'Namespace',
  'ServiceAccount',
  'SecurityContextConstraints',
  'Role',
  'RoleBinding',
  'ClusterRole',
  'ClusterRoleBinding',
] as const;

/** The sources of what is evaluated: `keysOf` gives the keys for namespaces, after `forget` was told of them. */
export function evaluationSources(
  keysOf: (reach: Reach) => readonly string[],
  forget: (reach: Reach) => void,
): readonly Source[] {
  return [
    ...POD_SOURCES.map((kind) => onNews(kind, ({ metadata }) => [metadata?.namespace ?? ''])),
    ...SURROUNDINGS.map((kind) =>
      onNews(kind, (object, store, happened) => {
        const reach = reachFrom(kind, object, store, happened);
        forget(reach);
        return keysOf(reach);
      }),
    ),
  ];
}

function reachFrom(
  kind: (typeof SURROUNDINGS)[number],
  object: KubeObject,
  store: Store,
  { type, before }: Happened<Kind>,
): Reach {
  // The order in which SCCs are tried counts as well.
  if (kind === 'SecurityContextConstraints')
    return isSameScc(object, type === 'put' ? before : undefined) ? NOWHERE : 'all';
  const change: SyncChange = type === 'remove' ? { kind, before: object } : { kind, before, after: object };
  return reachOf(change, {
    sccNames: store.list('SecurityContextConstraints').flatMap(({ metadata }) => metadata?.name ?? []),
    findRole: (namespace, name) =>
      namespace === '' ? store.get('ClusterRole', name) : store.get('Role', name, namespace),
  });
}

const NOWHERE: Reach = new Set();

function isSameScc(after: KubeObject, before: KubeObject | undefined): boolean {
  return before !== undefined && deepEqual({ ...after, metadata: {} }, { ...before, metadata: {} });
}
