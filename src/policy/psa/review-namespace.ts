import { allow, deny } from '../../kube/admission.ts';
import { quote } from '../../kube/quote.ts';
import { printFieldError, type FieldError } from '../../kube/field-error.ts';
import { invalid } from '../../kube/status.ts';
import type { Namespace } from '../../kube/types.ts';
import { ALLOWED, refuseObject } from './answers.ts';
import { decodeObject, isCore } from './decode.ts';
import { evaluatePods } from './evaluate-pods.ts';
import { resolvePolicies, setsMode, type NamespacePolicy } from './namespace-policy.ts';
import { areEquivalent, isFullyPrivileged, isSamePolicy, isStricter, MODES, printPolicy } from './policy.ts';
import type { PodSecurityInput, PodSecurityReview } from './types.ts';

/**
 * Answers a request about a namespace: refuses labels that are wrong, and warns of pods that violate a policy newly
 * enforced. Nothing of this is counted, and users are not exempt.
 */
export function reviewNamespace(input: PodSecurityInput): PodSecurityReview {
  const { request } = input;
  if (request.requestSubResource) return ALLOWED;
  if (request.operation === 'CREATE') return reviewCreate(input);
  return request.operation === 'UPDATE' ? reviewUpdate(input) : ALLOWED;
}

function reviewCreate(input: PodSecurityInput): PodSecurityReview {
  const { request, podSecurity } = input;
  const decoded = decodeObject(request.object, request.kind);
  if (!isCore(decoded, 'Namespace')) return uncounted(refuseObject(decoded, 'namespace'));
  const namespace: Namespace = decoded.object;
  const policy = resolvePolicies(namespace.metadata?.labels, podSecurity.defaults);
  if (policy.errors.length > 0) return refuseLabels(input, policy);
  return podSecurity.exemptions.namespace(request.namespace) ? warnOfExemption(namespace, policy, input) : ALLOWED;
}

function reviewUpdate(input: PodSecurityInput): PodSecurityReview {
  const { request, podSecurity } = input;
  const decoded = decodeObject(request.object, request.kind);
  if (!isCore(decoded, 'Namespace')) return uncounted(refuseObject(decoded, 'namespace'));
  const old = decodeObject(request.oldObject, request.kind);
  // Two spaces, as upstream.
  if (!isCore(old, 'Namespace')) return uncounted(refuseObject(old, ' old namespace'));
  const namespace: Namespace = decoded.object;
  const policy = resolvePolicies(namespace.metadata?.labels, podSecurity.defaults);
  const before = resolvePolicies(old.object.metadata?.labels, podSecurity.defaults);
  if (policy.errors.length > 0 && !areEqual(policy.errors, before.errors)) return refuseLabels(input, policy);
  if (!isTightened(policy, before)) return ALLOWED;
  if (podSecurity.exemptions.namespace(request.namespace)) return warnOfExemption(namespace, policy, input);
  return warn(warnOfPods(namespace.metadata?.name ?? '', policy, input));
}

/** Errors that were there before do not keep anybody from changing something else. */
function areEqual(errors: readonly FieldError[], before: readonly FieldError[]): boolean {
  return (
    errors.length === before.length &&
    errors.every((error, index) => printFieldError(error) === printFieldError(before[index] ?? error))
  );
}

/** False if no pod that was let in before can violate the new policy; with another version that is not known. */
function isTightened({ enforce }: NamespacePolicy, { enforce: before }: NamespacePolicy): boolean {
  if (isSamePolicy(enforce, before) || enforce.level === 'privileged') return false;
  return enforce.version !== before.version || isStricter(enforce.level, before.level);
}

function warnOfPods(name: string, policy: NamespacePolicy, input: PodSecurityInput): readonly string[] {
  const { podSecurity, limits, now, deadlineMs, emulationVersion } = input;
  const startMs = now();
  const patienceMs = deadlineMs === undefined ? Infinity : (deadlineMs - startMs) / 2;
  const endMs = startMs + Math.min(limits.timeoutMs, patienceMs);
  const pods = input.listPods(name);
  if (!pods) return ['failed to list pods while checking new PodSecurity enforce level'];
  return evaluatePods(pods, {
    namespace: name,
    policy: policy.enforce,
    ...(emulationVersion === undefined ? {} : { emulationVersion }),
    isExempt: (pod) => podSecurity.exemptions.runtimeClass(pod.spec?.runtimeClassName),
    maxPods: limits.maxPods,
    isOver: () => now() >= endMs,
  });
}

/** Only modes that the namespace sets are named, so the list may be empty, as upstream. */
function warnOfExemption(namespace: Namespace, policy: NamespacePolicy, input: PodSecurityInput): PodSecurityReview {
  if (isFullyPrivileged(policy) || areEquivalent(policy, input.podSecurity.defaults)) return ALLOWED;
  const list = MODES.filter((mode) => policy[mode].level !== 'privileged' && setsMode(namespace.metadata?.labels, mode))
    .map((mode) => `${mode}=${printPolicy(policy[mode])}`)
    .join(', ');
  const name = quote(namespace.metadata?.name ?? '');
  return warn([`namespace ${name} is exempt from Pod Security, and the policy (${list}) will be ignored`]);
}

function refuseLabels({ request }: PodSecurityInput, { errors }: NamespacePolicy): PodSecurityReview {
  return uncounted(deny(invalid({ group: '', kind: 'Namespace' }, request.name ?? '', errors)));
}

function warn(warnings: readonly string[]): PodSecurityReview {
  return warnings.length === 0 ? ALLOWED : uncounted(allow({ warnings }));
}

function uncounted(decision: PodSecurityReview['decision']): PodSecurityReview {
  return { decision, counts: [] };
}
