/** Describes the RBAC permissions of controllers. */
import type { V1PolicyRule } from '@kubernetes/client-node';
import { CONFIGURATION_KINDS, CONFIGURATION_NAMES } from '../api/webhooks.ts';
import type { Kind } from '../kube/kinds.ts';
import { RESOURCES } from '../kube/resources.ts';
import type { Wire } from '../kube/types.ts';

/** The features of an installation, which determine which controllers run and which permissions they need. */
export interface Features {
  /** True if SCC admission is not `off`. */
  readonly scc: boolean;
  /** True if the enforcement rollout is not `Disabled`. */
  readonly rollout: boolean;
  /** True if the rollout permissions are installed, so workloads are evaluated in every phase. */
  readonly evaluation: boolean;
  /** True if the replicas create their serving certificate and distribute its CA. */
  readonly managedCertificate: boolean;
  /** True if the settings come from the PortcullisConfiguration in the cluster instead of a file. */
  readonly settingsObject: boolean;
  /** True if several replicas may run. */
  readonly replicas: boolean;
  /** True if the leader manages the webhook configurations. */
  readonly managedWebhooks: boolean;
  /** True if the minimum kubelet version feature is installed. */
  readonly kubelet: boolean;
  /** True if nodes whose kubelet is below the minimum are tainted (`spec.kubelet.taint`). */
  readonly kubeletTaint: boolean;
  /** True if Operator Lifecycle Manager support is installed. */
  readonly olm: boolean;
  /** True if defaults are set in new pods (`spec.defaults.mode` is not `off`). */
  readonly podDefaults: boolean;
}

export type RbacRule = Wire<V1PolicyRule>;

/** Rules that a ClusterRole and a Role with the same name grant together. */
export interface PermissionSet {
  /** Suffix of the role name after the installation's name, such as `label-syncer`. */
  readonly role: string;
  readonly clusterRules?: readonly RbacRule[];
  /** Rules that apply in the installation namespace. */
  readonly namespaceRules?: readonly RbacRule[];
  /**
   * Namespace labels and annotations that the controller writes. RBAC cannot restrict patches to these labels
   * and annotations.
   */
  readonly namespaceKeys?: readonly string[];
  /** If absent, the rules are needed whenever the controller is enabled. */
  isNeeded?(features: Features): boolean;
}

/** Verbs that the store needs to watch a kind. */
export const WATCH_VERBS = ['list', 'watch'] as const;

/** Returns an RBAC rule for kinds in one API group. If object names are given, the rule is limited to them. */
export function rbacRule(
  verbs: readonly string[],
  kinds: readonly [Kind, ...Kind[]],
  names?: readonly string[],
): RbacRule {
  return {
    apiGroups: [RESOURCES[kinds[0]].group],
    resources: kinds.map((kind) => RESOURCES[kind].resource),
    ...(names ? { resourceNames: names } : {}),
    verbs,
  };
}

/** An RBAC rule for creating SubjectAccessReviews. */
export const ACCESS_REVIEW_RULE: RbacRule = {
  apiGroups: ['authorization.k8s.io'],
  resources: ['subjectaccessreviews'],
  verbs: ['create'],
};

/** Returns RBAC rules for the webhook configurations of the installation. */
export function configurationRules(verbs: readonly string[]): readonly RbacRule[] {
  return CONFIGURATION_KINDS.map((kind) => rbacRule(verbs, [kind], [CONFIGURATION_NAMES[kind]]));
}

/** Returns an RBAC rule for the status subresource of a kind. */
export function statusRule(verbs: readonly string[], kind: Kind): RbacRule {
  const { group, resource } = RESOURCES[kind];
  return { apiGroups: [group], resources: [`${resource}/status`], verbs };
}
