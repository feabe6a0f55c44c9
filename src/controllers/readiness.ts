import { activeExceptions } from '../cluster/exceptions.ts';
import { effectivePodSecurity, getRolloutView, namespacePolicies } from '../cluster/rollout.ts';
import type { Store } from '../cluster/store.ts';
import { POD_SOURCES } from '../cluster/workloads.ts';
import { deepEqual } from '../kube/equality.ts';
import { LIMITS } from '../kube/limits.ts';
import { PSA_ENFORCEMENT_CONFIG, type PSAEnforcementConfig } from '../kube/psa-enforcement-config.ts';
import type { PodSecurity } from '../policy/psa/configuration.ts';
import { resolvePolicies } from '../policy/psa/policy.ts';
import type { AffectedNamespaces, AffectingKind } from '../policy/rollout/affected-namespaces.ts';
import { ROLLOUT_MANAGER } from '../policy/rollout/enforcement.ts';
import type { NamespaceEvaluation } from '../policy/rollout/evaluation.ts';
import { managementSettings } from '../policy/rollout/label-sync.ts';
import { scheduleSweep } from '../policy/rollout/readiness-schedule.ts';
import { countFindings, decideReadiness, isBlocking, newlyViolating, summarize } from '../policy/rollout/readiness.ts';
import { REPORT_APIS, REPORT_NAME } from '../policy/rollout/reports.ts';
import type { RolloutView } from '../policy/rollout/state.ts';
import {
  type ControllerContext,
  type ControllerDefinition,
  getAffectedNamespaces,
  type ReconcileContext,
  type Reconciler,
  type ReconcileResult,
  type Source,
  watch,
  watchChanges,
  watchValue,
} from './controller.ts';
import { rule, statusRule } from './permissions.ts';
import { evaluateNamespaces, type EvaluationSettings, listNamespaces } from './readiness-evaluator.ts';
import { type ReadinessMetrics, resetMetrics, setStatusMetrics } from './readiness-metrics.ts';
import { removeReports } from './readiness-reports.ts';
import { createState, type ReadinessState } from './readiness-state.ts';
import {
  createConfig,
  recordDecision,
  recordDeletion,
  recordRefusal,
  recordViolations,
  writeDecision,
} from './readiness-writes.ts';

export const readiness: ControllerDefinition = {
  name: ROLLOUT_MANAGER,
  description: 'evaluates which workloads are or would be denied, reports them, and decides whether to enforce',
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
  ],
  isEnabled: ({ evaluation }) => evaluation,
  create: createReconciler,
};

/** Keys that are not namespace names. */
const CONFIG = '*config';
const SWEEP = '*sweep';
const ALL = '*all';
const EVENTS = '*events';
const REPORTS = '*reports';

/** Interval for checking the schedule. */
const CHECK_MS = 5_000;
/** Retry interval for creating the configuration object while the cluster does not serve its kind. */
const UNSERVED_MS = 30_000;
/** Minimum intervals between evaluations of one namespace and of all namespaces. */
const NAMESPACE_MS = 1_000;
const ALL_MS = 10_000;
const EVENTS_PER_BATCH = 20;
const BATCH_MS = 1_000;

/** The parts of a running controller. */
interface Readiness {
  readonly given: ControllerContext;
  readonly metrics: ReadinessMetrics;
  readonly evaluation: EvaluationSettings;
  /** From -0.1 to 0.1. */
  readonly jitter: number;
  readonly store: Store;
  readonly state: ReadinessState;
}

/**
 * Reevaluates namespaces when they change, and makes decisions based on sweeps, which evaluate all namespaces. In the
 * Disabled phase, there is no planned level and no decision, so it evaluates only the current level.
 * @see https://github.com/openshift/cluster-kube-apiserver-operator/tree/main/pkg/operator/podsecurityreadinesscontroller
 */
