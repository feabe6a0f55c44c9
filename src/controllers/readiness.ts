import { createEffectivePodSecurity, getRolloutView } from '../cluster/rollout.ts';
import type { Store } from '../cluster/store.ts';
import { POD_SOURCES } from '../cluster/workloads.ts';
import { deepEqual } from '../kube/equality.ts';
import {
  ENFORCEMENT_MODES,
  PSA_ENFORCEMENT_CONFIG,
  type PSAEnforcementConfig,
} from '../kube/psa-enforcement-config.ts';
import { parseTimestamp } from '../kube/units.ts';
import { EVALUATE_ANNOTATION, INSTALLATION, POD_SECURITY_LABELS } from '../kube/well-known.ts';
import type { PodSecurity } from '../policy/psa/configuration.ts';
import type { AffectedNamespaces, AffectingKind } from '../policy/rollout/affected-namespaces.ts';
import { ROLLOUT_MANAGER } from '../policy/rollout/enforcement.ts';
import type { NamespaceEvaluation, ViolatingWorkload } from '../policy/rollout/evaluation.ts';
import { managementSettings } from '../policy/rollout/label-sync.ts';
import {
  countFindings,
  decideReadiness,
  isBlocking,
  newlyViolating,
  scheduleSweep,
  summarize,
  type CompletedSweep,
} from '../policy/rollout/readiness.ts';
import { REPORT_APIS, REPORT_NAME } from '../policy/rollout/reports.ts';
import type { RolloutSettings } from '../policy/rollout/settings.ts';
import type { RolloutView } from '../policy/rollout/state.ts';
import type { Metrics } from '../telemetry/metrics.ts';
import {
  getAffectedNamespaces,
  rule,
  statusRule,
  watch,
  watchChanges,
  watchValue,
  type ControllerContext,
  type ControllerDefinition,
  type ReconcileContext,
  type Reconciler,
  type ReconcileResult,
  type Source,
} from './controller.ts';
import { continueSweep, evaluateNamespaces, listNamespaces, type RunningSweep } from './readiness-evaluator.ts';
import { createReportWriter, removeReports } from './readiness-reports.ts';
import {
  createConfig,
  recordDecision,
  recordDeletion,
  recordRefusal,
  recordViolations,
  writeDecision,
  type WorkloadRefusal,
} from './readiness-writes.ts';

export const readiness: ControllerDefinition = {
  name: ROLLOUT_MANAGER,
  description: 'evaluates which workloads are or would be denied, reports them, and decides about enforcement',
  runsOn: 'leader',
  readsSettings: true,
  permissions: [
    {
      role: 'readiness',
      clusterRules: [
        rule(['create', 'patch'], ['PSAEnforcementConfig'], [PSA_ENFORCEMENT_CONFIG]),
        statusRule(['patch'], 'PSAEnforcementConfig'),
        ...REPORT_APIS.map(({ namespaced, cluster }) =>
          rule(['create', 'patch', 'delete'], [namespaced, cluster], [REPORT_NAME]),
        ),
      ],
    },
    {
      // A dry run is authorized like the write: this permits changing the labels of namespaces.
      role: 'readiness-dry-run',
      clusterRules: [rule(['patch'], ['Namespace'])],
      namespaceKeys: Object.values(POD_SECURITY_LABELS),
    },
  ],
  isEnabled: ({ evaluation }) => evaluation,
  create: createReconciler,
};

/** Keys that are not names of namespaces. */
const START = '*start';
const CONFIG = '*config';
const SWEEP = '*sweep';
const ALL = '*all';
const EVENTS = '*events';
const REPORTS = '*reports';

/** Interval between checks of the schedule. */
const CHECK_MS = 5_000;
/** Interval between attempts to create the configuration object while the cluster does not serve its kind. */
const UNSERVED_MS = 30_000;
/** Shortest intervals between evaluations of one namespace, and of all namespaces. */
const NAMESPACE_MS = 1_000;
const ALL_MS = 10_000;
const EVENTS_PER_BATCH = 20;
const BATCH_MS = 1_000;

