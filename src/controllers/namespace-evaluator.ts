/** Evaluates which workloads in each namespace are denied or would be denied under enforcement. */
import { EVALUATE_ANNOTATION } from '../api/names.ts';
import type { Store } from '../cluster/store.ts';
import { deepEqual } from '../kube/equality.ts';
import { LIMITS } from '../kube/limits.ts';
import { PSA_ENFORCEMENT_CONFIG, type PSAEnforcementConfig } from '../kube/psa-enforcement-config.ts';
import { parseTimestamp } from '../kube/units.ts';
import { type PodSecurity, resolvePolicies } from '../policy/psa/index.ts';
import {
  isEvaluated,
  type AffectedNamespaces,
  type AffectingKind,
  type CompletedSweep,
  countFindings,
  managementSettings,
  type NamespaceEvaluation,
  ROLLOUT_MANAGER,
  scheduleSweep,
  summarize,
} from '../policy/rollout/index.ts';
import { countExceeded } from '../telemetry/limits.ts';
import { evaluateFromStore, type EvaluationSettings } from '../views/evaluation.ts';
import { activeExceptions } from '../views/exceptions.ts';
import { effectivePodSecurity, namespacePolicies } from '../views/rollout.ts';
import { POD_SOURCES } from '../views/workloads.ts';
import {
  runYielding,
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

export const namespaceEvaluator: ControllerDefinition = {
  name: 'namespace-evaluation-controller',
  description: 'evaluates which workloads of each namespace are denied now or would be denied by enforcement',
  runsOn: 'leader',
  disabledWith: ROLLOUT_MANAGER,
  readsSettings: true,
  permissions: [],
  isEnabled: ({ evaluation }) => evaluation,
  create: createReconciler,
};

/** Key for all namespaces, which is empty as in `metav1.NamespaceAll`. Other keys are namespace names. */
const ALL_NAMESPACES = '';

/** Interval for checking the schedule. */
const CHECK_MS = 5_000;
/** Minimum intervals between evaluations of one namespace and of all namespaces. */
const NAMESPACE_MS = 1_000;
const ALL_MS = 10_000;

/**
 * Reevaluates namespaces when they change. Sweeps evaluate all namespaces for a decision of the readiness controller.
 * In the Disabled phase, there is no planned level and no decision, so only the current level is evaluated.
 * @see https://github.com/openshift/cluster-kube-apiserver-operator/tree/main/pkg/operator/podsecurityreadinesscontroller
 */
function createReconciler(controller: ControllerContext, store: Store): Reconciler {
  const { settings, evaluations, date } = controller;
  const metrics = controller.metrics.rollout.readiness;
  const evaluation = createEvaluationSettings(controller, store);
  const schedule = createSchedule(controller, store);
  const staleness = createStaleness(() => [evaluation.podSecurity(), store.emulationVersion, isPlanned(controller)]);
  const evaluatedMs = new Map<string, number>();
  let isMeasured = false;

  const evaluate = async (names: readonly string[], context: ReconcileContext): Promise<NamespaceEvaluation[]> => {
    const found: NamespaceEvaluation[] = [];
    await evaluateNamespaces(evaluation, names, context, (name, result) => {
      evaluations.set(name, result, { store, nowMs: date().getTime() });
      if (result) found.push(result);
    });
    isMeasured = false;
    return found;
  };
  const evaluateOne = async (name: string, context: ReconcileContext): Promise<ReconcileResult> => {
    const sinceMs = context.now() - (evaluatedMs.get(name) ?? -Infinity);
    if (sinceMs < NAMESPACE_MS) return { requeueAfterMs: NAMESPACE_MS - sinceMs };
    await evaluate([name], context);
    if (evaluations.get(name)) evaluatedMs.set(name, context.now());
    else evaluatedMs.delete(name);
    return undefined;
  };
  const sweep = async (context: ReconcileContext): Promise<void> => {
    const { generation } = getConfig(store)?.metadata ?? {};
    const startMs = date().getTime();
    const found = await evaluate(namespaceNames(store), context);
    if (!isPlanned(controller)) return;
    const endMs = date().getTime();
    const completed = { evaluations: found, startMs, endMs, generation };
    schedule.completed(completed);
    metrics.evaluationDuration.set((endMs - startMs) / 1000);
    context.logger.info({ namespaces: found.length, durationMs: endMs - startMs }, 'namespaces evaluated');
    evaluations.completeSweep(completed);
  };
  /** Evaluates all namespaces if a sweep is due or all evaluations are outdated. */
  const evaluateAll = async (context: ReconcileContext): Promise<ReconcileResult> => {
    const sweepMs = schedule.delayMs();
    if (sweepMs === undefined) return { requeueAfterMs: CHECK_MS };
    const nowMs = context.now();
    const staleMs = staleness.delayMs(nowMs, isPlanned(controller) ? Infinity : schedule.intervalMs());
    if (Math.min(sweepMs, staleMs) <= 0) {
      staleness.evaluating(nowMs);
      if (sweepMs <= 0) await sweep(context);
      else {
        await evaluate(namespaceNames(store), context);
        evaluations.complete();
      }
    }
    if (!isMeasured) setFindingMetrics(controller);
    isMeasured = true;
    return { requeueAfterMs: Math.min(...[sweepMs, staleMs, CHECK_MS].filter((ms) => ms > 0)) };
  };
  const onAffected = (affected: AffectedNamespaces): readonly string[] => {
    if (affected !== 'all') return [...affected];
    staleness.changed();
    schedule.changed();
    return [ALL_NAMESPACES];
  };
  return {
    initialKeys: [ALL_NAMESPACES],
    // A second worker evaluates changed namespaces during a long sweep.
    concurrency: 2,
    sources: [
      watchValue(settings, () => [ALL_NAMESPACES]),
      watch('PSAEnforcementConfig', () => [ALL_NAMESPACES]),
      ...POD_SOURCES.map((kind) => watchChanges(kind, ({ metadata }) => [metadata?.namespace ?? ''])),
      watchChanges('PodSecurityException', ({ metadata }) => [metadata?.namespace ?? '']),
      ...AFFECTING_KINDS.map((kind) => watchAffecting(kind, onAffected)),
    ],
    reconcile: (key, context) => (key === ALL_NAMESPACES ? evaluateAll(context) : evaluateOne(key, context)),
    onStop() {
      evaluations.clear();
      const { namespaces, violatingNamespaces, workloads, violatingWorkloads, evaluationDuration } = metrics;
      const gauges = [namespaces, violatingNamespaces, workloads, violatingWorkloads, evaluationDuration];
      for (const gauge of gauges) gauge.reset();
      return Promise.resolve();
    },
  };
}

/** Returns false in the Disabled phase, because namespace levels do not change then. */
function isPlanned({ settings }: ControllerContext): boolean {
  return settings.value.rollout.phase !== 'Disabled';
}

function getConfig(store: Store): PSAEnforcementConfig | undefined {
  return store.get('PSAEnforcementConfig', PSA_ENFORCEMENT_CONFIG);
}

function createEvaluationSettings(controller: ControllerContext, store: Store): EvaluationSettings {
  const { settings, date, service, version } = controller;
  const { scc, defaults } = settings.value;
  const management = managementSettings(scc);
  const scope = { store, namespace: service.namespace, version };
  const podSecurity = (): PodSecurity => effectivePodSecurity(scope, settings.value);
  return {
    podSecurity,
    management,
    defaults,
    detailCharacters: LIMITS.evaluationCharacters,
    exceptions: (name, store) => activeExceptions(store, settings.value.exceptions, name, date().getTime()),
    *policies(namespace, store) {
      if (isPlanned(controller))
        return yield* namespacePolicies(namespace, store, { podSecurity: podSecurity(), management });
      const { enforce } = resolvePolicies(namespace.metadata?.labels, podSecurity().defaults);
      return { current: enforce, planned: enforce, isSelected: false };
    },
  };
}

/** Sets the metrics. In the Disabled phase, there are no classes, because no level is planned. */
function setFindingMetrics(controller: ControllerContext): void {
  const metrics = controller.metrics.rollout.readiness;
  const { states, classes, workloads, detailed } = countFindings(controller.evaluations.all());
  for (const [state, count] of Object.entries(states)) metrics.namespaces.set({ state }, count);
  for (const [verdict, count] of Object.entries(workloads)) metrics.workloads.set({ verdict }, count);
  metrics.violatingNamespaces.reset();
  if (isPlanned(controller)) {
    for (const [name, count] of Object.entries(classes)) metrics.violatingNamespaces.set({ class: name }, count);
  } else metrics.evaluationDuration.reset();
  metrics.violatingWorkloads.reset();
  for (const { count, ...labels } of detailed) metrics.violatingWorkloads.set(labels, count);
}

/**
 * Tracks whether all evaluations are outdated because a common dependency has changed. `basis` returns the dependencies
 * that are not objects in the store.
 */
function createStaleness(basis: () => readonly unknown[]) {
  let known: readonly unknown[] = [];
  let isStale = true;
  let evaluatedMs = -Infinity;
  return {
    changed: () => void (isStale = true),
    evaluating(nowMs: number): void {
      isStale = false;
      evaluatedMs = nowMs;
    },
    /** Returns the delay until all namespaces should be evaluated again, which is at most the interval. */
    delayMs(nowMs: number, intervalMs: number): number {
      const current = basis();
      if (current.some((value, index) => value !== known[index])) isStale = true;
      known = current;
      return Math.max(0, evaluatedMs + (isStale ? ALL_MS : intervalMs) - nowMs);
    },
  };
}

function createSchedule(controller: ControllerContext, store: Store) {
  const { settings, evaluations, random, date } = controller;
  const { evaluationErrors } = controller.metrics.rollout.readiness;
  /** Spreads the sweeps of many clusters over time. */
  const jitter = random() * 0.2 - 0.1;
  const requestedMs = createRequestReader();
  const settling = createSettling();
  /** Number of consecutive incomplete sweeps. */
  let failures = 0;
  return {
    intervalMs: () => settings.value.rollout.evaluationIntervalMs,
    /** Called after a change that affects all namespaces. */
    changed: () => settling.changed(date().getTime()),
    completed(sweep: CompletedSweep): void {
      const isIncomplete = summarize(sweep).inconclusive > 0;
      if (isIncomplete) evaluationErrors.cell({}).count++;
      failures = isIncomplete ? failures + 1 : 0;
    },
    /**
     * Returns the delay until the next sweep. It is infinite in the Disabled phase, and `undefined` until the
     * PSAEnforcementConfig exists.
     */
    delayMs(): number | undefined {
      if (!isPlanned(controller)) return Infinity;
      const object = getConfig(store);
      const nowMs = date().getTime();
      return (
        object &&
        scheduleSweep({
          object,
          settings: settings.value.rollout,
          nowMs,
          sweep: evaluations.sweep(),
          changedSinceMs: evaluations.changedSinceMs(),
          requestedMs: requestedMs(object, nowMs),
          settleMs: settling.delayMs(nowMs),
          failures,
          jitter,
        })
      );
    },
  };
}

/**
 * Reads requests for an evaluation. Returns the time at which this process first observed the request instead of the
 * time in the annotation, because the clocks of machines differ.
 */
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
/** Maximum time for which a sweep waits for changes to stop. */
const MAX_SETTLE_MS = 60_000;

/** Detects when changes that affect all namespaces have stopped. The clock may be set back in the meantime. */
function createSettling() {
  let sinceMs = -Infinity;
  let lastMs = -Infinity;
  return {
    changed(nowMs: number): void {
      if (Math.abs(nowMs - lastMs) > SETTLE_MS) sinceMs = nowMs;
      lastMs = nowMs;
    },
    delayMs: (nowMs: number): number =>
      Math.abs(nowMs - sinceMs) > MAX_SETTLE_MS ? 0 : Math.max(0, SETTLE_MS - Math.abs(nowMs - lastMs)),
  };
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
    // The priority is included because it determines the order in which SCCs are tried.
    const { type, before } = event;
    const isSame = type === 'put' && before && deepEqual({ ...object, metadata: {} }, { ...before, metadata: {} });
    return keys(isSame === true ? new Set() : 'all');
  });
}

/** Called with the evaluation of a namespace, or `undefined` if the namespace was deleted or is exempt. */
type OnEvaluation = (name: string, evaluation: NamespaceEvaluation | undefined) => void;

/** Evaluates the namespaces that are not exempt. Yields to other work whenever its time slice ends. */
export async function evaluateNamespaces(
  settings: EvaluationSettings,
  names: readonly string[],
  context: Pick<ReconcileContext, 'cluster' | 'now' | 'signal'>,
  onEvaluation: OnEvaluation,
): Promise<void> {
  const { store } = context.cluster;
  function* steps(): Generator<undefined, void> {
    for (const name of names) {
      const namespace = store.get('Namespace', name);
      const isPresent = namespace !== undefined && isEvaluated(namespace, settings.podSecurity().exemptions);
      const evaluation = isPresent ? yield* evaluateFromStore(namespace, store, settings) : undefined;
      if (evaluation?.limit) countExceeded(evaluation.limit);
      onEvaluation(name, evaluation);
      yield;
    }
  }
  await runYielding(steps(), context);
}

export function namespaceNames(store: Store): readonly string[] {
  return store.list('Namespace').flatMap(({ metadata }) => metadata?.name ?? []);
}
