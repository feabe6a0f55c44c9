/** Computes the conditions, the status and the enforcement decision from the evaluations of all namespaces. */
import { type Condition, type ConditionState, withTransitionTimes } from '../../kube/conditions.ts';
import { defined } from '../../kube/defined.ts';
import {
  MAX_VIOLATING_NAMESPACES,
  type PSAEnforcementConfig,
  type ViolatingNamespace,
} from '../../kube/psa-enforcement-config.ts';
import { compareBytes, sortedSet } from '../../kube/text.ts';
import type { Namespace } from '../../kube/types.ts';
import { formatTimestamp, parseTimestamp } from '../../kube/units.ts';
import { enforcementConditions } from './enforcement-conditions.ts';
import {
  type DefaultLevel,
  type EnforcementInput,
  getEvaluationResult,
  planEnforcement,
  readEnforcement,
  type SweepSummary,
} from './enforcement.ts';
import {
  type Category,
  NAMESPACE_VERDICTS,
  type NamespaceEvaluation,
  type NamespaceVerdict,
  WORKLOAD_VERDICTS,
  type WorkloadVerdict,
} from './evaluation.ts';
import type { RolloutSettings } from './settings.ts';

/** Suffix in the types of all evaluation conditions. The suffix alone is the type of the merged condition. */
const SUFFIX = 'EvaluationConditionsDetected';
const VIOLATIONS = 'PSViolationsDetected';
const INCONCLUSIVE = 'PSViolationDecisionInconclusive';
const MAX_MESSAGE_BYTES = 32 * 1024;

/** Prefixes of the condition types, in the order in which conditions are written. */
const PREFIXES: Readonly<Record<Category | 'inconclusive', string>> = {
  unknown: 'PodSecurityUnknown',
  openshift: 'PodSecurityOpenshift',
  runLevelZero: 'PodSecurityRunLevelZero',
  disabledSyncer: 'PodSecurityDisabledSyncer',
  userSCC: 'PodSecurityUserSCC',
  inconclusive: 'PodSecurityInconclusive',
};

type NamedEvaluation = Pick<NamespaceEvaluation, 'name' | 'verdict' | 'categories'>;

/** Returns the six conditions after an evaluation of all namespaces. */
export function readinessConditions(evaluations: readonly NamedEvaluation[]): readonly ConditionState[] {
  return Object.entries(PREFIXES).map(([category, prefix]) => {
    const namespaces = evaluations.filter((evaluation) => isIn(evaluation, category)).map(({ name }) => name);
    const reason = category === 'inconclusive' ? INCONCLUSIVE : VIOLATIONS;
    return readinessCondition({ type: prefix + SUFFIX, reason, namespaces });
  });
}

function isIn({ verdict, categories }: NamedEvaluation, category: string): boolean {
  return category === 'inconclusive'
    ? verdict === 'inconclusive'
    : (categories as readonly string[]).includes(category);
}

interface ReadinessCondition {
  readonly type: string;
  readonly reason: string;
  readonly namespaces: readonly string[];
}

/** Returns one condition. It is true if there are namespaces, and its message lists them. */
export function readinessCondition({ type, reason, namespaces }: ReadinessCondition): ConditionState {
  if (namespaces.length === 0) return { type, status: 'False', reason: 'ExpectedReason', message: '' };
  return {
    type,
    status: 'True',
    reason,
    message: `${messagePrefix(reason)}: ${formatNamespaces(sortedSet(namespaces))}`,
  };
}

function messagePrefix(reason: string): string {
  if (reason === VIOLATIONS) return 'Violations detected in namespaces';
  return reason === INCONCLUSIVE
    ? 'Could not evaluate violations for namespaces'
    : 'Unexpected condition for namespace';
}

/**
 * Formats as many namespaces as fit. Their names are ASCII, so each character is one byte. 100 bytes are reserved for
 * the rest of the message.
 */
