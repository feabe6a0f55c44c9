import {
  type NamespaceEvaluation,
  nextEvaluationMs,
  evaluationStatus,
  mergeReadinessConditions,
  readinessConditions,
  summarize,
  type EvaluationStatus,
  countFindings,
  REPORT_NAME,
} from '../policy/rollout/readiness.ts';
import { EVALUATE_ANNOTATION, INSTALLATION } from '../kube/well-known.ts';
import {
  type PSAEnforcementConfig,
  ENFORCEMENT_MODES,
  PSA_ENFORCEMENT_CONFIG,
} from '../kube/psa-enforcement-config.ts';
import { parseTimestamp, formatTimestamp } from '../kube/units.ts';
import {
  readEnforcement,
  enforcementConditions,
  getEvaluationResult,
  planEnforcement,
  type EnforcementInput,
  type EnforcementPlan,
  ROLLOUT_MANAGER,
} from '../policy/rollout/enforcement.ts';
import type { RolloutSettings } from '../policy/rollout/settings.ts';
import {
  type CompletedSweep,
  type Sweep,
  proceed,
  evaluateAll,
  namesOf,
  createNamespaceEvaluator,
} from './readiness-evaluator.ts';
import { type RolloutView, getRolloutView } from '../cluster/rollout.ts';
import type { Store } from '../cluster/store.ts';
import { withTransitionTimes, type Condition, type ConditionState } from '../kube/conditions.ts';
import { deepEqual } from '../kube/equality.ts';
import type { ReadinessMetrics } from '../telemetry/metrics.ts';
import { POD_SOURCES } from '../cluster/workloads.ts';
import type { Kind, KubeObject } from '../kube/types.ts';
import {
  findAffectedNamespaces,
  type AffectedNamespaces,
  type ObjectChange,
} from '../policy/rollout/affected-namespaces.ts';
import { managementSettings } from '../policy/rollout/label-sync.ts';
import {
  rule,
  statusRule,
  watch,
  watchChanges,
  watchValue,
  type ControllerContext,
  type ControllerDefinition,
  type Reconciler,
  type SourceEvent,
  type Source,
  type ReconcileContext,
  type ReconcileResult,
} from './controller.ts';
import type { PodSecurityConfiguration } from '../policy/psa/configuration.ts';
import {
  createReports,
  decisionNotes,
  deletionNote,
  newlyViolating,
  violationNote,
  createConfig,
  writeDecision,
} from './readiness-writes.ts';

/** What is known of the namespaces at the moment. */
interface Findings {
  all(): readonly NamespaceEvaluation[];
  get(name: string): NamespaceEvaluation | undefined;
  note(evaluation: NamespaceEvaluation, nowMs: number): void;
  /** There is nothing to say of that namespace any more. */
  drop(name: string, nowMs: number): void;
  /** An evaluation of all namespaces has come to its end: it is what news are compared with. */
  settle(evaluations: readonly NamespaceEvaluation[], nowMs: number): void;
  /** Since when a verdict has been another than in the last evaluation of all namespaces. */
  newsSinceMs(): number | undefined;
  /** Rises with every change. */
  revision(): number;
}

/**
 * Makes an empty memory.
 * @param wasViolating what an earlier process found, where this one has evaluated nothing yet
 */
