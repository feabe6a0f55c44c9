/** Computes the deadline for the response to a review. */
import { LIMITS } from '../kube/limits.ts';
import { parseDurationMs } from '../kube/units.ts';
import { countExceeded } from '../telemetry/limits.ts';

/**
 * API servers round the remaining time up to whole seconds.
 * @see https://github.com/kubernetes/kubernetes/blob/v1.37.2/staging/src/k8s.io/apiserver/pkg/admission/plugin/webhook/validating/dispatcher.go
 */
const ROUNDING_MS = 1000;
/** Part of the timeout reserved for the connection and the response. */
const TRANSFER_SHARE = 0.1;

/**
 * Creates the parser for the timeout that API servers send as `?timeout=5s`. It returns milliseconds, or `undefined`
 * for a duration that is invalid or too long, and caches the last duration, because API servers send the same one with
 * each review for a webhook.
 */
export function createTimeoutParser(): (query: unknown) => number | undefined {
  let last: { readonly text: string; readonly ms: number | undefined } = { text: '', ms: undefined };
  return (query) => {
    const { timeout } = query as { readonly timeout?: unknown };
    if (typeof timeout !== 'string') return undefined;
    if (timeout.length > LIMITS.timeoutCharacters) {
      countExceeded('timeoutCharacters');
      return undefined;
    }
    if (timeout !== last.text) last = { text: timeout, ms: parseDurationMs(timeout) || undefined };
    return last.ms;
  };
}

/** Maximum timeout of webhooks. Requests without a timeout or with a longer one are not from API servers. */
const MAX_TIMEOUT_MS = 30_000;

/**
 * Returns the time after which the server responds even if the evaluation has not finished, because an API server that
 * fails open admits the object if the response is late.
 */
export function answerAfterMs(timeoutMs = MAX_TIMEOUT_MS): number {
  const limitMs = Math.min(timeoutMs, MAX_TIMEOUT_MS);
  return limitMs - Math.min(limitMs / 2, ROUNDING_MS + limitMs * TRANSFER_SHARE);
}
