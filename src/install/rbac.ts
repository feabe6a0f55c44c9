import type {
  V1ClusterRole,
  V1ClusterRoleBinding,
  V1Role,
  V1RoleBinding,
  V1ServiceAccount,
} from '@kubernetes/client-node';
import { INSTALLATION, OPTIONAL_FEATURES, type OptionalFeature } from '../api/names.ts';
import { CONTROLLERS, enabledControllers } from '../controllers/index.ts';
import {
  ACCESS_REVIEW_RULE,
  type Features,
  type PermissionSet,
  type RbacRule,
  rbacRule,
  statusRule,
  WATCH_VERBS,
} from '../controllers/permissions.ts';
import { watchRules } from '../controllers/watched-kinds.ts';
import { LOWER_LEVEL } from '../policy/psa/index.ts';
import {
  decodePolicy,
  type Manifest,
  type ManifestOf,
  type ManifestSettings,
  prerequisiteMetadata,
} from './settings.ts';

/** Rules that every replica needs in every installation. */
const COMMON_RULES: readonly RbacRule[] = [
  ...watchRules('always', false),
  { apiGroups: ['events.k8s.io'], resources: ['events'], verbs: ['create', 'patch'] },
];

/** Rule for the CRD watch, which detects when kinds become available. */
export const DEFINITION_RULE: RbacRule = {
  apiGroups: ['apiextensions.k8s.io'],
  resources: ['customresourcedefinitions'],
  verbs: WATCH_VERBS,
};

/** Rules for leader election and for publishing the state of each replica. */
const LEASE_RULES: readonly RbacRule[] = [rbacRule([...WATCH_VERBS, 'get', 'create', 'update', 'delete'], ['Lease'])];

/** Rules for reading endpoints, because the leader registers webhooks once the Service has an endpoint. */
const ENDPOINT_RULES: readonly RbacRule[] = [rbacRule(WATCH_VERBS, ['EndpointSlice'])];

const apiGroup = 'rbac.authorization.k8s.io';
const apiVersion = `${apiGroup}/v1`;

/** Returns a role for the replicas, and its binding. If it is a Role, both are in the installation namespace. */
function boundRole(
  kind: 'ClusterRole' | 'Role',
  name: string,
  rules: readonly RbacRule[],
  namespace: string,
): readonly [ManifestOf<V1ClusterRole | V1Role>, ManifestOf<V1ClusterRoleBinding | V1RoleBinding>] {
  const metadata = prerequisiteMetadata(name, kind === 'Role' ? namespace : undefined);
  const roleRef = { apiGroup, kind, name };
  const subjects = [{ kind: 'ServiceAccount', name: INSTALLATION.name, namespace }];
  return [
    { apiVersion, kind, metadata, rules },
    { apiVersion, kind: `${kind}Binding`, metadata, roleRef, subjects },
  ];
}

/** Returns the rules that every replica needs for a feature. */
function featureRules(feature: 'rollout' | OptionalFeature): readonly RbacRule[] {
  // Reviews of `exec` and `attach` read the current pod.
  const others = feature === 'scc' ? [rbacRule(['get'], ['Pod'])] : [];
  return [...watchRules(feature, false), DEFINITION_RULE, ...others];
}

const { name } = INSTALLATION;

/**
 * Returns the features that an installation can have. The settings determine at run time which of their controllers
 * run.
 */
function installedFeatures(settings: ManifestSettings): Features {
  const { features } = settings;
  return {
    ...features,
    evaluation: features.rollout,
    managedCertificate: settings.certificates === 'self-managed',
    kubeletTaint: decodePolicy(settings).kubelet.taint,
    podDefaults: decodePolicy(settings).defaults.mode !== 'off',
    settingsObject: true,
    replicas: true,
    managedWebhooks: decodePolicy(settings).webhooks.management === 'managed',
  };
}

function permissionSets(settings: ManifestSettings, registry = CONTROLLERS): readonly PermissionSet[] {
  const enabled = installedFeatures(settings);
  return enabledControllers(enabled, [], registry)
    .flatMap(({ permissions }) => permissions)
    .filter((set) => set.isNeeded?.(enabled) ?? true);
}

