import type { SecurityContextConstraints } from '../../kube/scc.ts';
import type { ClusterRole, ClusterRoleBinding, KubeObject, RoleBinding } from '../../kube/types.ts';
import { semanticEqual } from '../../kube/equality.ts';
import { defaultScc } from './objects.ts';
import { compareBytes, sortedSet } from '../../kube/text.ts';
import { getApiVersion, RESOURCES } from '../../kube/resources.ts';

/** An SCC that OpenShift installs. */
export interface StandardScc {
  readonly scc: SecurityContextConstraints;
  /** `create`: installed once, and administrators may change it. `reconcile`: changes are reverted. */
  readonly upkeep: 'create' | 'reconcile';
  /** Groups that are granted its use by RBAC, in addition to the groups in the SCC. */
  readonly grantedTo: readonly string[];
}

interface Definition extends Omit<SecurityContextConstraints, 'metadata'> {
  readonly upkeep: StandardScc['upkeep'];
  readonly grantedTo?: StandardScc['grantedTo'];
  readonly description: string;
}

const RUN_AS_ANY = { type: 'RunAsAny' };
const MUST_RUN_AS = { type: 'MustRunAs' };
const USER_RANGE = { type: 'MustRunAsRange' };

const BASIC_VOLUMES = 'configMap csi downwardAPI emptyDir ephemeral image persistentVolumeClaim projected secret'.split(
  ' ',
);
const HOST_MOUNTS = {
  allowHostDirVolumePlugin: true,
  requiredDropCapabilities: ['MKNOD'],
  volumes: [...BASIC_VOLUMES, 'hostPath', 'nfs'].sort(),
};
const HOST_NETWORK = { allowHostNetwork: true, allowHostPorts: true };
const ALL_HOST = { ...HOST_NETWORK, allowHostDirVolumePlugin: true, allowHostIPC: true, allowHostPID: true };

/** The fields of the SCCs for pods with the IDs of the namespace. */
const NAMESPACE_IDS = { runAsUser: USER_RANGE, fsGroup: MUST_RUN_AS };
const LEGACY = { requiredDropCapabilities: ['KILL', 'MKNOD', 'SETUID', 'SETGID'] };
/** The fields in which SCCs of the second generation differ from those of the first. */
const HARDENED = {
  allowPrivilegeEscalation: false,
  requiredDropCapabilities: ['ALL'],
  allowedCapabilities: ['NET_BIND_SERVICE'],
  seccompProfiles: ['runtime/default'],
};

/** The fields of an SCC that requires a user namespace, whose IDs start at `min`. */
function userNamespace(min: number) {
  const groups = { ...MUST_RUN_AS, ranges: [{ min, max: 65_534 }] };
  return {
    userNamespaceLevel: 'RequirePodLevel',
    runAsUser: { ...USER_RANGE, uidRangeMin: min, uidRangeMax: 65_534 },
    fsGroup: groups,
    supplementalGroups: groups,
  };
}

/** The fields that most SCCs share: no access to the host, and the SELinux level of the namespace. */
const BASE = {
  priority: null,
  allowPrivilegedContainer: false,
  allowPrivilegeEscalation: true,
  allowHostDirVolumePlugin: false,
  allowHostIPC: false,
  allowHostNetwork: false,
  allowHostPID: false,
  allowHostPorts: false,
  userNamespaceLevel: 'AllowHostLevel',
  readOnlyRootFilesystem: false,
  defaultAddCapabilities: null,
  requiredDropCapabilities: null,
  allowedCapabilities: null,
  runAsUser: RUN_AS_ANY,
  seLinuxContext: MUST_RUN_AS,
  fsGroup: RUN_AS_ANY,
  supplementalGroups: RUN_AS_ANY,
  volumes: BASIC_VOLUMES,
  users: [],
  groups: [],
};

/**
 * The standard SCCs by name.
 * @see https://github.com/openshift/cluster-kube-apiserver-operator/tree/master/bindata/bootkube/scc-manifests
 */
