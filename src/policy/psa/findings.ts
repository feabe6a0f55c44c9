import { allow, deny } from '../../kube/admission.ts';
import { printFieldErrors } from '../../kube/field-error.ts';
import { quote } from '../../kube/quote.ts';
import type { Status } from '../../kube/status.ts';
import type { Evaluation } from '../pss/evaluate.ts';
import type { NamespacePolicy } from './namespace-policy.ts';
import { printPolicy, type Mode } from './policy.ts';
import type { PodSecurityCount, PodSecurityReview } from './types.ts';

/** What there is to say about one pod or template; collected mode by mode. */
export interface Findings {
  readonly auditAnnotations: Record<string, string>;
  readonly warnings: string[];
  readonly counts: PodSecurityCount[];
}

/** Findings that begin with what is wrong with the labels of the namespace. */
export function startFindings({ errors }: NamespacePolicy): Findings {
  if (errors.length === 0) return { auditAnnotations: {}, warnings: [], counts: [] };
  return {
    auditAnnotations: { error: `Failed to parse policy: ${printFieldErrors(errors)}` },
    warnings: [],
    counts: [{ metric: 'errors', fatal: false }],
  };
}

/** Notes by which policy the pod was let in or refused. */
export function noteEnforcement(findings: Findings, policies: NamespacePolicy, decision: 'allow' | 'deny'): void {
  findings.auditAnnotations['enforce-policy'] = printPolicy(policies.enforce);
  findings.counts.push({ metric: 'evaluations', decision, mode: 'enforce', policy: policies.enforce });
}

/** Notes, for the audit log, a violation of the audit policy. */
export function noteAudit(findings: Findings, policies: NamespacePolicy, evaluation: Evaluation): void {
  if (evaluation.allowed) return;
  findings.auditAnnotations['audit-violations'] = `would violate ${describe(policies, 'audit', evaluation)}`;
  findings.counts.push({ metric: 'evaluations', decision: 'deny', mode: 'audit', policy: policies.audit });
}

/** Warns the requester of a violation of the warn policy. */
export function noteWarning(findings: Findings, policies: NamespacePolicy, evaluation: Evaluation): void {
  if (evaluation.allowed) return;
  findings.warnings.push(`would violate ${describe(policies, 'warn', evaluation)}`);
  findings.counts.push({ metric: 'evaluations', decision: 'deny', mode: 'warn', policy: policies.warn });
}

/** `PodSecurity "restricted:latest": ` and what is wrong. */
export function describe(policies: NamespacePolicy, mode: Mode, evaluation: Evaluation): string {
  return `PodSecurity ${quote(printPolicy(policies[mode]))}: ${evaluation.detail}`;
}

/** The answer with these findings: a refusal if there is a status for it. */
export function conclude({ auditAnnotations, warnings, counts }: Findings, refusal?: Status): PodSecurityReview {
  const remarks = {
    ...(Object.keys(auditAnnotations).length === 0 ? {} : { auditAnnotations }),
    ...(warnings.length === 0 ? {} : { warnings }),
  };
  return { decision: refusal ? deny(refusal, remarks) : allow(remarks), counts };
}
