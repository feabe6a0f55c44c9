import type { V1MatchCondition, V1RuleWithOperations } from '@kubernetes/client-node';
import { printCount, summarizeNames } from '../kube/text.ts';
import type { MutatingWebhookConfiguration, ValidatingWebhookConfiguration, Wire } from '../kube/types.ts';
import { KUBE_SYSTEM } from '../kube/well-known.ts';
import { INJECT_CA_ANNOTATION, INSTALLATION, type OptionalFeature, PART_OF, PART_OF_LABEL } from './names.ts';

export const CONFIGURATION_KINDS = ['ValidatingWebhookConfiguration', 'MutatingWebhookConfiguration'] as const;
export type ConfigurationKind = (typeof CONFIGURATION_KINDS)[number];

/**
 * Names of the webhook configurations of an installation. Replicas update only these, and their role permits only
 * these. They ignore copies that have the same labels but other names. API servers call mutating webhooks in the order
 * of their configuration names, so `zz` runs after the mutations of other components.
 */
export const CONFIGURATION_NAMES = {
  ValidatingWebhookConfiguration: 'portcullis.dev',
  MutatingWebhookConfiguration: 'zz.portcullis.dev',
} as const satisfies Readonly<Record<ConfigurationKind, string>>;

export type WebhookConfiguration = ValidatingWebhookConfiguration | MutatingWebhookConfiguration;

/** Features that the settings or the installation turn on. */
export type WebhookFeature =
  | 'podSecurity'
  | 'exceptions'
  | 'defaults'
  | 'rollout'
  | 'scc'
  | OptionalFeature
  | 'kubeletCertificates'
  | 'kubeletNodeWrites'
  | 'privilegedStreams';

/** A part of a registration that applies only while `feature` is on and `unless` is off. */
interface Conditional {
  readonly feature?: WebhookFeature;
  readonly unless?: WebhookFeature;
}

/**
 * Describes the requests that API servers send to a path. The webhook configurations are generated from registrations.
 * A registration is in force while the feature of at least one of its rules is on.
 */
export interface WebhookRegistration {
  /** Webhook name. The API server prefixes audit annotations with it. */
  readonly name: string;
  readonly path: string;
  /** Description of what the webhook does, in Markdown. Begins with a lowercase verb and has no final period. */
  readonly description: string;
  readonly kind: ConfigurationKind;
  readonly rules: readonly { readonly feature: WebhookFeature; readonly rule: Wire<V1RuleWithOperations> }[];
  /** True if the webhook also reviews the workload resources that the settings list. */
  readonly reviewsWorkloadResources?: boolean;
  readonly matchConditions?: readonly (Wire<V1MatchCondition> & Conditional)[];
  readonly timeoutSeconds: number;
  /**
   * The effect on requests while no replica responds. With `open`, they are allowed, because reviews only warn, set
   * defaults or find mistakes. With `closed`, they are denied where the settings enforce the feature. `floor` is like
   * `closed`, but also allows pods that the floor policies restrict.
   */
  readonly failure: 'open' | 'closed' | 'floor';
  /**
   * The namespaces whose requests are reviewed. `reviewed` means all except the installation namespace, `changed` means
   * those in which webhooks change pods, and `sccs` means those in which SCCs apply. Absent for cluster-scoped objects,
   * and for objects that are reviewed in all namespaces.
   */
  readonly namespaces?: 'reviewed' | 'changed' | 'sccs';
}

/** Returns the namespaces whose pods are never changed by webhooks, regardless of the settings. */
export function unchangedNamespaces(installation: string): readonly string[] {
  return [KUBE_SYSTEM, installation];
}

/** Match condition for webhooks that do not review users who may use the `privileged` SCC. */
export const NOT_PRIVILEGED_CONDITION = 'not-privileged';

/**
 * Annotation on the validating configuration with the SCC mode for which the mutating webhook has been registered. The
 * leader sets it once API servers have had time to observe the registration. Until then, replicas default pods but do
 * not deny them, so no pod is denied merely because it has not been defaulted. If the mutating configuration is deleted
 * later, the mode remains in force, and pods are denied until the leader has restored the configuration.
 */
export const SCC_REGISTERED_ANNOTATION = 'portcullis.dev/registered-scc-mode';

