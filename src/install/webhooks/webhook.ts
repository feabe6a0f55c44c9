import type { V1ValidatingWebhook } from '@kubernetes/client-node';
import { INJECT_CA_ANNOTATION, INSTALLATION } from '../../kube/installation.ts';
import type { Wire } from '../../kube/types.ts';
import { CERTIFICATE } from '../certificate.ts';
import { WEBHOOK_LABELS } from '../metadata.ts';
import type { ManifestSettings } from '../settings.ts';
import type { Manifest } from '../types.ts';
import type { Tier } from './tiers.ts';

type Hook = Wire<V1ValidatingWebhook>;

/** What is peculiar to a webhook. */
export interface Asked extends Pick<Hook, 'rules' | 'matchConditions'> {
  readonly name: string;
  readonly path: string;
  /** How long the API server waits, in seconds. */
  readonly timeoutSeconds: number;
}

/** A webhook that concerns objects of no namespace. */
export function webhook(asked: Asked, settings: ManifestSettings) {
  return { ...part(asked, settings), failurePolicy: 'Fail' } as const;
}

/** The webhook of a tier of namespaces. */
export function webhookOfTier(asked: Asked, tier: Tier, settings: ManifestSettings) {
  const { failurePolicy, namespaces, prefix } = tier;
  return {
    ...part({ ...asked, name: `${prefix}${asked.name}` }, settings),
    namespaceSelector: { matchExpressions: namespaces },
    failurePolicy,
  } as const;
}

function part({ name, path, rules = [], matchConditions, timeoutSeconds }: Asked, settings: ManifestSettings) {
  return {
    name,
    admissionReviewVersions: ['v1'],
    clientConfig: clientConfig(path, settings),
    rules,
    ...(matchConditions ? { matchConditions } : {}),
    matchPolicy: 'Equivalent',
    sideEffects: 'None',
    timeoutSeconds,
  } as const;
}

function clientConfig(path: string, { webhooks, namespace }: ManifestSettings): Hook['clientConfig'] {
  if (webhooks === 'service') return { service: { namespace, name: INSTALLATION.name, path, port: 443 } };
  return { url: `${webhooks.url}${path}` };
}

/** The metadata of a configuration of webhooks. */
export function configurationMetadata(name: string, settings: ManifestSettings): Manifest['metadata'] {
  return { name, labels: WEBHOOK_LABELS, annotations: { ...NOT_ENFORCED_BY_AKS, ...authorityFrom(settings) } };
}

/** AKS would leave its own namespaces out; the selectors already do what is needed for a cluster to start. */
const NOT_ENFORCED_BY_AKS = { 'admissions.enforcer/disabled': 'true' } as const;

function authorityFrom({ certificates, namespace }: ManifestSettings): Readonly<Record<string, string>> {
  if (certificates === 'self-managed') {
    return { [INJECT_CA_ANNOTATION]: `${namespace}/${INSTALLATION.certificateSecret}` };
  }
  return certificates === 'cert-manager' ? { 'cert-manager.io/inject-ca-from': `${namespace}/${CERTIFICATE}` } : {};
}
