import type { PodSecurity } from '../policy/psa/pod-security.ts';
import type { Metrics } from '../telemetry/metrics.ts';
import { createPsaWebhook } from './psa.ts';
import type { Webhook } from './webhook.ts';

export interface WebhooksOptions {
  /** The Pod Security configuration in force. */
  podSecurity(): PodSecurity;
  readonly metrics: Metrics;
}

/** All webhooks, in the order in which the API server meets them. */
export function createWebhooks({ podSecurity, metrics }: WebhooksOptions): readonly Webhook[] {
  return [createPsaWebhook({ podSecurity, metrics: metrics.podSecurity })];
}