const DEFINITIONS: Readonly<Record<string, Definition>> = {
  anyuid: {
    upkeep: 'create',
    description: 'Allows any user and group, without access to the host. Its priority orders it before other SCCs.',
    priority: 10,
    requiredDropCapabilities: ['MKNOD'],
    groups: ['system:cluster-admins'],
  },
  hostaccess: {
    upkeep: 'create',
    description: 'Allows host namespaces, host directories and host ports with a user ID of the namespace.',
    ...LEGACY,
    ...ALL_HOST,
    ...NAMESPACE_IDS,
    volumes: [...BASIC_VOLUMES, 'hostPath'].sort(),
  },
  'hostmount-anyuid': {
    upkeep: 'create',
    description: 'Allows host directories and NFS with any user ID.',
    ...HOST_MOUNTS,
    users: ['system:serviceaccount:openshift-infra:pv-recycler-controller'],
  },
  'hostmount-anyuid-v2': {
    upkeep: 'create',
    description: 'Allows host directories and NFS with any user ID and any SELinux label.',
    ...HOST_MOUNTS,
    seLinuxContext: RUN_AS_ANY,
  },
  hostnetwork: {
    upkeep: 'create',
    description: 'Allows the host network and host ports with a user ID of the namespace.',
    ...LEGACY,
    ...HOST_NETWORK,
    ...NAMESPACE_IDS,
    supplementalGroups: MUST_RUN_AS,
  },
  'hostnetwork-v2': {
    upkeep: 'reconcile',
    description:
      'Like hostnetwork, but drops all capabilities, forbids privilege escalation and requires the default seccomp profile.',
    ...HARDENED,
    ...HOST_NETWORK,
    ...NAMESPACE_IDS,
    supplementalGroups: MUST_RUN_AS,
  },
  'nested-container': {
    upkeep: 'reconcile',
    description: 'Allows nested containers in pods with a user namespace.',
    ...userNamespace(0),
    allowedCapabilities: ['SETUID', 'SETGID'],
    seccompProfiles: ['*'],
    seLinuxContext: { ...MUST_RUN_AS, seLinuxOptions: { type: 'container_engine_t' } },
  },
  nonroot: {
    upkeep: 'create',
    description: 'Allows any user except root, without access to the host.',
    ...LEGACY,
    runAsUser: { type: 'MustRunAsNonRoot' },
  },
  'nonroot-v2': {
    upkeep: 'reconcile',
    description:
      'Like nonroot, but drops all capabilities, forbids privilege escalation and requires the default seccomp profile.',
    ...HARDENED,
    runAsUser: { type: 'MustRunAsNonRoot' },
  },
  privileged: {
    upkeep: 'create',
    description: 'Allows everything, including all access to the host. Intended for cluster administrators.',
    ...ALL_HOST,
    allowPrivilegedContainer: true,
    allowedCapabilities: ['*'],
    allowedUnsafeSysctls: ['*'],
    seccompProfiles: ['*'],
    seLinuxContext: RUN_AS_ANY,
    volumes: ['*'],
    users: ['system:admin', 'system:serviceaccount:openshift-infra:build-controller'],
    groups: ['system:cluster-admins', 'system:nodes', 'system:masters'],
  },
  restricted: {
    upkeep: 'create',
    description:
      'Requires a user ID of the namespace and denies access to the host. The default of all users before restricted-v2.',
    ...LEGACY,
    ...NAMESPACE_IDS,
  },
  'restricted-v2': {
    upkeep: 'reconcile',
    grantedTo: ['system:authenticated'],
    description:
      'The default of all users: like restricted, but drops all capabilities and forbids privilege escalation.',
    ...HARDENED,
    ...NAMESPACE_IDS,
  },
  'restricted-v3': {
    upkeep: 'reconcile',
    grantedTo: ['system:authenticated'],
    description: 'Like restricted-v2, for pods with a user namespace. They do not need user IDs of the namespace.',
    ...HARDENED,
    ...userNamespace(1000),
  },
};

/** The standard SCCs as objects. */
export const STANDARD_SCCS: readonly StandardScc[] = Object.entries(DEFINITIONS).map(([name, definition]) => {
  const { upkeep, grantedTo = [], description, ...fields } = definition;
  const metadata = { name, annotations: { 'kubernetes.io/description': description } };
  const type = { apiVersion: 'security.openshift.io/v1', kind: 'SecurityContextConstraints' };
  return { scc: { ...type, metadata, ...BASE, ...fields }, upkeep, grantedTo };
});

/** The name of the ClusterRole for the use of an SCC, by OpenShift's convention. */
export function useRoleName(scc: string): string {
  return `system:openshift:scc:${scc}`;
}

/** The name of the standard ClusterRole for the use of an SCC; `undefined` if the SCC is not a standard one. */
export function standardUseRole(scc: string): string | undefined {
  return Object.hasOwn(DEFINITIONS, scc) ? useRoleName(scc) : undefined;
}

const { group: RBAC_GROUP } = RESOURCES.RoleBinding;

function createUseRole(scc: string): ClusterRole {
  const { group, resource } = RESOURCES.SecurityContextConstraints;
  return {
    apiVersion: getApiVersion('ClusterRole'),
    kind: 'ClusterRole',
    metadata: { name: useRoleName(scc) },
    rules: [{ apiGroups: [group], resources: [resource], resourceNames: [scc], verbs: ['use'] }],
  };
}

/** A ClusterRole for the use of each standard SCC. OpenShift also has one for `hostmount`, which is not an SCC. */
export const STANDARD_CLUSTER_ROLES: readonly ClusterRole[] = [...Object.keys(DEFINITIONS), 'hostmount'].map(
  createUseRole,
);

/** The bindings of the standard ClusterRoles. Each has the name of its role. */
export const STANDARD_CLUSTER_ROLE_BINDINGS: readonly ClusterRoleBinding[] = Object.entries(DEFINITIONS).flatMap(
  ([scc, { grantedTo = [] }]) => (grantedTo.length === 0 ? [] : [createGroupBinding(useRoleName(scc), grantedTo)]),
);

