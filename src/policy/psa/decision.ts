import type { Decision } from '../../kube/admission.ts';
import type { Policy } from '../pss/index.ts';
import type { Mode } from './policy.ts';

/** An event that the Pod Security Admission metrics count. */
export type PodSecurityCount =
  | {
      readonly metric: 'evaluations';
      readonly decision: 'allow' | 'deny';
      readonly mode: Mode;
      readonly policy: Policy;
    }
  | { readonly metric: 'exemptions' }
  /** `fatal` means that the request was not evaluated. */
  | { readonly metric: 'errors'; readonly fatal: boolean };

/** The response to a request, and the events to count. Several requests may share the same object. */
export interface PodSecurityReview {
  readonly decision: Decision;
  readonly counts: readonly PodSecurityCount[];
}
