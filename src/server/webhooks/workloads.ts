import type { WebhookRegistration } from '../../kube/webhooks.ts';
import { rule, WRITES } from '../webhook.ts';

/** The review of workloads. As in upstream, it only warns and audits, and never denies a request. */
export const WORKLOADS: WebhookRegistration = {
  name: 'workloads.portcullis.dev',
  path: '/validate/workloads',
  kind: 'ValidatingWebhookConfiguration',
  rules: [
    rule(WRITES, '', ['podtemplates', 'replicationcontrollers']),
    rule(WRITES, 'apps', ['daemonsets', 'deployments', 'replicasets', 'statefulsets']),
    rule(WRITES, 'batch', ['cronjobs', 'jobs']),
  ].map((one) => ({ feature: 'podSecurity', rule: one }) as const),
  reviewsWorkloadResources: true,
  timeoutSeconds: 5,
  failure: 'open',
  namespaces: 'reviewed',
};
