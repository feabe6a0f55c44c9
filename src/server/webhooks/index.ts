/** The registry of webhooks, with one entry for each resource that API servers send. */
import type { Settings } from '../../config/settings.ts';
import { type AdmissionRequest, allow } from '../../kube/admission.ts';
import { createServices, type WebhookDefinition, type WebhooksOptions } from '../services.ts';
import type { Webhook } from '../webhook.ts';
import { namespaces } from './namespaces.ts';
import { nodes } from './nodes.ts';
import { objects } from './objects/index.ts';
import { podsConnect } from './pods-connect.ts';
import { pods } from './pods.ts';
import { workloads } from './workloads.ts';

const WEBHOOKS: readonly WebhookDefinition[] = [pods, podsConnect, namespaces, workloads, objects, nodes];

/**
 * Registrations of all webhooks, from which the webhook configurations are generated. If several registrations select a
 * pod, API servers send the pod once for each of them.
 */
export const WEBHOOK_REGISTRATIONS = WEBHOOKS.flatMap(({ registrations }) => registrations);

export function createWebhooks(options: WebhooksOptions): readonly Webhook[] {
  const services = createServices(options);
  return WEBHOOKS.flatMap(({ create }) => create(services)).map((webhook) => onlyRegistered(webhook, options.settings));
}

/**
 * Limits a webhook to the requests in its registrations, because clients other than API servers may send any request.
 * API servers evaluate the other members of the rules.
 */
export function onlyRegistered(webhook: Webhook, settings: () => Pick<Settings, 'workloadResources'>): Webhook {
  const registrations = WEBHOOK_REGISTRATIONS.filter(({ path }) => path === webhook.path);
  const reviewsOthers = registrations.some(({ reviewsWorkloadResources }) => reviewsWorkloadResources);
  const known = new Set(
    registrations.flatMap(({ rules }) =>
      rules.flatMap(({ rule: { apiGroups = [], operations = [], resources = [] } }) =>
        apiGroups.flatMap((group) =>
          operations.flatMap((operation) => resources.map((resource) => `${operation} ${resource} ${group}`)),
        ),
      ),
    ),
  );
  const isRegistered = ({ operation, resource: { resource, group }, subResource }: AdmissionRequest): boolean =>
    known.has(`${operation} ${subResource ? `${resource}/${subResource}` : resource} ${group}`) ||
    (reviewsOthers &&
      (operation === 'CREATE' || operation === 'UPDATE') &&
      !subResource &&
      settings().workloadResources.some((other) => other.resource === resource && other.group === group));
  return {
    ...webhook,
    enforces: (request, store) => isRegistered(request) && webhook.enforces?.(request, store) !== false,
    decide: (request, context) => (isRegistered(request) ? webhook.decide(request, context) : allow()),
  };
}
