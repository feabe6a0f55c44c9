import { allow, deny, type Decision } from '../../kube/admission.ts';
import { quote } from '../../kube/text.ts';
import { badRequest, type Status } from '../../kube/status.ts';
import type { Decoded } from './decode.ts';
import type { Exemption } from './exemptions.ts';
import { isFullyPrivileged, printPolicy, type Policies } from './policy.ts';
import type { PodSecurityReview } from './types.ts';

/** Allowed, and nothing to say. */
export const ALLOWED: PodSecurityReview = { decision: allow(), counts: [] };

const EXEMPT: Readonly<Record<Exemption, PodSecurityReview>> = {
  namespace: exemptBy('namespace'),
  user: exemptBy('user'),
  runtimeClass: exemptBy('runtimeClass'),
};

/** Allowed without judging the pod. */
export function exempt(exemption: Exemption): PodSecurityReview {
  return EXEMPT[exemption];
}

function exemptBy(exemption: Exemption): PodSecurityReview {
  return { decision: allow({ auditAnnotations: { exempt: exemption } }), counts: [{ metric: 'exemptions' }] };
}

/** The answer for a pod that satisfies every policy of a namespace whose labels are right. */
export function passedUnder(policies: Policies): PodSecurityReview {
  const enforced = isFullyPrivileged(policies) ? 'privileged:latest' : printPolicy(policies.enforce);
  return {
    decision: allow({ auditAnnotations: { 'enforce-policy': enforced } }),
    counts: [{ metric: 'evaluations', decision: 'allow', mode: 'enforce', policy: policies.enforce }],
  };
}

/** Refuses since nothing can be evaluated; the cause is for the audit log only. */
export function refuse(status: Status, cause?: string): Decision {
  const error = cause === undefined ? status.message : `${status.message}: ${cause}`;
  return deny(status, { auditAnnotations: { error } });
}

/** Refuses an object that is not what it should be: `kind` names that, `old ` before it the object before an update. */
export function refuseObject(decoded: Decoded, kind: string): Decision {
  if (decoded.outcome !== 'failed') return refuse(badRequest(`failed to decode ${kind}`));
  const old = kind.slice(0, kind.lastIndexOf(' ') + 1);
  return refuse(badRequest(`failed to decode ${old}object`), decoded.error);
}

/** A decision in place of an evaluation that was not possible, counted. */
export function unevaluated(decision: Decision): PodSecurityReview {
  return { decision, counts: [{ metric: 'errors', fatal: true }] };
}

/** What is said of a namespace that does not exist, and why. */
export function lookupFailure(namespace: string): { readonly message: string; readonly cause: string } {
  const name = quote(namespace);
  return { message: `failed to lookup namespace ${name}`, cause: `namespaces ${name} not found` };
}
