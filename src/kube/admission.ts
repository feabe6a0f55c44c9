import type { Status } from './status.ts';
import type { GroupVersionKind, GroupVersionResource, UserInfo } from './types.ts';

export type Operation = 'CREATE' | 'UPDATE' | 'DELETE' | 'CONNECT';

/**
 * The request inside an AdmissionReview, its envelope checked, the objects inside untouched.
 * @see https://github.com/kubernetes/api/blob/v0.36.0/admission/v1/types.go
 */
export interface AdmissionRequest {
  readonly uid: string;
  readonly kind: GroupVersionKind;
  readonly resource: GroupVersionResource;
  readonly subResource?: string;
  readonly requestKind?: GroupVersionKind;
  readonly requestResource?: GroupVersionResource;
  readonly requestSubResource?: string;
  /** Absent on a create with generateName. */
  readonly name?: string;
  /** For a Namespace the API server puts its own name here. */
  readonly namespace?: string;
  readonly operation: Operation;
  readonly userInfo: UserInfo;
  /** Unknown on purpose: nothing has checked it. `null` on DELETE. */
  readonly object?: unknown;
  readonly oldObject?: unknown;
  readonly dryRun?: boolean;
  readonly options?: unknown;
}

/** What is said beside the verdict. Keys of audit annotations have no `/`: the API server puts the webhook's name in front. */
interface Remarks {
  readonly warnings?: readonly string[];
  readonly auditAnnotations?: Readonly<Record<string, string>>;
  /** For the log line of the review; nothing of it is sent. */
  readonly facts?: Readonly<Record<string, string>>;
}

/** `object` is the changed object; absent, nothing changes. */
export interface Allowed extends Remarks {
  readonly allowed: true;
  readonly object?: unknown;
}

export interface Denied extends Remarks {
  readonly allowed: false;
  readonly status: Status;
}

/** The answer to an AdmissionRequest. A refusal is a value, never an exception. */
export type Decision = Allowed | Denied;

export function allow(remarks: Omit<Allowed, 'allowed'> = {}): Allowed {
  return { allowed: true, ...remarks };
}

export function deny(status: Status, remarks: Remarks = {}): Denied {
  return { allowed: false, status, ...remarks };
}
