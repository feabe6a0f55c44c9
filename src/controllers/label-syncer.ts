import type { ClusterEvent } from '../cluster/cluster.ts';
import { getApiVersion } from '../kube/resources.ts';
import type { Kind, KubeObject, Kinds, Namespace } from '../kube/types.ts';
import { createCurrentSccLevels, rolloutOf } from '../cluster/rollout.ts';
import { canUseScc } from '../cluster/access.ts';
import type { Store } from '../cluster/store.ts';
import { LABEL_SYNC_MANAGER, POD_SECURITY_CONFIG_MAP, POD_SECURITY_LABELS } from '../kube/well-known.ts';
import { ApiError } from '../kube/status.ts';
import { planLabels, reachOf, type LabelSyncPlan, type ManagementSettings } from '../policy/rollout/label-sync.ts';
import type { RolloutSettings } from '../policy/rollout/settings.ts';
import { LEVELS, type Level } from '../policy/pss/policy.ts';
import type { RolloutMetrics } from '../telemetry/rollout.ts';
import {
  on,
  type Controller,
  type ReconcileContext,
  type ReconcileResult,
  type Source,
  inTurns,
} from './controller.ts';

/** Something to tell about an object for as long as it holds. */
interface Remark {
  readonly type: 'Normal' | 'Warning';
  readonly reason: string;
  readonly message: string;
}

/** Remembers what has been told, so that each remark is told once for as long as it holds. */
interface Remarks {
  /** True if anything among them has yet to be told. */
  areNew(name: string, remarks: readonly Remark[]): boolean;
  /** Those that have yet to be told, as notes about the object; from now on these and no others hold. */
  take(
    name: string,
    object: KubeObject,
    remarks: readonly Remark[],
  ): readonly Omit<ClusterEvent, 'reportingController'>[];
}

/** Makes a memory for objects of a kind. */
function createRemarks(kind: Kind, action: string): Remarks {
  const told = new Map<string, ReadonlySet<string>>();
  const isNew = (name: string, { message }: Remark): boolean => told.get(name)?.has(message) !== true;
  return {
    areNew: (name, remarks) => remarks.some((remark) => isNew(name, remark)),
    take(name, object, remarks) {
      const fresh = remarks.filter((remark) => isNew(name, remark));
      if (remarks.length === 0) told.delete(name);
      else told.set(name, new Set(remarks.map(({ message }) => message)));
      const regarding = { apiVersion: getApiVersion(kind), kind, ...object };
      return fresh.map(({ type, reason, message }) => ({ regarding, type, reason, action, note: message }));
    },
  };
}

interface LabelSyncerOptions {
  /** Of the installation. */
  readonly namespace: string;
  /** Ours. */
  readonly version: string;
  settings(): RolloutSettings;
  readonly management: ManagementSettings;
  readonly metrics: RolloutMetrics['syncer'];
}

/** Keys beside the names of namespaces: all of them, and the settings. */
const ALL = '*';
const SETTINGS = '*settings';
/** As often as everything is looked at again, as the original does. */
const RESYNC_MS = 600_000;
/** The configuration file is followed; nobody tells when it changes. */
const LOOK_AGAIN_MS = 5_000;

/**
 * Makes the controller that keeps the Pod Security labels of managed namespaces at what the SCCs of their service accounts
 * ask for. A change that concerns one namespace has it looked at, one that may concern all has them planned in one go, and
 * those written where something differs.
 * @see https://github.com/openshift/cluster-policy-controller/tree/master/pkg/psalabelsyncer
 */