/**
 * Keeps an evaluation of each namespace up to date with its changes, and decides by sweeps, which are evaluations of all
 * namespaces. In the Disabled phase, no level is planned and nothing is decided, so it evaluates only the level in force.
 * @see https://github.com/openshift/cluster-kube-apiserver-operator/tree/main/pkg/operator/podsecurityreadinesscontroller
 */
function createReconciler(controllerContext: ControllerContext): Reconciler {
  const { settings, service, version, date } = controllerContext;
  const metrics = controllerContext.metrics.rollout.readiness;
  const { scc, defaults } = settings.value;
  const podSecurity = (): PodSecurity => state.podSecurity();
  const isPlanned = (): boolean => settings.value.rollout.phase !== 'Disabled';
  const evaluation = { podSecurity, management: managementSettings(scc), defaults, isPlanned };
  const jitter = controllerContext.random() * 0.2 - 0.1;
  const nowMs = (): number => date().getTime();
  const getView = (store: Store): RolloutView =>
    getRolloutView({ store, namespace: service.namespace, version }, settings.value.rollout);
  const getConfig = (store: Store): PSAEnforcementConfig | undefined =>
    store.get('PSAEnforcementConfig', PSA_ENFORCEMENT_CONFIG);
  const getPodSecurity = (): PodSecurity => settings.value.podSecurity;
  let state = createState({ getConfig: () => undefined, podSecurity: getPodSecurity, nowMs });

  const onEvaluation = (name: string, evaluation: NamespaceEvaluation | undefined): void => {
    const before = state.findings.get(name);
    if (evaluation) state.refusals.add(evaluation, before);
    if (before || evaluation) state.findings.set(name, evaluation, nowMs());
    state.reports.enqueue(name);
  };

  const start = ({ cluster, signal, enqueue }: ReconcileContext): void => {
    const { store } = cluster;
    const scope = { store, namespace: service.namespace, version };
    const inForce = createEffectivePodSecurity(scope, () => settings.value.rollout, getPodSecurity);
    state = createState({ getConfig: () => getConfig(store), podSecurity: inForce, nowMs });
    signal.addEventListener('abort', () => resetMetrics(metrics), { once: true });
    enqueue(CONFIG);
  };

  const evaluateOne = async (name: string, context: ReconcileContext): Promise<ReconcileResult> => {
    const sinceMs = context.now() - (state.evaluatedMs.get(name) ?? -Infinity);
    if (sinceMs < NAMESPACE_MS) return { requeueAfterMs: NAMESPACE_MS - sinceMs };
    await evaluateNamespaces(evaluation, [name], context, onEvaluation);
    if (state.findings.get(name)) state.evaluatedMs.set(name, context.now());
    else state.evaluatedMs.delete(name);
    context.enqueue(REPORTS);
    context.enqueue(EVENTS);
    return undefined;
  };

  const evaluateAll = async (context: ReconcileContext): Promise<ReconcileResult> => {
    if (!state.isAllStale) return undefined;
    const sinceMs = context.now() - state.allMs;
    if (sinceMs < ALL_MS) return { requeueAfterMs: ALL_MS - sinceMs };
    state.allMs = context.now();
    state.isAllStale = false;
    await evaluateNamespaces(evaluation, listNamespaces(context.cluster.store), context, onEvaluation);
    if (sinceMs >= settings.value.rollout.evaluationIntervalMs) state.reports.refresh();
    else state.reports.start();
    context.enqueue(REPORTS);
    context.enqueue(EVENTS);
    return undefined;
  };

  const runSweep = async (current: RolloutSettings, context: ReconcileContext): Promise<ReconcileResult> => {
    const { store } = context.cluster;
    if (state.running?.settings.evaluator !== current.evaluator) {
      const { generation } = getConfig(store)?.metadata ?? {};
      state.running = { startMs: nowMs(), generation, settings: current, evaluations: new Map() };
    }
    const { running } = state;
    if (current.evaluator === 'InProcess') {
      state.allMs = context.now();
      state.isAllStale = false;
    }
    const more = await continueSweep(running, { ...evaluation, currentEnforce: getView(store).published }, context);
    if (more) return more;
    if (!isPlanned()) return undefined;
    completeSweep(running, current, context);
    return undefined;
  };

  const completeSweep = (running: RunningSweep, current: RolloutSettings, context: ReconcileContext): void => {
    const { logger, enqueue } = context;
    const { startMs } = running;
    const endMs = nowMs();
    const evaluations = [...running.evaluations.values()];
    for (const { name } of state.findings.all()) if (!running.evaluations.has(name)) onEvaluation(name, undefined);
    for (const evaluation of evaluations) onEvaluation(evaluation.name, evaluation);
    state.findings.compareWith(evaluations, endMs);
    state.sweep = { evaluations, startMs, endMs };
    state.sweptGeneration = running.generation;
    state.running = undefined;
    const isIncomplete = summarize(state.sweep).inconclusive > 0;
    if (isIncomplete) metrics.evaluationErrors.cell({}).count++;
    state.failures = isIncomplete && current.inconclusivePolicy === 'Block' ? state.failures + 1 : 0;
    metrics.evaluationDuration.set((endMs - startMs) / 1000);
    logger.info({ namespaces: evaluations.length, durationMs: endMs - startMs }, 'namespaces evaluated');
    state.reports.refresh();
    enqueue(REPORTS);
    enqueue(EVENTS);
    enqueue(CONFIG);
  };

  /** Marks the evaluations as outdated if something that all of them depend on has changed. */
  const checkBasis = ({ emulationVersion }: Store): void => {
    const basis = [podSecurity(), emulationVersion, isPlanned()];
    if (basis.every((value, index) => value === state.basis[index])) return;
    state.basis = basis;
    state.isAllStale = true;
    state.measured = -1;
  };

  const reconcileDisabled = (current: RolloutSettings, context: ReconcileContext): ReconcileResult => {
    state.running = undefined;
    if (context.now() - state.allMs >= current.evaluationIntervalMs) state.isAllStale = true;
    if (state.isAllStale) context.enqueue(ALL);
    if (state.reports.isRetryDue(context.now())) context.enqueue(REPORTS);
    if (state.measured !== state.findings.revision()) {
      state.measured = state.findings.revision();
      resetMetrics(metrics);
      setWorkloadMetrics(metrics, countFindings(state.findings.all()));
    }
    return { requeueAfterMs: CHECK_MS };
  };

  const reconcileConfig = async (current: RolloutSettings, context: ReconcileContext): Promise<ReconcileResult> => {
    const { store } = context.cluster;
    checkBasis(store);
    if (!isPlanned()) return reconcileDisabled(current, context);
    const object = getConfig(store);
    if (!object) {
      const wasEnforcing = getView(store).published === 'restricted';
      const created = await createConfig(context);
      if (created && wasEnforcing) recordDeletion(created, context);
      return { requeueAfterMs: created ? CHECK_MS : UNSERVED_MS };
    }
    const { delayMs, isAwaited } = scheduleSweep({
      ...state,
      object,
      settings: current,
      jitter,
      nowMs: nowMs(),
      requestedMs: state.requestedMs(object, nowMs()),
      changedSinceMs: state.findings.changedSinceMs(),
      settleMs: state.settling.delayMs(nowMs()),
    });
    if (delayMs === 0 && !state.running) context.enqueue(SWEEP);
    else if (state.isAllStale) context.enqueue(ALL);
    if (state.reports.isRetryDue(context.now())) context.enqueue(REPORTS);
    const view = getView(store);
    if (!isAwaited) await decide(object, current, view, context);
    setStatusMetrics(metrics, getConfig(store) ?? object, view);
    if (state.measured !== state.findings.revision()) {
      state.measured = state.findings.revision();
      setFindingMetrics(metrics, countFindings(state.findings.all()));
    }
    return { requeueAfterMs: delayMs === 0 ? CHECK_MS : Math.min(delayMs, CHECK_MS) };
  };

  const decide = async (
    object: PSAEnforcementConfig,
    current: RolloutSettings,
    { gate, published }: RolloutView,
    context: ReconcileContext,
  ): Promise<void> => {
    const { generation } = object.metadata ?? {};
    const decision = decideReadiness({
      object,
      settings: current,
      gate,
      published,
      sweep: state.sweep,
      findNamespace: (name) => context.cluster.store.get('Namespace', name),
      nowMs: nowMs(),
      isSpecRejected: state.deniedGeneration !== undefined && state.deniedGeneration === generation,
    });
    const outcome = await writeDecision(object, decision, context);
    if (outcome === 'conflict') {
      state.deniedGeneration = generation;
      context.enqueue(CONFIG);
    }
    if (outcome !== 'written') return;
    recordDecision(object, decision, context);
    state.unrecorded.push(...newlyViolating(object, decision));
    context.enqueue(EVENTS);
  };

  const recordEvents = (context: ReconcileContext): ReconcileResult => {
    for (const name of state.unrecorded.splice(0, EVENTS_PER_BATCH)) {
      const namespace = context.cluster.store.get('Namespace', name);
      const evaluation = state.findings.get(name);
      if (namespace && evaluation && isBlocking(evaluation)) recordViolations(namespace, evaluation, context);
    }
    for (const refusal of state.refusals.take(EVENTS_PER_BATCH)) recordRefusal(refusal, context);
    return state.unrecorded.length + state.refusals.size() > 0 ? { requeueAfterMs: BATCH_MS } : undefined;
  };

  const writeReports = async (context: ReconcileContext): Promise<ReconcileResult> => {
    const requeueAfterMs = await state.reports.writeBatch(context);
    return requeueAfterMs === undefined ? undefined : { requeueAfterMs };
  };

  const onAffected = (affected: AffectedNamespaces): readonly string[] => {
    if (affected !== 'all') return [...affected];
    state.isAllStale = true;
    state.settling.changed(nowMs());
    return [ALL];
  };

  return {
    initialKeys: [START],
    // A long sweep does not delay the reaction to a change of the configuration object.
    concurrency: 2,
    sources: [
      watchValue(settings, () => [CONFIG]),
      watch('PSAEnforcementConfig', () => [CONFIG]),
      ...POD_SOURCES.map((kind) => watchChanges(kind, ({ metadata }) => [metadata?.namespace ?? ''])),
      ...AFFECTING_KINDS.map((kind) => watchAffecting(kind, onAffected)),
    ],
    async reconcile(key, context): Promise<ReconcileResult> {
      if (key === START) start(context);
      const current = settings.value.rollout;
      switch (key) {
        case START:
          return undefined;
        case CONFIG:
          return reconcileConfig(current, context);
        case SWEEP:
          return isPlanned() ? runSweep(current, context) : undefined;
        case EVENTS:
          return recordEvents(context);
        case REPORTS:
          return writeReports(context);
      }
      // Dry runs evaluate namespaces in sweeps only.
      if (current.evaluator === 'DryRun' && isPlanned()) return undefined;
      return key === ALL ? evaluateAll(context) : evaluateOne(key, context);
    },
    async onStop({ cluster, logger }) {
      if (!settings.value.disabledControllers.includes(ROLLOUT_MANAGER)) return;
      try {
        await removeReports(cluster);
      } catch (err) {
        logger.warn({ err }, 'the reports are not deleted');
      }
    },
  };
}

