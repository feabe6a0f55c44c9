import {
  publishedDefault,
  publishedGeneration,
  type RolloutView,
  getRolloutView,
  type RolloutScope,
} from '../cluster/rollout.ts';
import type { Lease, Namespace, ConfigMap } from '../kube/types.ts';
import {
  currentDefault,
  type DefaultLevel,
  enforcementConditions,
  getEvaluationResult,
  readEnforcement,
  type EnforcementInput,
  type EnforcementPlan,
  planEffect,
  planRaise,
} from '../policy/rollout/enforcement.ts';
import { withTransitionTimes, type ConditionState } from '../kube/conditions.ts';
import { deepEqual } from '../kube/equality.ts';
import { PSA_ENFORCEMENT_CONFIG } from '../kube/psa-enforcement-config.ts';
import { formatTimestamp, parseTimestamp } from '../kube/units.ts';
import type { RolloutSettings } from '../policy/rollout/settings.ts';
import {
  type ReconcileContext,
  forEachYielding,
  rule,
  statusRule,
  watch,
  watchValue,
  type ControllerContext,
  type ControllerDefinition,
  type Reconciler,
  type ReconcileResult,
  createStopwatch,
} from './controller.ts';
import type { Store } from '../cluster/store.ts';
import {
  isAwaitingLabel,
  managementSettings,
  getSyncState,
  type ManagementSettings,
  type SyncState,
} from '../policy/rollout/label-sync.ts';
import { printYaml } from '../config/yaml.ts';
import {
  LABEL_SYNC_MODE_ANNOTATION,
  PART_OF,
  PART_OF_LABEL,
  POD_SECURITY_CONFIG_MAP,
  POD_SECURITY_DEFAULT_ANNOTATION,
  POD_SECURITY_GENERATION_ANNOTATION,
  RAISED_AT_ANNOTATION,
} from '../kube/well-known.ts';
import { buildAdmissionConfiguration, observeConfig } from '../policy/rollout/observed-config.ts';
import type { PodSecurityConfiguration } from '../policy/psa/configuration.ts';
import { createReplicaObserver, isReplicaLease } from './replica-leases.ts';

/**
 * The default in force anywhere: that of what is published, and of a replica that has not yet said that it knows it. What
 * has never been raised is in force nowhere.
 */
function currentOf(view: RolloutView, leases: readonly Lease[], hasBeenRaised: boolean): DefaultLevel {
  if (!hasBeenRaised) return view.published;
  const saidBy = (lease: Lease): DefaultLevel =>
    publishedGeneration(lease) < view.generation ? 'restricted' : publishedDefault(lease);
  return currentDefault([view.generation === 0 ? 'restricted' : view.published, ...leases.map(saidBy)]);
}

/** True if replicas are there, and every one has said that it holds namespaces to what is published. */
function areAllRaised(view: RolloutView, leases: readonly Lease[]): boolean {
  return (
    leases.length > 0 &&
    leases.every((lease) => publishedDefault(lease) === 'restricted' && publishedGeneration(lease) >= view.generation)
  );
}

/** What the conditions tell. */
interface ConditionFacts {
  readonly fieldManager: string;
  readonly settings: RolloutSettings;
  readonly view: RolloutView;
  readonly effect: Pick<EnforcementPlan, 'enforce' | 'syncer'>;
  readonly labels: NamespaceLabels;
  readonly leases: readonly Lease[];
  readonly currentEnforce: DefaultLevel;
  readonly date: Date;
}

const OUR_CONDITIONS: ReadonlySet<string> = new Set(['Enforcing', 'Progressing']);

