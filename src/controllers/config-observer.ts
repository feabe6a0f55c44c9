import {
  LABEL_SYNC_MODE_ANNOTATION,
  PART_OF,
  PART_OF_LABEL,
  POD_SECURITY_CONFIG_MAP,
  POD_SECURITY_DEFAULT_ANNOTATION,
  POD_SECURITY_GENERATION_ANNOTATION,
  RAISED_AT_ANNOTATION,
} from '../api/names.ts';
import type { Store } from '../cluster/store.ts';
import { printYaml } from '../config/yaml.ts';
import { type ConditionState, READY_TYPES, withTransitionTimes } from '../kube/conditions.ts';
import { defined } from '../kube/defined.ts';
import { deepEqual } from '../kube/equality.ts';
import { PSA_ENFORCEMENT_CONFIG, type PSAEnforcementConfig } from '../kube/psa-enforcement-config.ts';
import type { ConfigMap, Lease, Namespace } from '../kube/types.ts';
import { formatTimestamp, parseTimestamp } from '../kube/units.ts';
import { LABEL_SYNC_MANAGER } from '../kube/well-known.ts';
import type { PodSecurityConfiguration } from '../policy/psa/index.ts';
import {
  buildAdmissionConfiguration,
  currentConditions,
  defaultInForce,
  type DefaultLevel,
  type EnforcementPlan,
  findNextRaise,
  getEvaluationResult,
  getSyncState,
  isAwaitingLabel,
  type ManagementSettings,
  managementSettings,
  phaseConditions,
  planEffect,
  planRaise,
  podSecurityDefaultsFor,
  type PublishedLevel,
  readEnforcement,
  releaseLabels,
  type RolloutSettings,
  type RolloutView,
  type SyncState,
} from '../policy/rollout/index.ts';
import { getRolloutView, publishedDefault, publishedGeneration } from '../views/rollout.ts';
import {
  type ControllerContext,
  type ControllerDefinition,
  createStateAge,
  forEachYielding,
  type ReconcileContext,
  type Reconciler,
  type ReconcileResult,
  watch,
  watchValue,
} from './controller.ts';
import { rbacRule, statusRule } from './permissions.ts';
import { createReplicaObserver, isReplicaLease } from './replica-leases.ts';

const NAME = 'pod-security-config-observer';
const OPTIONS = { fieldManager: NAME };

export const configObserver: ControllerDefinition = {
  name: NAME,
  description: 'publishes the default Pod Security level, which it raises only after the namespaces have their labels',
  runsOn: 'leader',
  readsSettings: true,
  permissions: [
    {
      role: 'config-observer',
      isNeeded: ({ rollout }) => rollout,
      clusterRules: [statusRule(['patch'], 'PSAEnforcementConfig')],
      namespaceRules: [
        // RBAC cannot restrict a POST by name, but the policy for the service account does.
        rbacRule(['create'], ['ConfigMap']),
        rbacRule(['update'], ['ConfigMap'], [POD_SECURITY_CONFIG_MAP]),
      ],
    },
  ],
  // The controller is enabled even if there is no rollout, because it cleans up the state of the previous rollout.
  isEnabled: () => true,
  create: createReconciler,
};

const KEY = 'cluster';
/** Check interval for time-dependent state, such as settled labels and expired Leases. */
const CHECK_MS = 5_000;
/**
 * Maximum time between checks. If more time has passed, labels may have been missing in the meantime, so the settle
 * time starts again.
 */
const MAX_PAUSE_MS = 4 * CHECK_MS;

/** Cluster state at one point in time. */
interface Observation {
  readonly settings: RolloutSettings;
  readonly view: RolloutView;
  readonly configMap: ConfigMap | undefined;
  /** Time when the default was last raised, in milliseconds since the epoch. */
  readonly raisedAtMs: number | undefined;
  readonly labels: NamespaceLabels;
  readonly replicas: readonly PublishedLevel[];
  readonly currentEnforce: DefaultLevel;
}

/** An observation and the plan that is based on it. */
interface EnforcementStep extends Observation {
  readonly effect: Pick<EnforcementPlan, 'enforce' | 'syncer'>;
  readonly namespace: string;
  readonly exemptions: PodSecurityConfiguration['exemptions'];
  readonly date: Date;
}

/**
 * Raises the default once enforcement is desired, all managed namespaces have been labeled for the settle time, and the
 * minimum time since the previous raise has passed. Lowers the default immediately when enforcement is no longer
 * desired. The syncer removes labels only after all replicas have stopped using the raised default.
 */
