import type { Allowed } from '../../kube/admission.ts';
import type { SccDecision } from './types.ts';

/** What API servers pass on of a warning when there are many. */
const MAX_LENGTH = 256;

const PREFIX = 'would be refused if security context constraints were enforced: ';

/**
 * A decision where it is only told: nothing is refused or changed, and the requester is warned of a refusal. The audit
 * annotations stay.
 */
export function reportScc(decision: SccDecision): Allowed {
  const { auditAnnotations, facts, warnings } = decision;
  const remarks = { auditAnnotations: { ...auditAnnotations, mode: 'report' } };
  if (decision.allowed) return { allowed: true, ...remarks, warnings, facts: { ...facts, mode: 'report' } };
  const reason = decision.status.message;
  return {
    allowed: true,
    ...remarks,
    warnings: [shorten(PREFIX + withoutList(reason, warnings)), ...warnings],
    facts: { mode: 'report', verdict: 'deny', reason },
  };
}

/** Where other warnings say what stands in the way, the errors of all SCCs only hide them. */
function withoutList(reason: string, warnings: readonly string[]): string {
  const start = reason.indexOf(': [');
  return warnings.length === 0 || start < 0 ? reason : reason.slice(0, start);
}

function shorten(text: string): string {
  return text.length <= MAX_LENGTH ? text : `${text.slice(0, MAX_LENGTH - 1).trimEnd()}…`;
}
