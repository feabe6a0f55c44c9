import type { V1ValidatingWebhookConfiguration } from '@kubernetes/client-node';
import type { ManifestSettings } from '../settings.ts';
import type { ManifestOf } from '../types.ts';
import { POD_SECURITY_CONDITIONS } from './conditions.ts';
import { notNamed, podSecurityTiersOf } from './tiers.ts';
import { configurationMetadata, webhook, webhookOfTier, type Asked } from './webhook.ts';

const PATH = '/psa/validate';
const TIMEOUT_SECONDS = 5;

const ENFORCING: Asked = {
  name: 'psa.portcullis.dev',
  path: PATH,
  rules: [
    {
      apiGroups: [''],
      apiVersions: ['v1'],
      operations: ['CREATE', 'UPDATE'],
      resources: ['namespaces', 'pods', 'pods/ephemeralcontainers'],
      scope: '*',
    },
  ],
  matchConditions: POD_SECURITY_CONDITIONS,
  timeoutSeconds: TIMEOUT_SECONDS,
};

const ADVISORY: Asked = {
  name: 'advise.psa.portcullis.dev',
  path: PATH,
  rules: [
    { ...workloads('', ['podtemplates', 'replicationcontrollers']) },
    { ...workloads('apps', ['daemonsets', 'deployments', 'replicasets', 'statefulsets']) },
    { ...workloads('batch', ['cronjobs', 'jobs']) },
  ],
  timeoutSeconds: TIMEOUT_SECONDS,
};

/** Whoever asks for enforcement is told what it would refuse. */
const ENFORCEMENT: Asked = {
  name: 'enforcement.psa.portcullis.dev',
  path: '/psa/enforcement',
  rules: [
    {
      apiGroups: ['config.openshift.io'],
      apiVersions: ['v1alpha1'],
      operations: ['CREATE', 'UPDATE'],
      resources: ['psaenforcementconfigs'],
      scope: 'Cluster',
    },
  ],
  timeoutSeconds: TIMEOUT_SECONDS,
};

function workloads(apiGroup: string, resources: readonly string[]) {
  return {
    apiGroups: [apiGroup],
    apiVersions: ['v1'],
    operations: ['CREATE', 'UPDATE'],
    resources,
    scope: 'Namespaced',
  };
}

/**
 * Pod Security Admission: two webhooks as upstream has them, of which what enforces comes in tiers, and what only warns
 * and audits never holds anybody up; a third one warns of enforcement. The API server puts the name of a webhook in front
 * of its audit annotations.
 */
export function podSecurityConfiguration(settings: ManifestSettings): ManifestOf<V1ValidatingWebhookConfiguration> {
  const everywhere = { prefix: '', failurePolicy: 'Ignore', namespaces: [notNamed([settings.namespace])] } as const;
  return {
    apiVersion: 'admissionregistration.k8s.io/v1',
    kind: 'ValidatingWebhookConfiguration',
    metadata: configurationMetadata('psa.portcullis.dev', settings),
    webhooks: [
      ...podSecurityTiersOf(settings.namespace).map((tier) => webhookOfTier(ENFORCING, tier, settings)),
      webhookOfTier(ADVISORY, everywhere, settings),
      { ...webhook(ENFORCEMENT, settings), failurePolicy: 'Ignore' },
    ],
  };
}