function createReconciler({ settings, service, version, date }: ControllerContext): Reconciler {
  const { namespace } = service;
  const observeReplicas = createReplicaObserver();
  /** Returns true if the syncer runs. Otherwise, the labels that it has set remain. */
  const hasSyncer = (): boolean => {
    const { scc, disabledControllers } = settings.value;
    return scc.mode !== 'off' && !disabledControllers.includes(LABEL_SYNC_MANAGER);
  };
  const readLabels = createLabelReader(managementSettings(settings.value.scc));
  const timing = createTiming();

  const observe = async (context: ReconcileContext): Promise<Observation> => {
    const { store } = context.cluster;
    const rollout = settings.value.rollout;
    const found = await readLabels(store, date().getTime(), context);
    // The following state is read without yielding, so it is consistent.
    const configMap = store.get('ConfigMap', POD_SECURITY_CONFIG_MAP, namespace);
    const storedMs = parseTimestamp(configMap?.metadata?.annotations?.[RAISED_AT_ANNOTATION]);
    // Limits the time to the present, because a time in the future was written with a wrong clock.
    const raisedAtMs = storedMs === undefined ? undefined : Math.min(storedMs, date().getTime());
    const view = getRolloutView({ store, namespace, version }, rollout);
    const replicas = observeReplicas(store.list('Lease', namespace), context.now())
      .filter(({ isLive }) => isLive)
      .map(({ lease }) => ({ level: publishedDefault(lease), generation: publishedGeneration(lease) }));
    const published = { level: view.published, generation: view.generation };
    const currentEnforce = defaultInForce(published, replicas, raisedAtMs !== undefined);
    const labels = { ...found, unreleased: hasSyncer() ? found.unreleased : [] };
    return { settings: rollout, view, configMap, raisedAtMs, labels, replicas, currentEnforce };
  };

  return {
    initialKeys: [KEY],
    sources: [
      watchValue(settings, () => [KEY]),
      watch('PSAEnforcementConfig', () => [KEY]),
      watch('FeatureGate', () => [KEY]),
      watch('ConfigMap', ({ metadata }) => (metadata?.name === POD_SECURITY_CONFIG_MAP ? [KEY] : [])),
      watch('Lease', (lease) => (isReplicaLease(lease) ? [KEY] : [])),
    ],
    async reconcile(_key, context) {
      const { exemptions } = settings.value.podSecurity.configuration;
      if (settings.value.rollout.phase === 'Disabled') {
        const { store } = context.cluster;
        const view = getRolloutView({ store, namespace, version }, settings.value.rollout);
        return endRollout({ view, namespace, exemptions, date: date(), hasSyncer: hasSyncer() }, context);
      }
      const observation = await observe(context);
      const { view, raisedAtMs, currentEnforce } = observation;
      const { isSettled, waitMs } = planRaise({
        nowMs: context.now(),
        ...timing.since(observation.labels, view.want, context.now()),
        lastRaiseMs: raisedAtMs === undefined ? undefined : context.now() - (date().getTime() - raisedAtMs),
        settleMs: observation.settings.raiseSettleMs,
      });
      const effect = planEffect({ want: view.want, currentEnforce, isSettled });
      const outcome: EnforcementStep = { ...observation, effect, exemptions, namespace, date: date() };
      await publish(outcome, context);
      await applyConditions(outcome, context);
      return { requeueAfterMs: Math.min(waitMs ?? CHECK_MS, CHECK_MS) };
    },
  };
}

/** Measures how long all namespaces have been labeled and how long enforcement has been desired. */
function createTiming() {
  const labeledAge = createStateAge();
  const desiredAge = createStateAge();
  let observedMs: number | undefined;
  return {
    since(labels: NamespaceLabels, want: boolean, nowMs: number) {
      if (observedMs === undefined || nowMs - observedMs > MAX_PAUSE_MS) {
        for (const age of [labeledAge, desiredAge]) age(undefined, nowMs);
      }
      observedMs = nowMs;
      const labeledMs = labeledAge(labels.unlabeled.length === 0 ? 'all' : undefined, nowMs);
      const desiredMs = desiredAge(want ? 'yes' : undefined, nowMs);
      return {
        labeledSinceMs: labeledMs === undefined ? undefined : nowMs - labeledMs,
        decidedAtMs: desiredMs === undefined ? undefined : nowMs - desiredMs,
      };
    },
  };
}

/** Names of the namespaces whose labels delay a change of the default. */
interface NamespaceLabels {
  /** Managed namespaces that must be labeled before the default is raised. */
  readonly unlabeled: readonly string[];
  /** Namespaces whose enforce label the syncer owns. */
  readonly unreleased: readonly string[];
}

