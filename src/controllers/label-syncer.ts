import { POD_SECURITY_CONFIG_MAP, RELAXED_LABEL } from '../api/names.ts';
import { httpStatusCode } from '../cluster/connection.ts';
import type { Store } from '../cluster/store.ts';
import { selectObservable } from '../config/settings.ts';
import type { Namespace } from '../kube/types.ts';
import { LABEL_SYNC_MANAGER, POD_SECURITY_LABELS, SUFFICIENT_LEVEL_ANNOTATION } from '../kube/well-known.ts';
import { type Level, LEVELS } from '../policy/pss/index.ts';
import { type AffectingKind, type LabelSyncPlan, managementSettings, releaseLabels } from '../policy/rollout/index.ts';
import { lacksStandardSccs } from '../views/access.ts';
import { createLabelPlanner, getRolloutView } from '../views/rollout.ts';
import { isBreakGlassOn, watchBreakGlass } from './break-glass.ts';
import {
  type ControllerContext,
  type ControllerDefinition,
  getAffectedNamespaces,
  type ReconcileContext,
  type Reconciler,
  runYielding,
  type Source,
  watch,
  watchValue,
} from './controller.ts';
import { createEventFilter } from './events.ts';
import { rbacRule } from './permissions.ts';
import { restoresStandardSccs } from './standard-sccs.ts';

/** @see https://github.com/openshift/cluster-policy-controller/tree/master/pkg/psalabelsyncer */
export const labelSyncer: ControllerDefinition = {
  name: LABEL_SYNC_MANAGER,
  description: "sets the Pod Security labels of namespaces to the level that their service accounts' SCCs require",
  runsOn: 'leader',
  permissions: [
    {
      role: 'label-syncer',
      clusterRules: [rbacRule(['patch'], ['Namespace'])],
      // Only break-glass writes the last label. It may run with the permissions of a replica.
      namespaceKeys: [...Object.values(POD_SECURITY_LABELS), SUFFICIENT_LEVEL_ANNOTATION, RELAXED_LABEL],
      isNeeded: ({ rollout }) => rollout,
    },
  ],
  // The controller is enabled even if there is no rollout, because it removes the labels of the previous rollout.
  isEnabled: ({ scc }) => scc,
  create: createReconciler,
};

/** Key for all namespaces. Other keys are namespace names. */
const ALL = '*';
/** Resync interval, which is the same as in OpenShift's controller. */
const RESYNC_MS = 600_000;
/** Interval for checking whether the standard SCCs exist. */
const CHECK_SCCS_MS = 1_000;

/** Dependencies and state of a running label syncer. */
interface Syncer extends Pick<ControllerContext, 'settings' | 'service' | 'version'> {
  readonly metrics: ControllerContext['metrics']['rollout']['syncer'];
  readonly events: ReturnType<typeof createEventFilter>;
}

function createReconciler({ settings, service, version, metrics }: ControllerContext): Reconciler {
  const syncer: Syncer = { settings, service, version, metrics: metrics.rollout.syncer, events: createEventFilter() };
  return {
    initialKeys: [ALL],
    concurrency: 4,
    resyncMs: RESYNC_MS,
    sources: [
      ...(['rollout', 'scc'] as const).map((name) =>
        watchValue(
          selectObservable(settings, (value) => value[name]),
          () => [ALL],
        ),
      ),
      watch('Namespace', ({ metadata }) => [metadata?.name ?? '']),
      watch('ServiceAccount', ({ metadata }) => [metadata?.namespace ?? '']),
      ...(['SecurityContextConstraints', 'Role', 'RoleBinding', 'ClusterRole', 'ClusterRoleBinding'] as const).map(
        watchAffected,
      ),
      watch('ConfigMap', ({ metadata }) => (metadata?.name === POD_SECURITY_CONFIG_MAP ? [ALL] : [])),
      ...watchBreakGlass([ALL]),
    ],
    async reconcile(key, context) {
      const { store } = context.cluster;
      if (isBreakGlassOn(store)) return undefined;
      // Waits for the grants of the standard SCCs, because the levels would be too strict without them.
      if (restoresStandardSccs(settings.value) && lacksStandardSccs(store)) {
        context.enqueue(ALL, CHECK_SCCS_MS);
        return undefined;
      }
      try {
        await (key === ALL ? syncAll(syncer, context) : sync(syncer, key, context));
      } catch (error) {
        if (key !== ALL)
          (httpStatusCode(error) === 409 ? syncer.metrics.conflicts : syncer.metrics.errors).cell({}).count++;
        throw error;
      }
      return undefined;
    },
    onStop() {
      const { namespaces, unlabeledManaged } = syncer.metrics;
      for (const gauge of [namespaces, unlabeledManaged]) gauge.reset();
      return Promise.resolve();
    },
  };
}

