import type { Store } from '../cluster/store.ts';
import { ROTATE_ANNOTATION } from '../kube/installation.ts';
import type { Secret } from '../kube/types.ts';
import {
  CONFIGURATION_KINDS,
  decisive,
  injectsFrom,
  isInstalled,
  webhooksOf,
  type ConfigurationKind,
  type RegisteredWebhook,
  type WebhookConfiguration,
} from '../kube/webhook-configuration.ts';
import { pemOf } from '../tls/bundle.ts';
import { ROTATIONS, type Rotation } from '../tls/plan-keyring.ts';

/** Where the Secret of the certificates is. */
export interface SecretPlace {
  readonly namespace: string;
  readonly name: string;
}

/** A configuration whose webhooks are to trust what the Secret holds. */
export interface InjectedConfiguration {
  readonly kind: ConfigurationKind;
  readonly name: string;
  readonly webhooks: readonly Pick<RegisteredWebhook, 'name' | 'caBundle' | 'failurePolicy'>[];
}

/** True if the configuration asks for the authorities of that Secret. */
export function isInjectedFrom(configuration: WebhookConfiguration, { namespace, name }: SecretPlace): boolean {
  return injectsFrom(configuration) === `${namespace}/${name}`;
}

export interface InjectedConfigurations {
  /** Those of the installation. */
  readonly ours: readonly InjectedConfiguration[];
  /** Those that nobody here may write. */
  readonly strange: readonly InjectedConfiguration[];
}

/** The configurations that ask for the authorities of that Secret. */
export function injectedConfigurations(store: Store, place: SecretPlace): InjectedConfigurations {
  const all = CONFIGURATION_KINDS.flatMap((kind) =>
    store
      .list(kind)
      .filter((configuration: WebhookConfiguration) => isInjectedFrom(configuration, place))
      .map((configuration: WebhookConfiguration) => ({
        kind,
        name: configuration.metadata?.name ?? '',
        webhooks: webhooksOf(configuration),
      })),
  );
  return {
    ours: all.filter(({ kind, name }) => isInstalled(kind, name)),
    strange: all.filter(({ kind, name }) => !isInstalled(kind, name)),
  };
}

/** Whom API servers trust, in PEM, each text once. */
export function heldBundles(configurations: readonly InjectedConfiguration[]): readonly string[] {
  return bundlesOf(configurations.flatMap(({ webhooks }) => webhooks));
}

/** Whom they trust where that counts. */
export function decisiveBundles(configurations: readonly InjectedConfiguration[]): readonly string[] {
  return bundlesOf(decisive(configurations.flatMap(({ webhooks }) => webhooks)));
}

function bundlesOf(webhooks: readonly Pick<RegisteredWebhook, 'caBundle'>[]): readonly string[] {
  return [...new Set(webhooks.map(({ caBundle }) => caBundle))].map(pemOf);
}

/** The texts of a Secret by their names. */
export function textsOf(secret: Secret | undefined): ReadonlyMap<string, string> {
  const data = Object.entries(secret?.data ?? {});
  return new Map(data.map(([name, value]) => [name, pemOf(value)]));
}

/** What somebody has asked for; what is no such word counts for nothing. */
export function rotationAsked(secret: Secret | undefined): Rotation | undefined {
  const asked = secret?.metadata?.annotations?.[ROTATE_ANNOTATION];
  return ROTATIONS.find((one) => one === asked);
}
