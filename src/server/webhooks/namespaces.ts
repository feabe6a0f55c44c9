import type { WebhookRegistration } from '../../api/webhooks.ts';
import type { WebhookDefinition } from '../services.ts';
import { LABELS_CHANGED, relevantUpdate, webhookRule, WRITES } from '../webhook.ts';

/**
 * The review of Pod Security labels and SCC mode labels. It fails open, because otherwise namespaces could neither be
 * created nor labeled while no replica responds. This is safe because the review only finds mistakes. An invalid level
 * is enforced as `restricted`, and an invalid mode as `enforce`.
 */
const NAMESPACES: WebhookRegistration = {
  name: 'namespaces.portcullis.dev',
  path: '/validate/namespaces',
  description:
    'denies invalid Pod Security labels, and returns warnings about existing pods that violate a new level, labels without effect and invalid SCC modes',
  kind: 'ValidatingWebhookConfiguration',
  rules: [{ feature: 'podSecurity', rule: webhookRule(WRITES, '', ['namespaces'], { scope: 'Cluster' }) }],
  matchConditions: [relevantUpdate(LABELS_CHANGED)],
  timeoutSeconds: 5,
  failure: 'open',
  namespaces: 'reviewed',
};

export const namespaces: WebhookDefinition = {
  registrations: [NAMESPACES],
  create: ({ podSecurityReviewer }) => [{ path: NAMESPACES.path, ...podSecurityReviewer }],
};
