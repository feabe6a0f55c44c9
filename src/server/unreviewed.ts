/** Responds to reviews that cannot be evaluated because they exceed a limit. */
import type { Store } from '../cluster/store.ts';
import { type AdmissionRequest, type Decision, type Denied, deny } from '../kube/admission.ts';
import type { LimitName } from '../kube/limits.ts';
import { createStatus, tooLarge } from '../kube/status.ts';
import { countExceeded } from '../telemetry/limits.ts';
import type { Webhook } from './webhook.ts';

/** Reason why a review is not evaluated. */
export interface Limit {
  /** 413 if every attempt fails. 429 if a later attempt may succeed. API clients then retry after a second. */
  readonly code: 413 | 429;
  readonly message: string;
  /** Name of the limit, if the exceeded limit is not counted otherwise. */
  readonly name?: LimitName;
}

/**
 * Returns the denial of a review that is not evaluated. An HTTP error would admit the request under `failurePolicy:
 * Ignore`.
 */
export function denyUnreviewed({ code, message, name }: Limit): Denied {
  return deny(
    code === 413 ? tooLarge(message) : createStatus(code, 'TooManyRequests', message, { retryAfterSeconds: 1 }),
    { limit: name },
  );
}

/**
 * Returns the decision of a webhook. If a limit is exceeded, denies the request if the webhook enforces a policy, and
 * allows it with a warning if the webhook only warns.
 */
export function applyLimits(webhook: Webhook, scope: Scope, decision: Decision): Decision {
  if (decision.limit) countExceeded(decision.limit);
  return allowUnlessEnforced(webhook, scope, decision);
}

interface Scope {
  readonly request: AdmissionRequest;
  readonly store: Store;
}

/** Allows a request that exceeds a limit with a warning, unless the webhook or policy enforces. */
export function allowUnlessEnforced(
  { enforces }: Pick<Webhook, 'enforces'>,
  { request, store }: Scope,
  decision: Decision,
): Decision {
  if (decision.allowed || !LIMIT_CODES.has(decision.status.code) || enforces?.(request, store) !== false)
    return decision;
  const { status, ...details } = decision;
  return { ...details, allowed: true, warnings: [...(details.warnings ?? []), status.message] };
}

/** HTTP codes of denials because of a limit. */
export const LIMIT_CODES: ReadonlySet<number> = new Set<Limit['code']>([413, 429]);

/**
 * Returns the HTTP status if the first bytes of the review do not identify its request. API servers always send the
 * identifying fields first.
 */
export function statusOf({ code }: Limit): 413 | 503 {
  return code === 413 ? 413 : 503;
}
