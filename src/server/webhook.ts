import type { V1MatchCondition, V1RuleWithOperations } from '@kubernetes/client-node';
import type { Store } from '../cluster/store.ts';
import type { AdmissionRequest, Decision } from '../kube/admission.ts';
import type { Wire } from '../kube/types.ts';

/** Context of a decision. Webhooks read the store and do not call the API server on the hot path. */
export interface WebhookContext {
  readonly store: Store;
  /** Deadline for the response, on the clock of `now()`. Absent if the request has no timeout. */
  readonly deadlineMs?: number | undefined;
  /** Creates a signal that is aborted if the connection closes before the response. */
  getSignal?(): AbortSignal;
  /** Remote address of the client. */
  readonly address?: string;
  /** Length of the request body. */
  readonly bodyBytes?: number;
  /** True for the second attempt, after the review has waited. The second attempt does not wait. */
  readonly isRepeated?: boolean;
  /** Monotonic clock in milliseconds. */
  now(): number;
}

/** An admission webhook that gathers input from the store and calls a decision in `policy/`. */
export interface Webhook {
  /** URL path, as in the webhook configurations. */
  readonly path: string;
  /**
   * True if decisions depend on all members of the objects. Otherwise, large objects are reduced to the fields that
   * `POD_SPEC` selects.
   */
  readonly readsWholeObjects?: boolean;
  /**
   * Returns true if the webhook may deny the request, regardless of its objects. Requests that exceed a limit are then
   * denied instead of allowed with a warning. If absent, the webhook may deny every request.
   */
  enforces?(request: AdmissionRequest, store: Store): boolean;
  /** Returns the decision. Denials are values. An exception is a bug and results in HTTP 500. */
  decide(request: AdmissionRequest, context: WebhookContext): MaybePromise<Decision | Postponed>;
}

/**
 * A decision that must wait. Only the bytes of the review are kept during the wait. The review is then parsed and
 * decided again.
 */
export interface Postponed {
  readonly until: Promise<void>;
}

export function isPostponed(outcome: object | undefined): outcome is Postponed {
  return outcome !== undefined && 'until' in outcome;
}

/** A value or a promise. Most decisions are available without waiting. */
export type MaybePromise<T> = T | Promise<T>;

/** Calls `next` as soon as the value is available. */
export function whenAvailable<T, U>(value: MaybePromise<T>, next: (value: T) => MaybePromise<U>): MaybePromise<U> {
  return value instanceof Promise ? value.then(next) : next(value);
}

/** The operations that write objects. */
export const WRITES = ['CREATE', 'UPDATE'] as const;

/** Returns the rule of a registration for the resources of one API group. */
export function rule(
  operations: readonly string[],
  group: string,
  resources: readonly string[],
  { version = 'v1', scope = 'Namespaced' } = {},
): Wire<V1RuleWithOperations> {
  return { apiGroups: [group], apiVersions: [version], operations, resources, scope };
}

/**
 * Returns a CEL expression that compares a metadata map with the map in the old object. An absent map is equal to an
 * empty one.
 */
function isChanged(field: 'labels' | 'annotations'): string {
  const map = (object: string): string => `(has(${object}.metadata.${field}) ? ${object}.metadata.${field} : {})`;
  return `${map('object')} != ${map('oldObject')}`;
}

export const LABELS_CHANGED = isChanged('labels');
export const ANNOTATIONS_CHANGED = isChanged('annotations');

/**
 * Returns the match condition that skips updates that cannot change the decision. This allows finalizers to be removed
 * from pods and namespaces to be deleted while no replica responds.
 */
export function relevantUpdate(expression: string): Wire<V1MatchCondition> {
  return { name: 'relevant-update', expression: `request.operation != 'UPDATE' || ${expression}` };
}