/** Says in the object what is in force and what is under way. */
async function tellConditions(facts: ConditionFacts, { cluster }: ReconcileContext): Promise<void> {
  const object = cluster.store.get('PSAEnforcementConfig', PSA_ENFORCEMENT_CONFIG);
  if (!object) return;
  const states = conditionsOf(facts, readEnforcement(object), object.status).filter(({ type }) =>
    OUR_CONDITIONS.has(type),
  );
  const before = object.status?.conditions?.filter(({ type }) => OUR_CONDITIONS.has(type));
  const conditions = withTransitionTimes(states, before, formatTimestamp(facts.date.getTime()));
  if (deepEqual(conditions, before)) return;
  const metadata = { name: PSA_ENFORCEMENT_CONFIG };
  await cluster.applyStatus(
    'PSAEnforcementConfig',
    { metadata, status: { conditions } },
    { fieldManager: facts.fieldManager, force: true },
  );
}

function conditionsOf(
  { settings, view, effect, labels, leases, currentEnforce, date }: ConditionFacts,
  asked: ReturnType<typeof readEnforcement>,
  status: Parameters<typeof getEvaluationResult>[0]['status'],
): readonly ConditionState[] {
  const evaluation = getEvaluationResult({
    status,
    nowMs: date.getTime(),
    maxAgeMs: settings.maxEvaluationAgeMs,
    inconclusivePolicy: settings.inconclusivePolicy,
  });
  const isRollingOut = effect.enforce === 'restricted' && !areAllRaised({ ...view, published: effect.enforce }, leases);
  const input: EnforcementInput = {
    ...asked,
    phase: settings.phase,
    gate: view.gate,
    evaluation,
    isSettled: labels.unlabelled.length === 0,
    currentEnforce: isRollingOut ? 'privileged' : currentEnforce,
  };
  const plan: EnforcementPlan = { spec: asked.spec, status: asked.status, want: view.want, ...effect };
  const unreleased = view.want ? [] : labels.unreleased;
  const states = enforcementConditions({ input, plan, unlabelled: labels.unlabelled, unreleased });
  return states.map((state) => (isRollingOut && state.type === 'Enforcing' ? { ...state, ...ROLLING_OUT } : state));
}

/** It is in force when every replica says so. */
const ROLLING_OUT = {
  status: 'False',
  reason: 'RollingOutConfiguration',
  message: 'replicas go over to the default restricted',
} as const;

/** Whose labels are still to come, or to go. */
interface NamespaceLabels {
  /** Managed, and still without the label that they need before the default goes up. */
  readonly unlabelled: readonly string[];
  /** With a label that enforces and is ours. */
  readonly unreleased: readonly string[];
}

/** Looks through all namespaces; what hangs on one alone is found out once for each version of it. */
function createStandings(management: ManagementSettings) {
  const known = new WeakMap<Namespace, SyncState>();
  const standingFor = (namespace: Namespace): SyncState => {
    const standing = known.get(namespace) ?? getSyncState(namespace, management);
    known.set(namespace, standing);
    return standing;
  };
  return {
    async look(store: Store, dateMs: number, context: ReconcileContext): Promise<NamespaceLabels> {
      const labels = { unlabelled: [] as string[], unreleased: [] as string[] };
      await forEachYielding(
        store.list('Namespace'),
        (namespace) => {
          const { isManaged, ownsEnforceLabel } = standingFor(namespace);
          const { name = '' } = namespace.metadata ?? {};
          if (ownsEnforceLabel) labels.unreleased.push(name);
          const serviceAccounts = store.list('ServiceAccount', name).flatMap(({ metadata }) => metadata?.name ?? []);
          if (isAwaitingLabel({ namespace, isManaged, serviceAccounts }, dateMs)) labels.unlabelled.push(name);
        },
        context,
      );
      return labels;
    },
  };
}

const CONFIG_KEY = 'admission-configuration.yaml';

/** What is to hold from now on. */
interface Publication {
  /** Of the installation. */
  readonly namespace: string;
  /** Of the configuration file. */
  exemptions(): PodSecurityConfiguration['exemptions'];
  readonly date: () => Date;
  readonly fieldManager: string;
  readonly view: RolloutView;
  readonly effect: Pick<EnforcementPlan, 'enforce' | 'syncer'>;
  readonly configMap: ConfigMap | undefined;
  readonly raisedAtMs: number | undefined;
}

