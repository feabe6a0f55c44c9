import type {
  V1LabelSelectorRequirement,
  V1MatchCondition,
  V1MutatingWebhookConfiguration,
  V1RuleWithOperations,
  V1ValidatingWebhook,
  V1ValidatingWebhookConfiguration,
} from '@kubernetes/client-node';
import type { ConfigurationKind } from '../kube/webhooks.ts';
import type { Wire } from '../kube/types.ts';
import { FAIL_OPEN, INJECT_CA_ANNOTATION, INSTALLATION, TIER_LABEL } from '../kube/well-known.ts';
import { DISABLE_LABEL, RUN_LEVEL_LABEL, SCC_MODE_LABEL } from '../policy/scc/mode.ts';
import { CERTIFICATE } from './deployment.ts';
import { exemptNamespaces, WEBHOOK_LABELS, type ManifestOf, type ManifestSettings } from './settings.ts';

/** The registration of a webhook, from which its webhook configurations are generated. */
interface WebhookDefinition {
  /** The name of the webhook. The API server prefixes audit annotations with it. */
  readonly name: string;
  readonly path: string;
  readonly configuration: { readonly kind: ConfigurationKind; readonly name: string };
  readonly feature: 'psa' | 'scc';
  readonly rules: readonly Wire<V1RuleWithOperations>[];
  readonly matchConditions?: readonly Wire<V1MatchCondition>[];
  readonly timeoutSeconds: number;
  /**
   * What happens to a request if no replica responds: it fails, it passes, or (`tiered`) it depends on the label
   * `portcullis.dev/admission` of the namespace.
   */
  readonly failure: 'Fail' | 'Ignore' | 'tiered';
  /** True if the webhook matches objects in namespaces. */
  readonly isNamespaced: boolean;
}

/** True if a map of metadata differs between the object and the old object. An absent map equals an empty one. */
function differ(field: 'labels' | 'annotations'): string {
  const map = (object: string): string => `(has(${object}.metadata.${field}) ? ${object}.metadata.${field} : {})`;
  return `${map('object')} != ${map('oldObject')}`;
}

// Match conditions exclude requests whose response could not change. Finalizers can then be removed from pods, and
// namespaces deleted, while no replica responds.
const RELEVANT_UPDATE = 'relevant-update';
const SPEC_OR_ANNOTATIONS = `object.spec != oldObject.spec || ${differ('annotations')}`;

/** Pod Security Admission evaluates the labels of namespaces, and the spec and annotations of pods. */
const PSA_CONDITIONS: readonly Wire<V1MatchCondition>[] = [
  {
    name: RELEVANT_UPDATE,
    expression: `request.operation != 'UPDATE' || (request.resource.resource == 'namespaces' ? ${differ('labels')} : ${SPEC_OR_ANNOTATIONS})`,
  },
];

/** SCC admission does not apply to Windows pods. */
const SCC_CONDITIONS: readonly Wire<V1MatchCondition>[] = [
  { name: 'not-windows', expression: "!has(object.spec.os) || object.spec.os.name != 'windows'" },
  {
    name: RELEVANT_UPDATE,
    expression: `request.operation != 'UPDATE' || object.spec != oldObject.spec || ${differ('labels')} || ${differ('annotations')}`,
  },
];

function rule(
  operations: readonly string[],
  group: string,
  resources: readonly string[],
  { version = 'v1', scope = 'Namespaced' } = {},
): Wire<V1RuleWithOperations> {
  return { apiGroups: [group], apiVersions: [version], operations, resources, scope };
}

const WRITES = ['CREATE', 'UPDATE'] as const;
const PSA = { kind: 'ValidatingWebhookConfiguration', name: 'psa.portcullis.dev' } as const;
/** The API server calls mutating webhooks in the order of their configurations: `zz` follows other mutations. */
const SCC_MUTATING = { kind: 'MutatingWebhookConfiguration', name: 'zz.scc.portcullis.dev' } as const;
const SCC_OBJECTS = { kind: 'MutatingWebhookConfiguration', name: 'objects.scc.portcullis.dev' } as const;
const SCC_VALIDATING = { kind: 'ValidatingWebhookConfiguration', name: 'scc.portcullis.dev' } as const;

const SCC_PODS = {
  feature: 'scc',
  rules: [rule(WRITES, '', ['pods']), rule(['UPDATE'], '', ['pods/ephemeralcontainers', 'pods/resize'])],
  matchConditions: SCC_CONDITIONS,
  // Longer than the wait of 10 s for the ranges of a new namespace, so that the requester receives the reason.
  timeoutSeconds: 15,
  failure: 'tiered',
  isNamespaced: true,
} as const;

const SCC_OBJECT = {
  name: 'objects.scc.portcullis.dev',
  feature: 'scc',
  rules: [rule(WRITES, 'security.openshift.io', ['securitycontextconstraints'], { scope: 'Cluster' })],
  timeoutSeconds: 10,
  failure: 'Fail',
  isNamespaced: false,
} as const;

