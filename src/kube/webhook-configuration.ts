import { INJECT_CA_ANNOTATION, PART_OF, PART_OF_LABEL } from './installation.ts';
import type { MutatingWebhookConfiguration, ValidatingWebhookConfiguration } from './types.ts';

/** The kinds of webhook configurations. */
export const CONFIGURATION_KINDS = ['ValidatingWebhookConfiguration', 'MutatingWebhookConfiguration'] as const;
export type ConfigurationKind = (typeof CONFIGURATION_KINDS)[number];

export type WebhookConfiguration = ValidatingWebhookConfiguration | MutatingWebhookConfiguration;

/** What is read of a webhook. */
export interface RegisteredWebhook {
  readonly name: string;
  /** Whom the API server trusts, PEM in base64; `''`: whom it trusts anyway. */
  readonly caBundle: string;
  /** By what name the API server calls it; `undefined` where that cannot be told. */
  readonly host: string | undefined;
  readonly service?: { readonly namespace: string; readonly name: string };
}

/** True if the configuration says that it belongs to this program. */
export function isOurs({ metadata }: WebhookConfiguration): boolean {
  return metadata?.labels?.[PART_OF_LABEL] === PART_OF;
}

/** `<namespace>/<name>` of the Secret whose authorities the configuration asks for. */
export function injectsFrom({ metadata }: WebhookConfiguration): string | undefined {
  return metadata?.annotations?.[INJECT_CA_ANNOTATION];
}

/** @see https://cert-manager.io/docs/concepts/ca-injector/ */
const CERT_MANAGER = 'cert-manager.io/inject-';

/** True if somebody fills in whom the API server is to trust. */
export function isInjected(configuration: WebhookConfiguration): boolean {
  const { annotations = {} } = configuration.metadata ?? {};
  return Object.keys(annotations).some((key) => key === INJECT_CA_ANNOTATION || key.startsWith(CERT_MANAGER));
}

/** The webhooks of a configuration. */
export function webhooksOf({ webhooks }: WebhookConfiguration): RegisteredWebhook[] {
  return (webhooks ?? []).map(({ name, clientConfig }) => {
    const { caBundle, service, url } = clientConfig;
    return {
      name,
      caBundle: caBundle ?? '',
      host: service ? `${service.name}.${service.namespace}.svc` : hostOf(url ?? ''),
      ...(service ? { service: { namespace: service.namespace, name: service.name } } : {}),
    };
  });
}

function hostOf(url: string): string | undefined {
  return URL.parse(url)?.hostname.replace(/^\[(.*)\]$/, '$1');
}
