import { withTransitionTimes, type Condition, type ConditionState } from '../../kube/conditions.ts';
import { compareBytes, sortedSet } from '../../kube/text.ts';
import { parseTimestamp, formatTimestamp } from '../../kube/units.ts';
import {
  type Category,
  type NamespaceEvaluation,
  CATEGORIES,
  type FixableViolation,
  type ViolatingWorkload,
} from './evaluation.ts';
import type { DefaultLevel, SweepSummary } from './enforcement.ts';
import { SUFFICIENT_LEVEL_ANNOTATION, POD_SECURITY_LABELS, PART_OF, PART_OF_LABEL } from '../../kube/well-known.ts';
import { getMetadataOwners } from '../../kube/managed-fields.ts';
import type { Namespace, Report, ReportResult } from '../../kube/types.ts';
import { isLevel, type Level } from '../pss/policy.ts';
import type { Exemptions } from '../psa/configuration.ts';
import { type LabelSyncPlan, isTerminating, getOwnFields } from './label-sync.ts';
import { isStricter } from '../psa/policy.ts';
import { getApiVersion } from '../../kube/resources.ts';
import {
  MAX_VIOLATING_NAMESPACES,
  type ViolatingNamespace,
  type PSAEnforcementConfig,
} from '../../kube/psa-enforcement-config.ts';

export { evaluateStepwise as evaluateInSteps, evaluateNamespace, type NamespaceInput } from './evaluation.ts';
export {
  getTemplatePod as templatePodOf,
  type TemplatePod,
  type TemplateContext as TemplateSurroundings,
} from './evaluation.ts';
export type { Category, FixableViolation, NamespaceEvaluation, ViolatingWorkload } from './evaluation.ts';

/** Ends the types of all conditions that tell of a change to come. */
const SUFFIX = 'EvaluationConditionsDetected';

const VIOLATIONS = 'PSViolationsDetected';
const INCONCLUSIVE = 'PSViolationDecisionInconclusive';

/** Longer messages are cut short. */
const MAX_MESSAGE_BYTES = 32 * 1024;

/** The names of conditions, in the order in which they are written. */
const PREFIXES: Readonly<Record<Category | 'inconclusive', string>> = {
  unknown: 'PodSecurityUnknown',
  openshift: 'PodSecurityOpenshift',
  runLevelZero: 'PodSecurityRunLevelZero',
  disabledSyncer: 'PodSecurityDisabledSyncer',
  userSCC: 'PodSecurityUserSCC',
  inconclusive: 'PodSecurityInconclusive',
};

type NamedEvaluation = Pick<NamespaceEvaluation, 'name' | 'verdict' | 'categories'>;

/** The six conditions after an evaluation of all namespaces. */
export function readinessConditions(evaluations: readonly NamedEvaluation[]): readonly ConditionState[] {
  return Object.entries(PREFIXES).map(([category, prefix]) => {
    const namespaces = evaluations.filter((one) => isIn(one, category)).map(({ name }) => name);
    const reason = category === 'inconclusive' ? INCONCLUSIVE : VIOLATIONS;
    return readinessCondition({ type: prefix + SUFFIX, reason, namespaces });
  });
}

function isIn({ verdict, categories }: NamedEvaluation, category: string): boolean {
  return category === 'inconclusive'
    ? verdict === 'inconclusive'
    : (categories as readonly string[]).includes(category);
}

/** One condition: true if there are namespaces, which its message names. */
export function readinessCondition({
  type,
  reason,
  namespaces,
}: {
  readonly type: string;
  readonly reason: string;
  readonly namespaces: readonly string[];
}): ConditionState {
  if (namespaces.length === 0) return { type, status: 'False', reason: 'ExpectedReason', message: '' };
  return { type, status: 'True', reason, message: `${startOf(reason)}: ${printNames(sortedSet(namespaces))}` };
}

function startOf(reason: string): string {
  if (reason === VIOLATIONS) return 'Violations detected in namespaces';
  return reason === INCONCLUSIVE
    ? 'Could not evaluate violations for namespaces'
    : 'Unexpected condition for namespace';
}