function createReconciler(given: ControllerContext, store: Store): Reconciler {
  const { settings } = given;
  const controller = createReadiness(given, store);
  const onAffected = (affected: AffectedNamespaces): readonly string[] => {
    if (affected !== 'all') return [...affected];
    controller.state.isAllStale = true;
    controller.state.settling.changed(nowMs(controller));
    return [ALL];
  };
  return {
    initialKeys: [CONFIG],
    // A second worker reacts to changes of the configuration object during a long sweep.
    concurrency: 2,
    sources: [
      watchValue(settings, () => [CONFIG]),
      watch('PSAEnforcementConfig', () => [CONFIG]),
      ...POD_SOURCES.map((kind) => watchChanges(kind, ({ metadata }) => [metadata?.namespace ?? ''])),
      watchChanges('PodSecurityException', ({ metadata }) => [metadata?.namespace ?? '']),
      ...AFFECTING_KINDS.map((kind) => watchAffecting(kind, onAffected)),
    ],
    async reconcile(key, context): Promise<ReconcileResult> {
      switch (key) {
        case CONFIG:
          return reconcileConfig(controller, context);
        case SWEEP:
          return isPlanned(given) ? runSweep(controller, context) : undefined;
        case EVENTS:
          return recordEvents(controller, context);
        case REPORTS:
          return controller.state.reports.writeBatch(context);
      }
      return key === ALL ? evaluateAll(controller, context) : evaluateOne(controller, key, context);
    },
    async onStop({ cluster, logger }) {
      resetMetrics(controller.metrics);
      if (!settings.value.disabledControllers.includes(ROLLOUT_MANAGER)) return;
      try {
        await removeReports(cluster);
      } catch (err) {
        logger.warn({ err }, 'failed to delete the reports');
      }
    },
  };
}

function createReadiness(given: ControllerContext, store: Store): Readiness {
  const { settings, metrics, random, date, service, version } = given;
  const { scc, defaults } = settings.value;
  const management = managementSettings(scc);
  const scope = { store, namespace: service.namespace, version };
  const podSecurity = (): PodSecurity => effectivePodSecurity(scope, settings.value);
  return {
    given,
    store,
    metrics: metrics.rollout.readiness,
    evaluation: {
      ...{ podSecurity, management, defaults },
      detailCharacters: LIMITS.evaluationCharacters,
      exceptions: (name, store) => activeExceptions(store, settings.value.exceptions, name, date().getTime()),
      *policies(namespace, store) {
        if (isPlanned(given))
          return yield* namespacePolicies(namespace, store, { podSecurity: podSecurity(), management });
        const { enforce } = resolvePolicies(namespace.metadata?.labels, podSecurity().defaults);
        return { current: enforce, planned: enforce, isSelected: false };
      },
    },
    jitter: random() * 0.2 - 0.1,
    state: createState({ getConfig: () => getConfig(store), podSecurity, nowMs: () => date().getTime() }),
  };
}

/** Returns false in the Disabled phase, because namespace levels do not change then. */
function isPlanned({ settings }: ControllerContext): boolean {
  return settings.value.rollout.phase !== 'Disabled';
}

function nowMs({ given }: Readiness): number {
  return given.date().getTime();
}

function getView({ store, given: { service, version, settings } }: Readiness): RolloutView {
  return getRolloutView({ store, namespace: service.namespace, version }, settings.value.rollout);
}

function getConfig(store: Store): PSAEnforcementConfig | undefined {
  return store.get('PSAEnforcementConfig', PSA_ENFORCEMENT_CONFIG);
}

// Evaluations.

function storeEvaluation(controller: Readiness, name: string, evaluation: NamespaceEvaluation | undefined): void {
  const { state } = controller;
  const before = state.findings.get(name);
  if (evaluation) state.refusals.add(evaluation, before);
  if (before || evaluation) state.findings.set(name, evaluation, nowMs(controller));
  state.reports.enqueue(name);
}

