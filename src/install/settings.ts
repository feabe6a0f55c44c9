import type { V1ValidatingAdmissionPolicy, V1ValidatingAdmissionPolicyBinding } from '@kubernetes/client-node';
import {
  COMPONENT_LABEL,
  CONFIGURATION_NAME,
  DEFAULT_FEATURES,
  type Feature,
  INSTALLATION,
  PART_OF,
  PART_OF_LABEL,
} from '../api/names.ts';
import { settingsFromObject } from '../config/configuration.ts';
import { CONFIGURATION_SCHEMA } from '../config/portcullis-configuration.ts';
import type { Settings } from '../config/settings.ts';
import { CONTROLLER_NAMES } from '../controllers/index.ts';
import { withApiDefaults } from '../kube/defaults.ts';
import { defined } from '../kube/defined.ts';
import type { JsonObject, ObjectMeta, Wire } from '../kube/types.ts';

/**
 * Address at which API servers reach the webhooks, which is the installation's Service or a URL such as
 * `https://127.0.0.1:8443`.
 */
type WebhookAddress = 'service' | { readonly url: string };

type InstalledFeatures = Readonly<Record<Feature, boolean>>;

/** The settings from which the manifests of an installation are generated. */
export interface ManifestSettings {
  readonly namespace: string;
  /** Portcullis version, without the leading `v`. */
  readonly version: string;
  /** Image reference, including the registry and a tag or digest. */
  readonly image: string;
  /** False if the replicas run as processes outside the cluster, so the manifests contain no objects for their pods. */
  readonly hasPods: boolean;
  readonly replicas: number;
  /**
   * `minAvailable` of the PodDisruptionBudget. It replaces `maxUnavailable`, because a PodDisruptionBudget cannot have
   * both fields.
   */
  readonly minAvailable?: number | string;
  /** Features for which CRDs and permissions are generated. */
  readonly features: InstalledFeatures;
  /** True if the `nodes.config.openshift.io` CRD is installed. */
  readonly nodesConfig: boolean;
  /** Spec of the PortcullisConfiguration. */
  readonly policy: JsonObject;
  /** Part of the spec that the leader applies. Defaults to the whole spec. */
  readonly initial?: JsonObject;
  /** Source of the serving certificate and the caBundle. With `others`, the user provides them. */
  readonly certificates: 'self-managed' | 'cert-manager' | 'others';
  /** With `preferred`, replicas may share a node if no other node has capacity. */
  readonly spread: 'preferred' | 'required';
  readonly monitoring: 'none' | 'prometheus-operator';
  /** URL of the runbook to which alerts link. If empty, alerts have no links. */
  readonly runbook: string;
  readonly webhooks: WebhookAddress;
}

const { spec } = CONFIGURATION_SCHEMA.properties;
const { controllers } = spec.properties;
const { disabled } = controllers.properties;

/** Schema of the settings in manifests, which includes the names of the controllers. */
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

/** Policy settings, and the installation that applies them. An absent list of features means all features. */
export type PolicySettings = Pick<ManifestSettings, 'namespace' | 'policy'> &
  Partial<Pick<ManifestSettings, 'features'>>;

/**
 * Returns the policy settings of an installation.
 * @throws {UserError} if the settings are invalid
 */
export function decodePolicy({ namespace, policy: spec, features }: PolicySettings): Settings {
  const object = { metadata: { name: CONFIGURATION_NAME }, spec };
  const options = { controllers: CONTROLLER_NAMES, namespace };
  return settingsFromObject(object, features ? { ...options, hasSccs: features.scc } : options);
}

const INSTALLED_BY_DEFAULT = parseFeatures([DEFAULT_FEATURES.join()]);

/** Parses and combines the `--features` values. Returns the default features if there are none. */
export function parseFeatures(values: readonly string[]): InstalledFeatures {
  const names: readonly string[] = values.length === 0 ? DEFAULT_FEATURES : values.join().split(',');
  const has = (name: Feature): boolean => names.includes(name);
  return { rollout: has('rollout'), scc: has('scc'), kubelet: has('kubelet'), olm: has('olm') };
}

