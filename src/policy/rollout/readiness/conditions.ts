import { withTimes, type Condition, type ConditionState } from '../../../kube/condition.ts';
import { compareBytes, sortedSet } from '../../../kube/order.ts';
import { readTimestamp } from '../../../kube/timestamp.ts';
import type { Category, NamespaceEvaluation } from './types.ts';

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
  const [timed = { ...state, lastTransitionTime: now }] = withTimes([state], before ? [before] : [], now);
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
      (a, b) => (a === undefined || (readTimestamp(b) ?? 0) > (readTimestamp(a) ?? 0) ? b : a),
      undefined,
    );
}
