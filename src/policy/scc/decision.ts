import type { Allowed, Denied } from '../../kube/admission.ts';

interface Details {
  readonly warnings: readonly string[];
  /** Keys do not include the webhook name, which the API server adds as a prefix. */
  readonly auditAnnotations: Readonly<Record<string, string>>;
  /** Absent if the pod is denied or if SCCs do not apply to it. */
  readonly facts?: SccFacts;
}

/** Name of the SCC that admits the pod, and the type of subject that may use it. */
type SccFacts = Readonly<Record<'scc' | 'subjectType', string>>;

/**
 * The decision about a request. `object` is the admitted pod from the mutating pass. It shares unchanged parts with the
 * input. `status.message` does not include the prefix `pods "…" is forbidden: `.
 */
export type SccDecision = (Allowed & Details) | (Denied & Details);