interface StateOptions {
  getConfig(): PSAEnforcementConfig | undefined;
  /** Returns the configuration in force. */
  podSecurity(): PodSecurity;
  nowMs(): number;
}

/** The state of the controller while this process is the leader. Times of `…Ms` fields are those of the runtime's clock. */
function createState({ getConfig, podSecurity, nowMs }: StateOptions) {
  const wasViolating = (name: string): boolean =>
    getConfig()?.status?.violatingNamespaces?.some((one) => one.name === name && one.state !== 'Previous') === true;
  const findings = createFindings(wasViolating);
  return {
    findings,
    podSecurity,
    reports: createReportWriter({
      ...{ evaluations: findings.all, findEvaluation: findings.get, nowMs },
      exemptions: () => podSecurity().exemptions,
    }),
    requestedMs: createRequestReader(),
    settling: createSettling(),
    /** Violating namespaces whose event is not recorded yet. */
    unrecorded: [] as string[],
    refusals: createRefusals(wasViolating),
    evaluatedMs: new Map<string, number>(),
    allMs: -Infinity,
    /** True if all namespaces have to be evaluated again. */
    isAllStale: true,
    /** What all evaluations depend on. */
    basis: [] as readonly unknown[],
    /** Number of incomplete sweeps in a row. */
    failures: 0,
    running: undefined as RunningSweep | undefined,
    sweep: undefined as CompletedSweep | undefined,
    sweptGeneration: undefined as number | undefined,
    deniedGeneration: undefined as number | undefined,
    /** Revision of the findings in the metrics. */
    measured: -1,
  };
}

