/** Limits the cost of a single decision, so huge pods or large numbers of SCCs do not block other requests. */
import type { FieldError } from '../../kube/field-error.ts';
import { POD_SCC_ANNOTATIONS } from '../../kube/scc.ts';
import { printCount } from '../../kube/text.ts';
import type { PodFields } from '../pod/index.ts';
import type { PodInNamespace } from './namespace.ts';
import type { PreparedScc } from './scc.ts';

export interface Budget {
  /** Remaining list element visits. A visit takes about 30 ns. */
  cost: number;
  /** Remaining errors of typical length. It takes a few µs to add an error to the message. */
  errors: number;
}

/** Maximum number of errors from one SCC. */
export const MAX_ERRORS = 1000;

/** Maximum cost. Suffices for 500 SCCs and a pod with 100 containers that each have a dozen capabilities and ports. */
const MAX_COST = 4_000_000;
/** Maximum number of errors of all SCCs, which is more than a response can contain. */
const MAX_ALL_ERRORS = 4000;
/** Maximum cost for suggestions. Lower than `MAX_COST`, because suggestions evaluate each SCC several times. */
const MAX_SUGGESTION_COST = 200_000;

export function createBudget(): Budget {
  return { cost: MAX_COST, errors: MAX_ALL_ERRORS };
}

/** Subtracts the cost of evaluating an SCC. Returns false and subtracts nothing if the cost exceeds the budget. */
export function spendEvaluation(budget: Budget, scc: PreparedScc, evaluated: PodInNamespace): boolean {
  const cost = sumCosts(findCosts(evaluated.pod, findListLengths(scc, evaluated)));
  if (cost > budget.cost) return false;
  budget.cost -= cost;
  return true;
}

/** Returns the error for a pod that exceeds the budget. The error refers to the most expensive field. */
export function createBudgetError(scc: PreparedScc, evaluated: PodInNamespace, sccCount: number): FieldError {
  const costs = findCosts(evaluated.pod, findListLengths(scc, evaluated));
  const { path, count } = costs.reduce((a, b) => (b.count * b.cost > a.count * a.cost ? b : a));
  const remedy = sccCount === 1 ? '' : `, or select one SCC with annotation ${POD_SCC_ANNOTATIONS.requiredScc}`;
  const detail = `too many to evaluate against ${printCount(sccCount, 'SCC')}; reduce their number${remedy}`;
  return { type: 'FieldValueTooMany', path, value: count, detail };
}

/** Returns true if the budget allows evaluating all candidates several times for a suggestion. */
export function isWithinSuggestionBudget(pod: PodFields, candidates: readonly PreparedScc[]): boolean {
  return sumCosts(findCosts(pod, NO_LISTS)) * candidates.length <= MAX_SUGGESTION_COST;
}

/** Total lengths of the SCC lists that are searched for each container, sysctl or group in a pod. */
interface ListLengths {
  readonly container: number;
  readonly sysctl: number;
  readonly group: number;
}

const NO_LISTS: ListLengths = { container: 0, sysctl: 0, group: 0 };

function findListLengths({ fields, needs }: PreparedScc, { namespace: { groupRanges } }: PodInNamespace): ListLengths {
  const { requiredDropCapabilities, defaultAddCapabilities, seccompProfiles, supplementalGroups } = fields;
  const namespaceRanges = 'error' in groupRanges ? 0 : groupRanges.value.length;
  return {
    container: requiredDropCapabilities.length + defaultAddCapabilities.length + seccompProfiles.length,
    sysctl: fields.forbiddenSysctls.length + fields.allowedUnsafeSysctls.length,
    group: needs.supplementalGroups ? namespaceRanges : supplementalGroups.ranges.length,
  };
}

/** A list in a pod. `count` is the number of elements, and `cost` is the number of visits for each element. */
interface ListCost {
  readonly path: string;
  readonly count: number;
  readonly cost: number;
}

function findCosts(pod: PodFields, { container, sysctl, group }: ListLengths): readonly ListCost[] {
  const { containers, hostPorts, volumes, sysctls, supplementalGroups = [] } = pod;
  let capabilities = 0;
  let longest = 0;
  // The cost of SELinux levels depends on their length, because their categories are sorted.
  let levels = pod.seLinuxOptions?.level.length ?? 0;
  for (const { capabilities: changes, seLinuxOptions } of containers) {
    if (changes) {
      const { add, drop } = changes;
      capabilities += add.length + drop.length;
      longest = Math.max(longest, add.length, drop.length);
    }
    levels += seLinuxOptions?.level.length ?? 0;
  }
  return [
    { path: 'spec.containers', count: containers.length, cost: 20 + container },
    // If an SCC adds or drops capabilities, the lists are sorted.
    {
      path: 'spec.containers[*].securityContext.capabilities',
      count: capabilities,
      cost: Math.max(3, Math.floor(Math.log2(longest))),
    },
    { path: 'spec.containers[*].ports[*].hostPort', count: hostPorts.length, cost: 1 },
    { path: 'spec.containers[*].securityContext.seLinuxOptions.level', count: levels, cost: 1 },
    { path: 'spec.volumes', count: volumes.length, cost: 3 },
    { path: 'spec.securityContext.sysctls', count: sysctls.length, cost: 2 + sysctl },
    { path: 'spec.securityContext.supplementalGroups', count: supplementalGroups.length, cost: 4 + group },
  ];
}

function sumCosts(costs: readonly ListCost[]): number {
  return costs.reduce((sum, { count, cost }) => sum + count * cost, 0);
}

/** Length of text in a message that costs as much as an additional error. */
const TEXT_PER_ERROR = 256;

/**
 * Subtracts the cost of errors. Returns false if the budget is exhausted, in which case the caller omits further
 * errors.
 */
export function spendErrors(budget: Budget, errors: readonly FieldError[]): boolean {
  for (const { detail, value } of errors) {
    const length = detail.length + (typeof value === 'string' ? value.length : 0);
    budget.errors -= 1 + length / TEXT_PER_ERROR;
  }
  return budget.errors > 0;
}
