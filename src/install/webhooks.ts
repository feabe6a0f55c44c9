import type {
  V1MatchCondition,
  V1LabelSelectorRequirement,
  V1ValidatingWebhook,
  V1ValidatingWebhookConfiguration,
  V1MutatingWebhookConfiguration,
} from '@kubernetes/client-node';
import type { Wire } from '../kube/types.ts';
import { FAIL_OPEN, TIER_LABEL, INJECT_CA_ANNOTATION, INSTALLATION } from '../kube/well-known.ts';
import { CERTIFICATE } from './deployment.ts';
import {
  WEBHOOK_LABELS,
  type ManifestSettings,
  type Manifest,
  type ManifestOf,
  exemptNamespacesOf,
} from './settings.ts';
import { DISABLE_LABEL, RUN_LEVEL_LABEL, SCC_MODE_LABEL } from '../policy/scc/mode.ts';

// * Match conditions: what an API server need not ask about, since the answer would change nothing. While nobody answers,
// finalizers can still be taken off pods, and namespaces can still be deleted.

type MatchCondition = Wire<V1MatchCondition>;

const NOT_AN_UPDATE_OF_OTHER_THINGS = 'not-an-update-of-other-things';

/** An absent map is an empty one. */
function differ(field: 'labels' | 'annotations'): string {
  const map = (object: string): string => `(has(${object}.metadata.${field}) ? ${object}.metadata.${field} : {})`;
  return `${map('object')} != ${map('oldObject')}`;
}

const SPEC_OR_ANNOTATIONS = `object.spec != oldObject.spec || ${differ('annotations')}`;

/** Of pods and namespaces Pod Security looks at no more than this. */
const POD_SECURITY_CONDITIONS: readonly MatchCondition[] = [
  {
    name: NOT_AN_UPDATE_OF_OTHER_THINGS,
    expression: `request.operation != 'UPDATE' || (request.resource.resource == 'namespaces' ? ${differ('labels')} : ${SPEC_OR_ANNOTATIONS})`,
  },
];

/** SCCs do not count for Windows pods. */
const SCC_CONDITIONS: readonly MatchCondition[] = [
  { name: 'not-windows', expression: "!has(object.spec.os) || object.spec.os.name != 'windows'" },
  {
    name: NOT_AN_UPDATE_OF_OTHER_THINGS,
    expression: `request.operation != 'UPDATE' || object.spec != oldObject.spec || ${differ('labels')} || ${differ('annotations')}`,
  },
];

type Requirement = Wire<V1LabelSelectorRequirement>;

/**
 * Namespaces that are treated alike while nobody answers reviews. A selector cannot say "or": each tier has webhooks of
 * its own, and a namespace belongs to one tier only.
 */
interface Tier {
  /** Before the name of the webhook. */
  readonly prefix: string;
  readonly failurePolicy: 'Fail' | 'Ignore';
  readonly namespaces: readonly Requirement[];
}

/** By that label, which the API server sets, a selector knows namespaces by their names. */
const NAME_LABEL = 'kubernetes.io/metadata.name';
const KUBE_SYSTEM = 'kube-system';

function named(names: readonly string[]): Requirement {
  return { key: NAME_LABEL, operator: 'In', values: [...names] };
}

function notNamed(names: readonly string[]): Requirement {
  return { key: NAME_LABEL, operator: 'NotIn', values: [...names] };
}

/** Nothing gets in unasked; but where networking, DNS and storage live, pods start while there is nobody to ask. */
function tiersOf(namespaces: readonly Requirement[]): readonly Tier[] {
  const tier = (operator: 'In' | 'NotIn'): readonly Requirement[] => [
    ...namespaces,
    { key: TIER_LABEL, operator, values: [FAIL_OPEN] },
  ];
  return [
    { prefix: '', failurePolicy: 'Fail', namespaces: tier('NotIn') },
    { prefix: 'fail-open.', failurePolicy: 'Ignore', namespaces: tier('In') },
  ];
}

/**
 * The same where Pod Security counts in `kube-system`, too: a cold cluster starts there. The installation itself is
 * never asked about.
 */
function podSecurityTiersOf(installation: string): readonly Tier[] {
  return [
    ...tiersOf([notNamed([KUBE_SYSTEM, installation])]),
    { prefix: `${KUBE_SYSTEM}.`, failurePolicy: 'Ignore', namespaces: [named([KUBE_SYSTEM])] },
  ];
}

type Hook = Wire<V1ValidatingWebhook>;

/** What is peculiar to a webhook. */
interface Asked extends Pick<Hook, 'rules' | 'matchConditions'> {
  readonly name: string;
  readonly path: string;
  /** How long the API server waits, in seconds. */
  readonly timeoutSeconds: number;
}

/** A webhook that concerns objects of no namespace. */
function webhook(asked: Asked, settings: ManifestSettings) {
  return { ...part(asked, settings), failurePolicy: 'Fail' } as const;
}