/** Writes what is to hold from now on, if it is something else than before. */
async function publish(publication: Publication, { cluster, logger, recordEvent }: ReconcileContext): Promise<void> {
  const { view, effect, configMap, namespace, date, raisedAtMs, fieldManager } = publication;
  const { config } = observeConfig(
    { plan: { enforce: effect.enforce, want: view.want }, exemptions: publication.exemptions() },
    {},
  );
  const data = { [CONFIG_KEY]: printYaml([buildAdmissionConfiguration(config)]) };
  const before = configMap?.metadata?.annotations ?? {};
  const isRaise = effect.enforce === 'restricted' && view.published !== 'restricted';
  const raisedAt = isRaise
    ? formatTimestamp(date().getTime())
    : raisedAtMs === undefined
      ? undefined
      : formatTimestamp(raisedAtMs);
  const said = {
    [POD_SECURITY_DEFAULT_ANNOTATION]: effect.enforce,
    [LABEL_SYNC_MODE_ANNOTATION]: effect.syncer,
    ...(raisedAt === undefined ? {} : { [RAISED_AT_ANNOTATION]: raisedAt }),
  };
  const isSaid = Object.entries(said).every(([key, value]) => before[key] === value) && view.generation > 0;
  if (isSaid && deepEqual(configMap?.data, data)) return;
  // Labels are not what replicas run: only what they run has a new number.
  const isAlike = before[POD_SECURITY_DEFAULT_ANNOTATION] === effect.enforce && deepEqual(configMap?.data, data);
  const generation =
    isAlike && view.generation > 0
      ? view.generation
      : Math.max(view.generation, highestIn(cluster.store, namespace)) + 1;
  const metadata = {
    ...(configMap?.metadata ?? { name: POD_SECURITY_CONFIG_MAP, namespace }),
    labels: { ...configMap?.metadata?.labels, [PART_OF_LABEL]: PART_OF },
    annotations: { ...before, ...said, [POD_SECURITY_GENERATION_ANNOTATION]: String(generation) },
  };
  const object = { ...configMap, metadata, data };
  const by = { fieldManager };
  await (configMap ? cluster.update('ConfigMap', object, by) : cluster.create('ConfigMap', object, by));
  logger.info({ enforce: effect.enforce, syncer: effect.syncer, generation }, 'default of Pod Security published');
  if (effect.enforce === view.published) return;
  const message = isRaise
    ? 'namespaces without a label are held to restricted from now on'
    : 'namespaces without a label are held to nothing any more';
  const reason = isRaise ? 'EnforcementRaised' : 'EnforcementLowered';
  recordEvent('ConfigMap', { metadata }, { type: 'Normal', reason, action: 'Publish', message });
}

/** Replicas may know a number from before the ConfigMap was lost. */
function highestIn(store: Store, namespace: string): number {
  return Math.max(0, ...store.list('Lease', namespace).map(publishedGeneration));
}

const NAME = 'pod-security-config-observer';

export const configObserver: ControllerDefinition = {
  name: NAME,
  description: 'publishes the default Pod Security level in the order that keeps workloads running',
  runsOn: 'leader',
  permissions: [
    {
      role: 'config-observer',
      clusterRules: [statusRule(['patch'], 'PSAEnforcementConfig')],
      namespaceRules: [
        // Resource names cannot limit create.
        rule(['create'], ['ConfigMap']),
        rule(['update'], ['ConfigMap'], [POD_SECURITY_CONFIG_MAP]),
      ],
    },
  ],
  isEnabled: ({ rollout }) => rollout,
  create: createReconciler,
};

const fieldManager = NAME;
const KEY = 'cluster';
/** How soon to look again at what tells nothing when it changes: that labels have settled, that a replica is gone. */
const LOOK_AGAIN_MS = 5_000;
/** Who has not looked for longer does not know whether labels were there all the time. */
const UNSEEN_MS = 4 * LOOK_AGAIN_MS;

