import type { Store } from '../cluster/store.ts';
import type { AdmissionRequest, Decision } from '../kube/admission.ts';

/** What a webhook may use while it decides. It reads the store and never calls the API server. */
export interface WebhookContext {
  readonly store: Store;
  /** When the API server stops waiting, in milliseconds of `now()`; absent when it did not say. */
  readonly deadlineMs?: number | undefined;
  /** Aborted as soon as nobody waits for the answer any more. */
  readonly signal?: AbortSignal;
  /** The length of the review as it came: what keeps it in memory. */
  readonly bodyBytes?: number;
  /** A monotonic clock, in milliseconds. */
  now(): number;
}

/** One admission webhook: gathers from the store, and makes one call into `policy/`. */
export interface Webhook {
  /** The path of its URL, stable for ever: it stands in webhook configurations. */
  readonly path: string;
  /** Decides; a refusal is a value. Throwing is a bug and answers HTTP 500. */
  decide(request: AdmissionRequest, context: WebhookContext): Decision | Promise<Decision>;
}
