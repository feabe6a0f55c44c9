import { type RolloutView, rolloutOf } from '../cluster/rollout.ts';
import { INSTALLATION } from '../kube/installation.ts';
import {
  ENFORCEMENT_MODES,
  type PSAEnforcementConfig,
  PSA_ENFORCEMENT_CONFIG,
} from '../kube/psa-enforcement-config.ts';
import { readTimestamp } from '../kube/timestamp.ts';
import { measure, type NamespaceEvaluation, summaryOf } from '../policy/rollout/readiness.ts';
import type { ReadinessMetrics } from '../telemetry/rollout.ts';
import { POD_SOURCES } from '../cluster/workloads.ts';
import { deepEqual } from '../kube/equal.ts';
import type { Kind, KubeObject } from '../kube/types.ts';
import { reachOf, type Reach, type SyncChange, type ManagementSettings } from '../policy/rollout/label-sync.ts';
import {
  onNews,
  type Happened,
  type Source,
  on,
  type Controller,
  type ReconcileContext,
  type ReconcileResult,
} from './controller.ts';
import type { Store } from '../cluster/store.ts';
import type { PodSecurityConfiguration } from '../policy/psa/configuration.ts';
import { createFindings } from './psa-readiness/findings.ts';
import { createReports } from './psa-readiness/reports.ts';
import { createRequests, scheduleOf } from './psa-readiness/schedule.ts';
import { type CompletedSweep, type Sweep, proceed } from './psa-readiness/sweep.ts';
import { ROLLOUT_MANAGER } from '../policy/rollout/enforcement.ts';
import type { RolloutSettings } from '../policy/rollout/rollout-settings.ts';
import { decide } from './psa-readiness/decision.ts';
import { evaluateAll, namesOf } from './psa-readiness/evaluate-all.ts';
import { createNamespaceEvaluator } from './psa-readiness/evaluator.ts';
import { decisionNotes, deletionNote, newlyViolating, violationNote } from './psa-readiness/notes.ts';
import { createConfig, writeDecision } from './psa-readiness/write.ts';

/** What the object says, as metrics. */
function measureStatus(metrics: ReadinessMetrics, object: PSAEnforcementConfig, view: RolloutView): void {
  const { status } = object;
  for (const mode of ENFORCEMENT_MODES) {
    metrics.enforcementMode.set({ mode }, (status?.enforcementMode ?? '') === mode ? 1 : 0);
  }
  metrics.enforcing.set(view.enforce === 'restricted' ? 1 : 0);
  metrics.lastEvaluation.set((readTimestamp(status?.lastEvaluationTime) ?? 0) / 1000);
  metrics.progressing.reset();
  metrics.operatorConditions.reset();
  for (const { type, reason, status: isSo } of status?.conditions ?? []) {
    if (type === 'Progressing' && isSo === 'True') metrics.progressing.set({ reason }, 1);
    if (!type.endsWith('EvaluationConditionsDetected')) continue;
    metrics.operatorConditions.set({ name: INSTALLATION.name, condition: type, reason }, isSo === 'True' ? 1 : 0);
  }
}

/** What was found, as metrics. */
function measureFindings(metrics: ReadinessMetrics, evaluations: readonly NamespaceEvaluation[]): void {
  const { namespaces, workloads } = measure(evaluations);
  for (const [category, count] of Object.entries(namespaces)) metrics.namespaces.set({ category }, count);
  metrics.violatingWorkloads.reset();
  for (const { namespace, count } of workloads) metrics.violatingWorkloads.set({ namespace }, count);
}

/** Who does not lead says nothing, lest two replicas say different things. */
function forgetMeasures(metrics: ReadinessMetrics): void {
  for (const gauge of [
    metrics.namespaces,
    metrics.violatingWorkloads,
    metrics.enforcementMode,
    metrics.operatorConditions,
    metrics.progressing,
    metrics.enforcing,
    metrics.lastEvaluation,
    metrics.evaluationDuration,
  ]) {
    gauge.reset();
  }
}

/** Kinds on which it hangs how pods are admitted, and to what level a namespace would be held. */
const SURROUNDINGS = [
  'Namespace',
  'ServiceAccount',
  'SecurityContextConstraints',
  'Role',
  'RoleBinding',
  'ClusterRole',
  'ClusterRoleBinding',
] as const;