/**
 * Makes the controller that publishes the default level: up once it is wanted, all managed namespaces have had their labels
 * for a while and the last time is long enough ago; down as soon as it is not wanted. What becomes of labels is part of it:
 * they are given up when no replica can hold anybody to the raised default any more.
 */
function createReconciler({ settings: current, service, version, date }: ControllerContext): Reconciler {
  const { namespace } = service;
  const exemptions = (): PodSecurityConfiguration['exemptions'] => current.value.podSecurity.configuration.exemptions;
  const replicas = createReplicaObserver();
  const labelled = createStopwatch();
  const wanted = createStopwatch();
  const standings = createStandings(managementSettings(current.value.scc));
  let lookedMs: number | undefined;

  /** Since when things are as they are: not known to whoever has just begun to look. */
  const since = (labels: NamespaceLabels, want: boolean, nowMs: number) => {
    const isNew = lookedMs === undefined || nowMs - lookedMs > UNSEEN_MS;
    lookedMs = nowMs;
    if (isNew) for (const watch of [labelled, wanted]) watch.elapsedMs(undefined, nowMs);
    const labelledMs = labelled.elapsedMs(labels.unlabelled.length === 0 ? 'all' : undefined, nowMs);
    const wantedMs = wanted.elapsedMs(want ? 'yes' : undefined, nowMs);
    return {
      labelledSinceMs: labelledMs === undefined ? undefined : nowMs - labelledMs,
      decidedAtMs: wantedMs === undefined ? undefined : nowMs - wantedMs,
    };
  };

  return {
    initialKeys: [KEY],
    sources: [
      watchValue(current, () => [KEY]),
      watch('PSAEnforcementConfig', () => [KEY]),
      watch('FeatureGate', () => [KEY]),
      watch('ConfigMap', ({ metadata }) => (metadata?.name === POD_SECURITY_CONFIG_MAP ? [KEY] : [])),
      watch('Lease', (lease) => (isReplicaLease(lease) ? [KEY] : [])),
    ],
    async reconcile(_key, context): Promise<ReconcileResult> {
      const settings = current.value.rollout;
      if (settings.phase === 'Disabled') return undefined;
      const { cluster, now } = context;
      const { store } = cluster;
      const place: RolloutScope = { store, namespace, version };
      const configMap = store.get('ConfigMap', POD_SECURITY_CONFIG_MAP, namespace);
      const saidMs = parseTimestamp(configMap?.metadata?.annotations?.[RAISED_AT_ANNOTATION]);
      // A time to come is that of a clock that was wrong.
      const raisedAtMs = saidMs === undefined ? undefined : Math.min(saidMs, date().getTime());
      const labels = await standings.look(store, date().getTime(), context);
      // From here on all is of one moment.
      const view = getRolloutView(place, settings);
      const live = replicas.observe(store.list('Lease', namespace), now()).filter(({ isLive }) => isLive);
      const leases = live.flatMap(({ name }) => store.get('Lease', name, namespace) ?? []);
      const currentEnforce = currentOf(view, leases, raisedAtMs !== undefined);
      const { isSettled, waitMs } = planRaise({
        nowMs: now(),
        ...since(labels, view.want, now()),
        lastRaiseMs: raisedAtMs === undefined ? undefined : now() - (date().getTime() - raisedAtMs),
        settleMs: settings.raiseSettleMs,
      });
      const effect = planEffect({ want: view.want, currentEnforce, isSettled });
      await publish({ namespace, date, exemptions, fieldManager, view, effect, configMap, raisedAtMs }, context);
      await tellConditions(
        { fieldManager, settings, view, effect, labels, leases, currentEnforce, date: date() },
        context,
      );
      return { requeueAfterMs: Math.min(waitMs ?? LOOK_AGAIN_MS, LOOK_AGAIN_MS) };
    },
  };
}