function formatNamespaces(names: readonly string[]): string {
  let length = 0;
  const shown = names.filter((name) => (length += name.length + 1) <= MAX_MESSAGE_BYTES - 100);
  const omitted = names.length - shown.length;
  return `[${shown.join(' ')}]${omitted > 0 ? ` and ${omitted} more` : ''}`;
}

interface MergeOptions {
  readonly before?: Condition | undefined;
  /** Time in RFC 3339 format. It is the transition time if the conditions have none. */
  readonly now: string;
}

/**
 * Merges all evaluation conditions into a single condition for fleet queries.
 * @see https://github.com/openshift/library-go/blob/master/pkg/operator/status/condition.go
 */
export function mergeReadinessConditions(conditions: readonly Condition[], { before, now }: MergeOptions): Condition {
  const members = conditions
    .filter(({ type }) => type.endsWith(SUFFIX) && type !== SUFFIX)
    .sort((a, b) => compareBytes(a.type, b.type));
  const detected = members.filter(({ status }) => status !== 'False');
  const state = mergeStates(members, detected);
  const latest = latestTransition(detected.length > 0 ? detected : members);
  const [timed = { ...state, lastTransitionTime: now }] = withTransitionTimes([state], before ? [before] : [], now);
  return { ...timed, ...defined({ lastTransitionTime: latest }) };
}

function mergeStates(members: readonly Condition[], detected: readonly Condition[]): ConditionState {
  if (members.length === 0) return { type: SUFFIX, status: 'Unknown', reason: 'NoData', message: '' };
  if (detected.length === 0) {
    const message = mergeMessages(members) || 'All is well';
    return { type: SUFFIX, status: 'False', reason: 'AsExpected', message };
  }
  const reasons = detected.map(({ type, reason }) => `${type.slice(0, -SUFFIX.length)}_${reason}`);
  const status = detected.some((condition) => condition.status === 'True') ? 'True' : 'Unknown';
  return { type: SUFFIX, status, reason: reasons.sort(compareBytes).join('::'), message: mergeMessages(detected) };
}

function mergeMessages(conditions: readonly Condition[]): string {
  return conditions
    .filter(({ message }) => message !== '')
    .flatMap(({ type, message }) => message.split('\n').map((line) => `${type}: ${line}`))
    .join('\n');
}

function latestTransition(conditions: readonly Condition[]): string | undefined {
  return conditions
    .map(({ lastTransitionTime }) => lastTransitionTime)
    .reduce<string | undefined>(
      (a, b) => (a === undefined || (parseTimestamp(b) ?? 0) > (parseTimestamp(a) ?? 0) ? b : a),
      undefined,
    );
}

/** Maximum number of namespaces that have their own metric series. */
const MAX_MEASURED_NAMESPACES = 100;

interface WorkloadCount {
  readonly namespace: string;
  readonly verdict: WorkloadVerdict;
  readonly count: number;
}

/**
 * Names of the categories in metrics. As in OpenShift's ClusterFleetEvaluation, namespaces without a known cause are
 * called `customer`.
 */
const CLASSES: Readonly<Record<Category | 'inconclusive', string>> = {
  runLevelZero: 'runLevelZero',
  openshift: 'openshift',
  disabledSyncer: 'disabledSyncer',
  userSCC: 'userSCC',
  unknown: 'customer',
  inconclusive: 'inconclusive',
};

/**
 * Counts findings for metrics. `detailed` contains only the namespaces that have the most findings. All other counts
 * cover the whole cluster.
 */