/** Names of namespaces are ASCII: a character is a byte. What is cut off leaves room for the rest of the message. */
function printNames(names: readonly string[]): string {
  const room = MAX_MESSAGE_BYTES - 100;
  let length = 0;
  const shown = names.filter((name) => (length += name.length + 1) <= room);
  const omitted = names.length - shown.length;
  return `[${shown.join(' ')}]${omitted > 0 ? ` and ${omitted} more` : ''}`;
}

/**
 * All conditions that tell of changes to come as one, as fleets are asked about it.
 * @param now RFC 3339, for the time where nothing else tells one
 * @see https://github.com/openshift/library-go/blob/master/pkg/operator/status/condition.go
 */
export function mergeReadinessConditions(
  conditions: readonly Condition[],
  {
    isManaged,
    before,
    now,
  }: { readonly isManaged: boolean; readonly before?: Condition | undefined; readonly now: string },
): Condition {
  const members = conditions
    .filter(({ type }) => type.endsWith(SUFFIX) && type !== SUFFIX)
    .sort((a, b) => compareBytes(a.type, b.type));
  const detected = members.filter(({ status }) => status !== 'False');
  const counted = detected.length > 0 ? detected : members;
  const state = isManaged ? mergedState(members, detected) : nothing('Unmanaged', '');
  const lastTransitionTime = isManaged ? latest(counted) : undefined;
  const [timed = { ...state, lastTransitionTime: now }] = withTransitionTimes([state], before ? [before] : [], now);
  return { ...timed, ...(lastTransitionTime === undefined ? {} : { lastTransitionTime }) };
}

function mergedState(members: readonly Condition[], detected: readonly Condition[]): ConditionState {
  if (members.length === 0) return nothing('NoData', '');
  if (detected.length === 0) {
    const message = messageOf(members) || 'All is well';
    return { type: SUFFIX, status: 'False', reason: 'AsExpected', message };
  }
  const reasons = detected.map(({ type, reason }) => `${type.slice(0, -SUFFIX.length)}_${reason}`);
  const status = detected.some((condition) => condition.status === 'True') ? 'True' : 'Unknown';
  return { type: SUFFIX, status, reason: reasons.sort(compareBytes).join('::'), message: messageOf(detected) };
}

function nothing(reason: string, message: string): ConditionState {
  return { type: SUFFIX, status: 'Unknown', reason, message };
}

function messageOf(conditions: readonly Condition[]): string {
  const lines = conditions.flatMap(({ type, message }) =>
    message === '' ? [] : message.split('\n').map((line) => `${type}: ${line}`),
  );
  return lines.join('\n');
}

function latest(conditions: readonly Condition[]): string | undefined {
  return conditions
    .map(({ lastTransitionTime }) => lastTransitionTime)
    .reduce<string | undefined>(
      (a, b) => (a === undefined || (parseTimestamp(b) ?? 0) > (parseTimestamp(a) ?? 0) ? b : a),
      undefined,
    );
}

/** Begins the one line that says so; the next ones name the pods. */
const VIOLATES = /^existing pods in namespace ".*" violate the new PodSecurity enforce level "/;
const PARTIAL = /^new PodSecurity enforce level only checked against the first \d+ of \d+ existing pods$/;
const UNLISTED = 'failed to list pods while checking new PodSecurity enforce level';

/**
 * What the warnings of an API server mean that was asked to raise the level of a namespace, without doing it. Warnings of
 * others mean nothing. To hear nothing is good news only if all pods were looked at, and only as long as the default is
 * privileged: a namespace that is held to restricted already is not looked at.
 * @see https://github.com/kubernetes/pod-security-admission/blob/v0.37.0/admission/admission.go
 */
export function parseDryRunWarnings(
  warnings: readonly string[],
  currentEnforce: DefaultLevel,
): NamespaceEvaluation['verdict'] {
  if (warnings.some((warning) => VIOLATES.test(warning))) return 'violating';
  const isBlind = currentEnforce === 'restricted';
  const isPartial = warnings.some((warning) => PARTIAL.test(warning) || warning === UNLISTED);
  return isBlind || isPartial ? 'inconclusive' : 'clean';
}