async function evaluateStored(
  controller: Readiness,
  names: readonly string[],
  context: ReconcileContext,
): Promise<void> {
  await evaluateNamespaces(controller.evaluation, names, context, (name, result) =>
    storeEvaluation(controller, name, result),
  );
}

async function evaluateOne(controller: Readiness, name: string, context: ReconcileContext): Promise<ReconcileResult> {
  const { state } = controller;
  const sinceMs = context.now() - (state.evaluatedMs.get(name) ?? -Infinity);
  if (sinceMs < NAMESPACE_MS) return { requeueAfterMs: NAMESPACE_MS - sinceMs };
  await evaluateStored(controller, [name], context);
  if (state.findings.get(name)) state.evaluatedMs.set(name, context.now());
  else state.evaluatedMs.delete(name);
  context.enqueue(REPORTS);
  context.enqueue(EVENTS);
  return undefined;
}

async function evaluateAll(controller: Readiness, context: ReconcileContext): Promise<ReconcileResult> {
  const { state, given } = controller;
  if (!state.isAllStale) return undefined;
  const sinceMs = context.now() - state.allMs;
  if (sinceMs < ALL_MS) return { requeueAfterMs: ALL_MS - sinceMs };
  state.allMs = context.now();
  state.isAllStale = false;
  await evaluateStored(controller, listNamespaces(context.cluster.store), context);
  if (sinceMs >= given.settings.value.rollout.evaluationIntervalMs) state.reports.refresh();
  else state.reports.start();
  context.enqueue(REPORTS);
  context.enqueue(EVENTS);
  return undefined;
}

/** Evaluates all namespaces for a decision. */
async function runSweep(controller: Readiness, context: ReconcileContext): Promise<ReconcileResult> {
  const { state, metrics, given, evaluation } = controller;
  const { logger, enqueue, cluster } = context;
  const { generation } = getConfig(cluster.store)?.metadata ?? {};
  const startMs = nowMs(controller);
  state.allMs = context.now();
  state.isAllStale = false;
  const found = new Map<string, NamespaceEvaluation>();
  await evaluateNamespaces(evaluation, listNamespaces(cluster.store), context, (name, result) => {
    if (result) found.set(name, result);
  });
  if (!isPlanned(given)) return undefined;
  const endMs = nowMs(controller);
  const evaluations = [...found.values()];
  for (const { name } of state.findings.all()) {
    if (!found.has(name)) storeEvaluation(controller, name, undefined);
  }
  for (const evaluation of evaluations) storeEvaluation(controller, evaluation.name, evaluation);
  state.findings.compareWith(evaluations, endMs);
  state.sweep = { evaluations, startMs, endMs };
  state.sweptGeneration = generation;
  const isIncomplete = summarize(state.sweep).inconclusive > 0;
  if (isIncomplete) metrics.evaluationErrors.cell({}).count++;
  const { inconclusivePolicy } = given.settings.value.rollout;
  state.failures = isIncomplete && inconclusivePolicy === 'Block' ? state.failures + 1 : 0;
  metrics.evaluationDuration.set((endMs - startMs) / 1000);
  logger.info({ namespaces: evaluations.length, durationMs: endMs - startMs }, 'namespaces evaluated');
  state.reports.refresh();
  for (const key of [REPORTS, EVENTS, CONFIG]) enqueue(key);
  return undefined;
}

// The schedule and the decision.