export function countFindings(evaluations: readonly NamespaceEvaluation[]): {
  readonly states: Readonly<Record<NamespaceVerdict, number>>;
  readonly classes: Readonly<Record<string, number>>;
  readonly workloads: Readonly<Record<WorkloadVerdict, number>>;
  readonly detailed: readonly WorkloadCount[];
} {
  const measured = evaluations
    .filter(({ workloads }) => workloads.length > 0)
    .sort((a, b) => b.workloads.length - a.workloads.length || compareBytes(a.name, b.name))
    .slice(0, MAX_MEASURED_NAMESPACES);
  return {
    states: countEach(
      NAMESPACE_VERDICTS,
      evaluations.map(({ verdict }) => verdict),
    ),
    classes: countEach(
      Object.values(CLASSES),
      evaluations.flatMap((evaluation) =>
        [...evaluation.categories, ...(isUndecided(evaluation) ? (['inconclusive'] as const) : [])].map(
          (category) => CLASSES[category],
        ),
      ),
    ),
    workloads: countVerdicts(evaluations.flatMap(({ workloads }) => workloads)),
    detailed: measured.flatMap(({ name, workloads }) => {
      const counts = countVerdicts(workloads);
      return WORKLOAD_VERDICTS.map((verdict) => ({ namespace: name, verdict, count: counts[verdict] })).filter(
        ({ count }) => count > 0,
      );
    }),
  };
}

function countVerdicts(workloads: NamespaceEvaluation['workloads']): Readonly<Record<WorkloadVerdict, number>> {
  return countEach(
    WORKLOAD_VERDICTS,
    workloads.map(({ verdict }) => verdict),
  );
}

/** Counts how often each key occurs. */
function countEach<K extends string>(keys: readonly K[], found: readonly K[]): Readonly<Record<K, number>> {
  const counts = Object.fromEntries(keys.map((key) => [key, 0])) as Record<K, number>;
  for (const key of found) counts[key]++;
  return counts;
}

// The status

/**
 * Returns true if enforcement would deny workloads in the namespace. Ignores workloads that only need a restart, and
 * denials that the namespace's own label causes.
 */
export function isBlocking({ isSelected, categories }: NamespaceEvaluation): boolean {
  return isSelected && categories.length > 0;
}

/** Returns true if the effect of enforcement on the namespace is unknown. */
function isUndecided({ isSelected, verdict }: NamespaceEvaluation): boolean {
  return isSelected && verdict === 'inconclusive';
}

/** A completed evaluation of all namespaces. Times are in milliseconds since the epoch. */
export interface CompletedSweep {
  readonly evaluations: readonly NamespaceEvaluation[];
  readonly startMs: number;
  readonly endMs: number;
  /** Generation of the PSAEnforcementConfig when the evaluation started. */
  readonly generation?: number | undefined;
}

/** Finds a namespace, even if it is not selected. */
type FindNamespace = (name: string) => Namespace | undefined;

/** Reasons in status entries by category. The first category that has a reason determines the entry's reason. */
const REASONS: Readonly<Record<Category, string | undefined>> = {
  runLevelZero: 'PSAConfig: Misconfigured OpenShift Namespace',
  openshift: 'PSAConfig: Misconfigured OpenShift Namespace',
  disabledSyncer: 'PSAConfig: PSA label syncer disabled',
  userSCC: 'PSALabel: ServiceAccount with insufficient SCCs',
  unknown: undefined,
};

export function violationReason(categories: readonly Category[]): string | undefined {
  return categories.map((category) => REASONS[category]).find((reason) => reason !== undefined);
}

/**
 * Returns the status entries after an evaluation. The entry of a namespace that no longer violates the level becomes
 * `Previous`. Inconclusive namespaces keep their entries, and entries of deleted namespaces are removed. Violating
 * namespaces come first, sorted by name. If there are too many entries, the oldest `Previous` entries are dropped.
 */
export function nextViolatingNamespaces(
  before: readonly ViolatingNamespace[] | null | undefined,
  { evaluations, endMs }: Pick<CompletedSweep, 'evaluations' | 'endMs'>,
  findNamespace: FindNamespace,
): readonly ViolatingNamespace[] {
  const now = formatTimestamp(endMs);
  const existing = before?.filter((entry) => describes(entry, findNamespace(entry.name))) ?? [];
  const known = new Map(existing.map((entry) => [entry.name, entry]));
  const blocking = evaluations.filter(isBlocking);
  const current = blocking.map((evaluation) => currentEntry(evaluation, known.get(evaluation.name), now));
  const violating = new Set(blocking.map(({ name }) => name));
  const unknown = new Set(evaluations.filter(isUndecided).map(({ name }) => name));
  const others = [...known.values()]
    .filter(({ name }) => !violating.has(name))
    .map((entry) => (unknown.has(entry.name) ? entry : previousEntry(entry, now)));
  const retained = [...current, ...others].sort(compareRetention).slice(0, MAX_VIOLATING_NAMESPACES);
  return retained.sort(compareEntries);
}

