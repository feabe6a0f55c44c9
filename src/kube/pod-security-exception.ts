import type { Condition } from './conditions.ts';
import type { KubeObject } from './types.ts';

/** Maximum number of items in each list of an exception. */
export const MAX_EXCEPTION_ITEMS = 32;

/** An entry of an exception. It covers findings of one check. */
export interface ExceptionEntry {
  readonly check: string;
  /** Name of an init container or regular container. If absent, the entry covers only findings in pod-level fields. */
  readonly container?: string;
  /** An image repository, optionally followed by a digest. Required if `container` is set. */
  readonly image?: string;
  /** The values that the entry allows. Absent for checks whose findings have no values. */
  readonly values?: readonly string[];
}

/** Allows a service account's pods to violate individual Pod Security checks until a given time. */
export interface PodSecurityException extends KubeObject {
  readonly spec?: {
    readonly serviceAccountName: string;
    readonly allow: readonly ExceptionEntry[];
    /** Expiry time in RFC 3339 format. */
    readonly expiresAt: string;
    readonly reason: string;
  };
  readonly status?: {
    readonly approval?: { readonly by: string; readonly at: string; readonly specHash: string };
    readonly observedGeneration?: number;
    readonly conditions?: readonly Condition[];
    readonly uses?: number;
    readonly lastUsed?: string;
    readonly workloads?: readonly string[];
  };
}
