import type { JsonObject } from '../../../kube/types.ts';

/** One call of a webhook. */
export interface WebhookCall {
  /** `clientConfig` of the webhook. */
  readonly clientConfig: JsonObject;
  /** The AdmissionReview. */
  readonly review: JsonObject;
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
}

/** What a webhook answered: parsed JSON, or what went wrong on the way, in the API server's words. */
export type WebhookReply =
  { readonly ok: true; readonly review: JsonObject } | { readonly ok: false; readonly error: string };

/** Carries a review to a webhook: over HTTPS, or in process. Never rejects. */
export type CallWebhook = (call: WebhookCall) => Promise<WebhookReply>;
