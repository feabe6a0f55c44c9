/** Reviews workloads, and warns about pods that policies will deny. */
import type { WebhookRegistration } from '../../api/webhooks.ts';
import type { WebhookDefinition } from '../services.ts';
import { webhookRule, WRITES } from '../webhook.ts';

/**
 * The registration of the review of workloads. As in upstream, the review only warns and audits, and never denies a
 * request.
 */
export const WORKLOADS: WebhookRegistration = {
  name: 'workloads.portcullis.dev',
  path: '/validate/workloads',
  description: 'returns warnings about pod templates whose pods a policy would deny. Never denies a workload',
  kind: 'ValidatingWebhookConfiguration',
  rules: [
    webhookRule(WRITES, '', ['podtemplates', 'replicationcontrollers']),
    webhookRule(WRITES, 'apps', ['daemonsets', 'deployments', 'replicasets', 'statefulsets']),
    webhookRule(WRITES, 'batch', ['cronjobs', 'jobs']),
  ].map((writes) => ({ feature: 'podSecurity', rule: writes }) as const),
  reviewsWorkloadResources: true,
  timeoutSeconds: 5,
  failure: 'open',
  namespaces: 'reviewed',
};

export const workloads: WebhookDefinition = {
  registrations: [WORKLOADS],
  create: ({ podSecurityReviewer }) => [{ path: WORKLOADS.path, ...podSecurityReviewer }],
};
