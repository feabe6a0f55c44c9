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
  /** Returns an estimate of the memory in bytes that the review uses while it waits. */
  readonly measure?: (() => number) | undefined;
  /** Returns a monotonic time in milliseconds. */
  now(): number;
}

/** An admission webhook, which gathers input from the store and calls a decision function in `policy/`. */
export interface Webhook {
  /** URL path, as in the webhook configurations. */
  readonly path: string;
  /**
   * True if decisions depend on all members of the objects. Otherwise, large objects are reduced to the members that
   * decisions read.
   */
  readonly readsWholeObjects?: boolean;
  /**
   * Returns true if the webhook may deny the request, regardless of its objects. If so, requests that exceed a limit
   * are denied instead of allowed with a warning. If absent, the webhook may deny every request.
   */
  enforces?(request: AdmissionRequest, store: Store): boolean;
  /** Returns the decision. Denials are returned, not thrown. An exception is a bug and results in HTTP 500. */
  decide(request: AdmissionRequest, context: WebhookContext): Decision | Promise<Decision>;
}

/** A policy that validates pods. */
export type PodPolicy = Pick<Webhook, 'decide'> & Required<Pick<Webhook, 'enforces'>>;

/** Reviews the objects of one kind. */
export interface ObjectReviewer extends Pick<Webhook, 'enforces'> {
  /** Sets fields before API servers validate the schema. */
  change?(request: AdmissionRequest, context: WebhookContext): Decision;
  validate(request: AdmissionRequest, context: WebhookContext): Decision | Promise<Decision>;
}

/** Operations that write objects. */
export const WRITES = ['CREATE', 'UPDATE'] as const;

/** Returns the rule of a registration for the resources of one API group. */
export function webhookRule(
  operations: readonly string[],
  group: string,
  resources: readonly string[],
  { version = 'v1', scope = 'Namespaced' } = {},
): Wire<V1RuleWithOperations> {
  return { apiGroups: [group], apiVersions: [version], operations, resources, scope };
}

/**
 * Returns a CEL expression that compares a metadata map with the map in the old object. An absent map is equal to an
 * empty map.
 */
function isChanged(field: 'labels' | 'annotations'): string {
  const map = (object: string): string => `(has(${object}.metadata.${field}) ? ${object}.metadata.${field} : {})`;
  return `${map('object')} != ${map('oldObject')}`;
}

export const LABELS_CHANGED = isChanged('labels');
export const ANNOTATIONS_CHANGED = isChanged('annotations');

/**
 * Returns the match condition that skips updates that cannot change the decision. As a result, finalizers can be
 * removed from pods, and namespaces can be deleted, even while no replica responds.
 */
export function relevantUpdate(expression: string): Wire<V1MatchCondition> {
  return { name: 'relevant-update', expression: `request.operation != 'UPDATE' || ${expression}` };
}