/**
 * Returns true if the entry describes this namespace. Returns false if the entry's namespace was deleted, even if it
 * has been recreated with the same name.
 */
function describes({ lastTransitionTime }: ViolatingNamespace, namespace: Namespace | undefined): boolean {
  if (namespace === undefined) return false;
  const createdMs = parseTimestamp(namespace.metadata?.creationTimestamp);
  const sinceMs = parseTimestamp(lastTransitionTime);
  return createdMs === undefined || sinceMs === undefined || createdMs <= sinceMs;
}

function currentEntry(
  { name, categories }: NamespaceEvaluation,
  before: ViolatingNamespace | undefined,
  now: string,
): ViolatingNamespace {
  const reason = violationReason(categories);
  const since = before?.state === 'Current' ? before.lastTransitionTime : undefined;
  return { name, ...defined({ reason }), state: 'Current', lastTransitionTime: since ?? now };
}

function previousEntry(entry: ViolatingNamespace, now: string): ViolatingNamespace {
  return isPrevious(entry) ? entry : { ...entry, state: 'Previous', lastTransitionTime: now };
}

/** Compares entries by retention priority. If there are too many entries, the first ones are kept. */
function compareRetention(a: ViolatingNamespace, b: ViolatingNamespace): number {
  const time = ({ lastTransitionTime }: ViolatingNamespace): number => parseTimestamp(lastTransitionTime) ?? 0;
  const byTime = isPrevious(a) && isPrevious(b) ? time(b) - time(a) : 0;
  return Number(isPrevious(a)) - Number(isPrevious(b)) || byTime || compareBytes(a.name, b.name);
}

function compareEntries(a: ViolatingNamespace, b: ViolatingNamespace): number {
  return Number(isPrevious(a)) - Number(isPrevious(b)) || compareBytes(a.name, b.name);
}

function isPrevious({ state }: Pick<ViolatingNamespace, 'state'>): boolean {
  return state === 'Previous';
}

/** Returns the numbers of violating and inconclusive namespaces. */
export function summarize({ evaluations, endMs }: Pick<CompletedSweep, 'evaluations' | 'endMs'>): SweepSummary {
  const violating = evaluations.filter(isBlocking).length;
  return { endMs, violating, inconclusive: evaluations.filter(isUndecided).length };
}

// The decision

interface DecisionInput {
  readonly object: PSAEnforcementConfig;
  readonly settings: RolloutSettings;
  readonly gate: boolean;
  readonly published: DefaultLevel;
  /** The last sweep in this process. If absent, the stored result is used. */
  readonly sweep: CompletedSweep | undefined;
  readonly findNamespace: FindNamespace;
  /** Current time in milliseconds since the epoch. */
  readonly nowMs: number;
  /** True if the API server rejected the mode change because another manager owns the mode. */
  readonly isSpecRejected: boolean;
}

type Status = NonNullable<PSAEnforcementConfig['status']>;

export interface ReadinessDecision {
  readonly spec: string;
  /** The desired status, except for the observed generation and the conditions of other controllers. */
  readonly status: Status & { readonly conditions: readonly Condition[] };
}

const OWN_CONDITIONS: ReadonlySet<string> = new Set([
  'Evaluated',
  'ViolationsDetected',
  'LegacyProposed',
  'SpecInvalid',
]);

/**
 * Makes the enforcement decision based on the last evaluation. The evaluation time advances only if all namespaces have
 * a verdict.
 */
