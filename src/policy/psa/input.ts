import type { AdmissionRequest } from '../../kube/admission.ts';
import type { Namespace, Pod } from '../../kube/types.ts';
import type { WorkloadResource } from '../pod/index.ts';
import type { ExceptionIndex, Version } from '../pss/index.ts';
import type { PodSecurity } from './configuration.ts';
import type { DecodedWorkload } from './decode.ts';

/** Input for a review. Reviews call the functions only if the response depends on their results. */
export interface PodSecurityInput {
  readonly request: AdmissionRequest;
  /** The workload object after SCC admission has defaulted its templates. Absent where SCCs do not apply. */
  readonly workload?: DecodedWorkload | undefined;
  readonly podSecurity: PodSecurity;
  /** The emulated Kubernetes version. Defaults to the newest known version. */
  readonly emulationVersion?: Version | undefined;
  /** Resources in other API groups that are reviewed as workloads. */
  readonly workloadResources?: readonly WorkloadResource[];
  /** Returns a namespace, or `undefined` if it does not exist. */
  findNamespace(name: string): Namespace | undefined;
  /** Returns all pods in a namespace, or `undefined` if the pods cannot be listed. */
  listPods(namespace: string): readonly Pod[] | undefined;
  /** Returns the approved, unexpired exceptions in a namespace. If absent, there are no exceptions. */
  readonly findExceptions?: ((namespace: string) => ExceptionIndex) | undefined;
  /** Limits for reviewing the pods of a namespace. */
  readonly limits: PodReviewLimits;
  /** Returns the monotonic time in milliseconds. */
  now(): number;
  /** Deadline of the request, on the same clock as `now`. */
  readonly deadlineMs?: number;
}

/** Limits for reviewing existing pods after a label change. */
interface PodReviewLimits {
  readonly maxPods: number;
  readonly timeoutMs: number;
}

/** Upstream's limits. */
export const DEFAULT_LIMITS: PodReviewLimits = { maxPods: 3000, timeoutMs: 1000 };
