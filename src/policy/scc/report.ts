import type { Allowed, Denied } from '../../kube/admission.ts';
import { auditKey, UNABLE } from './texts.ts';
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
    warnings: [shorten(PREFIX + mostUseful(decision, MAX_LENGTH - PREFIX.length)), ...warnings],
    facts: { mode: 'report', verdict: 'deny', reason },
  };
}

/**
 * Of the errors of all SCCs, if they are too long or other warnings sum them up, no more than the first that can be mended.
 * A single one is told if it is short enough.
 */
function mostUseful({ status, warnings, auditAnnotations }: Denied & SccDecision, maxLength: number): string {
  const { message } = status;
  const start = message.indexOf(`${UNABLE}: `);
  const areSeveral = message.startsWith(`${UNABLE}: [`, start);
  const isTooLong = message.length > maxLength;
  if (start < 0 || (!isTooLong && !areSeveral)) return message;
  if (warnings.length > 0) return message.slice(0, start + UNABLE.length);
  if (!isTooLong) return message;
  const first = Object.keys(auditAnnotations).find((key) => key.startsWith(auditKey('')));
  return (first === undefined ? undefined : auditAnnotations[first]) ?? message;
}

function shorten(text: string): string {
  return text.length <= MAX_LENGTH ? text : `${text.slice(0, MAX_LENGTH - 1).trimEnd()}…`;
}