function createGroupBinding(name: string, groups: readonly string[]): ClusterRoleBinding {
  return {
    apiVersion: getApiVersion('ClusterRoleBinding'),
    kind: 'ClusterRoleBinding',
    metadata: { name },
    roleRef: { apiGroup: RBAC_GROUP, kind: 'ClusterRole', name },
    subjects: groups.map((group) => ({ apiGroup: RBAC_GROUP, kind: 'Group', name: group })),
  };
}

/** How an object is written. `replace` deletes and creates it, because a field of it is immutable. */
export interface PlannedWrite<T> {
  readonly verb: 'create' | 'update' | 'replace';
  readonly object: T;
  /** The fields that differ; empty for a new object. */
  readonly fields: readonly string[];
}

/** Clusters may have an SCC of this name that is older than the standard one. It is not changed. */
const NEVER_UPDATED = 'nested-container';

/**
 * Plans the write that makes a standard SCC equal to its definition; `undefined` if none is necessary.
 * @see https://github.com/openshift/cluster-version-operator/blob/main/lib/resourcemerge/security.go
 */
export function planStandardScc(
  { scc, upkeep }: StandardScc,
  existing: SecurityContextConstraints | undefined,
): PlannedWrite<SecurityContextConstraints> | undefined {
  if (!existing) return { verb: 'create', object: scc, fields: [] };
  if (upkeep === 'create' || scc.metadata?.name === NEVER_UPDATED) return undefined;
  return planUpdate(scc, defaultScc(existing));
}

/** As `planStandardScc`, for a standard ClusterRole. */
export function planClusterRole(
  role: ClusterRole,
  existing: ClusterRole | undefined,
): PlannedWrite<ClusterRole> | undefined {
  return existing ? planUpdate(role, existing) : { verb: 'create', object: role, fields: [] };
}

/** As `planStandardScc`, for a standard ClusterRoleBinding. The role of a binding is immutable. */
export function planClusterRoleBinding(
  binding: ClusterRoleBinding,
  existing: ClusterRoleBinding | undefined,
): PlannedWrite<ClusterRoleBinding> | undefined {
  if (!existing) return { verb: 'create', object: binding, fields: [] };
  const update = planUpdate(binding, existing);
  return update?.fields.includes('roleRef') ? { ...update, verb: 'replace', object: binding } : update;
}

const NOT_COMPARED: ReadonlySet<string> = new Set(['apiVersion', 'kind', 'metadata']);

/** Keeps the metadata of the existing object. */
function planUpdate<T extends KubeObject>(desired: T, existing: T): PlannedWrite<T> | undefined {
  const before = new Map<string, unknown>(Object.entries(existing));
  const after = new Map<string, unknown>(Object.entries(desired));
  const fields = [...new Set([...before.keys(), ...after.keys()])].filter(
    (field) => !NOT_COMPARED.has(field) && !semanticEqual(before.get(field), after.get(field)),
  );
  const { metadata = {} } = existing;
  return fields.length === 0 ? undefined : { verb: 'update', object: { ...desired, metadata }, fields };
}

/** The grant of an SCC to a service account in its namespace. */
export interface Grant {
  readonly namespace: string;
  readonly serviceAccount: string;
  readonly scc: string;
}

/** Returns the missing ClusterRoles and the RoleBindings for grants, sorted by namespace, service account and SCC. */
export function grantObjects(
  grants: readonly Grant[],
  { hasRole }: { readonly hasRole: (scc: string) => boolean },
): readonly (ClusterRole | RoleBinding)[] {
  const keys = grants.map(({ namespace, serviceAccount, scc }) => `${namespace}/${serviceAccount}/${scc}`);
  const unique = [...new Map(grants.map((grant, index) => [keys[index], grant])).values()].sort(compareGrants);
  const missing = sortedSet(unique.map(({ scc }) => scc)).filter((scc) => !hasRole(scc));
  return [...missing.map(createUseRole), ...unique.map(createUseBinding)];
}

/** The name is unique: names of service accounts and SCCs contain no colon. */
function createUseBinding({ namespace, serviceAccount, scc }: Grant): RoleBinding {
  return {
    apiVersion: getApiVersion('RoleBinding'),
    kind: 'RoleBinding',
    metadata: { name: `portcullis:scc:${scc}:${serviceAccount}`, namespace },
    roleRef: { apiGroup: RBAC_GROUP, kind: 'ClusterRole', name: useRoleName(scc) },
    subjects: [{ kind: 'ServiceAccount', name: serviceAccount, namespace }],
  };
}

function compareGrants(a: Grant, b: Grant): number {
  return (
    compareBytes(a.namespace, b.namespace) ||
    compareBytes(a.serviceAccount, b.serviceAccount) ||
    compareBytes(a.scc, b.scc)
  );
}
