/** Deletes the bindings of `scc grant --for` at their end, and announces it. */
import { bindingEndMs } from '../cluster/scc-grants.ts';
import type { Kind } from '../kube/kinds.ts';
import { objectKey } from '../kube/resources.ts';
import { GRANT_EXPIRY_ANNOTATION } from '../kube/scc.ts';
import type { ClusterRoleBinding, RoleBinding } from '../kube/types.ts';
import {
  type ControllerContext,
  type ControllerDefinition,
  orUndefined,
  type ReconcileContext,
  type Reconciler,
  watch,
} from './controller.ts';
import { rule } from './permissions.ts';

const KINDS = ['RoleBinding', 'ClusterRoleBinding'] as const satisfies readonly Kind[];
type BindingKind = (typeof KINDS)[number];

export const sccGrantExpiry: ControllerDefinition = {
  name: 'scc-grant-expiry',
  description: 'deletes the bindings of "scc grant --for" at their end, and announces it with events',
  runsOn: 'leader',
  // RBAC cannot limit the deletion to these bindings. The policy for the service account limits it.
  permissions: [{ role: 'scc-grant-expiry', clusterRules: [rule(['get', 'delete'], KINDS)] }],
  isEnabled: ({ scc }) => scc,
  create: createReconciler,
};

/** Time before the end at which an event announces it. */
const ANNOUNCED_MS = 7 * 24 * 3_600_000;
const RESYNC_MS = 60 * 60_000;

function createReconciler({ date }: Pick<ControllerContext, 'date'>): Reconciler {
  /** The announced end of each binding. */
  const announced = new Map<string, number>();
  return {
    resyncMs: RESYNC_MS,
    sources: KINDS.map((kind) =>
      watch(kind, (binding) => (bindingEndMs(binding) === undefined ? [] : [`${kind} ${objectKey(binding)}`])),
    ),
    async reconcile(key, context) {
      const [kind, name, namespace] = parseKey(key);
      const binding: RoleBinding | ClusterRoleBinding | undefined = context.cluster.store.get(kind, name, namespace);
      const endMs = binding && bindingEndMs(binding);
      if (endMs === undefined) {
        announced.delete(key);
        return undefined;
      }
      const leftMs = endMs - date().getTime();
      if (leftMs <= 0) {
        await remove(key, endMs, context);
        return undefined;
      }
      if (leftMs <= ANNOUNCED_MS && announced.get(key) !== endMs) {
        announced.set(key, endMs);
        const message = `the grant ends at ${binding?.metadata?.annotations?.[GRANT_EXPIRY_ANNOTATION]}: the binding is then deleted, running pods continue, and new pods no longer use the SCC`;
        context.recordEvent(kind, binding ?? {}, { ...EVENT, reason: 'GrantExpires', message });
      }
      return { requeueAfterMs: Math.min(leftMs, leftMs > ANNOUNCED_MS ? leftMs - ANNOUNCED_MS : leftMs, RESYNC_MS) };
    },
    onStop() {
      announced.clear();
      return Promise.resolve();
    },
  };
}

const EVENT = { type: 'Warning', action: 'Expire' } as const;

function parseKey(key: string): readonly [kind: BindingKind, name: string, namespace: string | undefined] {
  const [kind = '', path = ''] = key.split(' ', 2);
  const [namespace, name] = path.includes('/') ? path.split('/', 2) : [undefined, path];
  return [kind as BindingKind, name ?? '', namespace];
}

/** Deletes the current binding, unless its end has changed. */
async function remove(key: string, endMs: number, { cluster, logger, recordEvent }: ReconcileContext): Promise<void> {
  const [kind, name, namespace] = parseKey(key);
  const current = await orUndefined(cluster.get(kind, name, namespace));
  if (!current || bindingEndMs(current) !== endMs) return;
  await cluster.remove(kind, name, namespace);
  logger.info({ kind, name, namespace, role: current.roleRef.name }, 'temporary grant deleted');
  const message = `the grant ended at ${current.metadata?.annotations?.[GRANT_EXPIRY_ANNOTATION]}: the binding is deleted`;
  recordEvent(kind, current, { ...EVENT, reason: 'GrantExpired', message });
}
