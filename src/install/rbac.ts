import type {
  V1PolicyRule,
  V1ClusterRole,
  V1ClusterRoleBinding,
  V1Role,
  V1RoleBinding,
  V1ServiceAccount,
} from '@kubernetes/client-node';
import { RESOURCES } from '../kube/resources.ts';
import type { Kind, Wire } from '../kube/types.ts';
import { STANDARD_CLUSTER_ROLE_BINDINGS, STANDARD_CLUSTER_ROLES, STANDARD_SCCS } from '../policy/scc/standard.ts';
import {
  type ManifestSettings,
  clusterMetadata,
  namespacedMetadata,
  LABELS,
  type ManifestOf,
  type Manifest,
} from './settings.ts';
import { webhookConfigurations } from './webhooks.ts';
import {
  INSTALLATION,
  POD_SECURITY_CONFIG_MAP,
  LABEL_SYNC_MANAGER,
  RUN_LEVEL_ZERO_MANAGER,
} from '../kube/well-known.ts';
import { RUN_LEVEL_ZERO_NAMESPACES } from '../policy/rollout/label-sync.ts';
import { REPORT_NAME } from '../policy/rollout/readiness.ts';
import { ROLLOUT_MANAGER } from '../policy/rollout/enforcement.ts';

type Rule = Wire<V1PolicyRule>;

/** Lets do something with kinds of one group. */
export function rule(verbs: readonly string[], kinds: readonly [Kind, ...Kind[]], names?: readonly string[]): Rule {
  return {
    apiGroups: [RESOURCES[kinds[0]].group],
    resources: kinds.map((kind) => RESOURCES[kind].resource),
    ...(names ? { resourceNames: names } : {}),
    verbs,
  };
}

/** What a store needs that follows kinds. */
const FOLLOW = ['list', 'watch'] as const;

/** What every replica does outside of its namespace, whatever is switched on. */
const COMMON_RULES: readonly Rule[] = [
  // Reviews are decided from these.
  rule(FOLLOW, ['Namespace', 'Pod']),
  // What is served has to fit what API servers trust.
  rule(FOLLOW, ['MutatingWebhookConfiguration', 'ValidatingWebhookConfiguration']),
  { apiGroups: ['events.k8s.io'], resources: ['events'], verbs: ['create', 'patch'] },
];

/** The authorities of the serving certificate are written into our own configurations. */
function authorityRules(settings: ManifestSettings): readonly Rule[] {
  const kinds = ['MutatingWebhookConfiguration', 'ValidatingWebhookConfiguration'] as const;
  return kinds.flatMap((kind) => {
    const ours = webhookConfigurations(settings).filter((one) => one.kind === kind);
    return ours.length === 0 ? [] : [rule(['patch'], [kind], ours.map(nameOf))];
  });
}

const SCC_RULES: readonly Rule[] = [
  // Who may use which SCC.
  rule(FOLLOW, ['ClusterRole', 'ClusterRoleBinding', 'Role', 'RoleBinding']),
  rule([...FOLLOW, 'create'], ['SecurityContextConstraints']),
  // Where nobody has defined SCCs yet, they are followed as soon as somebody does.
  { apiGroups: ['apiextensions.k8s.io'], resources: ['customresourcedefinitions'], verbs: FOLLOW },
  // The pod of an exec that the store has not heard of yet.
  rule(['get'], ['Pod']),
  // namespace-security-allocation-controller. A patch cannot be bound to annotations: this is all metadata of a namespace,
  // `ownerReferences` and finalizers among them.
  rule(['patch'], ['Namespace']),
  rule(['get', 'create', 'update'], ['RangeAllocation']),
  // standard-scc-controller: names cannot bound what is created. But nobody can grant what they do not have: what can be
  // passed on is the use of the standard SCCs, and what else these roles hold. One of the standard roles is for an SCC
  // that is none of them.
  rule(
    ['update'],
    ['SecurityContextConstraints'],
    STANDARD_SCCS.map(({ scc }) => nameOf(scc)),
  ),
  rule(
    ['use'],
    ['SecurityContextConstraints'],
    STANDARD_CLUSTER_ROLES.flatMap(({ rules }) => rules?.flatMap(({ resourceNames }) => resourceNames ?? []) ?? []),
  ),
  rule(['create'], ['ClusterRole', 'ClusterRoleBinding']),
  rule(['update'], ['ClusterRole'], STANDARD_CLUSTER_ROLES.map(nameOf)),
  rule(['update', 'delete'], ['ClusterRoleBinding'], STANDARD_CLUSTER_ROLE_BINDINGS.map(nameOf)),
];

