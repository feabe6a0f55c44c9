import type { SecurityContextConstraints } from '../../kube/scc.ts';
import type { ClusterRole, ClusterRoleBinding } from '../../kube/types.ts';

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
