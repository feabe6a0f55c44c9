import type { WriteOptions } from '../cluster/cluster.ts';
import { getApiVersion } from '../kube/resources.ts';
import type { Kind, Kinds } from '../kube/types.ts';
import {
  planClusterRole,
  planClusterRoleBinding,
  planStandardScc,
  type Write,
  STANDARD_CLUSTER_ROLE_BINDINGS,
  STANDARD_CLUSTER_ROLES,
  STANDARD_SCCS,
} from '../policy/scc/standard.ts';
import { on, type Controller, type ReconcileContext, createObject } from './controller.ts';

export const STANDARD_SCC_CONTROLLER = 'standard-scc-controller';

const OPTIONS: WriteOptions = { fieldManager: STANDARD_SCC_CONTROLLER };
const MAX_RETRY_MS = 60_000;

/** Sets right one object. */
type Upkeep = (context: ReconcileContext) => Promise<void>;

/** By key: roles and SCCs first, since bindings refer to roles. */
const UPKEEP: ReadonlyMap<string, Upkeep> = new Map([
  ...STANDARD_CLUSTER_ROLES.map((role) => upkeep('ClusterRole', role, (existing) => planClusterRole(role, existing))),
  ...STANDARD_SCCS.map((standard) =>
    upkeep('SecurityContextConstraints', standard.scc, (existing) => planStandardScc(standard, existing)),
  ),
  ...STANDARD_CLUSTER_ROLE_BINDINGS.map((binding) =>
    upkeep('ClusterRoleBinding', binding, (existing) => planClusterRoleBinding(binding, existing)),
  ),
]);

/**
 * Installs the SCCs that ship with the platform, and the roles and bindings for their use, and keeps them: those of the
 * first generation only exist, the others are set right whenever they differ.
 */
export const standardSccs: Controller = {
  name: STANDARD_SCC_CONTROLLER,
  runs: 'leader',
  keys: [...UPKEEP.keys()],
  sources: [
    on('SecurityContextConstraints', (scc) => keysOf('SecurityContextConstraints', scc.metadata?.name)),
    on('ClusterRole', (role) => keysOf('ClusterRole', role.metadata?.name)),
    on('ClusterRoleBinding', (binding) => keysOf('ClusterRoleBinding', binding.metadata?.name)),
  ],
  maxRetryMs: MAX_RETRY_MS,
  async reconcile(key, context) {
    await UPKEEP.get(key)?.(context);
    return undefined;
  },
};

function keyOf(kind: Kind, name: string): string {
  return `${kind}/${name}`;
}

function keysOf(kind: Kind, name = ''): readonly string[] {
  const key = keyOf(kind, name);
  return UPKEEP.has(key) ? [key] : [];
}

function upkeep<K extends Kind>(
  kind: K,
  { metadata: { name = '' } = {} }: Kinds[K],
  plan: (existing: Kinds[K] | undefined) => Write<Kinds[K]> | undefined,
): readonly [key: string, Upkeep] {
  return [
    keyOf(kind, name),
    async (context) => {
      const planned = plan(context.cluster.store.get(kind, name));
      if (planned) await write(kind, name, planned, context);
    },
  ];
}

async function write<K extends Kind>(
  kind: K,
  name: string,
  { verb, object, fields }: Write<Kinds[K]>,
  { cluster, logger, tell }: ReconcileContext,
): Promise<void> {
  if (verb === 'replace') await cluster.remove(kind, name);
  const written = await (verb === 'update'
    ? cluster.update(kind, object, OPTIONS)
    : createObject(cluster, kind, object, OPTIONS));
  if (verb === 'create') {
    logger.info({ kind, name }, 'object created');
    return;
  }
  logger.info({ kind, name, fields }, 'object set right');
  const uid = written.metadata?.uid;
  tell({
    regarding: { apiVersion: getApiVersion(kind), kind, metadata: { name, ...(uid === undefined ? {} : { uid }) } },
    type: 'Warning',
    reason: 'SetRight',
    action: 'Reconcile',
    note: `set right what differed from what ships with the platform: ${fields.join(', ')}; to have it otherwise, make one of another name`,
  });
}