function createFindings(wasViolating: (name: string) => boolean): Findings {
  const found = new Map<string, NamespaceEvaluation>();
  let settled: ReadonlyMap<string, string> | undefined;
  let sinceMs: number | undefined;
  let revision = 0;
  const isNews = (name: string, evaluation: NamespaceEvaluation | undefined): boolean => {
    if (settled) return (settled.get(name) ?? NOTHING) !== verdictOf(evaluation);
    return wasViolating(name) !== (evaluation?.verdict === 'violating');
  };
  const compare = (name: string, nowMs: number): void => {
    revision++;
    if (isNews(name, found.get(name))) sinceMs ??= nowMs;
  };
  return {
    all: () => [...found.values()],
    get: (name) => found.get(name),
    note(evaluation, nowMs) {
      found.set(evaluation.name, evaluation);
      compare(evaluation.name, nowMs);
    },
    drop(name, nowMs) {
      found.delete(name);
      compare(name, nowMs);
    },
    settle(evaluations, nowMs) {
      settled = new Map(evaluations.map((evaluation) => [evaluation.name, verdictOf(evaluation)]));
      sinceMs = undefined;
      for (const name of found.keys()) compare(name, nowMs);
    },
    newsSinceMs: () => sinceMs,
    revision: () => revision,
  };
}

/** A namespace that is clean, and one that is not looked at. */
const NOTHING = 'clean';

function verdictOf(evaluation: NamespaceEvaluation | undefined): string {
  if (evaluation === undefined) return NOTHING;
  return [evaluation.verdict, ...evaluation.categories].join(' ');
}

/** What is known of evaluations. Times are in milliseconds since 1970. */
interface ScheduleFacts {
  readonly object: PSAEnforcementConfig;
  readonly settings: RolloutSettings;
  readonly nowMs: number;
  /** The newest of this process that has come to its end. */
  readonly sweep: CompletedSweep | undefined;
  /** How many in a row could not judge all namespaces. */
  readonly failures: number;
  /** The generation of the object when the newest one began. */
  readonly sweptGeneration: number | undefined;
  readonly requestedMs: number | undefined;
  /** Since when a namespace has been found otherwise than the newest one says. */
  readonly newsSinceMs: number | undefined;
  /** Until all has been quiet for a while. */
  readonly restMs: number;
  readonly jitter: number;
}

/** When all namespaces are to be evaluated. */
interface Schedule {
  /** In so many milliseconds; 0: now. */
  readonly delayMs: number;
  /** True if nothing is to be decided before. */
  readonly isAwaited: boolean;
}

/** What lasts a moment only is not worth an evaluation; nor is every change one of its own. */
const NEWS_MS = 60_000;
/** Whoever waits for a decision waits no longer than that for news to be taken in. */
const SOON_MS = 5_000;

/** By the time, by what somebody asks for, and by what has changed. */
function scheduleOf(facts: ScheduleFacts): Schedule {
  const { object, settings, nowMs, sweep, newsSinceMs } = facts;
  const { spec, status } = readEnforcement(object);
  const isInProcess = settings.evaluator === 'InProcess';
  // Nobody has asked for anything: what was evaluated is to decide.
  const isUndecided = settings.phase === 'Enforce' && spec === '' && status !== 'Restricted';
  const { generation } = object.metadata ?? {};
  const isNewWish =
    spec === '' && generation !== object.status?.observedGeneration && generation !== facts.sweptGeneration;
  const isOutdated = isUndecided && isInProcess && (sweep === undefined || newsSinceMs !== undefined);
  const attemptedMs = sweep?.startMs;
  const storedMs = parseTimestamp(object.status?.lastEvaluationTime);
  // What has just come to its end is yet to be stored.
  const completedMs = sweep && facts.failures === 0 ? sweep.endMs : storedMs;
  const byTime = nextEvaluationMs({
    ...facts,
    intervalMs: settings.evaluationIntervalMs,
    maxAgeMs: settings.maxEvaluationAgeMs,
    completedMs,
    attemptedMs,
    isAwaited: isUndecided,
  });
  const sinceLast = attemptedMs === undefined ? Infinity : nowMs - attemptedMs;
  const byNews = newsSinceMs === undefined ? Infinity : Math.max(newsSinceMs + NEWS_MS - nowMs, NEWS_MS - sinceLast, 0);
  const byWish = isNewWish ? 0 : Infinity;
  const byDoubt = isOutdated ? Math.max(0, SOON_MS - sinceLast) : Infinity;
  // An API server that is asked may take hours: what is known until then is told.
  const isHeld = isNewWish && (isInProcess || storedMs !== undefined);
  const delayMs = Math.max(Math.min(byTime, byNews, byWish, byDoubt), facts.restMs);
  return { delayMs, isAwaited: isHeld || isOutdated };
}

