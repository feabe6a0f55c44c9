import type { V1MatchCondition, V1RuleWithOperations } from '@kubernetes/client-node';
import type { Store } from '../cluster/store.ts';
import type { AdmissionRequest, Decision } from '../kube/admission.ts';
import type { Wire } from '../kube/types.ts';

/** The context of a decision. Webhooks read the store and do not call the API server on the hot path. */
export interface WebhookContext {
  readonly store: Store;
  /** When the API server stops waiting, in milliseconds of `now()`; absent if the request has no timeout. */
  readonly deadlineMs?: number | undefined;
  /** Creates a signal that is aborted when the connection closes before the response. */
  getSignal?(): AbortSignal;
  /** Length of the request body. */
  readonly bodyBytes?: number;
  /** True for the second attempt, after a wait. It does not wait again. */
  readonly isRepeated?: boolean;
  /** Monotonic clock in milliseconds. */
  now(): number;
}

/** One admission webhook: it gathers input from the store and calls a decision in `policy/`. */
export interface Webhook {
  /** The URL path, as in the webhook configurations. */
  readonly path: string;
  /** True if decisions depend on all members of the objects. Otherwise, large objects contain what `POD_SPEC` selects. */
  readonly readsWholeObjects?: boolean;
  /**
   * True if the webhook may deny the request, apart from its objects. It decides what happens to a request that is not evaluated.
   * Absent: it may deny every request.
   */
  enforces?(request: AdmissionRequest, store: Store): boolean;
  /** Decides. A denial is a value; an exception is a defect and results in HTTP 500. */
  decide(request: AdmissionRequest, context: WebhookContext): MaybePromise<Decision | Postponed>;
}

/** A decision that must wait. In the meantime, only the bytes of the review are kept; afterwards, it is parsed and decided again. */
export interface Postponed {
  readonly until: Promise<void>;
}

export function isPostponed(outcome: object | undefined): outcome is Postponed {
  return outcome !== undefined && 'until' in outcome;
}

/** A value, or a promise of it. Most reviews are answered without waiting. */
export type MaybePromise<T> = T | Promise<T>;

/** Continues with a value as soon as it is available. */
export function whenAvailable<T, U>(value: MaybePromise<T>, next: (value: T) => MaybePromise<U>): MaybePromise<U> {
  return value instanceof Promise ? value.then(next) : next(value);
}

/** The operations that write objects. */
export const WRITES = ['CREATE', 'UPDATE'] as const;

/** Returns the rule of a registration for resources of one API group. */
export function rule(
  operations: readonly string[],
  group: string,
  resources: readonly string[],
  { version = 'v1', scope = 'Namespaced' } = {},
): Wire<V1RuleWithOperations> {
  return { apiGroups: [group], apiVersions: [version], operations, resources, scope };
}

/** A CEL expression that compares a metadata map with that of the old object. An absent map equals an empty one. */
function isChanged(field: 'labels' | 'annotations'): string {
  const map = (object: string): string => `(has(${object}.metadata.${field}) ? ${object}.metadata.${field} : {})`;
  return `${map('object')} != ${map('oldObject')}`;
}

export const LABELS_CHANGED = isChanged('labels');
export const ANNOTATIONS_CHANGED = isChanged('annotations');

/**
 * Returns the match condition that skips updates that cannot change the decision. Finalizers can then be removed from pods,
 * and namespaces deleted, while no replica responds.
 */
export function relevantUpdate(expression: string): Wire<V1MatchCondition> {
  return { name: 'relevant-update', expression: `request.operation != 'UPDATE' || ${expression}` };
}
