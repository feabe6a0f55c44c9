import { selectObservable, type Settings } from '../config/settings.ts';
import type { Kind, Kinds } from '../kube/kinds.ts';
import {
  type Compatibility,
  type PlannedWrite,
  planRbacObject,
  planStandardScc,
  STANDARD_CLUSTER_ROLE_BINDINGS,
  STANDARD_CLUSTER_ROLES,
  STANDARD_SCCS,
} from '../policy/scc/index.ts';
import { type ControllerDefinition, createObject, type ReconcileContext, watch, watchValue } from './controller.ts';
import { rbacRule } from './permissions.ts';

const NAME = 'standard-scc-controller';
const OPTIONS = { fieldManager: NAME };
const MAX_RETRY_MS = 60_000;

type Reconcile = (context: ReconcileContext, compatibility: Compatibility) => Promise<void>;

/** Functions that reconcile the objects, by key. Roles and SCCs come first, because bindings refer to roles. */
const OBJECTS: ReadonlyMap<string, Reconcile> = new Map([
  ...STANDARD_CLUSTER_ROLES.map((role) => entry('ClusterRole', role, (existing) => planRbacObject(role, existing))),
  ...STANDARD_SCCS.map((standard) =>
    entry('SecurityContextConstraints', standard.scc, (existing, compatibility) =>
      planStandardScc(standard, existing, compatibility),
    ),
  ),
  ...STANDARD_CLUSTER_ROLE_BINDINGS.map((binding) =>
    entry('ClusterRoleBinding', binding, (existing) => planRbacObject(binding, existing)),
  ),
]);

/**
 * Creates missing objects, and corrects objects that differ. In first-generation SCCs, corrects only the users that
 * depend on the compatibility mode.
 */
export const standardSccs: ControllerDefinition = {
  name: NAME,
  description: 'installs and manages the standard SCCs, and the roles and bindings that grant their use',
  runsOn: 'leader',
  permissions: [
    {
      role: 'standard-sccs',
      clusterRules: [
        // RBAC cannot restrict a POST by name, but the policy for the service account restricts names and content.
        rbacRule(['create'], ['SecurityContextConstraints']),
        rbacRule(['update'], ['SecurityContextConstraints'], names(STANDARD_SCCS.map(({ scc }) => scc))),
        rbacRule(
          ['use'],
          ['SecurityContextConstraints'],
          STANDARD_CLUSTER_ROLES.flatMap(
            ({ rules }) => rules?.flatMap(({ resourceNames }) => resourceNames ?? []) ?? [],
          ),
        ),
        rbacRule(['create'], ['ClusterRole', 'ClusterRoleBinding']),
        rbacRule(['update'], ['ClusterRole'], names(STANDARD_CLUSTER_ROLES)),
        rbacRule(['update', 'delete'], ['ClusterRoleBinding'], names(STANDARD_CLUSTER_ROLE_BINDINGS)),
      ],
    },
  ],
  isEnabled: ({ scc }) => scc,
  create: ({ settings }) => ({
    initialKeys: [...OBJECTS.keys()],
    sources: [
      ...(['SecurityContextConstraints', 'ClusterRole', 'ClusterRoleBinding'] as const).map((kind) =>
        watch(kind, ({ metadata }) => {
          const key = objectKey(kind, metadata?.name);
          return OBJECTS.has(key) ? [key] : [];
        }),
      ),
      watchValue(
        selectObservable(settings, ({ scc }) => scc.compatibility),
        () => [...OBJECTS.keys()],
      ),
    ],
    maxRetryMs: MAX_RETRY_MS,
    async reconcile(key, context) {
      await OBJECTS.get(key)?.(context, settings.value.scc.compatibility);
      return undefined;
    },
  }),
};

/** Returns true if this controller creates missing standard SCCs and the bindings that grant them. */
export function restoresStandardSccs({ scc, disabledControllers }: Settings): boolean {
  return scc.mode !== 'off' && !disabledControllers.includes(NAME);
}

function names(objects: readonly Kinds[Kind][]): readonly string[] {
  return objects.map(({ metadata }) => metadata?.name ?? '');
}

function objectKey(kind: Kind, name = ''): string {
  return `${kind}/${name}`;
}

function entry<K extends Kind>(
  kind: K,
  { metadata: { name = '' } = {} }: Kinds[K],
  plan: (existing: Kinds[K] | undefined, compatibility: Compatibility) => PlannedWrite<Kinds[K]> | undefined,
): readonly [key: string, Reconcile] {
  return [
    objectKey(kind, name),
    async (context, compatibility) => {
      const planned = plan(context.cluster.store.get(kind, name), compatibility);
      if (planned) await write(kind, name, planned, context);
    },
  ];
}

async function write<K extends Kind>(
  kind: K,
  name: string,
  { verb, object, fields }: PlannedWrite<Kinds[K]>,
  { cluster, logger, recordEvent }: ReconcileContext,
): Promise<void> {
  if (verb === 'replace') await cluster.remove(kind, name);
  const written = await (verb === 'update'
    ? cluster.update(kind, object, OPTIONS)
    : createObject(cluster, kind, object, OPTIONS));
  if (verb === 'create') {
    logger.info({ kind, name }, 'object created');
    return;
  }
  logger.info({ kind, name, fields }, 'object corrected');
  recordEvent(kind, written, {
    type: 'Warning',
    reason: 'Corrected',
    action: 'Reconcile',
    message: `restored the standard values of ${fields.join(', ')}; to use other values, create a copy under another name`,
  });
}