/** Creates a function that reads the labels of all namespaces. It caches the state of each version of a namespace. */
function createLabelReader(management: ManagementSettings) {
  const states = new WeakMap<Namespace, SyncState>();
  const syncState = (namespace: Namespace): SyncState => {
    const state = states.get(namespace) ?? getSyncState(namespace, management);
    states.set(namespace, state);
    return state;
  };
  return async (store: Store, dateMs: number, context: ReconcileContext): Promise<NamespaceLabels> => {
    const labels = { unlabeled: [] as string[], unreleased: [] as string[] };
    await forEachYielding(
      store.list('Namespace'),
      (namespace) => {
        const { isManaged, ownsEnforceLabel } = syncState(namespace);
        const { name = '' } = namespace.metadata ?? {};
        if (ownsEnforceLabel) labels.unreleased.push(name);
        const serviceAccounts = store.list('ServiceAccount', name).flatMap(({ metadata }) => metadata?.name ?? []);
        if (isAwaitingLabel({ namespace, isManaged, serviceAccounts }, dateMs)) labels.unlabeled.push(name);
      },
      context,
    );
    return labels;
  };
}

const CONFIG_KEY = 'admission-configuration.yaml';

type Publication = Pick<EnforcementStep, 'configMap' | 'namespace' | 'exemptions' | 'date'> & {
  /** There is no syncer mode after the rollout has ended. */
  readonly effect: Pick<EnforcementPlan, 'enforce'> & { readonly syncer: EnforcementPlan['syncer'] | undefined };
  readonly view: Pick<RolloutView, 'published' | 'generation'>;
  readonly raisedAtMs?: number | undefined;
};

/** Writes the ConfigMap if it has changed. Increments its generation whenever the replicas' configuration changes. */
async function publish(outcome: Publication, { cluster, logger, recordEvent }: ReconcileContext): Promise<void> {
  const { view, effect, configMap, namespace, date, raisedAtMs } = outcome;
  const { enforce, syncer } = effect;
  const data = {
    [CONFIG_KEY]: printYaml([buildAdmissionConfiguration(podSecurityDefaultsFor(enforce), outcome.exemptions)]),
  };
  const { [LABEL_SYNC_MODE_ANNOTATION]: mode, ...before } = configMap?.metadata?.annotations ?? {};
  const isRaise = enforce === 'restricted' && view.published !== 'restricted';
  const raisedMs = isRaise ? date.getTime() : raisedAtMs;
  const annotations = {
    [POD_SECURITY_DEFAULT_ANNOTATION]: enforce,
    ...(raisedMs === undefined ? {} : { [RAISED_AT_ANNOTATION]: formatTimestamp(raisedMs) }),
  };
  const isSameData = deepEqual(configMap?.data, data);
  const isPublished = view.generation > 0 && Object.entries(annotations).every(([key, value]) => before[key] === value);
  if (isPublished && isSameData && mode === syncer) return;
  // The syncer mode is not compared, because it is not part of the replicas' configuration.
  const isSameConfig = view.generation > 0 && before[POD_SECURITY_DEFAULT_ANNOTATION] === enforce && isSameData;
  const generation = isSameConfig ? view.generation : nextGeneration(view, cluster.store.list('Lease', namespace));
  const metadata = {
    ...(configMap?.metadata ?? { name: POD_SECURITY_CONFIG_MAP, namespace }),
    labels: { ...configMap?.metadata?.labels, [PART_OF_LABEL]: PART_OF },
    annotations: {
      ...before,
      ...annotations,
      ...defined({ [LABEL_SYNC_MODE_ANNOTATION]: syncer }),
      [POD_SECURITY_GENERATION_ANNOTATION]: String(generation),
    },
  };
  const object = { ...configMap, metadata, data };
  await (configMap ? cluster.update('ConfigMap', object, OPTIONS) : cluster.create('ConfigMap', object, OPTIONS));
  logger.info({ enforce, syncer, generation }, 'default Pod Security level published');
  if (enforce === view.published) return;
  recordEvent('ConfigMap', object, {
    type: 'Normal',
    reason: isRaise ? 'EnforcementRaised' : 'EnforcementLowered',
    action: 'Publish',
    message: `the default level of namespaces without a label is ${enforce}`,
  });
}

/**
 * Returns a generation that is higher than all published generations. If the ConfigMap was deleted, the Leases may have
 * a higher generation than the ConfigMap.
 */
function nextGeneration({ generation }: Pick<RolloutView, 'generation'>, leases: readonly Lease[]): number {
  return Math.max(generation, ...leases.map(publishedGeneration)) + 1;
}