/** The sources of what is evaluated: `keysOf` gives the keys for namespaces, after `forget` was told of them. */
function evaluationSources(
  keysOf: (reach: Reach) => readonly string[],
  forget: (reach: Reach) => void,
): readonly Source[] {
  return [
    ...POD_SOURCES.map((kind) => onNews(kind, ({ metadata }) => [metadata?.namespace ?? ''])),
    ...SURROUNDINGS.map((kind) =>
      onNews(kind, (object, store, happened) => {
        const reach = reachFrom(kind, object, store, happened);
        forget(reach);
        return keysOf(reach);
      }),
    ),
  ];
}

function reachFrom(
  kind: (typeof SURROUNDINGS)[number],
  object: KubeObject,
  store: Store,
  { type, before }: Happened<Kind>,
): Reach {
  // The order in which SCCs are tried counts as well.
  if (kind === 'SecurityContextConstraints')
    return isSameScc(object, type === 'put' ? before : undefined) ? NOWHERE : 'all';
  const change: SyncChange = type === 'remove' ? { kind, before: object } : { kind, before, after: object };
  return reachOf(change, {
    sccNames: store.list('SecurityContextConstraints').flatMap(({ metadata }) => metadata?.name ?? []),
    findRole: (namespace, name) =>
      namespace === '' ? store.get('ClusterRole', name) : store.get('Role', name, namespace),
  });
}

const NOWHERE: Reach = new Set();

function isSameScc(after: KubeObject, before: KubeObject | undefined): boolean {
  return before !== undefined && deepEqual({ ...after, metadata: {} }, { ...before, metadata: {} });
}

/** Tells whether things are still changing that concern everything. All times are in milliseconds on one clock. */
interface Rest {
  changed(nowMs: number): void;
  /** How long to wait until all has been quiet for a while; 0: it is, or it is never. */
  waitMs(nowMs: number): number;
}

const QUIET_MS = 5_000;
/** Whoever waits for longer waits for ever. */
const MAX_WAIT_MS = 60_000;

/** Makes a watch that has seen no change yet. */
function createRest(): Rest {
  let sinceMs = -Infinity;
  let lastMs = -Infinity;
  return {
    changed(nowMs) {
      if (nowMs - lastMs > QUIET_MS) sinceMs = nowMs;
      lastMs = nowMs;
    },
    waitMs(nowMs) {
      return nowMs - sinceMs > MAX_WAIT_MS ? 0 : Math.max(0, lastMs + QUIET_MS - nowMs);
    },
  };
}

/** What is known for as long as this process leads. */
function createState(find: () => PSAEnforcementConfig | undefined) {
  const wasViolating = (name: string): boolean =>
    find()?.status?.violatingNamespaces?.some((entry) => entry.name === name && entry.state !== 'Previous') === true;
  return {
    findings: createFindings(wasViolating),
    reports: createReports(),
    requests: createRequests(),
    rest: createRest(),
    notes: [] as string[],
    /** When each was evaluated last, on the clock of the controller. */
    evaluatedMs: new Map<string, number>(),
    allMs: -Infinity,
    /** True: something has happened that concerns all namespaces. */
    isAllStale: true,
    exemptions: undefined as PodSecurityConfiguration['exemptions'] | undefined,
    failures: 0,
    sweep: undefined as Sweep | undefined,
    completed: undefined as CompletedSweep | undefined,
    sweptGeneration: undefined as number | undefined,
    refusedGeneration: undefined as number | undefined,
    measured: -1,
  };
}

interface ReadinessOptions {
  /** Of the installation. */
  readonly namespace: string;
  /** Ours. */
  readonly version: string;
  settings(): RolloutSettings;
  /** Of the configuration file. */
  exemptions(): PodSecurityConfiguration['exemptions'];
  readonly management: ManagementSettings;
  readonly metrics: ReadinessMetrics;
  readonly date: () => Date;
  /** From 0 to less than 1. */
  random(): number;
}

/** Keys beside the names of namespaces. */
const START = '*start';
const CONFIG = '*config';
const SWEEP = '*sweep';
const ALL = '*all';
const NOTES = '*notes';
const REPORTS = '*reports';

/** The configuration file is followed; nobody tells when it changes. */
const LOOK_AGAIN_MS = 5_000;
/** A definition that is missing may come. */
const UNSERVED_MS = 30_000;
/** A namespace in which much happens is not evaluated more often; nor are all together. */
const EACH_MS = 1_000;
const ALL_MS = 10_000;
const NOTES_AT_ONCE = 20;
const NEXT_BATCH_MS = 1_000;

/**
 * Makes the controller that finds out what enforcement would refuse, says it, and decides. What is known of each namespace
 * follows whatever changes in it; decisions go by evaluations of all namespaces.
 * @see https://github.com/openshift/cluster-kube-apiserver-operator/tree/main/pkg/operator/podsecurityreadinesscontroller
 */
