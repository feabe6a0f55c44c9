import { INJECT_CA_ANNOTATION, PART_OF, PART_OF_LABEL } from './well-known.ts';
import {
  type MutatingWebhookConfiguration,
  type ValidatingWebhookConfiguration,
  isObject,
  type GroupVersionResource,
  type JsonObject,
} from './types.ts';
import type { Operation } from './admission.ts';

/** The kinds of webhook configurations. */
export const CONFIGURATION_KINDS = ['ValidatingWebhookConfiguration', 'MutatingWebhookConfiguration'] as const;
export type ConfigurationKind = (typeof CONFIGURATION_KINDS)[number];

/**
 * The configurations of an installation, by kind and name. Replicas look after these alone, and may write no others: what
 * somebody has copied from them, labels and all, is somebody's own.
 */
export const INSTALLED_CONFIGURATIONS = {
  ValidatingWebhookConfiguration: ['psa.portcullis.dev', 'scc.portcullis.dev'],
  MutatingWebhookConfiguration: ['zz.scc.portcullis.dev', 'objects.scc.portcullis.dev'],
} as const satisfies Readonly<Record<ConfigurationKind, readonly string[]>>;

export type WebhookConfiguration = ValidatingWebhookConfiguration | MutatingWebhookConfiguration;

/** What is read of a webhook. */
export interface RegisteredWebhook {
  readonly name: string;
  /** Whom the API server trusts, PEM in base64; `''`: whom it trusts anyway. */
  readonly caBundle: string;
  /** By what name the API server calls it; `undefined` where that cannot be told. */
  readonly host: string | undefined;
  /** What becomes of a request that it cannot be asked about. */
  readonly failurePolicy: 'Fail' | 'Ignore';
  readonly service?: { readonly namespace: string; readonly name: string };
}

/** True if the configuration says that it belongs to this program. */
export function isPartOfPortcullis({ metadata }: WebhookConfiguration): boolean {
  return metadata?.labels?.[PART_OF_LABEL] === PART_OF;
}

/** True if the configuration is one of those of an installation. */
export function isInstalled(kind: ConfigurationKind, name: string | undefined): boolean {
  const names: readonly (string | undefined)[] = INSTALLED_CONFIGURATIONS[kind];
  return names.includes(name);
}

/** `<namespace>/<name>` of the Secret whose authorities the configuration asks for. */
export function caSecretReference({ metadata }: WebhookConfiguration): string | undefined {
  return metadata?.annotations?.[INJECT_CA_ANNOTATION];
}

/** @see https://cert-manager.io/docs/concepts/ca-injector/ */
const CERT_MANAGER = 'cert-manager.io/inject-';

/** True if somebody fills in whom the API server is to trust. */
export function hasCaInjection(configuration: Pick<WebhookConfiguration, 'metadata'>): boolean {
  const { annotations = {} } = configuration.metadata ?? {};
  return Object.keys(annotations).some((key) => key === INJECT_CA_ANNOTATION || key.startsWith(CERT_MANAGER));
}

/** The webhooks of a configuration. */
export function getWebhooks({ webhooks }: WebhookConfiguration): RegisteredWebhook[] {
  return (webhooks ?? []).map(({ name, clientConfig, failurePolicy }) => {
    const { caBundle, service, url } = clientConfig;
    return {
      name,
      caBundle: caBundle ?? '',
      host: service ? `${service.name}.${service.namespace}.svc` : hostOf(url ?? ''),
      failurePolicy: failurePolicy === 'Ignore' ? 'Ignore' : 'Fail',
      ...(service ? { service: { namespace: service.namespace, name: service.name } } : {}),
    };
  });
}

/**
 * Those that hold requests up when they cannot be asked, or all if none does. What is made of their trust may not hang on
 * the others: one of those that goes wrong would take along what works.
 */
export function enforcingWebhooks<T extends Pick<RegisteredWebhook, 'failurePolicy'>>(
  webhooks: readonly T[],
): readonly T[] {
  const enforcing = webhooks.filter(({ failurePolicy }) => failurePolicy === 'Fail');
  return enforcing.length > 0 ? enforcing : webhooks;
}

function hostOf(url: string): string | undefined {
  return URL.parse(url)?.hostname.replace(/^\[(.*)\]$/, '$1');
}

/** The parts of a request that rules of a webhook select by. */
interface RuleTarget {
  readonly operation: Operation;
  /** `''` for cluster-scoped objects. For requests on a Namespace, its name. */
  readonly namespace: string;
  readonly subresource: string;
}

/**
 * Returns true if a rule of a webhook selects a request on `resource`.
 * @see https://github.com/kubernetes/apiserver/blob/v0.36.0/pkg/admission/plugin/webhook/predicates/rules/rules.go
 */
export function matchesRule(rule: unknown, target: RuleTarget, resource: GroupVersionResource): boolean {
  if (!isObject(rule)) return false;
  return (
    matchesScope(rule['scope'], target, resource) &&
    includes(rule['operations'], target.operation) &&
    includes(rule['apiGroups'], resource.group) &&
    includes(rule['apiVersions'], resource.version) &&
    texts(rule['resources']).some((pattern) => matchesResource(pattern, resource.resource, target.subresource))
  );
}

function includes(list: unknown, value: string): boolean {
  const items = texts(list);
  return items.includes('*') || items.includes(value);
}

/** Requests on a Namespace carry its name as their namespace, but are cluster-scoped. */
function matchesScope(scope: unknown, { namespace }: RuleTarget, { group, resource }: GroupVersionResource): boolean {
  const isClusterScoped = namespace === '' || (group === '' && resource === 'namespaces');
  if (scope === 'Namespaced') return !isClusterScoped;
  if (scope === 'Cluster') return isClusterScoped;
  return scope === '*' || scope === '' || scope == null;
}

function matchesResource(pattern: string, resource: string, subresource: string): boolean {
  const [name = '', part = ''] = pattern.split('/', 2);
  return (name === '*' || name === resource) && (part === '*' || part === subresource);
}

function texts(list: unknown): readonly string[] {
  return Array.isArray(list) ? list.filter((item) => typeof item === 'string') : [];
}

type Labels = Readonly<Record<string, string>>;

/**
 * True if the labels satisfy a LabelSelector object; an empty one matches everything, an absent one nothing.
 * @see https://github.com/kubernetes/apimachinery/blob/v0.36.0/pkg/apis/meta/v1/types.go
 */
export function matchesLabelSelector(selector: unknown, labels: Labels | undefined): boolean {
  if (!isObject(selector)) return false;
  const wanted = isObject(selector['matchLabels']) ? Object.entries(selector['matchLabels']) : [];
  const expressions = Array.isArray(selector['matchExpressions']) ? selector['matchExpressions'] : [];
  return (
    wanted.every(([key, value]) => valueOf(labels, key) === value) &&
    expressions.every((expression) => isObject(expression) && matchesExpression(expression, labels))
  );
}

function matchesExpression(expression: JsonObject, labels: Labels | undefined): boolean {
  const value = valueOf(labels, String(expression['key']));
  const values = Array.isArray(expression['values']) ? expression['values'] : [];
  switch (expression['operator']) {
    case 'In':
      return value !== undefined && values.includes(value);
    case 'NotIn':
      return value === undefined || !values.includes(value);
    case 'Exists':
      return value !== undefined;
    case 'DoesNotExist':
      return value === undefined;
    default:
      return false;
  }
}

function valueOf(labels: Labels | undefined, key: string): string | undefined {
  return labels && Object.hasOwn(labels, key) ? labels[key] : undefined;
}