/** What is measured of an evaluation. */
interface ReadinessMeasures {
  /** The number of namespaces; those that could not be judged count as `inconclusive`. */
  readonly namespaces: Readonly<Record<Category | 'inconclusive', number>>;
  /** Of the namespaces with the most violating workloads, how many those are; a bounded number of them. */
  readonly workloads: readonly { readonly namespace: string; readonly count: number }[];
}

/** So many namespaces have a measure of their own. */
const MAX_NAMESPACES = 100;

/** Counts what an evaluation found. */
export function countFindings(evaluations: readonly NamespaceEvaluation[]): ReadinessMeasures {
  const counts = Object.fromEntries([...CATEGORIES, 'inconclusive'].map((category) => [category, 0]));
  const namespaces = counts as Record<Category | 'inconclusive', number>;
  for (const { verdict, categories } of evaluations) {
    if (verdict === 'inconclusive') namespaces.inconclusive++;
    for (const category of categories) namespaces[category]++;
  }
  const workloads = evaluations
    .filter(({ verdict }) => verdict === 'violating')
    .map((evaluation) => ({ namespace: evaluation.name, count: evaluation.workloads.length }))
    .sort((a, b) => b.count - a.count || compareBytes(a.namespace, b.namespace));
  return { namespaces, workloads: workloads.slice(0, MAX_NAMESPACES) };
}

/** True for a namespace that enforcement would change something for: one that has no level of its own. */
export function isSelected(namespace: Namespace, exemptions: Pick<Exemptions, 'namespace'>): boolean {
  const { name, labels } = namespace.metadata ?? {};
  if (labels?.[POD_SECURITY_LABELS.enforce] !== undefined) return false;
  return !isTerminating(namespace) && !exemptions.namespace(name);
}

/**
 * The level that enforcement would hold a namespace to: what the syncer plans for it, where it knows; else what the syncer
 * wrote earlier; else the default to come. What others wrote does not count; `undefined` if nobody can tell who wrote what.
 */
export function predictLevel(
  namespace: Namespace,
  plan?: Pick<LabelSyncPlan, 'isManaged' | 'need'>,
): Level | undefined {
  if (plan?.isManaged === false) return 'restricted';
  if (plan?.need !== undefined) return plan.need.level;
  const owners = getMetadataOwners(namespace.metadata);
  if (owners === undefined) return undefined;
  const own = getOwnFields(owners);
  const { labels, annotations } = namespace.metadata ?? {};
  const annotation = own.annotations.has(SUFFICIENT_LEVEL_ANNOTATION)
    ? annotations?.[SUFFICIENT_LEVEL_ANNOTATION]
    : undefined;
  if (isLevel(annotation)) return annotation;
  const values = [POD_SECURITY_LABELS.warn, POD_SECURITY_LABELS.audit]
    .filter((key) => own.labels.has(key))
    .map((key) => labels?.[key])
    .filter(isLevel);
  return (
    values.reduce<Level | undefined>((a, b) => (a === undefined || isStricter(b, a) ? b : a), undefined) ?? 'restricted'
  );
}

/** The report of a namespace is called like that. */
export const REPORT_NAME = 'portcullis-pod-security';

/** So many results are in a report at most, each with a message of so many characters. */
const MAX_RESULTS = 200;
const MAX_MESSAGE = 1024;

/** Everything that enforcement would refuse in a namespace, in one report; what is too much is counted only. */
export function buildReport(evaluation: NamespaceEvaluation, { seconds }: { readonly seconds: number }): Report {
  const { name: namespace, workloads } = evaluation;
  const results = workloads.flatMap((workload) =>
    workload.violations.map((violation): ReportResult => resultOf(violation, workload, evaluation, seconds)),
  );
  return {
    apiVersion: getApiVersion('Report'),
    kind: 'Report',
    metadata: { name: REPORT_NAME, namespace, labels: { [PART_OF_LABEL]: PART_OF } },
    source: PART_OF,
    scope: { apiVersion: 'v1', kind: 'Namespace', name: namespace },
    summary: { pass: 0, fail: results.length, warn: 0, error: 0, skip: 0 },
    results: results.slice(0, MAX_RESULTS),
  };
}