/** Types of the conditions that this controller owns. */
const OWN_CONDITIONS: ReadonlySet<string> = new Set(['Enforcing', 'Progressing', 'Upgradeable', ...READY_TYPES]);

/** Conditions if there is no rollout, and while the labels of the previous rollout are being removed. */
const ENDED: ConditionState = {
  type: 'Enforcing',
  status: 'False',
  reason: 'PhaseNotEnforcing',
  message: 'nothing is enforced in the Disabled phase',
};
const RELEASED: ConditionState = { type: 'Progressing', status: 'False', reason: 'AsExpected', message: '' };
const RELEASING: ConditionState = {
  type: 'Progressing',
  status: 'True',
  reason: 'ReleasingLabels',
  message: 'enforce labels are being removed',
};

/**
 * Cleans up the state of the previous rollout. Sets the default level to privileged and makes the syncer remove its
 * labels. Then removes the syncer mode, so the cleanup runs only once and does not remove the labels of another
 * installation.
 */
async function endRollout(
  { hasSyncer, ...outcome }: Omit<Publication, 'effect' | 'configMap'> & { readonly hasSyncer: boolean },
  context: ReconcileContext,
): Promise<ReconcileResult> {
  const { store } = context.cluster;
  const configMap = store.get('ConfigMap', POD_SECURITY_CONFIG_MAP, outcome.namespace);
  const hasLabels =
    configMap?.metadata?.annotations?.[LABEL_SYNC_MODE_ANNOTATION] !== undefined &&
    store.list('Namespace').some((namespace) => releaseLabels(namespace));
  const effect = { enforce: 'privileged', syncer: hasLabels ? 'Advise' : undefined } as const;
  if (configMap) await publish({ ...outcome, configMap, effect }, context);
  const isReleased = !(hasLabels && hasSyncer);
  const object = store.get('PSAEnforcementConfig', PSA_ENFORCEMENT_CONFIG);
  if (object?.status?.conditions) {
    const ended = [ENDED, isReleased ? RELEASED : RELEASING];
    const { generation } = object.metadata ?? {};
    const input = { ...readEnforcement(object), phase: 'Disabled', evaluation: 'never', states: ended } as const;
    const states = [...ended, ...phaseConditions({ ...input, generation, decidedGeneration: generation })];
    await writeConditions(object, { states, date: outcome.date }, context);
  }
  return isReleased ? undefined : { requeueAfterMs: CHECK_MS };
}

async function applyConditions(input: EnforcementStep, context: ReconcileContext): Promise<void> {
  const object = context.cluster.store.get('PSAEnforcementConfig', PSA_ENFORCEMENT_CONFIG);
  if (!object) return;
  const states = computeConditions(input, object);
  await writeConditions(object, { states, date: input.date }, context);
}

async function writeConditions(
  object: PSAEnforcementConfig,
  { states, date }: { readonly states: readonly ConditionState[]; readonly date: Date },
  { cluster }: ReconcileContext,
): Promise<void> {
  const before = object.status?.conditions?.filter(({ type }) => OWN_CONDITIONS.has(type));
  const conditions = withTransitionTimes(states, before, formatTimestamp(date.getTime()));
  if (deepEqual(conditions, before)) return;
  const applied = { metadata: { name: PSA_ENFORCEMENT_CONFIG }, status: { conditions } };
  await cluster.applyStatus('PSAEnforcementConfig', applied, { ...OPTIONS, force: true });
}

function computeConditions(
  { settings, view, effect, labels, replicas, currentEnforce, raisedAtMs, date }: EnforcementStep,
  object: PSAEnforcementConfig,
): readonly ConditionState[] {
  const { metadata, status } = object;
  const { phase } = settings;
  const modes = readEnforcement(object);
  const evaluation = getEvaluationResult({
    status,
    nowMs: date.getTime(),
    maxAgeMs: settings.maxEvaluationAgeMs,
  });
  const states = currentConditions({
    ...modes,
    ...effect,
    ...labels,
    raise: {
      raiseSettleMs: settings.raiseSettleMs,
      nextRaiseTime: findNextRaise(raisedAtMs, date.getTime()),
    },
    phase,
    gate: view.gate,
    want: view.want,
    generation: view.generation,
    evaluation,
    replicas,
    currentEnforce,
  });
  const own = states.filter(({ type }) => OWN_CONDITIONS.has(type));
  const decidedGeneration = status?.observedGeneration ?? undefined;
  const generation = metadata?.generation;
  return [...own, ...phaseConditions({ ...modes, phase, evaluation, states, generation, decidedGeneration })];
}
