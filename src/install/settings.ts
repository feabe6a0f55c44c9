import {
  CONFIGURATION_NAME,
  INSTALLATION,
  COMPONENT_LABEL,
  PART_OF,
  PART_OF_LABEL,
  type Feature,
} from '../kube/well-known.ts';
import { settingsFromObject } from '../config/configuration.ts';
import { CONFIGURATION_SCHEMA } from '../config/portcullis-configuration.ts';
import type { Settings } from '../config/settings.ts';
import { CONTROLLER_NAMES } from '../controllers/index.ts';
import type { JsonObject, ObjectMeta, Wire } from '../kube/types.ts';

/** How API servers reach the webhooks: through the service of the installation, or by a URL such as `https://127.0.0.1:8443`. */
type WebhookAddress = 'service' | { readonly url: string };

/** Whether an installation has each feature. */
type InstalledFeatures = Readonly<Record<Feature, boolean>>;

/** The settings of an installation, from which its manifests are generated. */
export interface ManifestSettings {
  readonly namespace: string;
  /** Version of the program, without a leading `v`. */
  readonly version: string;
  /** Image with registry and tag or digest. */
  readonly image: string;
  readonly replicas: number;
  /** The features whose CRDs and permissions are generated. */
  readonly features: InstalledFeatures;
  /** Whether the CRD `nodes.config.openshift.io` is installed. */
  readonly nodesConfig: boolean;
  /** The spec of the PortcullisConfiguration that the leader creates. */
  readonly policy: JsonObject;
  /** Source of the serving certificate and of the caBundle. `others`: neither the replicas nor cert-manager. */
  readonly certificates: 'self-managed' | 'cert-manager' | 'others';
  /** Whether replicas may share a node if no other node has capacity. */
  readonly spread: 'preferred' | 'required';
  readonly monitoring: 'none' | 'prometheus-operator';
  /** URL of the runbook, to whose sections alerts link; empty: alerts have no link. */
  readonly runbook: string;
  readonly webhooks: WebhookAddress;
}

const { spec } = CONFIGURATION_SCHEMA.properties;
const { controllers } = spec.properties;
const { disabled } = controllers.properties;

/** The schema of the settings in manifests, with the names of the controllers. */
export const SETTINGS_SCHEMA = withProperties(CONFIGURATION_SCHEMA, {
  spec: withProperties(spec, {
    controllers: withProperties(controllers, {
      disabled: { ...disabled, items: { type: 'string', enum: CONTROLLER_NAMES } },
    }),
  }),
});

function withProperties<T extends { readonly properties: object }, P extends object>(schema: T, properties: P) {
  return { ...schema, properties: { ...schema.properties, ...properties } };
}

/**
 * The policy settings of an installation.
 * @throws {UserError} if they are invalid
 */
export function decodePolicy({ namespace, policy: spec }: Pick<ManifestSettings, 'namespace' | 'policy'>): Settings {
  const object = { metadata: { name: CONFIGURATION_NAME }, spec };
  return settingsFromObject(object, { controllers: CONTROLLER_NAMES, namespace });
}

const INSTALLED_BY_DEFAULT = { scc: true, rollout: true, kubelet: false, olm: false } as const;

/** Parses the values of `--features`. Multiple values are combined. Without one, the defaults apply. */
export function parseFeatures(values: readonly string[]): InstalledFeatures {
  if (values.length === 0) return INSTALLED_BY_DEFAULT;
  const names = values.join().split(',');
  const has = (name: Feature): boolean => names.includes(name);
  return { scc: has('scc'), rollout: has('rollout'), kubelet: has('kubelet'), olm: has('olm') };
}

/** All features, for manifests that installations with different features share. */
export const ALL_FEATURES = { scc: true, rollout: true, kubelet: true, olm: true } as const;

/** The settings of a default installation. */
export function defaultSettings(version: string): ManifestSettings {
  return {
    namespace: INSTALLATION.namespace,
    version,
    image: `${INSTALLATION.name}:${version}`,
    replicas: 3,
    features: INSTALLED_BY_DEFAULT,
    nodesConfig: false,
    policy: {},
    certificates: 'self-managed',
    spread: 'preferred',
    monitoring: 'none',
    runbook: '',
    webhooks: 'service',
  };
}

/** Named changes to the default settings. Each profile except the default is a component of kustomize. */
export const PROFILES = {
  default: {},
  /** OpenShift has its own SCC admission, label syncer and readiness controller. */
  openshift: { features: { ...INSTALLED_BY_DEFAULT, scc: false, rollout: false }, policy: { scc: { mode: 'off' } } },
  'without-rollout': { features: { ...INSTALLED_BY_DEFAULT, rollout: false } },
  kubelet: { features: { ...INSTALLED_BY_DEFAULT, kubelet: true } },
  olm: { features: { ...INSTALLED_BY_DEFAULT, olm: true } },
  'cert-manager': { certificates: 'cert-manager' },
  'high-availability': { replicas: 5, spread: 'required' },
  monitoring: { monitoring: 'prometheus-operator' },
  /** For API servers without a service network: the replicas run on the same machine. */
  local: { webhooks: { url: 'https://127.0.0.1:8443' } },
} as const satisfies Readonly<Record<string, Partial<ManifestSettings>>>;

export type Profile = keyof typeof PROFILES;

/** The minor version of Kubernetes 1 in which match conditions became stable. */
export const MINIMUM_MINOR = 30;

/** Labels that select the replicas. They are immutable. */
export const SELECTOR_LABELS = { 'app.kubernetes.io/name': INSTALLATION.name, [COMPONENT_LABEL]: 'admission' } as const;

/** Labels of all objects of an installation. */
export const LABELS = { ...SELECTOR_LABELS, [PART_OF_LABEL]: PART_OF } as const;

export function clusterMetadata(name: string): Manifest['metadata'] {
  return { name, labels: LABELS };
}

export function namespacedMetadata(namespace: string, name: string): Manifest['metadata'] {
  return { name, namespace, labels: LABELS };
}

/** An object as it is applied to a cluster. */
export type Manifest = {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: ObjectMeta & { readonly name: string };
};

/** A manifest of a custom resource. */
export type CustomManifest = Manifest & { readonly spec: JsonObject };

/** A manifest of a built-in type. */
export type ManifestOf<T> = Wire<T> & Manifest;