/** The webhook of a tier of namespaces. */
function webhookOfTier(asked: Asked, tier: Tier, settings: ManifestSettings) {
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
function configurationMetadata(name: string, settings: ManifestSettings): Manifest['metadata'] {
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
function podSecurityConfiguration(settings: ManifestSettings): ManifestOf<V1ValidatingWebhookConfiguration> {
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

/** Longer than the wait of 10 s for the ranges of a new namespace, so that the requester reads why. */
const WAITING_SECONDS = 15;
const OTHER_SECONDS = 10;
/** Where pods may start unjudged nobody waits long. */
const FAIL_OPEN_SECONDS = 5;

const PODS: Pick<Asked, 'rules' | 'matchConditions' | 'timeoutSeconds'> = {
  rules: [
    {
      apiGroups: [''],
      apiVersions: ['v1'],
      operations: ['CREATE', 'UPDATE'],
      resources: ['pods'],
      scope: 'Namespaced',
    },
    {
      apiGroups: [''],
      apiVersions: ['v1'],
      operations: ['UPDATE'],
      resources: ['pods/ephemeralcontainers', 'pods/resize'],
      scope: 'Namespaced',
    },
  ],
  matchConditions: SCC_CONDITIONS,
  timeoutSeconds: WAITING_SECONDS,
};

const MUTATE: Asked = { name: 'mutate.scc.portcullis.dev', path: '/scc/mutate', ...PODS };
const VALIDATE: Asked = { name: 'validate.scc.portcullis.dev', path: '/scc/validate', ...PODS };
const EXEC: Asked = {
  name: 'exec.scc.portcullis.dev',
  path: '/scc/exec',
  rules: [
    {
      apiGroups: [''],
      apiVersions: ['v1'],
      operations: ['CONNECT'],
      resources: ['pods/attach', 'pods/exec'],
      scope: 'Namespaced',
    },
  ],
  timeoutSeconds: OTHER_SECONDS,
};

const OBJECTS: Pick<Asked, 'name' | 'rules' | 'timeoutSeconds'> = {
  name: 'objects.scc.portcullis.dev',
  rules: [
    {
      apiGroups: ['security.openshift.io'],
      apiVersions: ['v1'],
      operations: ['CREATE', 'UPDATE'],
      resources: ['securitycontextconstraints'],
      scope: 'Cluster',
    },
  ],
  timeoutSeconds: OTHER_SECONDS,
};

const MUTATING = { apiVersion: 'admissionregistration.k8s.io/v1', kind: 'MutatingWebhookConfiguration' } as const;
const VALIDATING = { apiVersion: 'admissionregistration.k8s.io/v1', kind: 'ValidatingWebhookConfiguration' } as const;
/** Asked again if a webhook that comes later changes the object. */
const AGAIN = { reinvocationPolicy: 'IfNeeded' } as const;

/**
 * Security context constraints. Pods are asked about twice: the mutating webhook chooses an SCC and completes the pod
 * by it, and its configuration sorts behind those of others; the validating one judges what has become of the pod.
 * SCCs themselves are completed before the schema could refuse short ones, and judged.
 */
function sccConfigurations(
  settings: ManifestSettings,
): readonly ManifestOf<V1MutatingWebhookConfiguration | V1ValidatingWebhookConfiguration>[] {
  const tiers = tiersOf(judgedNamespaces(settings));
  const inTiers = (asked: Asked) => tiers.map((tier) => webhookOfTier(patient(asked, tier), tier, settings));
  const metadata = (name: string) => configurationMetadata(name, settings);
  return [
    {
      ...MUTATING,
      metadata: metadata('zz.scc.portcullis.dev'),
      webhooks: inTiers(MUTATE).map((hook) => ({ ...hook, ...AGAIN })),
    },
    {
      ...MUTATING,
      metadata: metadata('objects.scc.portcullis.dev'),
      webhooks: [{ ...webhook({ ...OBJECTS, path: '/scc/objects/default' }, settings), ...AGAIN }],
    },
    {
      ...VALIDATING,
      metadata: metadata('scc.portcullis.dev'),
      webhooks: [
        ...inTiers(VALIDATE),
        ...inTiers(EXEC),
        webhook({ ...OBJECTS, path: '/scc/objects/validate' }, settings),
      ],
    },
  ];
}

function patient(asked: Asked, { failurePolicy }: Tier): Asked {
  return failurePolicy === 'Fail' ? asked : { ...asked, timeoutSeconds: FAIL_OPEN_SECONDS };
}

/** All but those in which SCCs never count; the server, asked all the same, would leave them alone, too. */
function judgedNamespaces(settings: ManifestSettings): readonly Requirement[] {
  return [
    notNamed(exemptNamespacesOf(settings)),
    { key: RUN_LEVEL_LABEL, operator: 'NotIn', values: ['0', '1'] },
    { key: DISABLE_LABEL, operator: 'NotIn', values: ['true'] },
    { key: SCC_MODE_LABEL, operator: 'NotIn', values: ['off'] },
  ];
}

export type WebhookConfiguration = ManifestOf<V1MutatingWebhookConfiguration | V1ValidatingWebhookConfiguration>;

/** What API servers have to know to ask. */
export function webhookConfigurations(settings: ManifestSettings): readonly WebhookConfiguration[] {
  return [podSecurityConfiguration(settings), ...(settings.sccMode === 'off' ? [] : sccConfigurations(settings))];
}
