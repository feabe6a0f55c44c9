/** Responds to reviews that cannot be evaluated because they exceed a limit. */
import type { Store } from '../cluster/store.ts';
import { type AdmissionRequest, type Decision, type Denied, deny } from '../kube/admission.ts';
import { LIMITS } from '../kube/limits.ts';
import { createStatus, tooLarge } from '../kube/status.ts';
import { countExceeded, type LimitName } from '../telemetry/limits.ts';
import type { Webhook } from './webhook.ts';

/** Reason why a review is not evaluated. */
export interface Limit {
  /** 413 if every attempt fails. 429 if a later attempt may succeed. API clients then retry after a second. */
  readonly code: 413 | 429;
  readonly message: string;
}

/**
 * Returns the denial of a review that is not evaluated. An HTTP error would admit the request under `failurePolicy:
 * Ignore`.
 */
export function denyUnreviewed({ code, message }: Limit): Denied {
  return deny(
    code === 413 ? tooLarge(message) : createStatus(code, 'TooManyRequests', message, { retryAfterSeconds: 1 }),
  );
}

/**
 * Returns the decision of a webhook. If a limit is exceeded, denies the request if the webhook enforces a policy, and
 * allows it with a warning if the webhook only warns.
 */
export function applyLimits(
  { enforces }: Webhook,
  { request, store }: { readonly request: AdmissionRequest; readonly store: Store },
  decision: Decision,
): Decision {
  if (!decision.allowed) countLimit(decision.status.message ?? '');
  if (decision.allowed || !LIMIT_CODES.has(decision.status.code) || enforces?.(request, store) !== false)
    return decision;
  const { status, ...details } = decision;
  return { ...details, allowed: true, warnings: [...(details.warnings ?? []), status.message] };
}

/** Limits of the content of a review, with a text in the reasons of their denials. */
const CONTENT_LIMITS: readonly (readonly [limit: LimitName, text: string])[] = [
  ['reviewValues', `more than ${LIMITS.reviewValues} values`],
  ['jsonValues', `more than ${LIMITS.jsonValues} values`],
  ['relevantBytes', `more than ${LIMITS.relevantBytes} bytes`],
  ['nestingLevels', `nested more than ${LIMITS.nestingLevels} levels deep`],
  ['ignoredNestingLevels', `nested more than ${LIMITS.ignoredNestingLevels} levels deep`],
  ['containers', `must have at most ${LIMITS.containers} items`],
  ['podItems', `must have at most ${LIMITS.podItems} items`],
  ['annotationBytes', `metadata.annotations: Too long: may not be more than ${LIMITS.annotationBytes} bytes`],
];
/** Length of the reasons that are searched. Longer ones list violations. */
const MAX_REASON = 1024;

function countLimit(reason: string): void {
  if (reason.length > MAX_REASON) return;
  const found = CONTENT_LIMITS.find(([, text]) => reason.includes(text));
  if (found) countExceeded(found[0]);
}

const LIMIT_CODES: ReadonlySet<number> = new Set<Limit['code']>([413, 429]);

/**
 * Returns the HTTP status if the first bytes of the review do not identify its request. API servers always send the
 * identifying fields first.
 */
export function statusOf({ code }: Limit): 413 | 503 {
  return code === 413 ? 413 : 503;
}
