import type { SecurityContextConstraints } from '../../kube/scc.ts';
import type { ClusterRole, ClusterRoleBinding, KubeObject, RoleBinding } from '../../kube/types.ts';
import { semanticEqual } from '../../kube/equality.ts';
import { defaultScc } from './objects.ts';
import { compareBytes } from '../../kube/text.ts';
import { getApiVersion, RESOURCES } from '../../kube/resources.ts';

/** An SCC that ships with the platform. */
export interface StandardScc {
  readonly scc: SecurityContextConstraints;
  /** `create`: installed once, later changes are the administrator's. `reconcile`: set right whenever it differs. */
  readonly upkeep: 'create' | 'reconcile';
  /** Groups whose members may use it, beside those that the SCC itself names. */
  readonly grantedTo: readonly string[];
}

interface Definition extends Omit<SecurityContextConstraints, 'metadata'> {
  readonly upkeep: StandardScc['upkeep'];
  readonly grantedTo?: StandardScc['grantedTo'];
  readonly description: string;
}

const EVERYBODY = ['system:authenticated'];
const RUN_AS_ANY = { type: 'RunAsAny' };
const MUST_RUN_AS = { type: 'MustRunAs' };
const IN_RANGE_OF_NAMESPACE = { type: 'MustRunAsRange' };
const NON_ROOT = { type: 'MustRunAsNonRoot' };

const BASIC_VOLUMES = [
  'configMap',
  'csi',
  'downwardAPI',
  'emptyDir',
  'ephemeral',
  'image',
  'persistentVolumeClaim',
  'projected',
  'secret',
];
const HOST_PATH_VOLUMES = [...BASIC_VOLUMES, 'hostPath'].sort();
const HOST_MOUNT_VOLUMES = [...BASIC_VOLUMES, 'hostPath', 'nfs'].sort();
const LEGACY_DROPS = ['KILL', 'MKNOD', 'SETUID', 'SETGID'];

/** What an SCC of the second generation has instead of the drops of the first. */
const HARDENED = {
  allowPrivilegeEscalation: false,
  requiredDropCapabilities: ['ALL'],
  allowedCapabilities: ['NET_BIND_SERVICE'],
  seccompProfiles: ['runtime/default'],
};