/** Remembers since when somebody has wanted an evaluation. */
type Requests = (object: PSAEnforcementConfig, nowMs: number) => number | undefined;

/** Makes a memory. The time that a request names counts once, for whoever sees it first: clocks differ. */
function createRequests(): Requests {
  let seen: { readonly value: string | undefined; readonly atMs: number | undefined } | undefined;
  return ({ metadata, status }, nowMs) => {
    const value = metadata?.annotations?.[EVALUATE_ANNOTATION];
    if (seen && seen.value === value) return seen.atMs;
    const wantedMs = parseTimestamp(value);
    const isAnswered =
      seen === undefined &&
      wantedMs !== undefined &&
      wantedMs <= (parseTimestamp(status?.lastEvaluationTime) ?? -Infinity);
    seen = { value, atMs: wantedMs === undefined || isAnswered ? undefined : nowMs };
    return seen.atMs;
  };
}

/** What a decision hangs on. */
interface DecisionInput {
  readonly object: PSAEnforcementConfig;
  readonly settings: RolloutSettings;
  readonly view: RolloutView;
  /** The newest one of this process. */
  readonly sweep: CompletedSweep | undefined;
  readonly store: Store;
  /** In milliseconds since 1970. */
  readonly nowMs: number;
  /** True if the API server has said that the field is somebody else's. */
  readonly isSpecRefused: boolean;
}

type Status = NonNullable<PSAEnforcementConfig['status']>;

/** What is asked for and decided from now on. */
export interface Decision {
  readonly spec: string;
  /** What the status is to be, but for the conditions of others and the generation. */
  readonly status: Status & { readonly conditions: readonly Condition[] };
  /** All namespaces that violate, however many the status holds. */
  readonly violating: readonly string[];
}

const OUR_CONDITIONS: ReadonlySet<string> = new Set([
  'Evaluated',
  'ViolationsDetected',
  'LegacyProposed',
  'SpecInvalid',
]);
const MERGED = 'EvaluationConditionsDetected';

/** Decides by what was evaluated last; what was decided is decided again until something else changes. */
function decide(input: DecisionInput): Decision {
  const { object, settings, sweep, nowMs } = input;
  const evaluated = evaluatedBy(input);
  const { lastEvaluationTime = null, violatingNamespaces } = evaluated;
  const status: Status = { ...object.status, lastEvaluationTime, violatingNamespaces };
  const asked = readEnforcement(object);
  const given: EnforcementInput = {
    ...asked,
    ...(input.isSpecRefused ? { specOwner: 'others' as const } : {}),
    phase: settings.phase,
    gate: input.view.gate,
    evaluation: getEvaluationResult({
      status,
      newest: sweep && summarize(sweepOf(sweep, input.store), sweep.endMs),
      nowMs,
      maxAgeMs: settings.maxEvaluationAgeMs,
      inconclusivePolicy: settings.inconclusivePolicy,
    }),
    isSettled: false,
    currentEnforce: input.view.published,
    acceptEvaluations: settings.recheckBeforeEnforce ? 'fresh' : 'any age',
  };
  const plan = planEnforcement(given);
  const violating = sweep
    ? sweep.evaluations.filter(({ verdict }) => verdict === 'violating').map(({ name }) => name)
    : violatingNamespaces.filter(({ state }) => state !== 'Previous').map(({ name }) => name);
  return {
    spec: plan.spec,
    violating,
    status: {
      enforcementMode: plan.status,
      violatingNamespaces,
      ...(lastEvaluationTime === null ? {} : { lastEvaluationTime }),
      conditions: conditionsOf(input, { given, plan, violating, lastEvaluationTime: lastEvaluationTime ?? undefined }),
    },
  };
}