type Planner = (namespace: Namespace) => Generator<undefined, LabelSyncPlan>;

/** Returns a function that plans the labels of a namespace based on the current cluster state. Yields often. */
function createPlanner({ settings, service, version }: Syncer, store: Store): Planner {
  const { rollout, scc } = settings.value;
  const { syncer: mode } = getRolloutView({ store, namespace: service.namespace, version }, rollout);
  if (rollout.phase === 'Disabled') {
    // Waits for the lower default level. If there has never been a rollout, the labels belong to OpenShift's controller,
    // whose field manager has the same name.
    const release = (namespace: Namespace) => (mode === 'Advise' ? releaseLabels(namespace) : undefined);
    // oxlint-disable-next-line require-yield
    return function* plan(namespace) {
      return { isManaged: false, apply: release(namespace), events: [] };
    };
  }
  return createLabelPlanner(store, { mode, settings: managementSettings(scc) });
}

/**
 * Plans the labels of all namespaces, and enqueues each namespace that needs a write or an event. A change
 * during the loop enqueues `ALL`.
 */
async function syncAll(syncer: Syncer, context: ReconcileContext): Promise<void> {
  const { metrics, events } = syncer;
  const { store } = context.cluster;
  const counts = new Map<Level, number>(LEVELS.map((level) => [level, 0]));
  let unlabeled = 0;
  const plan = createPlanner(syncer, store);
  const planAll = function* (): Generator<undefined, void> {
    for (const namespace of store.list('Namespace')) {
      const { name = '', labels } = namespace.metadata ?? {};
      const planned = yield* plan(namespace);
      yield;
      if (planned.apply || planned.patch || events.hasNew(name, planned.events)) context.enqueue(name);
      if (!planned.isManaged) continue;
      if (planned.neededLevel) counts.set(planned.neededLevel.level, (counts.get(planned.neededLevel.level) ?? 0) + 1);
      if (labels?.[POD_SECURITY_LABELS.enforce] === undefined) unlabeled++;
    }
  };
  await runYielding(planAll(), context);
  for (const [level, count] of counts) metrics.namespaces.set({ level }, count);
  metrics.unlabeledManaged.set(unlabeled);
}

async function sync(syncer: Syncer, name: string, context: ReconcileContext): Promise<void> {
  const { cluster, logger, recordEvent } = context;
  const namespace = cluster.store.get('Namespace', name);
  if (!namespace) {
    syncer.events.takeNew(name, []);
    return;
  }
  const planned = await runYielding(createPlanner(syncer, cluster.store)(namespace), context);
  if (planned.apply) {
    await cluster.apply('Namespace', planned.apply, { fieldManager: LABEL_SYNC_MANAGER, force: true });
    logger.info(
      { name, labels: planned.apply.metadata?.labels ?? {}, level: planned.neededLevel?.level },
      'labels applied',
    );
  } else if (planned.patch) {
    await cluster.patch('Namespace', { name }, planned.patch, { fieldManager: LABEL_SYNC_MANAGER });
  }
  for (const event of syncer.events.takeNew(name, planned.events)) {
    recordEvent('Namespace', namespace, { ...event, action: 'SyncLabels' });
  }
}

/** Enqueues the namespaces whose level may depend on an object. */
function watchAffected(kind: AffectingKind): Source {
  return watch(kind, (object, store, event) => {
    // On a resync, all namespaces are enqueued once instead of once per kind.
    if (event.type === 'sync') return kind === 'SecurityContextConstraints' ? [ALL] : [];
    const affected = getAffectedNamespaces(kind, object, store, event);
    return affected === 'all' ? [ALL] : [...affected];
  });
}