/** Events about workloads that wait at a time. Further ones are dropped: reports contain all workloads. */
const MAX_REFUSALS = 500;

/**
 * The workloads that are denied for the first time, whose events are not recorded yet.
 * @param wasViolating the result of an earlier process, which has recorded its events
 */
function createRefusals(wasViolating: (name: string) => boolean) {
  const waiting: WorkloadRefusal[] = [];
  return {
    add(
      { name: namespace, isSelected, workloads }: NamespaceEvaluation,
      before: NamespaceEvaluation | undefined,
    ): void {
      // The earlier events of a namespace with its own level are unknown.
      if (before === undefined && (!isSelected || wasViolating(namespace))) return;
      const isDenied = ({ verdict }: ViolatingWorkload): boolean => verdict !== 'restart';
      const known = new Set(before?.workloads.filter(isDenied).map(({ kind, name }) => `${kind}/${name}`));
      const added = workloads.filter((one) => isDenied(one) && !known.has(`${one.kind}/${one.name}`));
      waiting.push(...added.slice(0, MAX_REFUSALS - waiting.length).map((workload) => ({ namespace, workload })));
    },
    take: (count: number) => waiting.splice(0, count),
    size: () => waiting.length,
  };
}

/**
 * The current evaluation of each namespace, and since when one differs from the last sweep.
 * @param wasViolating the result of an earlier process, which counts until the first sweep
 */
