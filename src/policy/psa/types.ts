import type { AdmissionRequest, Decision } from '../../kube/admission.ts';
import type { Namespace, Pod } from '../../kube/types.ts';
import type { Policy, Version } from '../pss/policy.ts';
import type { PodSecurity } from './pod-security.ts';
import type { Mode } from './policy.ts';

/** All that a review needs. The functions are called only where the answer depends on them. */
export interface PodSecurityInput {
  readonly request: AdmissionRequest;
  readonly podSecurity: PodSecurity;
  /** Judge as that Kubernetes version would; absent, the newest rules known hold. */
  readonly emulationVersion?: Version;
  /** `undefined` if there is no such namespace. */
  findNamespace(name: string): Namespace | undefined;
  /** All pods of a namespace; `undefined` if they cannot be told. */
  listPods(namespace: string): readonly Pod[] | undefined;
  /** Bounds the review of the pods of a namespace. */
  readonly limits: PodReviewLimits;
  /** A monotonic clock, in milliseconds. */
  now(): number;
  /** When the requester stops waiting, on the same clock. */
  readonly deadlineMs?: number;
}

/** How much of a namespace is reviewed when its labels change. */
export interface PodReviewLimits {
  readonly maxPods: number;
  readonly timeoutMs: number;
}

/** Upstream's own limits. */
export const DEFAULT_LIMITS: PodReviewLimits = { maxPods: 3000, timeoutMs: 1000 };

/** A fact for the metrics. */
export type PodSecurityCount =
  | {
      readonly metric: 'evaluations';
      readonly decision: 'allow' | 'deny';
      readonly mode: Mode;
      readonly policy: Policy;
    }
  | { readonly metric: 'exemptions' }
  /** `fatal`: nothing could be evaluated. */
  | { readonly metric: 'errors'; readonly fatal: boolean };

/** The answer to a request, and what is counted for it. Both may be shared between requests. */
export interface PodSecurityReview {
  readonly decision: Decision;
  readonly counts: readonly PodSecurityCount[];
}