/** Name prefix of the webhook that sets the pod defaults. */
export const DEFAULTS_PREFIX = 'defaults.';

/** Name prefix of webhooks that review only namespaces with the label `ENFORCE_LABEL`. */
export const OWN_LABEL_PREFIX = 'own-label.';

export interface RegisteredWebhook {
  readonly name: string;
  /** Trusted CA certificates as base64-encoded PEM. If empty, the API server uses its own trust store. */
  readonly caBundle: string;
  /** The host name to which the API server connects, or `undefined` if the URL is invalid. */
  readonly host: string | undefined;
  readonly failurePolicy: 'Fail' | 'Ignore';
  readonly service?: { readonly namespace: string; readonly name: string };
}

/** Returns true if the labels identify the configuration as part of Portcullis. */
export function isPartOfPortcullis({ metadata }: WebhookConfiguration): boolean {
  return metadata?.labels?.[PART_OF_LABEL] === PART_OF;
}

/** Returns true if this version of Portcullis defines a webhook configuration with the given kind and name. */
export function isKnownConfiguration(kind: ConfigurationKind, name: string | undefined): boolean {
  return CONFIGURATION_NAMES[kind] === name;
}

/** Returns `<namespace>/<name>` of the Secret, if any, that contains the CA certificates to inject. */
export function caSecretReference({ metadata }: WebhookConfiguration): string | undefined {
  return metadata?.annotations?.[INJECT_CA_ANNOTATION];
}

/** Returns the annotation that requests injection of the CA certificates in the Secret. */
export function caInjection(namespace: string): Readonly<Record<string, string>> {
  return { [INJECT_CA_ANNOTATION]: `${namespace}/${INSTALLATION.certificateSecret}` };
}

/** @see https://cert-manager.io/docs/concepts/ca-injector/ */
const CERT_MANAGER = 'cert-manager.io/inject-';

/** Returns true if Portcullis or cert-manager injects the CA certificates. */
export function hasCaInjection(configuration: Pick<WebhookConfiguration, 'metadata'>): boolean {
  const { annotations = {} } = configuration.metadata ?? {};
  return Object.keys(annotations).some(isCaInjection);
}

/** Returns true if the annotation requests CA injection. */
export function isCaInjection(annotation: string): boolean {
  return annotation === INJECT_CA_ANNOTATION || annotation.startsWith(CERT_MANAGER);
}

export function getWebhooks({ webhooks }: WebhookConfiguration): RegisteredWebhook[] {
  return (webhooks ?? []).map(({ name, clientConfig, failurePolicy }) => {
    const { caBundle, service, url } = clientConfig;
    return {
      name,
      caBundle: caBundle ?? '',
      host: service ? `${service.name}.${service.namespace}.svc` : urlHost(url ?? ''),
      failurePolicy: failurePolicy === 'Ignore' ? 'Ignore' : 'Fail',
      ...(service ? { service: { namespace: service.namespace, name: service.name } } : {}),
    };
  });
}

/**
 * Returns the webhooks that have failurePolicy Fail, or all webhooks if there are none. A problem with a fail-open
 * webhook must not affect decisions about the certificates of fail-closed webhooks.
 */
export function enforcingWebhooks<T extends Pick<RegisteredWebhook, 'failurePolicy'>>(
  webhooks: readonly T[],
): readonly T[] {
  const enforcing = webhooks.filter(({ failurePolicy }) => failurePolicy === 'Fail');
  return enforcing.length > 0 ? enforcing : webhooks;
}

function urlHost(url: string): string | undefined {
  return URL.parse(url)?.hostname.replace(/^\[(.*)\]$/, '$1');
}

/**
 * Formats the warning that a change to the settings makes webhooks fail closed in the namespaces. Without `showsNames`,
 * the warning contains only their number.
 */
export function printNewlyClosed(
  names: readonly string[],
  { isComplete = true, showsNames = true }: { readonly isComplete?: boolean; readonly showsNames?: boolean } = {},
): string {
  const count = `${isComplete ? '' : 'at least '}${printCount(names.length, 'namespace')}`;
  const list = showsNames ? `: ${summarizeNames(names)}` : '';
  return `the settings make ${count} fail closed, so no pods can be created there while no replica responds${list}`;
}