const ACCESS_REVIEW_RULES: readonly Rule[] = [
  { apiGroups: ['authorization.k8s.io'], resources: ['subjectaccessreviews'], verbs: ['create'] },
];

function nameOf({ metadata: { name = '' } = {} }: { readonly metadata?: { readonly name?: string } }): string {
  return name;
}

/** Who leads, and what each replica serves. */
const LEASE_RULES: readonly Rule[] = [rule([...FOLLOW, 'get', 'create', 'update', 'delete'], ['Lease'])];

/**
 * Where the replicas make their certificate themselves. Names cannot bound what is created, nor can types: a Secret may be
 * one for a token of a service account of the namespace.
 */
const SECRET_RULES: readonly Rule[] = [
  rule(['create'], ['Secret']),
  rule([...FOLLOW, 'get', 'update', 'delete'], ['Secret'], [INSTALLATION.certificateSecret]),
];

const apiGroup = 'rbac.authorization.k8s.io';
const apiVersion = `${apiGroup}/v1`;

/** Lets the replicas do something everywhere. */
export function clusterRole(
  name: string,
  rules: readonly Rule[],
  namespace: string,
): readonly [ManifestOf<V1ClusterRole>, ManifestOf<V1ClusterRoleBinding>] {
  const metadata = clusterMetadata(name);
  const roleRef = { apiGroup, kind: 'ClusterRole', name };
  return [
    { apiVersion, kind: 'ClusterRole', metadata, rules },
    { apiVersion, kind: 'ClusterRoleBinding', metadata, roleRef, subjects: subjectsIn(namespace) },
  ];
}

/** Lets the replicas do something in their own namespace. */
function role(
  name: string,
  rules: readonly Rule[],
  namespace: string,
): readonly [ManifestOf<V1Role>, ManifestOf<V1RoleBinding>] {
  const metadata = namespacedMetadata(namespace, name);
  const roleRef = { apiGroup, kind: 'Role', name };
  return [
    { apiVersion, kind: 'Role', metadata, rules },
    { apiVersion, kind: 'RoleBinding', metadata, roleRef, subjects: subjectsIn(namespace) },
  ];
}

function subjectsIn(namespace: string) {
  return [{ kind: 'ServiceAccount', name: INSTALLATION.name, namespace }];
}