/** True if the object says all that already, and for its present generation. */
export function isSaid({ metadata, status: before }: PSAEnforcementConfig, { status }: Decision): boolean {
  const types = new Set(status.conditions.map(({ type }) => type));
  const said = before?.conditions?.filter(({ type }) => types.has(type) || OUR_CONDITIONS.has(type)) ?? [];
  return (
    (before?.enforcementMode ?? '') === status.enforcementMode &&
    before?.observedGeneration === metadata?.generation &&
    (before?.lastEvaluationTime ?? undefined) === status.lastEvaluationTime &&
    deepEqual(before?.violatingNamespaces ?? [], status.violatingNamespaces) &&
    deepEqual(byType(said), byType(status.conditions))
  );
}

function byType(conditions: readonly Condition[]): Readonly<Record<string, Condition>> {
  return Object.fromEntries(conditions.map((condition) => [condition.type, condition]));
}

/** Where this process has evaluated nothing yet, what an earlier one found stands. */
function evaluatedBy({ object: { status }, settings, sweep, store }: DecisionInput): EvaluationStatus {
  if (!sweep) {
    const { violatingNamespaces, lastEvaluationTime } = status ?? {};
    return { violatingNamespaces: violatingNamespaces ?? [], lastEvaluationTime: lastEvaluationTime ?? undefined };
  }
  const { inconclusivePolicy } = settings;
  return evaluationStatus({
    before: status,
    sweep: sweepOf(sweep, store),
    endMs: sweep.endMs,
    inconclusivePolicy,
  });
}

function sweepOf({ evaluations }: CompletedSweep, store: Store): Parameters<typeof summarize>[0] {
  return { evaluations, findNamespace: (name) => store.get('Namespace', name) };
}

interface Outcome {
  readonly given: EnforcementInput;
  readonly plan: EnforcementPlan;
  readonly violating: readonly string[];
  readonly lastEvaluationTime: string | undefined;
}

function conditionsOf({ object, sweep, nowMs }: DecisionInput, outcome: Outcome): readonly Condition[] {
  const { given: input, plan, violating, lastEvaluationTime } = outcome;
  const now = formatTimestamp(nowMs);
  const before = object.status?.conditions;
  const ours: readonly ConditionState[] = enforcementConditions({ input, plan, violating, lastEvaluationTime }).filter(
    ({ type }) => OUR_CONDITIONS.has(type),
  );
  const operator = sweep
    ? withTransitionTimes(readinessConditions(sweep.evaluations), before, now)
    : (before?.filter(({ type }) => type.endsWith(MERGED) && type !== MERGED) ?? []);
  const merged = mergeReadinessConditions(operator, {
    isManaged: true,
    before: before?.find(({ type }) => type === MERGED),
    now,
  });
  return [...withTransitionTimes(ours, before, now), ...operator, merged];
}

