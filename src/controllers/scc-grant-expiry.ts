/** Deletes bindings that `scc grant --for` created once they expire, and announces this with events. */
import { ignoreNotFound } from '../cluster/client.ts';
import { grantEnd } from '../cluster/scc-grants.ts';
import type { Kind } from '../kube/kinds.ts';
import { objectKey } from '../kube/resources.ts';
import type { ClusterRoleBinding, RoleBinding } from '../kube/types.ts';
import { EXPIRY_NOTICE_MS } from '../kube/well-known.ts';
import {
  type ControllerContext,
  type ControllerDefinition,
  type ReconcileContext,
  type Reconciler,
  watch,
} from './controller.ts';
import { createEventFilter } from './events.ts';
import { rule } from './permissions.ts';

const KINDS = ['RoleBinding', 'ClusterRoleBinding'] as const satisfies readonly Kind[];
type BindingKind = (typeof KINDS)[number];

export const sccGrantExpiry: ControllerDefinition = {
  name: 'scc-grant-expiry',
  description: 'deletes the bindings of "scc grant --for" when they expire, and records events before and after',
  runsOn: 'leader',
  // RBAC cannot restrict deletion to these bindings. The policy for the service account does.
  permissions: [{ role: 'scc-grant-expiry', clusterRules: [rule(['get', 'delete'], KINDS)] }],
  isEnabled: ({ scc }) => scc,
  create: createReconciler,
};

const RESYNC_MS = 60 * 60_000;

function createReconciler({ date }: Pick<ControllerContext, 'date'>): Reconciler {
  const events = createEventFilter();
  return {
    resyncMs: RESYNC_MS,
    sources: KINDS.map((kind) =>
      watch(kind, (binding) => (grantEnd(binding) === undefined ? [] : [`${kind} ${objectKey(binding)}`])),
    ),
    async reconcile(key, context) {
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
    },
  };
}

const EVENT = { type: 'Warning', action: 'Expire' } as const;

/** Parses `<kind> <namespace>/<name>`. Names of bindings may contain spaces, but no slashes. */
function parseKey(key: string): readonly [kind: BindingKind, name: string, namespace: string | undefined] {
  const [, kind = '', namespace, name = ''] = /^(\S+) (?:([^/]*)\/)?(.*)$/s.exec(key) ?? [];
  return [kind as BindingKind, name, namespace];
}

/** Deletes the binding unless its expiry time has changed. */
async function remove(key: string, end: string, { cluster, logger, recordEvent }: ReconcileContext): Promise<void> {
  const [kind, name, namespace] = parseKey(key);
  const current = await ignoreNotFound(cluster.get(kind, name, namespace));
  if (!current || grantEnd(current) !== end) return;
  await cluster.remove(kind, name, namespace);
  logger.info({ kind, name, namespace, role: current.roleRef.name }, 'temporary grant deleted');
  const message = `the binding was deleted because the grant expired at ${end}`;
  recordEvent(kind, current, { ...EVENT, reason: 'GrantExpired', message });
}
