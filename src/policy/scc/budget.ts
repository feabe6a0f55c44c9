/** The limits of one decision, so that a huge pod or many SCCs do not block other requests. */
import type { FieldError } from '../../kube/field-error.ts';
import { POD_SCC_ANNOTATIONS } from '../../kube/scc.ts';
import type { PodFields } from '../pod/pod.ts';
import type { NamespaceRanges } from './namespace.ts';
import type { SccPod } from './pod.ts';
import type { PreparedScc } from './scc.ts';

/** The remaining evaluation budget of one decision. */
export interface Budget {
  /** In visits of a list element, each about 30 ns. */
  cost: number;
  /** In errors of normal length, each some µs until it is part of the message. */
  errors: number;
}

/** The maximum number of errors of one SCC. */
export const MAX_ERRORS = 1000;

/** The cost of elements of a pod in visits. */
const CONTAINER_COST = 20;
const CAPABILITY_COST = 3;
const VOLUME_COST = 3;
const SYSCTL_COST = 2;
const GROUP_COST = 4;

/** Sufficient for 500 SCCs and a pod with 100 containers, each with a dozen capabilities and ports. */
const MAX_COST = 4_000_000;
/** More errors than fit into a response. */
const MAX_ALL_ERRORS = 4000;
/** Suggestions evaluate the SCCs several times. */
const MAX_SUGGESTION_COST = 1_000_000;

export function createBudget(): Budget {
  return { cost: MAX_COST, errors: MAX_ALL_ERRORS };
}

/** A pod that is evaluated in its namespace. */
interface Evaluated {
  readonly pod: SccPod;
  readonly namespace: NamespaceRanges;
}

/** Subtracts the cost of the evaluation of an SCC. Returns false, without a subtraction, if it exceeds the budget. */
export function spendEvaluation(budget: Budget, scc: PreparedScc, evaluated: Evaluated): boolean {
  const { pod } = evaluated;
  const { container, sysctl, group } = findListCosts(scc, evaluated);
  const listCost = pod.containers.length * container + pod.sysctls.length * sysctl + countGroups(pod) * group;
  const cost = pod.cost + listCost;
  if (cost > budget.cost) return false;
  budget.cost -= cost;
  return true;
}

/** Returns the error for a pod that exceeds the budget. It names the field with the highest cost. */
export function createBudgetError(scc: PreparedScc, evaluated: Evaluated, sccCount: number): FieldError {
  const { pod } = evaluated;
  const { container, sysctl, group } = findListCosts(scc, evaluated);
  const parts = [
    { path: 'spec.containers', count: pod.containers.length, cost: CONTAINER_COST + container },
    {
      path: 'spec.containers[*].securityContext.capabilities',
      count: countCapabilities(pod),
      cost: CAPABILITY_COST,
    },
    { path: 'spec.containers[*].ports[*].hostPort', count: pod.hostPorts.length, cost: 1 },
    { path: 'spec.volumes', count: pod.volumes.length, cost: VOLUME_COST },
    { path: 'spec.securityContext.sysctls', count: pod.sysctls.length, cost: sysctl },
    { path: 'spec.securityContext.supplementalGroups', count: countGroups(pod), cost: group },
  ];
  const [{ path, count } = { path: 'spec', count: 0 }] = parts.sort((a, b) => b.count * b.cost - a.count * a.cost);
  const remedy = sccCount === 1 ? '' : `, or select one SCC with annotation ${POD_SCC_ANNOTATIONS.requiredScc}`;
  const sccs = `${sccCount} SCC${sccCount === 1 ? '' : 's'}`;
  const detail = `too many to evaluate against ${sccs}; reduce their number${remedy}`;
  return { type: 'FieldValueTooMany', path, value: count, detail };
}

/** The cost of the lists of an SCC for each container, sysctl and group. */
function findListCosts({ fields, needs }: PreparedScc, { namespace }: Evaluated) {
  const { groupRanges } = namespace;
  const namespaceRanges = 'error' in groupRanges ? 0 : groupRanges.value.length;
  return {
    container:
      fields.requiredDropCapabilities.length + fields.defaultAddCapabilities.length + fields.seccompProfiles.length,
    sysctl: SYSCTL_COST + fields.forbiddenSysctls.length + fields.allowedUnsafeSysctls.length,
    group: GROUP_COST + (needs.supplementalGroups ? namespaceRanges : fields.supplementalGroups.ranges.length),
  };
}

/** The length of a text that costs as much as one more error. */
const TEXT_PER_ERROR = 256;

/** Subtracts errors. Returns false if the budget is used up, so that further errors are omitted. */
export function spendErrors(budget: Budget, errors: readonly FieldError[]): boolean {
  for (const { detail, value } of errors) {
    const length = detail.length + (typeof value === 'string' ? value.length : 0);
    budget.errors -= 1 + length / TEXT_PER_ERROR;
  }
  return budget.errors > 0;
}

/** True if all candidates can be evaluated several times for a suggestion. */
export function isWithinSuggestionBudget(pod: SccPod, candidates: readonly PreparedScc[]): boolean {
  return pod.cost * candidates.length <= MAX_SUGGESTION_COST;
}

/** The cost of the evaluation of one SCC in visits, without the lists of the SCC. */
export function computePodCost(pod: PodFields): number {
  return (
    pod.containers.length * CONTAINER_COST +
    countCapabilities(pod) * CAPABILITY_COST +
    pod.volumes.length * VOLUME_COST +
    pod.hostPorts.length +
    countLevelLength(pod)
  );
}

function countGroups({ supplementalGroups }: PodFields): number {
  return supplementalGroups?.length ?? 0;
}

function countCapabilities({ containers }: PodFields): number {
  let count = 0;
  for (const { capabilities } of containers) {
    if (capabilities) count += capabilities.add.length + capabilities.drop.length;
  }
  return count;
}

/** The categories of SELinux levels are sorted. */
function countLevelLength(pod: PodFields): number {
  let length = pod.seLinuxOptions?.level.length ?? 0;
  for (const { seLinuxOptions } of pod.containers) length += seLinuxOptions?.level.length ?? 0;
  return length;
}
