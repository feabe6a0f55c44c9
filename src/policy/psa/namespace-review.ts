import { allow, type Decision, deny } from '../../kube/admission.ts';
import { type FieldError, formatFieldError } from '../../kube/field-error.ts';
import { invalid } from '../../kube/status.ts';
import { compareBytes, quote } from '../../kube/text.ts';
import type { Namespace, Pod } from '../../kube/types.ts';
import { evaluatePod } from '../pss/index.ts';
import { decodeObject, denyUndecodable, isCore } from './decode.ts';
import type { PodSecurityInput } from './input.ts';
import {
  areEquivalent,
  isFullyPrivileged,
  isSamePolicy,
  isStricter,
  MODES,
  type NamespacePolicy,
  printPolicy,
  resolvePolicies,
  setsMode,
} from './policy.ts';

/** Yields before each pod. The caller passes false to `next` if there is no time left for another pod. */
type NamespaceReview<T = Decision> = Generator<void, T, boolean>;

/**
 * Reviews a request for a namespace. Denies invalid labels, and warns about existing pods that violate a stricter
 * policy. These reviews are not counted in metrics. User exemptions do not apply.
 */
export function* reviewNamespace(input: PodSecurityInput): NamespaceReview {
  const { request } = input;
  if (request.requestSubResource) return allow();
  if (request.operation === 'CREATE') return reviewCreate(input);
  return request.operation === 'UPDATE' ? yield* reviewUpdate(input) : allow();
}

function reviewCreate(input: PodSecurityInput): Decision {
  const { request, podSecurity } = input;
  const decoded = decodeObject(request.object, request.kind);
  if (!isCore(decoded, 'Namespace')) return denyUndecodable(decoded, 'namespace');
  const namespace: Namespace = decoded.object;
  const policies = resolvePolicies(namespace.metadata?.labels, podSecurity.defaults);
  if (policies.errors.length > 0) return denyLabels(input, policies);
  return podSecurity.exemptions.namespace(request.namespace) ? warnOfExemption(namespace, policies, input) : allow();
}

function* reviewUpdate(input: PodSecurityInput): NamespaceReview {
  const { request, podSecurity } = input;
  const decoded = decodeObject(request.object, request.kind);
  if (!isCore(decoded, 'Namespace')) return denyUndecodable(decoded, 'namespace');
  const old = decodeObject(request.oldObject, request.kind);
  // The leading space yields two spaces in the message, as in upstream.
  if (!isCore(old, 'Namespace')) return denyUndecodable(old, ' old namespace');
  const namespace: Namespace = decoded.object;
  const policies = resolvePolicies(namespace.metadata?.labels, podSecurity.defaults);
  const oldPolicies = resolvePolicies(old.object.metadata?.labels, podSecurity.defaults);
  if (policies.errors.length > 0 && !areEqual(policies.errors, oldPolicies.errors)) return denyLabels(input, policies);
  if (!canAddViolations(policies, oldPolicies)) return allow();
  if (podSecurity.exemptions.namespace(request.namespace)) return warnOfExemption(namespace, policies, input);
  const warnings = yield* findPodWarnings(namespace.metadata?.name ?? '', policies, input);
  return warnings.length === 0 ? allow() : allow({ warnings });
}

/** Returns true if both lists contain the same errors. Errors that already exist must not block other changes. */
function areEqual(errors: readonly FieldError[], old: readonly FieldError[]): boolean {
  return (
    errors.length === old.length &&
    errors.every((error, index) => formatFieldError(error) === formatFieldError(old[index] ?? error))
  );
}

/**
 * Returns false if every pod that passed the old policy also passes the new one. Returns true if the versions differ,
 * because different versions are not comparable.
 */
function canAddViolations({ enforce }: NamespacePolicy, { enforce: old }: NamespacePolicy): boolean {
  if (isSamePolicy(enforce, old) || enforce.level === 'privileged') return false;
  return enforce.version !== old.version || isStricter(enforce.level, old.level);
}

/**
 * Warns that the namespace is exempt. The message lists only the modes that have labels, as upstream does, so the list
 * may be empty.
 */
function warnOfExemption(namespace: Namespace, policies: NamespacePolicy, input: PodSecurityInput): Decision {
  if (isFullyPrivileged(policies) || areEquivalent(policies, input.podSecurity.defaults)) return allow();
  const list = MODES.filter(
    (mode) => policies[mode].level !== 'privileged' && setsMode(namespace.metadata?.labels, mode),
  )
    .map((mode) => `${mode}=${printPolicy(policies[mode])}`)
    .join(', ');
  const name = quote(namespace.metadata?.name ?? '');
  return allow({
    warnings: [`namespace ${name} is exempt from Pod Security, and the policy (${list}) will be ignored`],
  });
}

function denyLabels({ request }: PodSecurityInput, { errors }: NamespacePolicy): Decision {
  return deny(invalid({ group: '', kind: 'Namespace' }, request.name ?? '', errors));
}

/**
 * Returns warnings about existing pods that violate the new policy. Pods with the same violations share one warning.
 * @see https://github.com/kubernetes/pod-security-admission/blob/v0.37.0/admission/admission.go
 */
function* findPodWarnings(
  namespace: string,
  { enforce }: NamespacePolicy,
  input: PodSecurityInput,
): NamespaceReview<readonly string[]> {
  const { podSecurity, limits, emulationVersion } = input;
  const limitMs = timeLimit(input);
  const pods = input.listPods(namespace);
  if (!pods) return ['failed to list pods while checking new PodSecurity enforce level'];
  const isTimeLeft = pods.length === 0 || (yield);
  const candidates = pods.filter((pod) => !podSecurity.exemptions.runtimeClass(pod.spec?.runtimeClassName));
  const groups = new Map<string, Group>();
  let checked = 0;
  let spentMs = 0;
  for (const pod of isTimeLeft ? onePerControllerFirst(candidates).slice(0, limits.maxPods) : []) {
    const startMs = input.now();
    const { allowed, reason } = evaluatePod(pod, { ...enforce, emulationVersion });
    if (!allowed) addToGroup(groups, reason, pod.metadata?.name ?? '');
    checked++;
    spentMs += input.now() - startMs;
    if (!(yield) || spentMs >= limitMs) break;
  }
  const warnings: string[] = [];
  if (checked < candidates.length) {
    warnings.push(
      `new PodSecurity enforce level only checked against the first ${checked} of ${candidates.length} existing pods`,
    );
  }
  if (groups.size > 0) {
    const policy = quote(printPolicy(enforce));
    warnings.push(`existing pods in namespace ${quote(namespace)} violate the new PodSecurity enforce level ${policy}`);
  }
  return [...warnings, ...[...groups].map(printGroup).sort(compareBytes)];
}

/** Returns the time for evaluating pods, which is at most half of the time until the deadline. */
function timeLimit({ limits, now, deadlineMs = Infinity }: PodSecurityInput): number {
  return Math.min(limits.timeoutMs, (deadlineMs - now()) / 2);
}

/**
 * Moves all but the first pod of each controller to the end, because pods of the same controller are usually identical.
 */
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

/** A group of pods that have the same violations. `name` is the first pod name in byte order. */
interface Group {
  name: string;
  pods: number;
}

function addToGroup(groups: Map<string, Group>, violations: string, name: string): void {
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
