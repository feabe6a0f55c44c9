import { INSTALLATION, COMPONENT_LABEL, PART_OF, PART_OF_LABEL } from '../kube/well-known.ts';
import type { RolloutPhase } from '../policy/rollout/enforcement.ts';
import type { Evaluator } from '../policy/rollout/settings.ts';
import { type SccMode, DEFAULT_EXEMPT_NAMESPACES } from '../policy/scc/mode.ts';
import type { JsonObject, ObjectMeta, Wire } from '../kube/types.ts';

/** Where API servers find the webhooks: the service of the installation, or a URL such as `https://127.0.0.1:8443`. */
type WebhookAddress = 'service' | { readonly url: string };

/** What differs between installations. */
export interface ManifestSettings {
  readonly namespace: string;
  /** Of the program, without a leading `v`. */
  readonly version: string;
  /** With its registry and tag, or digest. */
  readonly image: string;
  readonly replicas: number;
  /** Of namespaces whose label says nothing; with `off` nothing about SCCs is installed. */
  readonly sccMode: SccMode;
  /** How far enforcement of the Pod Security Standards is rolled out; `Disabled` needs no rights of its own. */
  readonly rollout: RolloutPhase;
  /** Who judges for the rollout. */
  readonly evaluator: Evaluator;
  /** Controllers that are not to run, and get no rights. */
  readonly withoutControllers: readonly string[];
  /** See the option of `serve`. */
  readonly authorization: 'rbac' | 'sar';
  /**
   * Who makes the serving certificate and has API servers trust it; `others`: neither this program nor cert-manager.
   */
  readonly certificates: 'self-managed' | 'cert-manager' | 'others';
  /** Whether two replicas may share a node where they need not. */
  readonly spread: 'preferred' | 'required';
  readonly monitoring: 'none' | 'prometheus-operator';
  /** Address of the page to whose parts the alerts point. */
  readonly runbook: string;
  readonly webhooks: WebhookAddress;
}

/** What is installed where nobody says otherwise. */
export function defaultSettings(version: string): ManifestSettings {
  return {
    namespace: INSTALLATION.namespace,
    version,
    image: `${INSTALLATION.name}:${version}`,
    replicas: 3,
    sccMode: 'report',
    rollout: 'Evaluate',
    evaluator: 'InProcess',
    withoutControllers: [],
    authorization: 'rbac',
    certificates: 'self-managed',
    spread: 'preferred',
    monitoring: 'none',
    runbook: 'https://portcullis.dev/docs/runbook.md',
    webhooks: 'service',
  };
}

/** Kinds of installations, by what they do differently. */
export const PROFILES = {
  default: {},
  /** SCCs are built in there, and so are those who keep labels by them and tell what enforcement would break. */
  openshift: { sccMode: 'off', rollout: 'Disabled' },
  /** Nobody tells what enforcement would break. */
  'without-rollout': { rollout: 'Disabled' },
  'cert-manager': { certificates: 'cert-manager' },
  'high-availability': { replicas: 5, spread: 'required' },
  monitoring: { monitoring: 'prometheus-operator' },
  /** For API servers that do not reach services: the replicas run beside them. */
  local: { webhooks: { url: 'https://127.0.0.1:8443' } },
} as const satisfies Readonly<Record<string, Partial<ManifestSettings>>>;

export type Profile = keyof typeof PROFILES;

/** Since this minor version of Kubernetes 1 all API servers know match conditions. */
export const MINIMUM_MINOR = 30;

/** The namespaces in which SCCs never count, that of the installation among them. */
export function exemptNamespacesOf({ namespace }: Pick<ManifestSettings, 'namespace'>): readonly string[] {
  return DEFAULT_EXEMPT_NAMESPACES.map((name) => (name === INSTALLATION.namespace ? namespace : name));
}

const NAME_LABEL = 'app.kubernetes.io/name';

/** What selects the replicas; it can never change. */
export const SELECTOR_LABELS = { [NAME_LABEL]: INSTALLATION.name, [COMPONENT_LABEL]: 'admission' } as const;

/** On everything: by the last of them all that belongs to this program is found. */
export const LABELS = { ...SELECTOR_LABELS, [PART_OF_LABEL]: PART_OF } as const;

/** By these webhooks can be applied after, and removed before, all the rest. */
export const WEBHOOK_LABELS = { ...LABELS, [COMPONENT_LABEL]: 'webhooks' } as const;

/** The metadata of what belongs to no namespace. */
export function clusterMetadata(name: string): Manifest['metadata'] {
  return { name, labels: LABELS };
}

/** The metadata of what lies in the namespace of the installation. */
export function metadataIn(namespace: string, name: string): Manifest['metadata'] {
  return { name, namespace, labels: LABELS };
}

/** An object as it is applied to a cluster. */
export type Manifest = {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: ObjectMeta & { readonly name: string };
};

/** The same of a kind that others define. */
export type CustomManifest = Manifest & { readonly spec: JsonObject };

/** The same of a type that Kubernetes has. */
export type ManifestOf<T> = Wire<T> & Manifest;
