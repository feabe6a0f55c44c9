import type { Condition } from './conditions.ts';
import type { KubeObject } from './types.ts';

/** Users who created the exception or changed its spec, as JSON. Only the webhook writes it. */
export const AUTHORS_ANNOTATION = 'portcullis.dev/authors';

/** An entry of an exception, which covers findings of one check. */
export interface ExceptionEntry {
  readonly check: string;
  /** Name of an init container or regular container. If absent, the entry covers findings of pod-level fields only. */
  readonly container?: string;
  /** A repository, optionally followed by a digest. Required with `container`. */
  readonly image?: string;
  /** The values that the entry allows. Absent for checks whose findings have no values. */
  readonly values?: readonly string[];
}

/** Allows the pods of a service account to violate single Pod Security checks until a given time. */
export interface PodSecurityException extends KubeObject {
  readonly spec?: {
    readonly serviceAccountName: string;
    readonly allow: readonly ExceptionEntry[];
    /** RFC 3339. */
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
