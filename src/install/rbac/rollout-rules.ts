import { POD_SECURITY_CONFIG_MAP } from '../../kube/installation.ts';
import { RESOURCES } from '../../kube/resources.ts';
import { RUN_LEVEL_ZERO_NAMESPACES } from '../../policy/rollout/label-sync.ts';
import { REPORT_NAME } from '../../policy/rollout/readiness.ts';
import { FOLLOW, rule, type Rule } from './rule.ts';

/** What every replica looks at while enforcement is rolled out, whichever of the controllers run. */
export const ROLLOUT_RULES: readonly Rule[] = [
  rule(FOLLOW, ['PSAEnforcementConfig', 'FeatureGate']),
  // Both are followed as soon as somebody defines them.
  { apiGroups: ['apiextensions.k8s.io'], resources: ['customresourcedefinitions'], verbs: FOLLOW },
  // Who may run what, and as whom.
  rule(FOLLOW, ['ServiceAccount', 'PodTemplate', 'ReplicationController']),
  rule(FOLLOW, ['DaemonSet', 'Deployment', 'ReplicaSet', 'StatefulSet']),
  rule(FOLLOW, ['CronJob', 'Job']),
  rule(FOLLOW, ['ClusterRole', 'ClusterRoleBinding', 'Role', 'RoleBinding']),
  rule(FOLLOW, ['SecurityContextConstraints']),
];

/** The default that the leader publishes holds for every replica. */
export const PUBLISHED_RULES: readonly Rule[] = [rule(FOLLOW, ['ConfigMap'], [POD_SECURITY_CONFIG_MAP])];

/** pod-security-config-observer */
export const OBSERVER_RULES: readonly Rule[] = [statusRule(['patch'])];

/** The same in the namespace of the installation; names cannot bound what is created. */
export const PUBLISHING_RULES: readonly Rule[] = [
  rule(['create'], ['ConfigMap']),
  rule(['update'], ['ConfigMap'], [POD_SECURITY_CONFIG_MAP]),
];

/** pod-security-admission-label-synchronization-controller */
export const LABEL_SYNCER_RULES: readonly Rule[] = [rule(['patch'], ['Namespace'])];

/** privileged-namespaces-psa-label-syncer */
export const RUN_LEVEL_ZERO_RULES: readonly Rule[] = [rule(['patch'], ['Namespace'], RUN_LEVEL_ZERO_NAMESPACES)];

/** pod-security-readiness-controller: what is applied and not there yet is created. */
export const READINESS_RULES: readonly Rule[] = [
  rule(['create', 'patch'], ['PSAEnforcementConfig']),
  statusRule(['patch']),
  rule(['create'], ['Report']),
  rule(['patch', 'delete'], ['Report'], [REPORT_NAME]),
];

/** It may then also relabel namespaces: a dry run is authorized like what it tries. */
export const DRY_RUN_RULES: readonly Rule[] = [rule(['patch'], ['Namespace'])];

function statusRule(verbs: readonly string[]): Rule {
  const { group, resource } = RESOURCES.PSAEnforcementConfig;
  return { apiGroups: [group], resources: [`${resource}/status`], verbs };
}