export function decideReadiness(input: DecisionInput): ReadinessDecision {
  const { object, settings, sweep, nowMs } = input;
  const newest = sweep && summarize(sweep);
  const isComplete = newest?.inconclusive === 0;
  const lastEvaluationTime = isComplete ? formatTimestamp(newest.endMs) : object.status?.lastEvaluationTime;
  const stored = object.status?.violatingNamespaces;
  const violatingNamespaces = sweep ? nextViolatingNamespaces(stored, sweep, input.findNamespace) : (stored ?? []);
  const enforcementInput: EnforcementInput = {
    ...readEnforcement(object),
    ...(input.isSpecRejected ? { specOwner: 'others' as const } : {}),
    phase: settings.phase,
    gate: input.gate,
    evaluation: getEvaluationResult({
      status: { ...object.status, lastEvaluationTime: lastEvaluationTime ?? null, violatingNamespaces },
      newest,
      nowMs,
      maxAgeMs: settings.maxEvaluationAgeMs,
    }),
    isSettled: false,
    currentEnforce: input.published,
  };
  const plan = planEnforcement(enforcementInput);
  const violating = sweep
    ? sweep.evaluations.filter(isBlocking)
    : violatingNamespaces.filter((entry) => !isPrevious(entry));
  const own = enforcementConditions({
    input: enforcementInput,
    plan,
    violating: violating.map(({ name }) => name),
    restarts: countVerdicts((sweep?.evaluations ?? []).flatMap(({ workloads }) => workloads)).restart,
    lastEvaluationTime: lastEvaluationTime ?? undefined,
  })
    .filter(({ type }) => OWN_CONDITIONS.has(type))
    .map((condition) => (sweep ? condition : withStoredReason(condition, object.status)));
  return {
    spec: plan.spec,
    status: {
      enforcementMode: plan.status,
      violatingNamespaces,
      ...(lastEvaluationTime == null ? {} : { lastEvaluationTime }),
      conditions: withReadiness(own, input),
    },
  };
}

/** Adds the readiness conditions and their transition times. Keeps the stored conditions if there was no sweep. */
function withReadiness(own: readonly ConditionState[], { object, sweep, nowMs }: DecisionInput): readonly Condition[] {
  const now = formatTimestamp(nowMs);
  const before = object.status?.conditions;
  const operator = sweep
    ? withTransitionTimes(readinessConditions(sweep.evaluations.filter(({ isSelected }) => isSelected)), before, now)
    : (before?.filter(({ type }) => type.endsWith(SUFFIX) && type !== SUFFIX) ?? []);
  const merged = before?.find(({ type }) => type === SUFFIX);
  return [
    ...withTransitionTimes(own, before, now),
    ...operator,
    mergeReadinessConditions(operator, { before: merged, now }),
  ];
}

/**
 * Returns the condition with the stored reason and message. Before the first sweep in this process, the reason for the
 * stored violations is unknown.
 */
function withStoredReason(condition: ConditionState, stored: PSAEnforcementConfig['status']): ConditionState {
  const before = stored?.conditions?.find(({ type }) => type === 'ViolationsDetected');
  const isSame = condition.type === before?.type && condition.status === before.status;
  return isSame ? { ...condition, reason: before.reason, message: before.message } : condition;
}

/** Returns the conditions of a stored status that the decision replaces or removes. */
export function decidedConditions(
  status: Status | null | undefined,
  decision: ReadinessDecision,
): readonly Condition[] {
  const types = new Set(decision.status.conditions.map(({ type }) => type));
  return status?.conditions?.filter(({ type }) => types.has(type) || OWN_CONDITIONS.has(type)) ?? [];
}

/** Returns the names of the namespaces that the decision newly reports as violating. */
export function newlyViolating(
  { status: before }: PSAEnforcementConfig,
  { status }: ReadinessDecision,
): readonly string[] {
  const known = new Set(before?.violatingNamespaces?.filter((entry) => !isPrevious(entry)).map(({ name }) => name));
  const current = status.violatingNamespaces?.filter((entry) => !isPrevious(entry)) ?? [];
  return current.flatMap(({ name }) => (known.has(name) ? [] : name));
}