export function createPsaLabelSyncer(options: LabelSyncerOptions): Controller {
  const { management, metrics } = options;
  const remarks = createRemarks('Namespace', 'SyncLabels');
  const levels = createCurrentSccLevels();
  /** Makes the function that plans namespaces by what the cluster is now. */
  const createPlan = (store: Store, settings: RolloutSettings): ((namespace: Namespace) => LabelSyncPlan) => {
    const now = {
      sccLevels: levels(store),
      canUse: canUseScc(store),
      mode: rolloutOf({ store, namespace: options.namespace, version: options.version }, settings).syncer,
      settings: management,
    };
    return (namespace) => {
      const serviceAccounts = namesOf(store.list('ServiceAccount', namespace.metadata?.name ?? ''));
      return planLabels({ ...now, namespace, serviceAccounts });
    };
  };
  let known: RolloutSettings | undefined;

  /** Plans all namespaces, and has those looked at for which there is something to do. */
  const planAll = async (settings: RolloutSettings, context: ReconcileContext): Promise<void> => {
    const { cluster, enqueue } = context;
    const { store } = cluster;
    const counts = new Map<Level, number>(LEVELS.map((level) => [level, 0]));
    let unlabelled = 0;
    // What changes meanwhile has all of them planned again.
    const plan = createPlan(store, settings);
    await inTurns(
      store.list('Namespace'),
      (namespace) => {
        const { name = '' } = namespace.metadata ?? {};
        const found = plan(namespace);
        if (found.apply || found.patch || remarks.areNew(name, found.remarks)) enqueue(name);
        if (!found.isManaged) return;
        if (found.need) counts.set(found.need.level, (counts.get(found.need.level) ?? 0) + 1);
        if (namespace.metadata?.labels?.[POD_SECURITY_LABELS.enforce] === undefined) unlabelled++;
      },
      context,
    );
    for (const [level, count] of counts) metrics.namespaces.set({ level }, count);
    metrics.unlabeledManaged.set(unlabelled);
  };

  const sync = async (name: string, settings: RolloutSettings, context: ReconcileContext): Promise<void> => {
    const { cluster, logger, tell } = context;
    const namespace = cluster.store.get('Namespace', name);
    if (!namespace) return;
    const found = createPlan(cluster.store, settings)(namespace);
    if (found.apply) {
      await cluster.apply('Namespace', found.apply, { fieldManager: LABEL_SYNC_MANAGER, force: true });
      logger.info({ name, labels: found.apply.metadata?.labels ?? {}, level: found.need?.level }, 'labels applied');
    } else if (found.patch) {
      await cluster.patch('Namespace', { name }, found.patch, { fieldManager: LABEL_SYNC_MANAGER });
    }
    for (const note of remarks.take(name, namespace, found.remarks)) tell(note);
  };

  return {
    name: LABEL_SYNC_MANAGER,
    runs: 'leader',
    keys: [ALL, SETTINGS],
    concurrency: 4,
    resyncMs: RESYNC_MS,
    sources: [
      on('Namespace', ({ metadata }) => [metadata?.name ?? '']),
      on('ServiceAccount', ({ metadata }) => [metadata?.namespace ?? '']),
      ...(['SecurityContextConstraints', 'Role', 'RoleBinding', 'ClusterRole', 'ClusterRoleBinding'] as const).map(
        reaching,
      ),
      on('ConfigMap', ({ metadata }) => (metadata?.name === POD_SECURITY_CONFIG_MAP ? [ALL] : [])),
    ],
    async reconcile(key, context): Promise<ReconcileResult> {
      const settings = options.settings();
      if (key === SETTINGS) {
        if (known !== settings) context.enqueue(ALL);
        known = settings;
        return { requeueAfterMs: LOOK_AGAIN_MS };
      }
      if (settings.phase === 'Disabled') return undefined;
      if (key === ALL) {
        await planAll(settings, context);
        return undefined;
      }
      try {
        await sync(key, settings, context);
      } catch (error) {
        const isConflict = error instanceof ApiError && error.status.code === 409;
        (isConflict ? metrics.conflicts : metrics.errors).cell({}).count++;
        throw error;
      }
      return undefined;
    },
  };
}

type ReachingKind = Exclude<Parameters<typeof reachOf>[0]['kind'], 'Namespace' | 'ServiceAccount'>;

/** Looks at the namespaces whose level may hang on an object. */
function reaching(kind: ReachingKind): Source {
  return on(kind, (object, store, { type, before }) => {
    // One look at all namespaces is enough for all that they hang on.
    if (type === 'again') return kind === 'SecurityContextConstraints' ? [ALL] : [];
    const change = type === 'remove' ? { kind, before: object } : { kind, before, after: object };
    const reach = reachOf(change, {
      sccNames: namesOf(store.list('SecurityContextConstraints')),
      findRole: (namespace, name) =>
        namespace === '' ? store.get('ClusterRole', name) : store.get('Role', name, namespace),
    });
    return reach === 'all' ? [ALL] : [...reach];
  });
}

function namesOf(objects: readonly Kinds[Kind][]): readonly string[] {
  return objects.flatMap(({ metadata }) => metadata?.name ?? []);
}
