/** Permissions of controllers. */
import type { V1PolicyRule } from '@kubernetes/client-node';
import type { Kind } from '../kube/kinds.ts';
import { RESOURCES } from '../kube/resources.ts';
import type { Wire } from '../kube/types.ts';
import { CONFIGURATION_KINDS, configurationFeature, INSTALLED_CONFIGURATIONS } from '../kube/webhooks.ts';
import { OPTIONAL_FEATURES, type OptionalFeature } from '../kube/well-known.ts';

/** Features of an installation that determine which controllers run and which permissions they need. */
export interface Features {
  /** SCC admission is not `off`. */
  readonly scc: boolean;
  /** The rollout of enforcement is not `Disabled`. */
  readonly rollout: boolean;
  /** The rollout permissions are installed, so workloads are evaluated in every phase. */
  readonly evaluation: boolean;
  /** The standard SCCs are maintained (`spec.scc.standardSCCs: install`). */
  readonly standardSccs: boolean;
  /** The replicas create their serving certificate and distribute its CA. */
  readonly managedCertificate: boolean;
  /** The settings come from the PortcullisConfiguration in the cluster, not from a file. */
  readonly settingsObject: boolean;
  /** Several replicas may run, and each publishes its state in a Lease. */
  readonly replicas: boolean;
  /** The leader maintains the webhook configurations. */
  readonly managedWebhooks: boolean;
  /** The minimum kubelet version feature is installed. */
  readonly kubelet: boolean;
  /** Nodes with a kubelet below the minimum are tainted (`spec.kubelet.taint`). */
  readonly kubeletTaint: boolean;
  /** Support for the Operator Lifecycle Manager is installed. */
  readonly olm: boolean;
  /** PodSecurityExceptions can apply (`spec.podSecurity.exceptions.mode` is not `off`). */
  readonly exceptions: boolean;
  /** New pods get defaults (`spec.defaults.mode` is not `off`). */
  readonly podDefaults: boolean;
}

export type PolicyRule = Wire<V1PolicyRule>;

/** Rules that are granted together by a ClusterRole and a Role with the same name. */
export interface PermissionSet {
  /** Suffix of the role name, which follows the name of the installation: `label-syncer`. */
  readonly role: string;
  readonly clusterRules?: readonly PolicyRule[];
  /** Rules that apply in the installation namespace. */
  readonly namespaceRules?: readonly PolicyRule[];
  /** Namespace labels and annotations that the controller writes. RBAC cannot limit patches to them. */
  readonly namespaceKeys?: readonly string[];
  /** If absent, the rules are needed whenever the controller is enabled. */
  isNeeded?(features: Features): boolean;
}

/** Verbs that the store needs to follow a kind. */
export const WATCH_VERBS = ['list', 'watch'] as const;

/** An RBAC rule for kinds in one API group, limited to the given object names, if any. */
export function rule(
  verbs: readonly string[],
  kinds: readonly [Kind, ...Kind[]],
  names?: readonly string[],
): PolicyRule {
  return {
    apiGroups: [RESOURCES[kinds[0]].group],
    resources: kinds.map((kind) => RESOURCES[kind].resource),
    ...(names ? { resourceNames: names } : {}),
    verbs,
  };
}

/** An RBAC rule for SubjectAccessReviews, which are not stored. */
export const ACCESS_REVIEW_RULE: PolicyRule = {
  apiGroups: ['authorization.k8s.io'],
  resources: ['subjectaccessreviews'],
  verbs: ['create'],
};

/** RBAC rules for the webhook configurations whose feature satisfies the predicate. */
export function configurationRules(
  verbs: readonly string[],
  includes: (feature: string | undefined) => boolean,
): readonly PolicyRule[] {
  return CONFIGURATION_KINDS.flatMap((kind) => {
    const names = INSTALLED_CONFIGURATIONS[kind].filter((name) => includes(configurationFeature(name)));
    return names.length === 0 ? [] : [rule(verbs, [kind], names)];
  });
}

/** True for features that are off by default. Their permissions are in separate roles. */
export function isOptionalFeature(feature: string | undefined): feature is OptionalFeature {
  return OPTIONAL_FEATURES.some((one) => one === feature);
}

/** An RBAC rule for the status subresource of a kind. */
export function statusRule(verbs: readonly string[], kind: Kind): PolicyRule {
  const { group, resource } = RESOURCES[kind];
  return { apiGroups: [group], resources: [`${resource}/status`], verbs };
}
