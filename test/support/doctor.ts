/** Facts about a healthy installation for tests of `doctor`. */
import { parseWebhookConfiguration } from '../../src/cli/installation.ts';
import type { Facts, NamespaceFact } from '../../src/cli/doctor/facts.ts';
import type { WebhookConfiguration } from '../../src/kube/webhooks.ts';
import type { Kinds, Lease } from '../../src/kube/types.ts';
import { defaultSettings, buildManifests, webhookConfigurations } from '../../src/install/index.ts';
import { createAuthority, createServing } from '../../src/tls/issue.ts';
import type { KeyPair } from '../../src/tls/certificate-pair.ts';

export const NOW = new Date('2026-01-15T12:00:00Z');
export const SETTINGS = defaultSettings('1.2.3');

const AUTHORITY = createAuthority({ now: NOW, days: 365 });
const NAMES = { dnsNames: ['portcullis.portcullis.svc'], ipAddresses: [] };

/** A serving certificate with a start and a lifetime. */
export function servingCertificate(now = NOW, days = 7, authority = AUTHORITY): KeyPair {
  return createServing(authority, NAMES, { now, days });
}

export const SERVING = servingCertificate().cert;

/** The webhook configurations of an installation, as API servers store them. */
export function registered(
  change: (webhook: Record<string, unknown>) => object = (webhook) => webhook,
): Facts['configurations'] {
  const caBundle = Buffer.from(AUTHORITY.cert).toString('base64');
  return webhookConfigurations(SETTINGS).map((manifest) => {
    const webhooks = (manifest.webhooks ?? []).map((webhook) =>
      change({ ...webhook, clientConfig: { ...webhook.clientConfig, caBundle } }),
    );
    const object = { ...manifest, webhooks } as WebhookConfiguration;
    return parseWebhookConfiguration(manifest.kind as Facts['configurations'][number]['kind'], object);
  });
}

/** A namespace with the label that API servers set. */
export function namespace(name: string, labels: Readonly<Record<string, string>> = {}): NamespaceFact {
  return { name, labels: { 'kubernetes.io/metadata.name': name, ...labels } };
}

export function lease(name: string, renewed: Date, more: object = {}): Lease {
  const renewTime = renewed.toISOString().replace('Z', '000Z');
  return {
    metadata: { name, ...more },
    spec: { holderIdentity: 'a', leaseDurationSeconds: 15, renewTime },
  };
}

const DEPLOYMENT = buildManifests(SETTINGS).find(({ kind }) => kind === 'Deployment') as Kinds['Deployment'];

export function deployment(readyReplicas: number, replicas = 3): Kinds['Deployment'] {
  return { ...DEPLOYMENT, spec: { ...DEPLOYMENT.spec, replicas }, status: { readyReplicas } } as Kinds['Deployment'];
}

/** A replica that is ready. */
export function replica(nodeName: string): Kinds['Pod'] {
  return {
    metadata: { labels: { 'app.kubernetes.io/name': 'portcullis' } },
    spec: { nodeName, containers: [] },
    status: { conditions: [{ type: 'Ready', status: 'True' }] },
  };
}

export const HEALTHY: Facts = {
  now: NOW,
  namespace: 'portcullis',
  settings: SETTINGS,
  server: { value: { version: 'v1.36.3', groups: ['apps', 'security.openshift.io'] } },
  configurations: registered(),
  namespaces: { value: [namespace('default'), namespace('kube-system'), namespace('portcullis')] },
  nodes: { value: [{ metadata: { name: 'n1' } }, { metadata: { name: 'n2' } }] },
  deployment: { value: deployment(3) },
  pods: { value: [replica('n1'), replica('n2')] },
  disruptionBudgets: { value: [{ metadata: { name: 'portcullis' } }] },
  leases: { value: [lease('portcullis', NOW)] },
  certificate: { value: { source: 'secrets/portcullis-serving-certificate', chain: SERVING } },
  urlCertificates: new Map(),
  configuration: { value: { source: 'configmaps/portcullis-configuration configuration.yaml', text: '' } },
  missingAccess: { value: [] },
  probes: [
    { id: 'namespace', group: '', resource: 'namespaces', body: {}, object: { metadata: { name: 'x' } } },
    {
      id: 'pod',
      group: '',
      resource: 'pods',
      body: {},
      namespace: namespace('default'),
      object: { metadata: { name: 'x' } },
    },
    {
      id: 'violating pod',
      group: '',
      resource: 'pods',
      body: {},
      namespace: namespace('portcullis'),
      object: { metadata: { name: 'x' } },
    },
  ],
};