export function createPsaReadiness(options: ReadinessOptions): Controller {
  const { metrics, date } = options;
  const evaluator = createNamespaceEvaluator(options);
  const jitter = options.random() * 0.2 - 0.1;
  const nowMs = (): number => date().getTime();
  let state = createState(() => undefined);

  const note = (name: string, evaluation: NamespaceEvaluation | undefined): void => {
    const { findings, reports } = state;
    const before = findings.get(name);
    if (evaluation) findings.note(evaluation, nowMs());
    else {
      evaluator.leave(name);
      if (before) findings.drop(name, nowMs());
    }
    if (evaluation?.verdict === 'violating' || before?.verdict === 'violating') reports.want(name);
  };

  const start = ({ cluster, signal, enqueue }: ReconcileContext): void => {
    // Whoever was not running has missed what happened meanwhile.
    evaluator.reset();
    state = createState(() => cluster.store.get('PSAEnforcementConfig', PSA_ENFORCEMENT_CONFIG));
    signal.addEventListener('abort', () => forgetMeasures(metrics), { once: true });
    enqueue(CONFIG);
  };

  const evaluate = async (name: string, context: ReconcileContext): Promise<ReconcileResult> => {
    const sinceMs = context.now() - (state.evaluatedMs.get(name) ?? -Infinity);
    if (sinceMs < EACH_MS) return { requeueAfterMs: EACH_MS - sinceMs };
    await evaluateAll(evaluator, [name], context, note);
    if (state.findings.get(name)) state.evaluatedMs.set(name, context.now());
    else state.evaluatedMs.delete(name);
    context.enqueue(REPORTS);
    return undefined;
  };

  const evaluateEverything = async (context: ReconcileContext): Promise<ReconcileResult> => {
    if (!state.isAllStale) return undefined;
    const sinceMs = context.now() - state.allMs;
    if (sinceMs < ALL_MS) return { requeueAfterMs: ALL_MS - sinceMs };
    state.allMs = context.now();
    state.isAllStale = false;
    await evaluateAll(evaluator, namesOf(context.cluster.store.list('Namespace')), context, note);
    context.enqueue(REPORTS);
    return undefined;
  };

  const sweep = async (settings: RolloutSettings, context: ReconcileContext): Promise<ReconcileResult> => {
    const { store } = context.cluster;
    const object = store.get('PSAEnforcementConfig', PSA_ENFORCEMENT_CONFIG);
    if (state.sweep?.settings.evaluator !== settings.evaluator) {
      const { generation } = object?.metadata ?? {};
      state.sweep = { startMs: nowMs(), generation, settings, evaluations: new Map() };
    }
    const { published } = rolloutOf({ store, ...options }, settings);
    const begun = state.sweep;
    if (settings.evaluator === 'InProcess') {
      state.allMs = context.now();
      state.isAllStale = false;
    }
    const more = await proceed(begun, { evaluator, currentEnforce: published }, context);
    if (more) return more;
    const evaluations = [...begun.evaluations.values()];
    const endMs = nowMs();
    for (const { name } of state.findings.all()) if (!begun.evaluations.has(name)) note(name, undefined);
    for (const evaluation of evaluations) note(evaluation.name, evaluation);
    state.findings.settle(evaluations, endMs);
    // What an earlier process has reported may be in order by now.
    if (!state.completed) for (const { name } of object?.status?.violatingNamespaces ?? []) state.reports.want(name);
    state.completed = { evaluations, startMs: begun.startMs, endMs };
    state.sweptGeneration = begun.generation;
    state.sweep = undefined;
    const isIncomplete = summaryOf({ evaluations, findNamespace: () => undefined }, endMs).inconclusive > 0;
    if (isIncomplete) metrics.evaluationErrors.cell({}).count++;
    state.failures = isIncomplete && settings.inconclusivePolicy === 'Block' ? state.failures + 1 : 0;
    metrics.evaluationDuration.set((endMs - begun.startMs) / 1000);
    context.logger.info({ namespaces: evaluations.length, durationMs: endMs - begun.startMs }, 'namespaces evaluated');
    state.reports.lookAgain();
    context.enqueue(REPORTS);
    context.enqueue(CONFIG);
    return undefined;
  };

  const config = async (settings: RolloutSettings, context: ReconcileContext): Promise<ReconcileResult> => {
    const { cluster, enqueue, tell } = context;
    const { store } = cluster;
    const object = store.get('PSAEnforcementConfig', PSA_ENFORCEMENT_CONFIG);
    if (!object) {
      const { published } = rolloutOf({ store, ...options }, settings);
      const created = await createConfig(context);
      if (created && published === 'restricted') tell(deletionNote(created));
      return { requeueAfterMs: created ? LOOK_AGAIN_MS : UNSERVED_MS };
    }
    const schedule = scheduleOf({
      ...state,
      object,
      settings,
      jitter,
      nowMs: nowMs(),
      sweep: state.completed,
      requestedMs: state.requests(object, nowMs()),
      newsSinceMs: state.findings.newsSinceMs(),
      // While SCCs and grants are still coming in, much seems to violate that does not.
      restMs: state.rest.waitMs(nowMs()),
    });
    if (options.exemptions() !== state.exemptions) {
      state.exemptions = options.exemptions();
      state.isAllStale = true;
      evaluator.forget('all');
    }
    if (schedule.delayMs === 0 && !state.sweep) enqueue(SWEEP);
    else if (state.isAllStale) enqueue(ALL);
    const view = rolloutOf({ store, ...options }, settings);
    const { generation } = object.metadata ?? {};
    if (!schedule.isAwaited) {
      const decision = decide({
        object,
        settings,
        view,
        store,
        sweep: state.completed,
        nowMs: nowMs(),
        isSpecRefused: state.refusedGeneration !== undefined && state.refusedGeneration === generation,
      });
      const outcome = await writeDecision(object, decision, context);
      if (outcome === 'refused') {
        state.refusedGeneration = generation;
        enqueue(CONFIG);
        return undefined;
      }
      if (outcome === 'written') {
        for (const told of decisionNotes(object, decision)) tell(told);
        state.notes.push(...newlyViolating(object, decision.status));
        enqueue(NOTES);
      }
    }
    measureStatus(metrics, store.get('PSAEnforcementConfig', PSA_ENFORCEMENT_CONFIG) ?? object, view);
    if (state.measured !== state.findings.revision()) {
      state.measured = state.findings.revision();
      measureFindings(metrics, state.findings.all());
    }
    const delayMs = schedule.delayMs === 0 ? LOOK_AGAIN_MS : Math.min(schedule.delayMs, LOOK_AGAIN_MS);
    return { requeueAfterMs: delayMs };
  };

  const tellNotes = ({ cluster, tell }: ReconcileContext): ReconcileResult => {
    for (const name of state.notes.splice(0, NOTES_AT_ONCE)) {
      const namespace = cluster.store.get('Namespace', name);
      const found = state.findings.get(name);
      if (namespace && found?.verdict === 'violating') tell(violationNote(namespace, found));
    }
    return state.notes.length > 0 ? { requeueAfterMs: NEXT_BATCH_MS } : undefined;
  };

  const report = async ({ cluster }: ReconcileContext): Promise<ReconcileResult> => {
    const seconds = Math.floor(nowMs() / 1000);
    const find = (name: string): NamespaceEvaluation | undefined => state.findings.get(name);
    const isMore = await state.reports.write(cluster, { fieldManager: ROLLOUT_MANAGER, find, seconds });
    return isMore ? { requeueAfterMs: NEXT_BATCH_MS } : undefined;
  };

  return {
    name: ROLLOUT_MANAGER,
    runs: 'leader',
    keys: [START],
    // A long evaluation does not hold up what an administrator decides.
    concurrency: 2,
    sources: [
      on('PSAEnforcementConfig', () => [CONFIG]),
      ...evaluationSources(
        (reach: Reach) => {
          if (reach !== 'all') return [...reach];
          state.isAllStale = true;
          state.rest.changed(nowMs());
          return [ALL];
        },
        (reach) => evaluator.forget(reach),
      ),
    ],
    async reconcile(key, context): Promise<ReconcileResult> {
      if (key === START) start(context);
      const settings = options.settings();
      if (settings.phase === 'Disabled') {
        // What happens meanwhile is looked at when that changes.
        state.isAllStale = true;
        if (key !== CONFIG) return undefined;
        forgetMeasures(metrics);
        return { requeueAfterMs: LOOK_AGAIN_MS };
      }
      switch (key) {
        case START:
          return undefined;
        case CONFIG:
          return config(settings, context);
        case SWEEP:
          return sweep(settings, context);
        case NOTES:
          return tellNotes(context);
        case REPORTS:
          return report(context);
      }
      // Where the API server is asked, it is asked of all namespaces in turn.
      if (settings.evaluator === 'DryRun') return undefined;
      return key === ALL ? evaluateEverything(context) : evaluate(key, context);
    },
  };
}