function resultOf(
  { check, reason, detail, fields, fix }: FixableViolation,
  { kind, name, pods, causes }: ViolatingWorkload,
  { name: namespace, level }: NamespaceEvaluation,
  seconds: number,
): ReportResult {
  const text = `${reason}${detail === '' ? '' : ` (${detail})`}. ${fix}`;
  return {
    policy: `pod-security-${level}`,
    rule: check,
    category: 'Pod Security Standards',
    severity: level === 'baseline' ? 'high' : 'medium',
    result: 'fail',
    scored: true,
    message: text.length > MAX_MESSAGE ? `${text.slice(0, MAX_MESSAGE - 1)}…` : text,
    timestamp: { seconds, nanos: 0 },
    resources: [{ kind, namespace, name }],
    properties: {
      pods: String(pods),
      causes: causes.join(', '),
      ...(fields.length === 0 ? {} : { fields: fields.slice(0, 20).join(', ') }),
    },
  };
}

/** When namespaces are to be evaluated. All times are in milliseconds since 1970. */
export interface ScheduleInput {
  readonly nowMs: number;
  /** The end of the last evaluation that judged all of them, of this process or an earlier one. */
  readonly completedMs?: number | undefined;
  /** The end of the last attempt of this process. */
  readonly attemptedMs?: number | undefined;
  /** How many attempts in a row judged not all of them. */
  readonly failures: number;
  /** When somebody asked for an evaluation. */
  readonly requestedMs?: number | undefined;
  /** True while a decision waits for it. */
  readonly isAwaited: boolean;
  readonly intervalMs: number;
  /** Older ones decide nothing. */
  readonly maxAgeMs: number;
  /** From -0.1 to 0.1, lest all clusters do it at once. */
  readonly jitter: number;
}

const MINUTE_MS = 60_000;
const MAX_DELAY_MS = 30 * MINUTE_MS;

/**
 * In how many milliseconds to evaluate; 0: now. A restart changes nothing, since the interval counts from what is stored; an
 * attempt that came to nothing is repeated after 1, 2, 4 … up to 30 minutes.
 */
export function nextEvaluationMs(input: ScheduleInput): number {
  return Math.max(0, dueMs(input) - input.nowMs);
}

function dueMs(input: ScheduleInput): number {
  const { nowMs, completedMs, attemptedMs, failures, requestedMs, isAwaited, intervalMs, maxAgeMs, jitter } = input;
  if (requestedMs !== undefined && requestedMs > (attemptedMs ?? completedMs ?? -Infinity)) return nowMs;
  if (failures > 0 && attemptedMs !== undefined) {
    return attemptedMs + Math.min(MAX_DELAY_MS, MINUTE_MS * 2 ** (failures - 1));
  }
  // A time to come is from a clock that was wrong.
  if (completedMs === undefined || completedMs > nowMs) return nowMs;
  if (isAwaited && nowMs - completedMs > maxAgeMs) return nowMs;
  return completedMs + intervalMs * (1 + jitter);
}

/** The reasons of the proposal; where it has none the entry has none. The first category that has one counts. */
const REASONS: Readonly<Record<Category, string | undefined>> = {
  runLevelZero: 'PSAConfig: Misconfigured OpenShift Namespace',
  openshift: 'PSAConfig: Misconfigured OpenShift Namespace',
  disabledSyncer: 'PSAConfig: PSA label syncer disabled',
  userSCC: 'PSALabel: ServiceAccount with insufficient SCCs',
  unknown: undefined,
};

/** What an evaluation of all namespaces found. */
interface Sweep {
  /** Of the namespaces that were selected. */
  readonly evaluations: readonly NamespaceEvaluation[];
  /** Any namespace, selected or not; `undefined` if there is none of that name. */
  findNamespace(name: string): Namespace | undefined;
}

/** The list after an evaluation, and how many entries it would have without its bound. */
interface ViolatingNamespaces {
  readonly entries: readonly ViolatingNamespace[];
  readonly total: number;
}

/**
 * The entries after an evaluation: a namespace that violated and does not any more becomes `Previous`, one that could not be
 * judged keeps its entry, one that is gone loses it. What violates comes first, then by name; the oldest `Previous` make room
 * where there are too many.
 * @param now RFC 3339: the end of the evaluation
 */
