import { forbidden, internalError } from '../../kube/status.ts';
import type { PodLike } from '../../kube/types.ts';
import { ALLOWED, exempt, lookupFailure, refuse, refuseObject, unevaluated } from './answers.ts';
import { decodeObject, isCore } from './decode.ts';
import { evaluate } from './evaluate.ts';
import { exemptionOf } from './exemptions.ts';
import { conclude, describe, noteAudit, noteEnforcement, noteWarning, startFindings } from './findings.ts';
import type { NamespaceRules } from './pod-security.ts';
import { isFullyPrivileged } from './policy.ts';
import { isSignificantUpdate } from './significant-update.ts';
import type { PodSecurityInput, PodSecurityReview } from './types.ts';

/** These cannot change what a pod may do; any other, one of the future too, must carry a pod and is judged. */
const IGNORED_SUBRESOURCES: ReadonlySet<string | undefined> = new Set([
  'exec',
  'attach',
  'binding',
  'eviction',
  'log',
  'portforward',
  'proxy',
  'status',
]);

const PODS = { group: '', resource: 'pods' };

/**
 * Answers a request about a pod: enforces, audits and warns by the three policies of its namespace.
 * @see https://github.com/kubernetes/pod-security-admission/blob/v0.37.0/admission/admission.go
 */
export function reviewPod(input: PodSecurityInput): PodSecurityReview {
  const { request, podSecurity } = input;
  if (IGNORED_SUBRESOURCES.has(request.requestSubResource)) return ALLOWED;
  const exemption = exemptionOf(request, podSecurity.exemptions);
  if (exemption) return exempt(exemption);
  const name = request.namespace ?? '';
  const namespace = input.findNamespace(name);
  if (!namespace) return withoutNamespace(name);
  const rules = podSecurity.rulesOf(namespace);
  // Who asks for nothing is not troubled with an object that cannot be decoded.
  if (rules.errors.length === 0 && isFullyPrivileged(rules)) return rules.passed;
  return reviewObject(input, rules);
}

function withoutNamespace(name: string): PodSecurityReview {
  const { message, cause } = lookupFailure(name);
  return unevaluated(refuse(internalError(message), cause));
}

function reviewObject(input: PodSecurityInput, rules: NamespaceRules): PodSecurityReview {
  const { request, podSecurity } = input;
  const pod = decodeObject(request.object, request.kind);
  if (!isCore(pod, 'Pod')) return unevaluated(refuseObject(pod, 'pod'));
  if (request.operation === 'UPDATE') {
    const old = decodeObject(request.oldObject, request.kind);
    if (!isCore(old, 'Pod')) return unevaluated(refuseObject(old, 'old pod'));
    if (!isSignificantUpdate(pod.object, old.object)) return ALLOWED;
  }
  const subject: PodLike = pod.object;
  if (podSecurity.exemptions.runtimeClass(subject.spec?.runtimeClassName)) return exempt('runtimeClass');
  return judge(subject, rules, input);
}

/** Equal policies are one object and are evaluated once. */
function judge(pod: PodLike, rules: NamespaceRules, input: PodSecurityInput): PodSecurityReview {
  const { enforce, audit, warn } = rules;
  const { request, emulationVersion } = input;
  const enforced = evaluate(pod, enforce, emulationVersion);
  const audited = audit === enforce ? enforced : evaluate(pod, audit, emulationVersion);
  if (!enforced.allowed) {
    const findings = startFindings(rules);
    noteEnforcement(findings, rules, 'deny');
    noteAudit(findings, rules, audited);
    const cause = `violates ${describe(rules, 'enforce', enforced)}`;
    return conclude(findings, forbidden(PODS, request.name ?? '', cause));
  }
  const warned = warn === enforce ? enforced : warn === audit ? audited : evaluate(pod, warn, emulationVersion);
  if (audited.allowed && warned.allowed && rules.errors.length === 0) return rules.passed;
  const findings = startFindings(rules);
  noteEnforcement(findings, rules, 'allow');
  noteAudit(findings, rules, audited);
  noteWarning(findings, rules, warned);
  return conclude(findings);
}
