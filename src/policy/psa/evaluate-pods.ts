import { compareBytes } from '../../kube/order.ts';
import { quote } from '../../kube/quote.ts';
import type { Pod } from '../../kube/types.ts';
import { evaluatePod } from '../pss/evaluate.ts';
import type { Policy, Version } from '../pss/types.ts';
import { printPolicy } from './policy.ts';

/** A policy tried on the pods that exist. */
export interface PodsReview {
  readonly namespace: string;
  readonly policy: Policy;
  readonly emulationVersion?: Version;
  isExempt(pod: Pod): boolean;
  readonly maxPods: number;
  /** True once the time is used up; asked after each pod. */
  isOver(): boolean;
}

/** Pods with the same violations: the first name in byte order stands for all. */
interface Group {
  name: string;
  pods: number;
}

/**
 * Warns of the pods that violate a policy, those with equal violations in one line; empty if there are none.
 * @see https://github.com/kubernetes/pod-security-admission/blob/v0.37.0/admission/admission.go
 */
export function evaluatePods(pods: readonly Pod[], review: PodsReview): string[] {
  const candidates = onePerControllerFirst(pods.filter((pod) => !review.isExempt(pod)));
  const { checked, groups } = groupByViolations(candidates.slice(0, review.maxPods), review);
  const warnings: string[] = [];
  if (checked < candidates.length) {
    warnings.push(
      `new PodSecurity enforce level only checked against the first ${checked} of ${candidates.length} existing pods`,
    );
  }
  if (groups.size > 0) {
    const policy = quote(printPolicy(review.policy));
    warnings.push(
      `existing pods in namespace ${quote(review.namespace)} violate the new PodSecurity enforce level ${policy}`,
    );
  }
  return [...warnings, ...[...groups].map(printGroup).sort(compareBytes)];
}

/** Siblings are alike: the first of each controller stays in its place, the others move to the end. */
function onePerControllerFirst(pods: readonly Pod[]): readonly Pod[] {
  const seen = new Set<string>();
  const siblings: Pod[] = [];
  const firsts = pods.filter((pod) => {
    const owner = pod.metadata?.ownerReferences?.find((reference) => reference.controller === true);
    if (!owner) return true;
    if (!seen.has(owner.uid)) return seen.add(owner.uid);
    siblings.push(pod);
    return false;
  });
  return siblings.length === 0 ? firsts : [...firsts, ...siblings];
}

function groupByViolations(pods: readonly Pod[], { policy, emulationVersion, isOver }: PodsReview) {
  const options = emulationVersion === undefined ? policy : { ...policy, emulationVersion };
  const groups = new Map<string, Group>();
  let checked = 0;
  for (const pod of pods) {
    const { allowed, reason } = evaluatePod(pod, options);
    if (!allowed) addTo(groups, reason, pod.metadata?.name ?? '');
    checked++;
    if (isOver()) break;
  }
  return { checked, groups };
}

function addTo(groups: Map<string, Group>, violations: string, name: string): void {
  const group = groups.get(violations);
  if (!group) groups.set(violations, { name, pods: 1 });
  else {
    group.pods++;
    if (compareBytes(name, group.name) < 0) group.name = name;
  }
}

function printGroup([violations, { name, pods }]: readonly [string, Group]): string {
  if (pods === 1) return `${name}: ${violations}`;
  return `${name} (and ${pods - 1} other ${pods === 2 ? 'pod' : 'pods'}): ${violations}`;
}
