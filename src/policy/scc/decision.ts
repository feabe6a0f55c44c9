import type { Allowed, Denied } from '../../kube/admission.ts';

interface Details {
  readonly warnings: readonly string[];
  /** Keys lack the webhook name, because the API server adds it as a prefix. */
  readonly auditAnnotations: Readonly<Record<string, string>>;
}

/**
 * Name of the SCC that admits the pod, and the type of the subject that may use it. Absent if SCCs do not apply to the
 * pod, for example to a Windows pod.
 */
type SccFacts = Readonly<Record<'scc' | 'subjectType', string>>;

/**
 * The decision for a request. `object` is the pod that the mutating pass admits, which shares unchanged parts with the
 * input. `status.message` lacks the prefix `pods "…" is forbidden: `.
 */
export type SccDecision =
  | (Allowed & Details & { readonly facts?: SccFacts })
  | (Denied & Details & { readonly facts?: never });