async function reconcileConfig(controller: Readiness, context: ReconcileContext): Promise<ReconcileResult> {
  const { state, metrics, given, jitter } = controller;
  const current = given.settings.value.rollout;
  const { store } = context.cluster;
  checkBasis(controller);
  if (!isPlanned(given)) return reconcileDisabled(controller, context);
  const object = getConfig(store);
  if (!object) {
    const wasEnforcing = getView(controller).published === 'restricted';
    const created = await createConfig(context);
    if (created && wasEnforcing) recordDeletion(created, context);
    return { requeueAfterMs: created ? CHECK_MS : UNSERVED_MS };
  }
  const { delayMs, isAwaited } = scheduleSweep({
    ...state,
    object,
    settings: current,
    jitter,
    nowMs: nowMs(controller),
    requestedMs: state.requestedMs(object, nowMs(controller)),
    changedSinceMs: state.findings.changedSinceMs(),
    settleMs: state.settling.delayMs(nowMs(controller)),
  });
  if (delayMs === 0) context.enqueue(SWEEP);
  else if (state.isAllStale) context.enqueue(ALL);
  if (state.reports.isRetryDue(context.now())) context.enqueue(REPORTS);
  const view = getView(controller);
  if (!isAwaited) await decide(controller, object, view, context);
  setStatusMetrics(metrics, getConfig(store) ?? object, view);
  updateFindingMetrics(controller);
  return { requeueAfterMs: delayMs === 0 ? CHECK_MS : Math.min(delayMs, CHECK_MS) };
}

/** Marks all evaluations as outdated if one of their common dependencies has changed. */
function checkBasis({ state, given, store, evaluation }: Readiness): void {
  const basis = [evaluation.podSecurity(), store.emulationVersion, isPlanned(given)];
  if (basis.every((value, index) => value === state.basis[index])) return;
  state.basis = basis;
  state.isAllStale = true;
  state.measured = -1;
}

/** In the Disabled phase, the metrics contain only the workloads. */
function updateFindingMetrics({ state, metrics, given }: Readiness): void {
  if (state.measured === state.findings.revision()) return;
  state.measured = state.findings.revision();
  const { namespaces, workloads } = countFindings(state.findings.all());
  if (isPlanned(given)) {
    for (const [category, count] of Object.entries(namespaces)) metrics.namespaces.set({ category }, count);
  } else resetMetrics(metrics);
  metrics.violatingWorkloads.reset();
  for (const { count, ...labels } of workloads) metrics.violatingWorkloads.set(labels, count);
}

function reconcileDisabled(controller: Readiness, context: ReconcileContext): ReconcileResult {
  const { state, given } = controller;
  if (context.now() - state.allMs >= given.settings.value.rollout.evaluationIntervalMs) state.isAllStale = true;
  if (state.isAllStale) context.enqueue(ALL);
  if (state.reports.isRetryDue(context.now())) context.enqueue(REPORTS);
  updateFindingMetrics(controller);
  return { requeueAfterMs: CHECK_MS };
}

async function decide(
  controller: Readiness,
  object: PSAEnforcementConfig,
  { gate, published }: RolloutView,
  context: ReconcileContext,
): Promise<void> {
  const { state, given } = controller;
  const { generation } = object.metadata ?? {};
  const decision = decideReadiness({
    object,
    settings: given.settings.value.rollout,
    gate,
    published,
    sweep: state.sweep,
    findNamespace: (name) => context.cluster.store.get('Namespace', name),
    nowMs: nowMs(controller),
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
}

function recordEvents({ state }: Readiness, context: ReconcileContext): ReconcileResult {
  for (const name of state.unrecorded.splice(0, EVENTS_PER_BATCH)) {
    const namespace = context.cluster.store.get('Namespace', name);
    const evaluation = state.findings.get(name);
    if (namespace && evaluation && isBlocking(evaluation)) recordViolations(namespace, evaluation, context);
  }
  for (const refusal of state.refusals.take(EVENTS_PER_BATCH)) recordRefusal(refusal, context);
  return state.unrecorded.length + state.refusals.size() > 0 ? { requeueAfterMs: BATCH_MS } : undefined;
}

/** Kinds that affect pod admission or the level that would apply to a namespace. */
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
    // Include the priority, because it determines the order in which SCCs are tried.
    const { type, before } = event;
    const isSame = type === 'put' && before && deepEqual({ ...object, metadata: {} }, { ...before, metadata: {} });
    return keys(isSame === true ? new Set() : 'all');
  });
}
