/**
 * Deletes the bindings that `scc grant --for` created when they expire, and records events before and after. Also
 * records the periods of the grants in annotations on namespaces, because a subject may have passed on its permission.
 */
import { TEMPORARY_GRANTS_ANNOTATION, EXPIRY_NOTICE_MS } from '../api/names.ts';
import { deepEqual } from '../kube/equality.ts';
import type { Kind } from '../kube/kinds.ts';
import { objectKey } from '../kube/resources.ts';
import type { ClusterRoleBinding, RoleBinding } from '../kube/types.ts';
import { formatTimestamp } from '../kube/units.ts';
import { KUBE_SYSTEM } from '../kube/well-known.ts';
import { parseTemporaryGrants, recordTemporaryGrants } from '../policy/scc/index.ts';
import { currentTemporaryGrants, grantEnd } from '../views/scc-grants.ts';
import {
  type ControllerContext,
  type ControllerDefinition,
  type ReconcileContext,
  type Reconciler,
  type ReconcileResult,
  watch,
} from './controller.ts';
import { createEventFilter } from './events.ts';
import { rbacRule } from './permissions.ts';

const KINDS = ['RoleBinding', 'ClusterRoleBinding'] as const satisfies readonly Kind[];
type BindingKind = (typeof KINDS)[number];

const NAME = 'scc-grant-expiry';

export const sccGrantExpiry: ControllerDefinition = {
  name: NAME,
  description:
    'deletes bindings created by "scc grant --for" when they expire, and records events before and after they expire',
  runsOn: 'leader',
  // RBAC cannot restrict deletion to these bindings, but the policy for the service account does.
  permissions: [
    {
      role: 'scc-grant-expiry',
      clusterRules: [rbacRule(['get', 'delete'], KINDS), rbacRule(['patch'], ['Namespace'])],
      namespaceKeys: [TEMPORARY_GRANTS_ANNOTATION],
    },
  ],
  isEnabled: ({ scc }) => scc,
  create: createReconciler,
};

const RESYNC_MS = 60 * 60_000;

function createReconciler({ date }: Pick<ControllerContext, 'date'>): Reconciler {
  const events = createEventFilter();
  const expire = async (key: string, context: ReconcileContext): Promise<ReconcileResult> => {
    const [kind, name, namespace] = parseKey(key);
    const binding: RoleBinding | ClusterRoleBinding | undefined = context.cluster.store.get(kind, name, namespace);
    const end = binding && grantEnd(binding);
    if (binding === undefined || end === undefined) {
      events.takeNew(key, []);
      return undefined;
    }
    const leftMs = Date.parse(end) - date().getTime();
    if (leftMs <= 0) {
      await remove(key, end, context);
      return undefined;
    }
    if (leftMs > EXPIRY_NOTICE_MS) return { requeueAfterMs: Math.min(leftMs - EXPIRY_NOTICE_MS, RESYNC_MS) };
    const message = `the binding will be deleted at ${end}. Running pods continue, but new pods can no longer use the SCC`;
    for (const event of events.takeNew(key, [{ ...EVENT, reason: 'GrantExpires', message }])) {
      context.recordEvent(kind, binding, event);
    }
    return { requeueAfterMs: Math.min(leftMs, RESYNC_MS) };
  };
  return {
    resyncMs: RESYNC_MS,
    sources: KINDS.map((kind) =>
      watch(kind, (binding) => (grantEnd(binding) === undefined ? [] : [`${kind} ${objectKey(binding)}`])),
    ),
    async reconcile(key, context) {
      const [, , namespace = KUBE_SYSTEM] = parseKey(key);
      // Records the grants before and after the deletion, so even grants that expire immediately are recorded.
      await record(namespace, formatTimestamp(date().getTime()), context);
      const result = await expire(key, context);
      await record(namespace, formatTimestamp(date().getTime()), context);
      return result;
    },
  };
}

/** Records the temporary grants in a namespace. */
async function record(name: string, now: string, { cluster }: ReconcileContext): Promise<void> {
  const { store } = cluster;
  const namespace = store.get('Namespace', name);
  if (namespace === undefined) return;
  const before = parseTemporaryGrants(namespace.metadata?.annotations?.[TEMPORARY_GRANTS_ANNOTATION]);
  const after = recordTemporaryGrants(before, currentTemporaryGrants(store, name), now);
  if (deepEqual(before, after)) return;
  const annotations = { [TEMPORARY_GRANTS_ANNOTATION]: JSON.stringify(after) };
  await cluster.patch('Namespace', { name }, { metadata: { annotations } }, { fieldManager: NAME });
}

const EVENT = { type: 'Warning', action: 'Expire' } as const;

/** Parses `<kind> <namespace>/<name>`. Names of bindings may contain spaces, but no slashes. */
function parseKey(key: string): readonly [kind: BindingKind, name: string, namespace: string | undefined] {
  const [, kind = '', namespace, name = ''] = /^(\S+) (?:([^/]*)\/)?(.*)$/s.exec(key) ?? [];
  return [kind as BindingKind, name, namespace];
}

/**
 * Deletes the binding unless its expiry time has changed. Rejects if the binding does not exist, because only the store
 * shows whether it was deleted.
 */
async function remove(key: string, end: string, { cluster, logger, recordEvent }: ReconcileContext): Promise<void> {
  const [kind, name, namespace] = parseKey(key);
  const current = await cluster.get(kind, name, namespace);
  if (grantEnd(current) !== end) return;
  await cluster.remove(kind, name, namespace);
  logger.info({ kind, name, namespace, role: current.roleRef.name }, 'temporary grant deleted');
  const message = `the binding was deleted because the grant expired at ${end}`;
  recordEvent(kind, current, { ...EVENT, reason: 'GrantExpired', message });
}