/** What the object says, as metrics. */
function measureStatus(metrics: ReadinessMetrics, object: PSAEnforcementConfig, view: RolloutView): void {
  const { status } = object;
  for (const mode of ENFORCEMENT_MODES) {
    metrics.enforcementMode.set({ mode }, (status?.enforcementMode ?? '') === mode ? 1 : 0);
  }
  metrics.enforcing.set(view.enforce === 'restricted' ? 1 : 0);
  metrics.lastEvaluation.set((parseTimestamp(status?.lastEvaluationTime) ?? 0) / 1000);
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
  const { namespaces, workloads } = countFindings(evaluations);
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
  keysOf: (reach: AffectedNamespaces) => readonly string[],
  forget: (reach: AffectedNamespaces) => void,
): readonly Source[] {
  return [
    ...POD_SOURCES.map((kind) => watchChanges(kind, ({ metadata }) => [metadata?.namespace ?? ''])),
    ...SURROUNDINGS.map((kind) =>
      watchChanges(kind, (object, store, event) => {
        const reach = reachFrom(kind, object, store, event);
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
  { type, before }: SourceEvent<Kind>,
): AffectedNamespaces {
  // The order in which SCCs are tried counts as well.
  if (kind === 'SecurityContextConstraints')
    return isSameScc(object, type === 'put' ? before : undefined) ? NOWHERE : 'all';
  const change: ObjectChange = type === 'remove' ? { kind, before: object } : { kind, before, after: object };
  return findAffectedNamespaces(change, {
    sccNames: store.list('SecurityContextConstraints').flatMap(({ metadata }) => metadata?.name ?? []),
    findRole: (namespace, name) =>
      namespace === '' ? store.get('ClusterRole', name) : store.get('Role', name, namespace),
  });
}

const NOWHERE: AffectedNamespaces = new Set();

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
    /** True: something has event that concerns all namespaces. */
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

export const readiness: ControllerDefinition = {
  name: ROLLOUT_MANAGER,
  description: 'evaluates which workloads enforcement would refuse, reports them, and decides about enforcement',
  runsOn: 'leader',
  permissions: [
    {
      role: 'readiness',
      clusterRules: [
        rule(['create', 'patch'], ['PSAEnforcementConfig']),
        statusRule(['patch'], 'PSAEnforcementConfig'),
        rule(['create'], ['Report']),
        rule(['patch', 'delete'], ['Report'], [REPORT_NAME]),
      ],
    },
    {
      // A dry run is authorized like the write: this permits changing the labels of namespaces.
      role: 'readiness-dry-run',
      clusterRules: [rule(['patch'], ['Namespace'])],
      isNeeded: ({ dryRun }) => dryRun,
    },
  ],
  isEnabled: ({ rollout }) => rollout,
  create: createReconciler,
};

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
function createReconciler(context: ControllerContext): Reconciler {
  const { settings: current, service, version, date } = context;
  const metrics = context.metrics.rollout.readiness;
  const options = {
    namespace: service.namespace,
    version,
    exemptions: () => current.value.podSecurity.configuration.exemptions,
    management: managementSettings(current.value.scc),
  };
  const evaluator = createNamespaceEvaluator(options);
  const jitter = context.random() * 0.2 - 0.1;
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
    // Whoever was not running has missed what event meanwhile.
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
    const { published } = getRolloutView({ store, ...options }, settings);
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
    const isIncomplete = summarize({ evaluations, findNamespace: () => undefined }, endMs).inconclusive > 0;
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
    const { cluster, enqueue, recordEvent } = context;
    const { store } = cluster;
    const object = store.get('PSAEnforcementConfig', PSA_ENFORCEMENT_CONFIG);
    if (!object) {
      const { published } = getRolloutView({ store, ...options }, settings);
      const created = await createConfig(context);
      if (created && published === 'restricted') deletionNote(created, recordEvent);
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
    const view = getRolloutView({ store, ...options }, settings);
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
        decisionNotes(object, decision, recordEvent);
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

  const tellNotes = ({ cluster, recordEvent }: ReconcileContext): ReconcileResult => {
    for (const name of state.notes.splice(0, NOTES_AT_ONCE)) {
      const namespace = cluster.store.get('Namespace', name);
      const found = state.findings.get(name);
      if (namespace && found?.verdict === 'violating') violationNote(namespace, found, recordEvent);
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
    initialKeys: [START],
    // A long evaluation does not hold up what an administrator decides.
    concurrency: 2,
    sources: [
      watchValue(current, () => [CONFIG]),
      watch('PSAEnforcementConfig', () => [CONFIG]),
      ...evaluationSources(
        (reach: AffectedNamespaces) => {
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
      const settings = current.value.rollout;
      if (settings.phase === 'Disabled') {
        // What happens meanwhile is looked at when that changes.
        state.isAllStale = true;
        if (key !== CONFIG) return undefined;
        forgetMeasures(metrics);
        return undefined;
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
