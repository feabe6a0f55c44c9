import type {
  V1LabelSelectorRequirement,
  V1MutatingWebhookConfiguration,
  V1ValidatingWebhook,
  V1ValidatingWebhookConfiguration,
} from '@kubernetes/client-node';
import type { Wire } from '../kube/types.ts';
import { FAIL_OPEN, INJECT_CA_ANNOTATION, INSTALLATION, TIER_LABEL } from '../kube/well-known.ts';
import type { WorkloadResource } from '../policy/pod/templates.ts';
import { DISABLE_LABEL, RUN_LEVEL_LABEL, SCC_MODE_LABEL } from '../policy/scc/mode.ts';
import { WEBHOOK_REGISTRATIONS } from '../server/webhooks/index.ts';
import { rule, WRITES, type WebhookRegistration } from '../server/webhook.ts';
import { CERTIFICATE } from './deployment.ts';
import { defaultExemptNamespaces } from '../policy/scc/mode.ts';
import { WEBHOOK_LABELS, type ManifestOf, type ManifestSettings } from './settings.ts';

type Requirement = Wire<V1LabelSelectorRequirement>;

/** The API server sets this label to the name of the namespace. */
export const NAMESPACE_NAME_LABEL = 'kubernetes.io/metadata.name';
const KUBE_SYSTEM = 'kube-system';

/**
 * Namespaces that share a failure policy. A label selector cannot express "or": each tier has its own webhooks, and a
 * namespace belongs to one tier.
 */
interface Tier {
  /** Prefix of the names of the webhooks. */
  readonly prefix: string;
  readonly failurePolicy: 'Fail' | 'Ignore';
  readonly namespaces: readonly Requirement[];
}

/** The longest wait for a replica where pods may start without a review. */
const FAIL_OPEN_SECONDS = 5;

/** Requests fail closed, except in namespaces with the label for networking, DNS and storage. */
function labelTiers(namespaces: readonly Requirement[]): readonly Tier[] {
  const tier = (operator: 'In' | 'NotIn'): readonly Requirement[] => [
    ...namespaces,
    { key: TIER_LABEL, operator, values: [FAIL_OPEN] },
  ];
  return [
    { prefix: '', failurePolicy: 'Fail', namespaces: tier('NotIn') },
    { prefix: 'fail-open.', failurePolicy: 'Ignore', namespaces: tier('In') },
  ];
}

/** The namespaces that a webhook matches, with their failure policies. */
function tiers({ feature, failure }: WebhookRegistration, settings: ManifestSettings): readonly Tier[] {
  const notNamed = (...values: readonly string[]): Requirement => ({
    key: NAMESPACE_NAME_LABEL,
    operator: 'NotIn',
    values,
  });
  if (failure !== 'tiered') {
    return [{ prefix: '', failurePolicy: failure, namespaces: [notNamed(settings.namespace)] }];
  }
  if (feature === 'psa') {
    // A cluster without any running pod starts in kube-system.
    const kubeSystem: Requirement = { key: NAMESPACE_NAME_LABEL, operator: 'In', values: [KUBE_SYSTEM] };
    return [
      ...labelTiers([notNamed(KUBE_SYSTEM, settings.namespace)]),
      { prefix: `${KUBE_SYSTEM}.`, failurePolicy: 'Ignore', namespaces: [kubeSystem] },
    ];
  }
  // The server ignores the same namespaces.
  return labelTiers([
    notNamed(...defaultExemptNamespaces(settings.namespace)),
    { key: RUN_LEVEL_LABEL, operator: 'NotIn', values: ['0', '1'] },
    { key: DISABLE_LABEL, operator: 'NotIn', values: ['true'] },
    { key: SCC_MODE_LABEL, operator: 'NotIn', values: ['off'] },
  ]);
}

type Webhook = Wire<V1ValidatingWebhook>;

/** The webhooks of one definition: one for each tier of namespaces, or one for cluster-scoped objects. */
function registrations(definition: WebhookRegistration, settings: ManifestSettings): readonly Webhook[] {
  const { failure, isNamespaced } = definition;
  if (!isNamespaced) {
    return [{ ...registration(definition, settings), failurePolicy: failure === 'Ignore' ? 'Ignore' : 'Fail' }];
  }
  return tiers(definition, settings).map(({ prefix, failurePolicy, namespaces }) => ({
    ...registration({ ...definition, name: `${prefix}${definition.name}` }, settings),
    namespaceSelector: { matchExpressions: namespaces },
    failurePolicy,
    ...(failurePolicy === 'Ignore' ? { timeoutSeconds: Math.min(definition.timeoutSeconds, FAIL_OPEN_SECONDS) } : {}),
  }));
}

function registration(
  { name, path, configuration, rules, matchConditions, timeoutSeconds }: WebhookRegistration,
  { webhooks, namespace }: ManifestSettings,
): Webhook {
  const clientConfig =
    webhooks === 'service'
      ? { service: { namespace, name: INSTALLATION.name, path, port: 443 } }
      : { url: `${webhooks.url}${path}` };
  return {
    name,
    admissionReviewVersions: ['v1'],
    clientConfig,
    rules,
    ...(matchConditions ? { matchConditions } : {}),
    matchPolicy: 'Equivalent',
    sideEffects: 'None',
    timeoutSeconds,
    ...(configuration.kind === 'MutatingWebhookConfiguration' ? { reinvocationPolicy: 'IfNeeded' } : {}),
  };
}

/** AKS otherwise excludes its own namespaces. The selectors already allow a cluster to start. */
const AKS_ANNOTATIONS = { 'admissions.enforcer/disabled': 'true' } as const;

function injectionAnnotations({ certificates, namespace }: ManifestSettings): Readonly<Record<string, string>> {
  if (certificates === 'self-managed') {
    return { [INJECT_CA_ANNOTATION]: `${namespace}/${INSTALLATION.certificateSecret}` };
  }
  return certificates === 'cert-manager' ? { 'cert-manager.io/inject-ca-from': `${namespace}/${CERTIFICATE}` } : {};
}

export type WebhookConfiguration = ManifestOf<V1MutatingWebhookConfiguration | V1ValidatingWebhookConfiguration>;

/**
 * The webhook configurations of an installation, generated from the webhooks.
 * @param workloads resources to review in addition to those of the webhooks
 */
export function webhookConfigurations(
  settings: ManifestSettings,
  workloads: readonly WorkloadResource[] = [],
): readonly WebhookConfiguration[] {
  const enabled = WEBHOOK_REGISTRATIONS.filter(({ feature }) => feature === 'psa' || settings.sccMode !== 'off').map(
    (webhook) => (webhook.reviewsWorkloadResources ? withWorkloads(webhook, workloads) : webhook),
  );
  const annotations = { ...AKS_ANNOTATIONS, ...injectionAnnotations(settings) };
  const byConfiguration = Map.groupBy(enabled, ({ configuration: { kind, name } }) => `${kind} ${name}`);
  return [...byConfiguration.values()].flatMap((group) => {
    const [first] = group;
    if (!first) return [];
    const { kind, name } = first.configuration;
    return {
      apiVersion: 'admissionregistration.k8s.io/v1',
      kind,
      metadata: { name, labels: WEBHOOK_LABELS, annotations },
      webhooks: group.flatMap((definition) => registrations(definition, settings)),
    };
  });
}

function withWorkloads(webhook: WebhookRegistration, workloads: readonly WorkloadResource[]): WebhookRegistration {
  const added = workloads.map(({ group, version, resource }) => rule(WRITES, group, [resource], { version }));
  return { ...webhook, rules: [...webhook.rules, ...added] };
}
