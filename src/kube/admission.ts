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
interface DecisionDetails {
  readonly warnings?: readonly string[];
  readonly auditAnnotations?: Readonly<Record<string, string>>;
  /** For the log line of the review; nothing of it is sent. */
  readonly facts?: Readonly<Record<string, string>>;
}

/** `object` is the changed object; absent, nothing changes. */
export interface Allowed extends DecisionDetails {
  readonly allowed: true;
  readonly object?: unknown;
}

export interface Denied extends DecisionDetails {
  readonly allowed: false;
  readonly status: Status;
}

/** The answer to an AdmissionRequest. A refusal is a value, never an exception. */
export type Decision = Allowed | Denied;

export function allow(remarks: Omit<Allowed, 'allowed'> = {}): Allowed {
  return { allowed: true, ...remarks };
}

export function deny(status: Status, remarks: DecisionDetails = {}): Denied {
  return { allowed: false, status, ...remarks };
}

const SERVICE_ACCOUNT = /^system:serviceaccount:([^:]+):([^:]+)$/;
const AUTHENTICATED = 'system:authenticated';
const UNAUTHENTICATED = 'system:unauthenticated';

/** The namespace and the name of the service account that a user is; `undefined` for anybody else. */
export function parseServiceAccountUsername(
  username: string,
): { readonly namespace: string; readonly name: string } | undefined {
  const [, namespace, name] = SERVICE_ACCOUNT.exec(username) ?? [];
  return namespace === undefined || name === undefined ? undefined : { namespace, name };
}

/**
 * The user that somebody becomes who acts as that user and as a member of those groups: a service account without groups
 * has its own, and who is somebody is authenticated, unless the groups say otherwise.
 * @see https://kubernetes.io/docs/reference/access-authn-authz/authentication/#user-impersonation
 */
export function impersonatedUser(username: string, groups: readonly string[]): UserInfo {
  const account = parseServiceAccountUsername(username);
  const own = groups.length > 0 || account === undefined ? groups : accountGroups(account.namespace);
  const anonymous = username === 'system:anonymous';
  const stated = own.includes(UNAUTHENTICATED) || (!anonymous && own.includes(AUTHENTICATED));
  return { username, groups: stated ? own : [...own, anonymous ? UNAUTHENTICATED : AUTHENTICATED] };
}

function accountGroups(namespace: string): readonly string[] {
  return ['system:serviceaccounts', `system:serviceaccounts:${namespace}`];
}
