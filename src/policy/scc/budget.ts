import type { FieldError } from '../../kube/field-error.ts';
import { POD_SCC_ANNOTATIONS } from '../../kube/scc.ts';
import type { PodFields } from './decode/pod.ts';
import type { NamespaceRanges } from './namespace.ts';
import type { PreparedScc } from './scc.ts';

/**
 * What is left of the work that one decision may take. It is the product of what a pod holds and of the SCCs that it is
 * tried on, and everybody else waits meanwhile.
 */
export interface Effort {
  /** Looks at an element of a list; each takes some 30 ns. */
  looks: number;
  /** Errors that are noted, a long text counted as several; each takes some µs, until it is told. */
  errors: number;
}

const PER_CONTAINER = 20;
const PER_CAPABILITY = 3;
const PER_VOLUME = 3;
const PER_SYSCTL = 2;
/** An error tells all of them. */
const PER_GROUP = 4;

/** Enough for 500 SCCs that are tried on a pod of 100 containers, each with a dozen capabilities and ports. */
const MAX_LOOKS = 4_000_000;
/** More than fit into an answer. */
const MAX_ERRORS = 4000;
/** Advice goes through the SCCs several times. */
const MAX_ADVICE_LOOKS = 1_000_000;

export function createEffort(): Effort {
  return { looks: MAX_LOOKS, errors: MAX_ERRORS };
}

/** A pod that is to be tried on an SCC. */
interface Trial {
  readonly pod: PodFields;
  readonly namespace: NamespaceRanges;
}

/** Takes off what it costs to try an SCC on the pod; false, and nothing is taken, if too little is left. */
export function spendLooks(effort: Effort, scc: PreparedScc, trial: Trial): boolean {
  const { pod } = trial;
  const { container, sysctl, group } = pricesOf(scc, trial);
  const ofLists = pod.containers.length * container + pod.sysctls.length * sysctl + countGroups(pod) * group;
  const looks = pod.looks + ofLists;
  if (looks > effort.looks) return false;
  effort.looks -= looks;
  return true;
}

/** What is said of a pod on which not all SCCs can be tried: the field that has the largest part in it. */
export function excessOf(scc: PreparedScc, trial: Trial, sccs: number): FieldError {
  const { pod } = trial;
  const { container, sysctl, group } = pricesOf(scc, trial);
  const parts = [
    { path: 'spec.containers', count: pod.containers.length, price: PER_CONTAINER + container },
    {
      path: 'spec.containers[*].securityContext.capabilities',
      count: countCapabilities(pod.containers),
      price: PER_CAPABILITY,
    },
    { path: 'spec.containers[*].ports[*].hostPort', count: pod.hostPorts.length, price: 1 },
    { path: 'spec.volumes', count: pod.volumes.length, price: PER_VOLUME },
    { path: 'spec.securityContext.sysctls', count: pod.sysctls.length, price: sysctl },
    { path: 'spec.securityContext.supplementalGroups', count: countGroups(pod), price: group },
  ];
  const [{ path, count } = { path: 'spec', count: 0 }] = parts.sort((a, b) => b.count * b.price - a.count * a.price);
  const remedy = sccs === 1 ? '' : `, or name one SCC by annotation ${POD_SCC_ANNOTATIONS.requiredScc}`;
  const detail = `more than can be tried on ${sccs} SCC${sccs === 1 ? '' : 's'}; have fewer${remedy}`;
  return { type: 'FieldValueTooMany', path, value: count, detail };
}

/** How often the lists of an SCC are looked at for each container, sysctl and group. */
function pricesOf({ fields, needs }: PreparedScc, { namespace }: Trial) {
  const { capabilities, forbiddenSysctls, allowedUnsafeSysctls, seccompProfiles, supplementalGroups } = fields;
  const { groupRanges } = namespace;
  const fromNamespace = 'error' in groupRanges ? 0 : groupRanges.value.length;
  return {
    container: capabilities.requiredDrop.length + capabilities.defaultAdd.length + seccompProfiles.names.length,
    sysctl: PER_SYSCTL + forbiddenSysctls.length + allowedUnsafeSysctls.length,
    group: PER_GROUP + (needs.supplementalGroups ? fromNamespace : supplementalGroups.ranges.length),
  };
}

function countGroups({ supplementalGroups }: PodFields): number {
  return supplementalGroups?.length ?? 0;
}

function countCapabilities(containers: PodFields['containers']): number {
  let count = 0;
  for (const { capabilities } of containers)
    if (capabilities) count += capabilities.add.length + capabilities.drop.length;
  return count;
}

const TEXT_PER_ERROR = 256;

/** Takes errors off; false if that was too much, so that no more should be told. */
export function spendErrors(effort: Effort, errors: readonly FieldError[]): boolean {
  for (const { detail, value } of errors) {
    const length = detail.length + (typeof value === 'string' ? value.length : 0);
    effort.errors -= 1 + length / TEXT_PER_ERROR;
  }
  return effort.errors > 0;
}

/** True if it takes little to try all SCCs on the pod, again and again. */
export function isCheap({
  pod,
  candidates,
}: {
  readonly pod: PodFields;
  readonly candidates: readonly unknown[];
}): boolean {
  return pod.looks * candidates.length <= MAX_ADVICE_LOOKS;
}

/** How often trying any SCC looks at an element of the pod; lists of the SCC come on top. */
export function looksAt({
  containers,
  volumes,
  hostPorts,
}: Pick<PodFields, 'containers' | 'volumes' | 'hostPorts'>): number {
  return (
    containers.length * PER_CONTAINER +
    countCapabilities(containers) * PER_CAPABILITY +
    volumes.length * PER_VOLUME +
    hostPorts.length
  );
}
