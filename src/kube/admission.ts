import { defined } from './defined.ts';
import type { LimitName } from './limits.ts';
import type { Status } from './status.ts';
import type { GroupVersionKind, GroupVersionResource, UserInfo } from './types.ts';

export type Operation = 'CREATE' | 'UPDATE' | 'DELETE' | 'CONNECT';

/**
 * The request of an AdmissionReview. The envelope is validated, but the objects are not.
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
  /** Name of the object. Absent on CREATE if the object uses `generateName`. */
  readonly name?: string;
  /** For requests on a Namespace, the name of that Namespace. */
  readonly namespace?: string;
  readonly operation: Operation;
  readonly userInfo: UserInfo;
  /** The object, which has not been validated. `null` on DELETE. */
  readonly object?: unknown;
  readonly oldObject?: unknown;
  readonly dryRun?: boolean;
  readonly options?: unknown;
}

/** The parts of a decision besides its result. The API server prefixes audit annotations with the webhook name. */
interface DecisionDetails {
  readonly warnings?: readonly string[];
  readonly auditAnnotations?: Readonly<Record<string, string>>;
  /** Fields for the review's log line. They are not part of the response. */
  readonly facts?: Readonly<Record<string, string>>;
  /** The limit that the object exceeds. It is counted in the metrics. */
  readonly limit?: LimitName | undefined;
}

/** A decision that allows the request. `object` is the mutated object, or absent if the object does not change. */
export interface Allowed extends DecisionDetails {
  readonly allowed: true;
  readonly object?: unknown;
}

export interface Denied extends DecisionDetails {
  readonly allowed: false;
  readonly status: Status;
}

/** The decision for an AdmissionRequest. Denials are returned as values, never thrown. */
export type Decision = Allowed | Denied;

const ALLOWED: Allowed = { allowed: true };

export function allow(details?: Omit<Allowed, 'allowed'>): Allowed {
  return details ? { allowed: true, ...details } : ALLOWED;
}

export function deny(status: Status, details: DecisionDetails = {}): Denied {
  return { allowed: false, status, ...details };
}

/** HTTP status codes of denials due to a limit: 413 if retries also fail, and 429 if a retry may succeed. */
export const LIMIT_CODES: ReadonlySet<number> = new Set([413, 429]);

/**
 * Combines decisions about one request. If any of them is a denial, the result is a denial with the reasons of all
 * denials. Decisions of policies that do not apply have no effect. The last changed object is the result, so each
 * decision must start from the object of the previous decision.
 */
export function combineDecisions(all: readonly Decision[]): Decision {
  const decisions = all.filter((decision) => decision !== ALLOWED);
  const [first = ALLOWED] = decisions;
  if (decisions.length < 2) return first;
  const warnings = decisions.flatMap((decision) => decision.warnings ?? []);
  const { limit } = decisions.find((decision) => decision.limit !== undefined) ?? {};
  const details = {
    ...(warnings.length === 0 ? {} : { warnings }),
    ...combineMaps(decisions, 'auditAnnotations'),
    ...combineMaps(decisions, 'facts'),
    ...defined({ limit }),
  };
  const [denial, ...others] = decisions
    .flatMap((decision) => (decision.allowed ? [] : decision.status))
    // A policy's reason takes precedence over an exceeded limit.
    .toSorted((a, b) => Number(LIMIT_CODES.has(a.code)) - Number(LIMIT_CODES.has(b.code)));
  if (denial) {
    const messages = new Set([denial, ...others].map((status) => status.message));
    const message = [...messages].join('; ');
    return { allowed: false, status: { ...denial, message }, ...details };
  }
  const object = decisions.findLast((decision) => decision.allowed && decision.object !== undefined);
  return allow({ ...(object?.allowed === true ? { object: object.object } : {}), ...details });
}

function combineMaps(decisions: readonly Decision[], key: 'auditAnnotations' | 'facts') {
  const maps = decisions.map((decision) => decision[key]).filter((map) => map !== undefined);
  return maps.length === 0 ? {} : { [key]: Object.assign({}, ...maps) as Readonly<Record<string, string>> };
}

const SERVICE_ACCOUNT = /^system:serviceaccount:([^:]+):([^:]+)$/;
const AUTHENTICATED = 'system:authenticated';
const UNAUTHENTICATED = 'system:unauthenticated';

/** Parses a service account username. Returns `undefined` for other users. */
export function parseServiceAccountUsername(
  username: string,
): { readonly namespace: string; readonly name: string } | undefined {
  const [, namespace, name] = SERVICE_ACCOUNT.exec(username) ?? [];
  return namespace === undefined || name === undefined ? undefined : { namespace, name };
}

/**
 * Returns the user that the API server derives from impersonation headers. If no groups are given, a service account
 * gets its own groups. Every user also gets the group `system:authenticated` or `system:unauthenticated`.
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