/** What every replica looks at while enforcement is rolled out, whichever of the controllers run. */
const ROLLOUT_RULES: readonly Rule[] = [
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
const PUBLISHED_RULES: readonly Rule[] = [rule(FOLLOW, ['ConfigMap'], [POD_SECURITY_CONFIG_MAP])];

/** pod-security-config-observer */
const OBSERVER_RULES: readonly Rule[] = [statusRule(['patch'])];

/** The same in the namespace of the installation; names cannot bound what is created. */
const PUBLISHING_RULES: readonly Rule[] = [
  rule(['create'], ['ConfigMap']),
  rule(['update'], ['ConfigMap'], [POD_SECURITY_CONFIG_MAP]),
];

/** pod-security-admission-label-synchronization-controller */
const LABEL_SYNCER_RULES: readonly Rule[] = [rule(['patch'], ['Namespace'])];

/** privileged-namespaces-psa-label-syncer */
const RUN_LEVEL_ZERO_RULES: readonly Rule[] = [rule(['patch'], ['Namespace'], RUN_LEVEL_ZERO_NAMESPACES)];

/** pod-security-readiness-controller: what is applied and not there yet is created. */
const READINESS_RULES: readonly Rule[] = [
  rule(['create', 'patch'], ['PSAEnforcementConfig']),
  statusRule(['patch']),
  rule(['create'], ['Report']),
  rule(['patch', 'delete'], ['Report'], [REPORT_NAME]),
];

/** It may then also relabel namespaces: a dry run is authorized like what it tries. */
const DRY_RUN_RULES: readonly Rule[] = [rule(['patch'], ['Namespace'])];

function statusRule(verbs: readonly string[]): Rule {
  const { group, resource } = RESOURCES.PSAEnforcementConfig;
  return { apiGroups: [group], resources: [`${resource}/status`], verbs };
}

/** What a controller of the rollout may do, and when that is granted. */
export interface RolloutPart {
  /** Of its roles. */
  readonly name: string;
  /** As in `--controllers`. */
  readonly controller: string;
  /** Labels that follow from SCCs are left to whoever admits by SCCs. */
  readonly needs: 'nothing' | 'SCCs' | 'dry runs';
  readonly clusterRules: readonly Rule[];
  /** In the namespace of the installation. */
  readonly rules: readonly Rule[];
}

const { name } = INSTALLATION;

/** The controllers, each with a role that can be left out. */
export const ROLLOUT_PARTS: readonly RolloutPart[] = [
  {
    name: `${name}-config-observer`,
    controller: 'pod-security-config-observer',
    needs: 'nothing',
    clusterRules: OBSERVER_RULES,
    rules: PUBLISHING_RULES,
  },
  {
    name: `${name}-readiness`,
    controller: ROLLOUT_MANAGER,
    needs: 'nothing',
    clusterRules: READINESS_RULES,
    rules: [],
  },
  {
    name: `${name}-readiness-dry-run`,
    controller: ROLLOUT_MANAGER,
    needs: 'dry runs',
    clusterRules: DRY_RUN_RULES,
    rules: [],
  },
  {
    name: `${name}-label-syncer`,
    controller: LABEL_SYNC_MANAGER,
    needs: 'SCCs',
    clusterRules: LABEL_SYNCER_RULES,
    rules: [],
  },
  {
    name: `${name}-run-level-zero-labeller`,
    controller: RUN_LEVEL_ZERO_MANAGER,
    needs: 'SCCs',
    clusterRules: RUN_LEVEL_ZERO_RULES,
    rules: [],
  },
];

/** The roles for what all replicas follow. */
export const ROLLOUT_ROLE = `${name}-rollout`;

/** What the replicas may do for the rollout: for each controller roles of its own. */
export function rolloutRoles(settings: ManifestSettings): readonly Manifest[] {
  const { namespace, rollout } = settings;
  if (rollout === 'Disabled') return [];
  return [
    ...role(ROLLOUT_ROLE, PUBLISHED_RULES, namespace),
    ...clusterRole(ROLLOUT_ROLE, ROLLOUT_RULES, namespace),
    ...ROLLOUT_PARTS.filter((part) => isGranted(part, settings)).flatMap((part) => [
      ...(part.rules.length === 0 ? [] : role(part.name, part.rules, namespace)),
      ...clusterRole(part.name, part.clusterRules, namespace),
    ]),
  ];
}

function isGranted({ controller, needs }: RolloutPart, settings: ManifestSettings): boolean {
  if (settings.withoutControllers.includes(controller)) return false;
  if (needs === 'SCCs') return settings.sccMode !== 'off';
  return needs === 'nothing' || settings.evaluator === 'DryRun';
}

const { name: nameRbac } = INSTALLATION;
const READ = ['get', 'list', 'watch'] as const;

/** Who the replicas are, and what they may do: for each thing that can be left out a role of its own. */
export function rbacObjects(settings: ManifestSettings): readonly Manifest[] {
  const { namespace, sccMode, certificates, authorization } = settings;
  const certificate = `${nameRbac}-serving-certificate`;
  return [
    serviceAccount(namespace),
    ...role(nameRbac, LEASE_RULES, namespace),
    ...clusterRole(nameRbac, COMMON_RULES, namespace),
    ...(certificates === 'self-managed'
      ? [
          ...role(certificate, SECRET_RULES, namespace),
          ...clusterRole(certificate, authorityRules(settings), namespace),
        ]
      : []),
    ...(sccMode === 'off' ? [] : [...clusterRole(`${nameRbac}-scc`, SCC_RULES, namespace), VIEW_SCCS]),
    ...rolloutRoles(settings),
    VIEW_ENFORCEMENT,
    ...(authorization === 'sar' ? clusterRole(`${nameRbac}-access-reviews`, ACCESS_REVIEW_RULES, namespace) : []),
  ];
}

/** Its token is mounted where a pod asks for it, as the replicas do. */
function serviceAccount(namespace: string): ManifestOf<V1ServiceAccount> {
  return {
    apiVersion: 'v1',
    kind: 'ServiceAccount',
    metadata: namespacedMetadata(namespace, nameRbac),
    automountServiceAccountToken: false,
  };
}

/**
 * Who may view a cluster may view its SCCs. To write them is to grant any right to anybody: no role aggregates that.
 */
const VIEW_SCCS = viewRole(`${nameRbac}-view`, rule(READ, ['SecurityContextConstraints']));

/** The same for what says whether the cluster enforces: who writes it lowers the guard of all namespaces. */
const VIEW_ENFORCEMENT = viewRole(`${nameRbac}-view-enforcement`, rule(READ, ['PSAEnforcementConfig']));

/** What whoever may view, edit or administer a namespace may read, too. */
function viewRole(name: string, ...rules: readonly Rule[]): ManifestOf<V1ClusterRole> {
  return {
    apiVersion: 'rbac.authorization.k8s.io/v1',
    kind: 'ClusterRole',
    metadata: { name, labels: { ...LABELS, 'rbac.authorization.k8s.io/aggregate-to-view': 'true' } },
    rules,
  };
}