/** Nothing of the host, the SELinux level of the namespace. */
const CLOSED = {
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
 * What the platform ships, by name.
 * @see https://github.com/openshift/cluster-kube-apiserver-operator/tree/master/bindata/bootkube/scc-manifests
 */
const DEFINITIONS: Readonly<Record<string, Definition>> = {
  anyuid: {
    upkeep: 'create',
    description: 'Any user and group, nothing of the host. Comes before SCCs without a priority.',
    priority: 10,
    requiredDropCapabilities: ['MKNOD'],
    groups: ['system:cluster-admins'],
  },
  hostaccess: {
    upkeep: 'create',
    description: 'The namespaces, directories and ports of the host, as a user of the namespace.',
    allowHostDirVolumePlugin: true,
    allowHostIPC: true,
    allowHostNetwork: true,
    allowHostPID: true,
    allowHostPorts: true,
    requiredDropCapabilities: LEGACY_DROPS,
    runAsUser: IN_RANGE_OF_NAMESPACE,
    fsGroup: MUST_RUN_AS,
    volumes: HOST_PATH_VOLUMES,
  },
  'hostmount-anyuid': {
    upkeep: 'create',
    description: 'Directories of the host and NFS, as any user.',
    allowHostDirVolumePlugin: true,
    requiredDropCapabilities: ['MKNOD'],
    volumes: HOST_MOUNT_VOLUMES,
    users: ['system:serviceaccount:openshift-infra:pv-recycler-controller'],
  },
  'hostmount-anyuid-v2': {
    upkeep: 'create',
    description: 'Directories of the host and NFS, as any user and with any SELinux label.',
    allowHostDirVolumePlugin: true,
    requiredDropCapabilities: ['MKNOD'],
    seLinuxContext: RUN_AS_ANY,
    volumes: HOST_MOUNT_VOLUMES,
  },
  hostnetwork: {
    upkeep: 'create',
    description: 'Network and ports of the host, as a user of the namespace.',
    allowHostNetwork: true,
    allowHostPorts: true,
    requiredDropCapabilities: LEGACY_DROPS,
    runAsUser: IN_RANGE_OF_NAMESPACE,
    fsGroup: MUST_RUN_AS,
    supplementalGroups: MUST_RUN_AS,
  },
  'hostnetwork-v2': {
    upkeep: 'reconcile',
    description: 'Like hostnetwork, without capabilities, privilege escalation and other seccomp profiles.',
    ...HARDENED,
    allowHostNetwork: true,
    allowHostPorts: true,
    runAsUser: IN_RANGE_OF_NAMESPACE,
    fsGroup: MUST_RUN_AS,
    supplementalGroups: MUST_RUN_AS,
  },
  'nested-container': {
    upkeep: 'reconcile',
    description: 'Containers inside containers, in a user namespace of the pod.',
    userNamespaceLevel: 'RequirePodLevel',
    allowedCapabilities: ['SETUID', 'SETGID'],
    seccompProfiles: ['*'],
    runAsUser: { ...IN_RANGE_OF_NAMESPACE, uidRangeMin: 0, uidRangeMax: 65_534 },
    seLinuxContext: { ...MUST_RUN_AS, seLinuxOptions: { type: 'container_engine_t' } },
    fsGroup: { ...MUST_RUN_AS, ranges: [{ min: 0, max: 65_534 }] },
    supplementalGroups: { ...MUST_RUN_AS, ranges: [{ min: 0, max: 65_534 }] },
  },
  nonroot: {
    upkeep: 'create',
    description: 'Any user but root, nothing of the host.',
    requiredDropCapabilities: LEGACY_DROPS,
    runAsUser: NON_ROOT,
  },
  'nonroot-v2': {
    upkeep: 'reconcile',
    description: 'Like nonroot, without capabilities, privilege escalation and other seccomp profiles.',
    ...HARDENED,
    runAsUser: NON_ROOT,
  },
  privileged: {
    upkeep: 'create',
    description: 'Everything, the host included. For those who run the cluster.',
    allowPrivilegedContainer: true,
    allowHostDirVolumePlugin: true,
    allowHostIPC: true,
    allowHostNetwork: true,
    allowHostPID: true,
    allowHostPorts: true,
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
    description: 'A user of the namespace, nothing of the host. What everybody had before restricted-v2.',
    requiredDropCapabilities: LEGACY_DROPS,
    runAsUser: IN_RANGE_OF_NAMESPACE,
    fsGroup: MUST_RUN_AS,
  },
  'restricted-v2': {
    upkeep: 'reconcile',
    grantedTo: EVERYBODY,
    description: 'What everybody may use: like restricted, without capabilities and privilege escalation.',
    ...HARDENED,
    runAsUser: IN_RANGE_OF_NAMESPACE,
    fsGroup: MUST_RUN_AS,
  },
  'restricted-v3': {
    upkeep: 'reconcile',
    grantedTo: EVERYBODY,
    description: 'Like restricted-v2 for pods with a user namespace, which need no ids of the namespace.',
    ...HARDENED,
    userNamespaceLevel: 'RequirePodLevel',
    runAsUser: { ...IN_RANGE_OF_NAMESPACE, uidRangeMin: 1000, uidRangeMax: 65_534 },
    fsGroup: { ...MUST_RUN_AS, ranges: [{ min: 1000, max: 65_534 }] },
    supplementalGroups: { ...MUST_RUN_AS, ranges: [{ min: 1000, max: 65_534 }] },
  },
};

/** The SCCs that ship with the platform, as they are stored. */
export const STANDARD_SCCS: readonly StandardScc[] = Object.entries(DEFINITIONS).map(([name, definition]) => {
  const { upkeep, grantedTo = [], description, ...fields } = definition;
  const metadata = { name, annotations: { 'kubernetes.io/description': description } };
  const type = { apiVersion: 'security.openshift.io/v1', kind: 'SecurityContextConstraints' };
  return { scc: { ...type, metadata, ...CLOSED, ...fields }, upkeep, grantedTo };
});

/** One role for the use of each of them; and one for an SCC that was never there. */
export const STANDARD_CLUSTER_ROLES: readonly ClusterRole[] = [...Object.keys(DEFINITIONS), 'hostmount'].map(
  (name) => ({
    apiVersion: 'rbac.authorization.k8s.io/v1',
    kind: 'ClusterRole',
    metadata: { name: useRoleNameOf(name) },
    rules: [
      {
        apiGroups: ['security.openshift.io'],
        resources: ['securitycontextconstraints'],
        resourceNames: [name],
        verbs: ['use'],
      },
    ],
  }),
);

/** Who may use them, each bound under the name of the role. */
export const STANDARD_CLUSTER_ROLE_BINDINGS: readonly ClusterRoleBinding[] = Object.entries(DEFINITIONS).flatMap(
  ([scc, { grantedTo = [] }]) => (grantedTo.length === 0 ? [] : [bindingOf(useRoleNameOf(scc), grantedTo)]),
);

function bindingOf(name: string, groups: readonly string[]): ClusterRoleBinding {
  const apiGroup = 'rbac.authorization.k8s.io';
  return {
    apiVersion: `${apiGroup}/v1`,
    kind: 'ClusterRoleBinding',
    metadata: { name },
    roleRef: { apiGroup, kind: 'ClusterRole', name },
    subjects: groups.map((group) => ({ apiGroup, kind: 'Group', name: group })),
  };
}

/** The ClusterRole that ships for the use of an SCC; `undefined` if the SCC is none of the platform. */
export function standardRoleOf(scc: string): string | undefined {
  return Object.hasOwn(DEFINITIONS, scc) ? useRoleNameOf(scc) : undefined;
}

/** The name by custom of the ClusterRole that lets use an SCC, whoever made the SCC. */
export function useRoleNameOf(scc: string): string {
  return `system:openshift:scc:${scc}`;
}

/** How an object is to be written: made, set right, or made anew, since it cannot be changed into what it should be. */
export interface Write<T> {
  readonly verb: 'create' | 'update' | 'replace';
  readonly object: T;
  /** What differed; empty for a new object. */
  readonly fields: readonly string[];
}

/** Clusters with an SCC of this name have had their own reasons for it; what it should be was never settled. */
const KEPT_AS_FOUND = 'nested-container';

/**
 * Says what is to be written so that a standard SCC is as it should be; `undefined` if nothing.
 * @see https://github.com/openshift/cluster-version-operator/blob/main/lib/resourcemerge/security.go
 */
export function planStandardScc(
  { scc, upkeep }: StandardScc,
  existing: SecurityContextConstraints | undefined,
): Write<SecurityContextConstraints> | undefined {
  if (!existing) return { verb: 'create', object: scc, fields: [] };
  if (upkeep === 'create' || scc.metadata?.name === KEPT_AS_FOUND) return undefined;
  return planUpdate(scc, defaultScc(existing));
}

/** Says what is to be written so that a standard ClusterRole is as it should be; `undefined` if nothing. */
export function planClusterRole(role: ClusterRole, existing: ClusterRole | undefined): Write<ClusterRole> | undefined {
  return existing ? planUpdate(role, existing) : { verb: 'create', object: role, fields: [] };
}

/** Says what is to be written so that a standard ClusterRoleBinding is as it should be; `undefined` if nothing. */
export function planClusterRoleBinding(
  binding: ClusterRoleBinding,
  existing: ClusterRoleBinding | undefined,
): Write<ClusterRoleBinding> | undefined {
  if (!existing) return { verb: 'create', object: binding, fields: [] };
  const update = planUpdate(binding, existing);
  // The API server lets nobody change the role of a binding.
  return update?.fields.includes('roleRef') ? { ...update, verb: 'replace', object: binding } : update;
}

/** Sets right all fields but the metadata: labels and annotations stay as somebody has set them. */
function planUpdate<T extends KubeObject>(wanted: T, existing: T): Write<T> | undefined {
  const fields = differences(wanted, existing);
  const { metadata = {} } = existing;
  return fields.length === 0 ? undefined : { verb: 'update', object: { ...wanted, metadata }, fields };
}

const NOT_COMPARED: ReadonlySet<string> = new Set(['apiVersion', 'kind', 'metadata']);

function differences(wanted: KubeObject, existing: KubeObject): readonly string[] {
  const before = new Map<string, unknown>(Object.entries(existing));
  const after = new Map<string, unknown>(Object.entries(wanted));
  const fields = new Set([...before.keys(), ...after.keys()]);
  return [...fields].filter((field) => !NOT_COMPARED.has(field) && !semanticEqual(before.get(field), after.get(field)));
}

/** The use of an SCC by a service account, in the namespace of the account. */
export interface Grant {
  readonly namespace: string;
  readonly serviceAccount: string;
  readonly scc: string;
}

const { group: RBAC_GROUP } = RESOURCES.RoleBinding;

/**
 * The objects to apply for grants, each once, sorted by namespace, service account and SCC; first the roles that are
 * missing.
 */
export function grantObjects(
  grants: readonly Grant[],
  { hasRole }: { readonly hasRole: (scc: string) => boolean },
): readonly (ClusterRole | RoleBinding)[] {
  const unique = [...new Map(grants.map((grant) => [keyOf(grant), grant])).values()].sort(compareGrants);
  const sccs = new Set(unique.map(({ scc }) => scc));
  return [
    ...[...sccs]
      .filter((scc) => !hasRole(scc))
      .sort(compareBytes)
      .map(useRole),
    ...unique.map(useBinding),
  ];
}

/** The names of service accounts and SCCs hold no colon. */
function useBinding({ namespace, serviceAccount, scc }: Grant): RoleBinding {
  return {
    apiVersion: getApiVersion('RoleBinding'),
    kind: 'RoleBinding',
    metadata: { name: `portcullis:scc:${scc}:${serviceAccount}`, namespace },
    roleRef: { apiGroup: RBAC_GROUP, kind: 'ClusterRole', name: useRoleNameOf(scc) },
    subjects: [{ kind: 'ServiceAccount', name: serviceAccount, namespace }],
  };
}

function useRole(scc: string): ClusterRole {
  const { group, resource } = RESOURCES.SecurityContextConstraints;
  return {
    apiVersion: getApiVersion('ClusterRole'),
    kind: 'ClusterRole',
    metadata: { name: useRoleNameOf(scc) },
    rules: [{ apiGroups: [group], resources: [resource], resourceNames: [scc], verbs: ['use'] }],
  };
}

function keyOf({ namespace, serviceAccount, scc }: Grant): string {
  return `${namespace}/${serviceAccount}/${scc}`;
}

function compareGrants(a: Grant, b: Grant): number {
  return (
    compareBytes(a.namespace, b.namespace) ||
    compareBytes(a.serviceAccount, b.serviceAccount) ||
    compareBytes(a.scc, b.scc)
  );
}