/** All webhooks, in the order of their registration. */
const WEBHOOKS: readonly WebhookDefinition[] = [
  {
    name: 'psa.portcullis.dev',
    path: '/psa/validate',
    configuration: PSA,
    feature: 'psa',
    rules: [rule(WRITES, '', ['namespaces', 'pods', 'pods/ephemeralcontainers'], { scope: '*' })],
    matchConditions: PSA_CONDITIONS,
    timeoutSeconds: 5,
    failure: 'tiered',
    isNamespaced: true,
  },
  {
    // Warns and audits only, therefore it never blocks a request.
    name: 'advise.psa.portcullis.dev',
    path: '/psa/validate',
    configuration: PSA,
    feature: 'psa',
    rules: [
      rule(WRITES, '', ['podtemplates', 'replicationcontrollers']),
      rule(WRITES, 'apps', ['daemonsets', 'deployments', 'replicasets', 'statefulsets']),
      rule(WRITES, 'batch', ['cronjobs', 'jobs']),
    ],
    timeoutSeconds: 5,
    failure: 'Ignore',
    isNamespaced: true,
  },
  {
    // Warns about the workloads that a requested enforcement mode would deny.
    name: 'enforcement.psa.portcullis.dev',
    path: '/psa/enforcement',
    configuration: PSA,
    feature: 'psa',
    rules: [rule(WRITES, 'config.openshift.io', ['psaenforcementconfigs'], { version: 'v1alpha1', scope: 'Cluster' })],
    timeoutSeconds: 5,
    failure: 'Ignore',
    isNamespaced: false,
  },
  // Selects an SCC and sets the defaults of the pod.
  { name: 'mutate.scc.portcullis.dev', path: '/scc/mutate', configuration: SCC_MUTATING, ...SCC_PODS },
  // Completes short SCCs before the API server applies the schema.
  { ...SCC_OBJECT, path: '/scc/objects/default', configuration: SCC_OBJECTS },
  // Validates the pod after all mutations.
  { name: 'validate.scc.portcullis.dev', path: '/scc/validate', configuration: SCC_VALIDATING, ...SCC_PODS },
  {
    name: 'exec.scc.portcullis.dev',
    path: '/scc/exec',
    configuration: SCC_VALIDATING,
    feature: 'scc',
    rules: [rule(['CONNECT'], '', ['pods/attach', 'pods/exec'])],
    timeoutSeconds: 10,
    failure: 'tiered',
    isNamespaced: true,
  },
  { ...SCC_OBJECT, path: '/scc/objects/validate', configuration: SCC_VALIDATING },
];

type Requirement = Wire<V1LabelSelectorRequirement>;

/** The API server sets this label to the name of the namespace. */
const NAME_LABEL = 'kubernetes.io/metadata.name';
const KUBE_SYSTEM = 'kube-system';

/**
 * Namespaces that share a failure policy. A label selector cannot express "or": each tier has webhooks of its own, and a
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
function tiers({ feature, failure }: WebhookDefinition, settings: ManifestSettings): readonly Tier[] {
  const notNamed = (...values: readonly string[]): Requirement => ({ key: NAME_LABEL, operator: 'NotIn', values });
  if (failure !== 'tiered') {
    return [{ prefix: '', failurePolicy: failure, namespaces: [notNamed(settings.namespace)] }];
  }
  if (feature === 'psa') {
    // A cluster without any running pod starts in kube-system.
    const kubeSystem: Requirement = { key: NAME_LABEL, operator: 'In', values: [KUBE_SYSTEM] };
    return [
      ...labelTiers([notNamed(KUBE_SYSTEM, settings.namespace)]),
      { prefix: `${KUBE_SYSTEM}.`, failurePolicy: 'Ignore', namespaces: [kubeSystem] },
    ];
  }
  // The server ignores the same namespaces.
  return labelTiers([
    notNamed(...exemptNamespaces(settings)),
    { key: RUN_LEVEL_LABEL, operator: 'NotIn', values: ['0', '1'] },
    { key: DISABLE_LABEL, operator: 'NotIn', values: ['true'] },
    { key: SCC_MODE_LABEL, operator: 'NotIn', values: ['off'] },
  ]);
}

type Webhook = Wire<V1ValidatingWebhook>;

/** The webhooks of one definition: one for each tier of namespaces, or one for cluster-scoped objects. */
function registrations(definition: WebhookDefinition, settings: ManifestSettings): readonly Webhook[] {
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
  { name, path, configuration, rules, matchConditions, timeoutSeconds }: WebhookDefinition,
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

/** The webhook configurations of an installation, generated from the webhooks. */
export function webhookConfigurations(settings: ManifestSettings): readonly WebhookConfiguration[] {
  const enabled = WEBHOOKS.filter(({ feature }) => feature === 'psa' || settings.sccMode !== 'off');
  const annotations = { ...AKS_ANNOTATIONS, ...injectionAnnotations(settings) };
  return [...new Set(enabled.map(({ configuration }) => configuration))].map((configuration) => ({
    apiVersion: 'admissionregistration.k8s.io/v1',
    kind: configuration.kind,
    metadata: { name: configuration.name, labels: WEBHOOK_LABELS, annotations },
    webhooks: enabled
      .filter((definition) => definition.configuration === configuration)
      .flatMap((definition) => registrations(definition, settings)),
  }));
}
