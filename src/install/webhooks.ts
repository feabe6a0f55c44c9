import type { V1MutatingWebhookConfiguration, V1ValidatingWebhookConfiguration } from '@kubernetes/client-node';
import { INSTALLATION, WEBHOOK_LABELS } from '../api/names.ts';
import { caInjection, SCC_REGISTERED_ANNOTATION } from '../api/webhooks.ts';
import {
  AKS_ANNOTATIONS,
  type Enforcement,
  requiredConfigurations,
  requiredEnforcement,
} from '../controllers/required-webhooks.ts';
import { selectedNamespaces } from '../policy/psa/index.ts';
import { WEBHOOK_REGISTRATIONS } from '../server/webhooks/index.ts';
import { CERTIFICATE } from './deployment.ts';
import { decodePolicy, type ManifestOf, type ManifestSettings } from './settings.ts';

/** Returns the annotations that request injection of the serving certificate's CA into the webhooks. */
function injectionAnnotations({ certificates, namespace }: ManifestSettings): Readonly<Record<string, string>> {
  if (certificates === 'self-managed') return caInjection(namespace);
  return certificates === 'cert-manager' ? { 'cert-manager.io/inject-ca-from': `${namespace}/${CERTIFICATE}` } : {};
}

export type { Enforcement };

type WebhookConfiguration = ManifestOf<V1MutatingWebhookConfiguration | V1ValidatingWebhookConfiguration>;

/**
 * Returns the webhook configurations of an installation whose leader does not manage them. Unless `state` specifies the
 * enforcement, they fail closed for everything that the settings might enforce, because namespace labels and the
 * rollout change at run time.
 */
export function staticWebhookConfigurations(
  settings: ManifestSettings,
  state: Partial<Enforcement> = {},
): readonly WebhookConfiguration[] {
  const { namespace, webhooks } = settings;
  const policy = decodePolicy(settings);
  const { rollout, podSecurity, defaults } = policy;
  const required = requiredEnforcement(policy, settings.features, {
    defaultLevel: rollout.phase === 'Enforce' || podSecurity.configuration.defaults.enforce !== 'privileged',
    defaults: selectedNamespaces(defaults),
    floor: false,
    // The condition is omitted, because without a leader it would remain after a change to the SCC.
    privilegedStreams: false,
  });
  const enforcement = { ...required, ...state };
  const service = { namespace, name: INSTALLATION.name };
  const target = {
    service,
    url: webhooks === 'service' ? undefined : webhooks.url,
    timeoutSeconds: policy.webhooks.timeoutSeconds,
  };
  const annotations = { ...AKS_ANNOTATIONS, ...injectionAnnotations(settings) };
  const { mode } = enforcement.scc;
  const registered = mode === 'off' ? {} : { [SCC_REGISTERED_ANNOTATION]: mode };
  return requiredConfigurations(WEBHOOK_REGISTRATIONS, enforcement, target).map((configuration) => ({
    apiVersion: 'admissionregistration.k8s.io/v1',
    kind: configuration.kind,
    metadata: {
      name: configuration.name,
      labels: WEBHOOK_LABELS,
      annotations: { ...annotations, ...(configuration.kind === 'ValidatingWebhookConfiguration' ? registered : {}) },
    },
    webhooks: configuration.webhooks,
  }));
}

/** Enforcement of the development cluster, which covers all features because the settings may change at run time. */
export const DEV_CLUSTER_ENFORCEMENT = {
  defaultLevel: true,
  exceptions: true,
  rollout: true,
  kubelet: true,
  kubeletCertificates: true,
  kubeletNodeWrites: true,
  olm: true,
  defaults: [],
  scc: { mode: 'enforce', exemptNamespaces: [] },
} as const;