export function nextViolatingNamespaces(
  before: readonly ViolatingNamespace[] | null | undefined,
  { evaluations, findNamespace }: Sweep,
  now: string,
): ViolatingNamespaces {
  const left = before?.filter((entry) => isAbout(entry, findNamespace(entry.name))) ?? [];
  const known = new Map(left.map((entry) => [entry.name, entry]));
  const verdicts = new Map(evaluations.map(({ name, verdict }) => [name, verdict]));
  const current = evaluations
    .filter(({ verdict }) => verdict === 'violating')
    .map((evaluation) => currentEntry(evaluation, known.get(evaluation.name), now));
  const others = [...known.values()]
    .filter(({ name }) => verdicts.get(name) !== 'violating')
    .map((entry) => (verdicts.get(entry.name) === 'inconclusive' ? entry : previousEntry(entry, now)));
  const entries = [...current, ...others];
  return { entries: bounded(entries).sort(compareEntries), total: entries.length };
}

/** The reason of an entry. */
export function violationReason(categories: readonly Category[]): string | undefined {
  return categories.map((category) => REASONS[category]).find((reason) => reason !== undefined);
}

/** False for a namespace that is gone, also if there is a new one of its name. */
function isAbout({ lastTransitionTime }: ViolatingNamespace, namespace: Namespace | undefined): boolean {
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
  return { name, ...(reason === undefined ? {} : { reason }), state: 'Current', lastTransitionTime: since ?? now };
}

function previousEntry(entry: ViolatingNamespace, now: string): ViolatingNamespace {
  return entry.state === 'Previous' ? entry : { ...entry, state: 'Previous', lastTransitionTime: now };
}

function bounded(entries: readonly ViolatingNamespace[]): ViolatingNamespace[] {
  return [...entries].sort(compareWorth).slice(0, MAX_VIOLATING_NAMESPACES);
}

function compareWorth(a: ViolatingNamespace, b: ViolatingNamespace): number {
  if (isPrevious(a) !== isPrevious(b)) return isPrevious(a) ? 1 : -1;
  return isPrevious(a) ? timeOf(b) - timeOf(a) || compareBytes(a.name, b.name) : compareBytes(a.name, b.name);
}

function compareEntries(a: ViolatingNamespace, b: ViolatingNamespace): number {
  return Number(isPrevious(a)) - Number(isPrevious(b)) || compareBytes(a.name, b.name);
}

function isPrevious({ state }: ViolatingNamespace): boolean {
  return state === 'Previous';
}

function timeOf({ lastTransitionTime }: ViolatingNamespace): number {
  return parseTimestamp(lastTransitionTime) ?? 0;
}

/** What is stored of an evaluation of all namespaces. */
export interface EvaluationStatus {
  readonly violatingNamespaces: readonly ViolatingNamespace[];
  /** Moves only if every namespace could be judged. */
  readonly lastEvaluationTime?: string | undefined;
}

interface StatusInput {
  readonly before: PSAEnforcementConfig['status'];
  readonly sweep: Sweep;
  /** In milliseconds since 1970. */
  readonly endMs: number;
  readonly inconclusivePolicy: 'Block' | 'Ignore';
}

/** What an evaluation leaves in the status, to be written at once. */
export function evaluationStatus({ before, sweep, endMs, inconclusivePolicy }: StatusInput): EvaluationStatus {
  const now = formatTimestamp(endMs);
  const isComplete = inconclusivePolicy === 'Ignore' || summarize(sweep, endMs).inconclusive === 0;
  return {
    violatingNamespaces: nextViolatingNamespaces(before?.violatingNamespaces, sweep, now).entries,
    lastEvaluationTime: isComplete ? now : (before?.lastEvaluationTime ?? undefined),
  };
}

/** How many namespaces violate, and how many could not be judged. */
export function summarize({ evaluations }: Sweep, endMs: number): SweepSummary {
  const count = (verdict: string): number => evaluations.filter((one) => one.verdict === verdict).length;
  return { endMs, violating: count('violating'), inconclusive: count('inconclusive') };
}
