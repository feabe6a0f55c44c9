/** The decision on a review that cannot be evaluated because of a limit. It is the same on all routes. */
import type { Store } from '../cluster/store.ts';
import { allow, deny, type AdmissionRequest, type Decision } from '../kube/admission.ts';
import { createStatus } from '../kube/status.ts';
import type { Webhook } from './webhook.ts';

/** Why a review is not evaluated. */
export interface Limit {
  /** 413: every attempt fails. 429: a later attempt may succeed, and API clients retry the request after a second. */
  readonly code: 413 | 429;
  readonly message: string;
}

/**
 * Denies the request where the webhook enforces a policy. An HTTP error would admit it under `failurePolicy: Ignore`. Where the
 * webhook only warns, the request is allowed with a warning.
 */
export function decideUnreviewed(
  { enforces }: Webhook,
  { request, store }: { readonly request: AdmissionRequest; readonly store: Store },
  { code, message }: Limit,
): Decision {
  if (enforces?.(request, store) === false) return allow({ warnings: [message] });
  return deny(
    code === 413
      ? createStatus(code, 'RequestEntityTooLarge', message)
      : createStatus(code, 'TooManyRequests', message, { retryAfterSeconds: 1 }),
  );
}

/** The HTTP status if the review does not identify its request in the first bytes, as those of API servers do. */
export function statusOf({ code }: Limit): 413 | 503 {
  return code === 413 ? 413 : 503;
}