/** Returns the roles of the controllers that might run, with one pair for each permission set in the registry. */
export function controllerRoles(settings: ManifestSettings, registry = CONTROLLERS): readonly Manifest[] {
  const { namespace } = settings;
  return permissionSets(settings, registry).flatMap(
    ({ role: suffix, clusterRules = [], namespaceRules, namespaceKeys }) => {
      const rules = namespaceKeys ? [...clusterRules, LOWER_RULE] : clusterRules;
      return [
        ...(namespaceRules?.length ? boundRole('Role', `${name}-${suffix}`, namespaceRules, namespace) : []),
        ...(rules.length > 0 ? boundRole('ClusterRole', `${name}-${suffix}`, rules, namespace) : []),
      ];
    },
  );
}

/** Permission to lower the level of a namespace. The guard denies this to all other users. */
const LOWER_RULE: RbacRule = {
  apiGroups: [LOWER_LEVEL.apiGroup],
  resources: [LOWER_LEVEL.resource],
  verbs: [LOWER_LEVEL.verb],
};

const READ = ['get', 'list', 'watch'] as const;

/** Returns the replicas' service account and its roles. Each optional feature and each controller has its own role. */
export function rbacObjects(settings: ManifestSettings): readonly Manifest[] {
  const { namespace, features: installed, webhooks } = settings;
  return [
    serviceAccount(namespace),
    ...boundRole('Role', name, [...LEASE_RULES, ...(webhooks === 'service' ? ENDPOINT_RULES : [])], namespace),
    ...boundRole('ClusterRole', name, COMMON_RULES, namespace),
    VIEW_SETTINGS,
    ...USER_ROLES,
    ...boundRole('ClusterRole', `${name}-access-reviews`, [ACCESS_REVIEW_RULE], namespace),
    ...(installed.rollout
      ? [
          ...boundRole('Role', `${name}-rollout`, watchRules('rollout', true), namespace),
          ...boundRole('ClusterRole', `${name}-rollout`, featureRules('rollout'), namespace),
          VIEW_ENFORCEMENT,
        ]
      : []),
    ...OPTIONAL_FEATURES.filter((feature) => installed[feature]).flatMap((feature) =>
      boundRole('ClusterRole', `${name}-${feature}`, featureRules(feature), namespace),
    ),
    ...(installed.scc ? [VIEW_SCCS] : []),
    ...controllerRoles(settings),
  ];
}

/** Returns the service account. Its token is not mounted automatically, because the pod spec mounts it explicitly. */
function serviceAccount(namespace: string): ManifestOf<V1ServiceAccount> {
  return {
    apiVersion: 'v1',
    kind: 'ServiceAccount',
    metadata: prerequisiteMetadata(name, namespace),
    automountServiceAccountToken: false,
  };
}

/** Extends the view role to the settings. Grants no write access, which would permit turning off all enforcement. */
const VIEW_SETTINGS = viewRole(`${name}-view-settings`, rbacRule(READ, ['PortcullisConfiguration']));

/**
 * Roles for exceptions and for lowering levels. They are neither bound to any user nor aggregated to the edit and admin
 * roles.
 */
const USER_ROLES: readonly ManifestOf<V1ClusterRole>[] = [
  viewRole(`${name}-view-exceptions`, rbacRule(READ, ['PodSecurityException'])),
  unboundRole(
    `${name}-propose-exceptions`,
    rbacRule([...READ, 'create', 'update', 'patch', 'delete'], ['PodSecurityException']),
  ),
  unboundRole(
    `${name}-approve-exceptions`,
    rbacRule([...READ, 'approve'], ['PodSecurityException']),
    statusRule(['update', 'patch'], 'PodSecurityException'),
  ),
  unboundRole(`${name}-lower-levels`, LOWER_RULE),
];

/** Extends the view role to SCCs. Grants no write access, which would permit privilege escalation. */
const VIEW_SCCS = viewRole(`${name}-view`, rbacRule(READ, ['SecurityContextConstraints']));

/**
 * Extends the view role to PSAEnforcementConfig. Grants no write access, which would permit turning off enforcement in
 * all namespaces.
 */
const VIEW_ENFORCEMENT = viewRole(`${name}-view-enforcement`, rbacRule(READ, ['PSAEnforcementConfig']));

/** Returns a ClusterRole that is aggregated to view, edit and admin. */
function viewRole(name: string, ...rules: readonly RbacRule[]): ManifestOf<V1ClusterRole> {
  const role = unboundRole(name, ...rules);
  const labels = { ...role.metadata.labels, 'rbac.authorization.k8s.io/aggregate-to-view': 'true' };
  return { ...role, metadata: { name, labels } };
}

function unboundRole(name: string, ...rules: readonly RbacRule[]): ManifestOf<V1ClusterRole> {
  return { apiVersion, kind: 'ClusterRole', metadata: prerequisiteMetadata(name), rules };
}