function createFindings(wasViolating: (name: string) => boolean) {
  const current = new Map<string, NamespaceEvaluation>();
  let swept: ReadonlyMap<string, string> | undefined;
  let changedSinceMs: number | undefined;
  let revision = 0;
  const compare = (name: string, nowMs: number): void => {
    revision++;
    const evaluation = current.get(name);
    const isChanged = swept
      ? (swept.get(name) ?? 'clean') !== outcome(evaluation)
      : wasViolating(name) !== (evaluation !== undefined && isBlocking(evaluation));
    if (isChanged) changedSinceMs ??= nowMs;
  };
  return {
    all: (): readonly NamespaceEvaluation[] => [...current.values()],
    get: (name: string) => current.get(name),
    set(name: string, evaluation: NamespaceEvaluation | undefined, nowMs: number): void {
      if (evaluation) current.set(name, evaluation);
      else current.delete(name);
      compare(name, nowMs);
    },
    /** Compares with a sweep from now on. */
    compareWith(evaluations: readonly NamespaceEvaluation[], nowMs: number): void {
      swept = new Map(evaluations.map((evaluation) => [evaluation.name, outcome(evaluation)]));
      changedSinceMs = undefined;
      for (const name of current.keys()) compare(name, nowMs);
    },
    changedSinceMs: () => changedSinceMs,
    /** Increases with every change. */
    revision: () => revision,
  };
}

function outcome(evaluation: NamespaceEvaluation | undefined): string {
  return evaluation === undefined ? 'clean' : [evaluation.verdict, ...evaluation.categories].join(' ');
}