/** All features, for manifests that are shared by installations with different features. */
export const ALL_FEATURES = { rollout: true, scc: true, kubelet: true, olm: true } as const;

/** Returns the settings of a default installation. */
export function defaultSettings(version: string): ManifestSettings {
  return {
    namespace: INSTALLATION.namespace,
    version,
    image: `${INSTALLATION.name}:${version}`,
    hasPods: true,
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

/** Named changes to the default settings. Each profile except the default is a kustomize component. */
export const PROFILES = {
  default: {},
  /** This profile precedes the profiles of features, which add their alerts and dashboards. */
  monitoring: { monitoring: 'prometheus-operator' },
  scc: { features: { ...INSTALLED_BY_DEFAULT, scc: true } },
  /** For clusters such as OpenShift, which has its own label syncer and readiness controller. */
  'without-rollout': { features: { ...INSTALLED_BY_DEFAULT, rollout: false } },
  kubelet: { features: { ...INSTALLED_BY_DEFAULT, kubelet: true } },
  olm: { features: { ...INSTALLED_BY_DEFAULT, olm: true } },
  'cert-manager': { certificates: 'cert-manager' },
  'high-availability': { replicas: 5, spread: 'required' },
  /** For API servers that have no Service network. The replicas run on the same machine as the API server. */
  local: { hasPods: false, webhooks: { url: 'https://127.0.0.1:8443' } },
} as const satisfies Readonly<Record<string, Partial<ManifestSettings>>>;

export type Profile = keyof typeof PROFILES;

/** Oldest supported Kubernetes 1.x minor version. */
export const MINIMUM_MINOR = 32;

/** Labels that select the replicas. They cannot change, because selectors are immutable. */
export const SELECTOR_LABELS = { 'app.kubernetes.io/name': INSTALLATION.name, [COMPONENT_LABEL]: 'admission' } as const;

/** Labels on all objects of an installation. */
export const INSTALLATION_LABELS = { ...SELECTOR_LABELS, [PART_OF_LABEL]: PART_OF } as const;

/** Component of the CRDs, roles and policies, which users do not customize. */
export const PREREQUISITES = 'prerequisites';
const PREREQUISITE_LABELS = { ...INSTALLATION_LABELS, [COMPONENT_LABEL]: PREREQUISITES } as const;

export function prerequisiteMetadata(name: string, namespace?: string): Manifest['metadata'] {
  return { name, ...defined({ namespace }), labels: PREREQUISITE_LABELS };
}

export function namespacedMetadata(namespace: string, name: string): Manifest['metadata'] {
  return { name, namespace, labels: INSTALLATION_LABELS };
}

/** An object to apply to a cluster. */
export type Manifest = {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: ObjectMeta & { readonly name: string };
};

export type CustomManifest = Manifest & { readonly spec: JsonObject };

export type ManifestOf<T> = Wire<T> & Manifest;

export type PolicySpec = NonNullable<Wire<V1ValidatingAdmissionPolicy>['spec']>;

/**
 * Returns a policy that denies requests, and its binding. The policy contains the defaults of API servers, because
 * `matchConstraints` is atomic. Without these defaults, a second field manager would conflict with the first.
 */
export function policyWithBinding(
  name: string,
  spec: PolicySpec,
): readonly [ManifestOf<V1ValidatingAdmissionPolicy>, ManifestOf<V1ValidatingAdmissionPolicyBinding>] {
  const common = { apiVersion: 'admissionregistration.k8s.io/v1', metadata: prerequisiteMetadata(name) };
  return [
    withApiDefaults({ ...common, kind: 'ValidatingAdmissionPolicy', spec }),
    {
      ...common,
      kind: 'ValidatingAdmissionPolicyBinding',
      spec: { policyName: name, validationActions: ['Deny'] },
    },
  ];
}