/** Reads requests for an evaluation. A request counts from when this process first observes it, since clocks differ. */
function createRequestReader(): (object: PSAEnforcementConfig, nowMs: number) => number | undefined {
  let seen: { readonly value: string | undefined; readonly atMs: number | undefined } | undefined;
  return ({ metadata, status }, nowMs) => {
    const value = metadata?.annotations?.[EVALUATE_ANNOTATION];
    if (seen && seen.value === value) return seen.atMs;
    const requestedMs = parseTimestamp(value);
    const evaluatedMs = parseTimestamp(status?.lastEvaluationTime) ?? -Infinity;
    const isAnswered = seen === undefined && requestedMs !== undefined && requestedMs <= evaluatedMs;
    seen = { value, atMs: requestedMs === undefined || isAnswered ? undefined : nowMs };
    return seen.atMs;
  };
}

const SETTLE_MS = 5_000;
/** After this time of continuous changes, sweeps no longer wait. */
const MAX_SETTLE_MS = 60_000;

/** Measures whether changes that concern all namespaces have stopped. */
function createSettling() {
  let sinceMs = -Infinity;
  let lastMs = -Infinity;
  return {
    changed(nowMs: number): void {
      if (nowMs - lastMs > SETTLE_MS) sinceMs = nowMs;
      lastMs = nowMs;
    },
    delayMs: (nowMs: number): number => (nowMs - sinceMs > MAX_SETTLE_MS ? 0 : Math.max(0, lastMs + SETTLE_MS - nowMs)),
  };
}

/** Kinds that decide how pods are admitted, or which level would apply to a namespace. */
const AFFECTING_KINDS: readonly AffectingKind[] = [
  'Namespace',
  'ServiceAccount',
  'SecurityContextConstraints',
  'Role',
  'RoleBinding',
  'ClusterRole',
  'ClusterRoleBinding',
];

function watchAffecting(kind: AffectingKind, keys: (affected: AffectedNamespaces) => readonly string[]): Source {
  return watchChanges(kind, (object, store, event) => {
    if (kind !== 'SecurityContextConstraints') return keys(getAffectedNamespaces(kind, object, store, event));
    // The priority decides the order in which SCCs are tried, so it counts too.
    const { type, before } = event;
    const isSame = type === 'put' && before && deepEqual({ ...object, metadata: {} }, { ...before, metadata: {} });
    return keys(isSame === true ? new Set() : 'all');
  });
}

function setStatusMetrics(
  metrics: Metrics['rollout']['readiness'],
  { status }: PSAEnforcementConfig,
  view: RolloutView,
): void {
  for (const mode of ENFORCEMENT_MODES) {
    metrics.enforcementMode.set({ mode }, (status?.enforcementMode ?? '') === mode ? 1 : 0);
  }
  metrics.enforcing.set(view.enforce === 'restricted' ? 1 : 0);
  metrics.lastEvaluation.set((parseTimestamp(status?.lastEvaluationTime) ?? 0) / 1000);
  metrics.progressing.reset();
  metrics.operatorConditions.reset();
  for (const { type, reason, status: value } of status?.conditions ?? []) {
    if (type === 'Progressing' && value === 'True') metrics.progressing.set({ reason }, 1);
    if (!type.endsWith('EvaluationConditionsDetected')) continue;
    metrics.operatorConditions.set({ name: INSTALLATION.name, condition: type, reason }, value === 'True' ? 1 : 0);
  }
}

function setFindingMetrics(metrics: Metrics['rollout']['readiness'], counts: ReturnType<typeof countFindings>): void {
  for (const [category, count] of Object.entries(counts.namespaces)) metrics.namespaces.set({ category }, count);
  setWorkloadMetrics(metrics, counts);
}

function setWorkloadMetrics(
  metrics: Metrics['rollout']['readiness'],
  { workloads }: Pick<ReturnType<typeof countFindings>, 'workloads'>,
): void {
  metrics.violatingWorkloads.reset();
  for (const { count, ...labels } of workloads) metrics.violatingWorkloads.set(labels, count);
}

/** Only the leader exposes these metrics, so that replicas do not contradict each other. */
function resetMetrics(metrics: Metrics['rollout']['readiness']): void {
  metrics.namespaces.reset();
  metrics.violatingWorkloads.reset();
  metrics.enforcementMode.reset();
  metrics.operatorConditions.reset();
  metrics.progressing.reset();
  metrics.enforcing.reset();
  metrics.lastEvaluation.reset();
  metrics.evaluationDuration.reset();
}
