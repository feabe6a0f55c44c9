import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readdirSync } from 'node:fs';
import type { JsonObject } from '../../../src/kube/types.ts';
import { readNamespaceRanges } from '../../../src/policy/scc/namespace.ts';
import { prepareScc } from '../../../src/policy/scc/scc.ts';
import { formatErrors } from '../../../src/policy/scc/messages.ts';
import { completePod, writePod } from '../../../src/policy/scc/complete.ts';
import { laxScc, podFieldsOf } from '../../support/scc.ts';
import { CONTAINER_STRATEGIES, POD_STRATEGIES } from '../../../src/policy/scc/strategies/index.ts';

/** A pod under an SCC: the errors, or the completed pod. */
interface StrategyCase {
  readonly name: string;
  /** The SCC allows everything except for these fields, and needs no ranges of a namespace. */
  readonly scc: JsonObject;
  /** The security context of the pod, and that of its container `app`. */
  readonly pod?: JsonObject;
  readonly container?: JsonObject;
  /** Other fields of the pod spec, and annotations. */
  readonly spec?: JsonObject;
  readonly annotations?: JsonObject;
  /** The errors. The prefix `provider some: ` is added to those that begin with a dot. */
  readonly errors?: readonly string[];
  /** The parts that change. Without errors, other parts of the pod do not change. */
  readonly expected?: {
    readonly pod?: JsonObject;
    readonly container?: JsonObject;
    readonly annotations?: JsonObject;
  };
}

function checkStrategies(cases: readonly StrategyCase[]): void {
  for (const { name, scc, errors, expected = {}, ...parts } of cases) {
    test(name, () => {
      const before = podOf(parts);
      const prepared = prepareScc(laxScc({ ...scc, name: 'some' }));
      const completion = completePod(prepared, { namespace: readNamespaceRanges({}), pod: podFieldsOf(before) });
      assert.deepEqual(
        formatErrors('some', completion.errors),
        errors?.map((text) => (text.startsWith('.') ? `provider some: ${text}` : text)) ?? [],
      );
      if (errors) return;
      const annotations = { ...parts.annotations, ...expected.annotations };
      assert.deepEqual(writePod(completion, {}), podOf({ ...parts, ...expected, annotations }));
    });
  }
}

function podOf({ pod, container, spec, annotations = {} }: Omit<StrategyCase, 'name' | 'scc'>): JsonObject {
  return {
    metadata: { annotations },
    spec: {
      containers: [{ name: 'app', ...(container && { securityContext: container }) }],
      ...spec,
      ...(pod && { securityContext: pod }),
    },
  };
}

const RANGE = { runAsUser: { type: 'MustRunAsRange', uidRangeMin: 1000, uidRangeMax: 1999 } };
const NON_ROOT = { runAsUser: { type: 'MustRunAsNonRoot' } };
const ROOT = { runAsUser: { type: 'MustRunAs', uid: 0 } };

checkStrategies([
  {
    name: 'MustRunAsRange: the lowest ID is generated',
    scc: RANGE,
    expected: { container: { runAsUser: 1000, runAsNonRoot: true } },
  },
  {
    name: 'MustRunAsRange: the user of the pod is inherited',
    scc: RANGE,
    pod: { runAsUser: 1500 },
    expected: { container: { runAsNonRoot: true } },
  },
  {
    name: 'MustRunAsRange: the user of the container overrides that of the pod',
    scc: RANGE,
    pod: { runAsUser: 0 },
    container: { runAsUser: 1999 },
    expected: { container: { runAsUser: 1999, runAsNonRoot: true } },
  },
  {
    name: 'MustRunAsRange: a user above the range',
    scc: RANGE,
    container: { runAsUser: 2000 },
    errors: ['.containers[0].runAsUser: Invalid value: 2000: must be in the ranges: [1000, 1999]'],
  },
  {
    name: 'MustRunAsRange: an empty range allows no user',
    scc: { runAsUser: { type: 'MustRunAsRange', uidRangeMin: 5, uidRangeMax: 4 } },
    errors: ['.containers[0].runAsUser: Invalid value: 5: must be in the ranges: [5, 4]'],
  },
  { name: 'MustRunAs: runAsNonRoot is not set for root', scc: ROOT, expected: { container: { runAsUser: 0 } } },
  {
    name: 'MustRunAs: another user',
    scc: ROOT,
    pod: { runAsUser: 7 },
    errors: ['.containers[0].runAsUser: Invalid value: 7: must be: 0'],
  },
  { name: 'MustRunAsNonRoot: runAsNonRoot is set', scc: NON_ROOT, expected: { container: { runAsNonRoot: true } } },
  {
    name: 'MustRunAsNonRoot: root',
    scc: NON_ROOT,
    container: { runAsUser: 0 },
    errors: ['.containers[0].runAsUser: Invalid value: 0: running with the root UID is forbidden'],
  },
  {
    name: 'MustRunAsNonRoot: runAsNonRoot false',
    scc: NON_ROOT,
    pod: { runAsNonRoot: false },
    container: { runAsUser: 1000 },
    errors: ['.containers[0].runAsNonRoot: Invalid value: false: must be true'],
  },
  {
    name: 'RunAsAny: runAsNonRoot is set for another user than root',
    scc: {},
    container: { runAsUser: 1000 },
    expected: { container: { runAsUser: 1000, runAsNonRoot: true } },
  },
  { name: 'RunAsAny: no user', scc: {} },
]);

const LABEL = { seLinuxContext: { type: 'MustRunAs', seLinuxOptions: { level: 's0:c26,c5', type: 'svirt_t' } } };
const OPTIONS = { level: 's0:c26,c5', type: 'svirt_t' };

checkStrategies([
  {
    name: 'MustRunAs: all SELinux options are set on the pod',
    scc: LABEL,
    expected: { pod: { seLinuxOptions: OPTIONS } },
  },
  {
    name: 'SELinux categories may have any order',
    scc: LABEL,
    pod: { seLinuxOptions: { level: 's0:c5,c26', type: 'svirt_t' } },
  },
  {
    name: 'ranges of SELinux categories are not expanded',
    scc: { seLinuxContext: { type: 'MustRunAs', seLinuxOptions: { level: 's0:c1.c3' } } },
    pod: { seLinuxOptions: { level: 's0:c1,c2,c3' } },
    errors: [
      '.spec.securityContext.seLinuxOptions.level: Invalid value: "s0:c1,c2,c3": must be s0:c1.c3',
      '.containers[0].seLinuxOptions.level: Invalid value: "s0:c1,c2,c3": must be s0:c1.c3',
    ],
  },
  {
    name: 'SELinux options of a container are not merged with those of the pod',
    scc: LABEL,
    container: { seLinuxOptions: { user: 'u' } },
    errors: [
      '.containers[0].seLinuxOptions.level: Invalid value: "": must be s0:c26,c5',
      '.containers[0].seLinuxOptions.type: Invalid value: "": must be svirt_t',
      '.containers[0].seLinuxOptions.user: Invalid value: "u": must be ',
    ],
  },
  {
    name: 'RunAsAny: SELinux options of the SCC are ignored',
    scc: { seLinuxContext: { type: 'RunAsAny', seLinuxOptions: OPTIONS } },
  },
]);

const RANGES = [
  { min: 10, max: 19 },
  { min: 30, max: 30 },
];
const FS_GROUP = { fsGroup: { type: 'MustRunAs', ranges: RANGES } };
const SUPPLEMENTAL = { supplementalGroups: { type: 'MustRunAs', ranges: RANGES } };
const LONG = Array.from({ length: 101 }, (_, index) => index + 100);

checkStrategies([
  { name: 'fsGroup: the first ID is generated', scc: FS_GROUP, expected: { pod: { fsGroup: 10 } } },
  { name: 'an fsGroup of the second range', scc: FS_GROUP, pod: { fsGroup: 30 } },
  {
    name: 'an fsGroup between the ranges',
    scc: FS_GROUP,
    pod: { fsGroup: 20 },
    errors: ['.spec.securityContext.fsGroup: Invalid value: [20]: 20 is not an allowed group'],
  },
  {
    name: 'supplementalGroups: the first ID is generated',
    scc: SUPPLEMENTAL,
    expected: { pod: { supplementalGroups: [10] } },
  },
  {
    name: 'supplementalGroups: an empty list',
    scc: SUPPLEMENTAL,
    pod: { supplementalGroups: [] },
    expected: { pod: { supplementalGroups: [10] } },
  },
  {
    name: 'supplementalGroups: an error for each group',
    scc: SUPPLEMENTAL,
    pod: { supplementalGroups: [10, 1, 2] },
    errors: [
      '.spec.securityContext.supplementalGroups: Invalid value: [10,1,2]: 1 is not an allowed group',
      '.spec.securityContext.supplementalGroups: Invalid value: [10,1,2]: 2 is not an allowed group',
    ],
  },
  {
    name: 'supplementalGroups: only the first error of a long list',
    scc: SUPPLEMENTAL,
    pod: { supplementalGroups: LONG },
    errors: [
      `.spec.securityContext.supplementalGroups: Invalid value: ${JSON.stringify(LONG)}: 100 is not an allowed group`,
    ],
  },
  { name: 'RunAsAny: any group', scc: {}, pod: { fsGroup: 0, supplementalGroups: [0] } },
]);

const POD = 'seccomp.security.alpha.kubernetes.io/pod';
const APP = 'container.seccomp.security.alpha.kubernetes.io/app';
const DEFAULT = { seccompProfiles: ['runtime/default'] };

checkStrategies([
  {
    name: 'the first seccomp profile is set as field and annotation',
    scc: { seccompProfiles: ['*', 'localhost/a', 'unconfined'] },
    expected: {
      pod: { seccompProfile: { type: 'Localhost', localhostProfile: 'a' } },
      annotations: { [POD]: 'localhost/a' },
    },
  },
  { name: 'a wildcard generates no seccomp profile', scc: { seccompProfiles: ['*'] } },
  {
    name: 'the seccomp field sets the annotation',
    scc: { seccompProfiles: ['*'] },
    pod: { seccompProfile: { type: 'Unconfined' } },
    expected: { annotations: { [POD]: 'unconfined' } },
  },
  {
    name: 'the seccomp annotation overrides the field',
    scc: { seccompProfiles: ['*'] },
    pod: { seccompProfile: { type: 'Unconfined' } },
    annotations: { [POD]: 'docker/default' },
    expected: { pod: { seccompProfile: { type: 'RuntimeDefault' } } },
  },
  {
    name: 'an unknown seccomp annotation removes the field',
    scc: { seccompProfiles: ['*'] },
    pod: { runAsUser: 0, seccompProfile: { type: 'Unconfined' } },
    annotations: { [POD]: 'localhost/' },
    expected: { pod: { runAsUser: 0 } },
  },
  {
    name: 'the seccomp annotation of a container sets its field',
    scc: { seccompProfiles: ['*'] },
    annotations: { [APP]: 'localhost/b' },
    expected: { container: { seccompProfile: { type: 'Localhost', localhostProfile: 'b' } } },
  },
  {
    name: 'docker/default and runtime/default are equal',
    scc: { seccompProfiles: ['docker/default'] },
    pod: { seccompProfile: { type: 'RuntimeDefault' } },
    expected: { annotations: { [POD]: 'runtime/default' } },
  },
  {
    name: 'an SCC without seccomp profiles allows none',
    scc: {},
    pod: { seccompProfile: { type: 'RuntimeDefault' } },
    errors: [
      `metadata.annotations[${POD}]: Forbidden: seccomp may not be set`,
      `metadata.annotations[${APP}]: Forbidden: seccomp may not be set`,
    ],
  },
  {
    name: 'a seccomp profile that is not listed',
    scc: { seccompProfiles: ['runtime/default', 'localhost/a'] },
    container: { seccompProfile: { type: 'Localhost', localhostProfile: 'b' } },
    errors: [
      `metadata.annotations[${APP}]: Forbidden: localhost/b is not an allowed seccomp profile. Valid values are [runtime/default localhost/a]`,
    ],
  },
  {
    name: 'localhost/* is not a pattern',
    scc: { seccompProfiles: ['localhost/*'] },
    annotations: { [POD]: 'localhost/a' },
    errors: [POD, APP].map(
      (key) =>
        `metadata.annotations[${key}]: Forbidden: localhost/a is not an allowed seccomp profile. Valid values are [localhost/*]`,
    ),
  },
  {
    name: 'the seccomp profile of a container does not replace that of the pod',
    scc: DEFAULT,
    container: { seccompProfile: { type: 'RuntimeDefault' } },
    expected: { pod: { seccompProfile: { type: 'RuntimeDefault' } }, annotations: { [POD]: 'runtime/default' } },
  },
]);

const NO_ESCALATION = { allowPrivilegeEscalation: false };

checkStrategies([
  {
    name: 'privileged',
    scc: {},
    container: { privileged: true },
    errors: ['.containers[0].privileged: Invalid value: true: Privileged containers are not allowed'],
  },
  {
    name: 'privileged is allowed',
    scc: { allowPrivilegedContainer: true },
    container: { privileged: true },
  },
  {
    name: 'allowPrivilegeEscalation false is generated if escalation is forbidden',
    scc: NO_ESCALATION,
    expected: { container: { allowPrivilegeEscalation: false } },
  },
  {
    name: 'allowPrivilegeEscalation false is generated for privileged containers',
    scc: { ...NO_ESCALATION, allowPrivilegedContainer: true, defaultAllowPrivilegeEscalation: true },
    container: { privileged: true },
    expected: { container: { privileged: true, allowPrivilegeEscalation: false } },
  },
  {
    name: 'privilege escalation is forbidden',
    scc: NO_ESCALATION,
    container: { allowPrivilegeEscalation: true },
    errors: [
      '.containers[0].allowPrivilegeEscalation: Invalid value: true: Allowing privilege escalation for containers is not allowed',
    ],
  },
  {
    name: 'defaultAllowPrivilegeEscalation',
    scc: { defaultAllowPrivilegeEscalation: false },
    expected: { container: { allowPrivilegeEscalation: false } },
  },
  {
    name: 'defaultAllowPrivilegeEscalation does not apply to CAP_SYS_ADMIN',
    scc: { defaultAllowPrivilegeEscalation: false, allowedCapabilities: ['*'] },
    container: { capabilities: { add: ['CAP_SYS_ADMIN'] } },
  },
  {
    name: 'defaultAllowPrivilegeEscalation applies to SYS_ADMIN',
    scc: { defaultAllowPrivilegeEscalation: false, allowedCapabilities: ['*'] },
    container: { capabilities: { add: ['SYS_ADMIN'] } },
    expected: { container: { capabilities: { add: ['SYS_ADMIN'] }, allowPrivilegeEscalation: false } },
  },
  {
    name: 'readOnlyRootFilesystem is generated',
    scc: { readOnlyRootFilesystem: true },
    expected: { container: { readOnlyRootFilesystem: true } },
  },
  {
    name: 'readOnlyRootFilesystem false',
    scc: { readOnlyRootFilesystem: true },
    container: { readOnlyRootFilesystem: false },
    errors: ['.containers[0].readOnlyRootFilesystem: Invalid value: false: ReadOnlyRootFilesystem must be set to true'],
  },
]);

checkStrategies([
  {
    name: 'default and required capabilities are generated',
    scc: { defaultAddCapabilities: ['KILL'], requiredDropCapabilities: ['MKNOD', 'CHOWN'] },
    expected: { container: { capabilities: { add: ['KILL'], drop: ['CHOWN', 'MKNOD'] } } },
  },
  {
    name: 'a dropped capability is not added',
    scc: { defaultAddCapabilities: ['KILL'] },
    container: { capabilities: { drop: ['KILL'] } },
  },
  {
    name: 'complete capability lists do not change',
    scc: { requiredDropCapabilities: ['MKNOD'] },
    container: { capabilities: { add: [], drop: ['MKNOD', 'ALL', 'MKNOD'] } },
  },
  {
    name: 'ALL does not include other required capabilities',
    scc: { requiredDropCapabilities: ['KILL', 'MKNOD'] },
    container: { capabilities: { drop: ['ALL'] } },
    expected: { container: { capabilities: { drop: ['ALL', 'KILL', 'MKNOD'] } } },
  },
  {
    name: 'capabilities are case-sensitive',
    scc: { requiredDropCapabilities: ['ALL'] },
    container: { capabilities: { drop: ['all'] } },
    expected: { container: { capabilities: { drop: ['ALL', 'all'] } } },
  },
  {
    name: 'a capability that may not be added',
    scc: { allowedCapabilities: ['ALL'] },
    container: { capabilities: { add: ['NET_RAW', 'ALL'] } },
    errors: ['.containers[0].capabilities.add: Invalid value: "NET_RAW": capability may not be added'],
  },
  {
    name: 'a wildcard allows all capabilities',
    scc: { allowedCapabilities: ['*'] },
    container: { capabilities: { add: ['NET_RAW'] } },
  },
]);

const EVERYTHING = { allowHostNetwork: true, allowHostPorts: true, allowHostPID: true, allowHostIPC: true };
const REQUIRE = { userNamespaceLevel: 'RequirePodLevel' };

checkStrategies([
  {
    name: 'host namespaces are errors of the pod and of its container',
    scc: {},
    spec: { hostNetwork: true, hostPID: true, hostIPC: true },
    errors: [
      '.spec.hostNetwork: Invalid value: true: Host network is not allowed to be used',
      '.spec.hostPID: Invalid value: true: Host PID is not allowed to be used',
      '.spec.hostIPC: Invalid value: true: Host IPC is not allowed to be used',
      '.containers[0].hostNetwork: Invalid value: true: Host network is not allowed to be used',
      '.containers[0].hostPID: Invalid value: true: Host PID is not allowed to be used',
      '.containers[0].hostIPC: Invalid value: true: Host IPC is not allowed to be used',
    ],
  },
  {
    name: 'the host ports of all containers are errors of each container',
    scc: {},
    spec: {
      initContainers: [{ name: 'init', ports: [{ hostPort: 0 }, { hostPort: 80 }] }],
      containers: [{ name: 'app' }],
    },
    errors: [
      '.initContainers[0].initContainers[0].hostPort: Invalid value: 80: Host ports are not allowed to be used',
      '.containers[0].initContainers[0].hostPort: Invalid value: 80: Host ports are not allowed to be used',
    ],
  },
  {
    name: 'host namespaces and ports are allowed',
    scc: EVERYTHING,
    spec: { hostNetwork: true, hostPID: true, hostIPC: true, containers: [{ name: 'app', ports: [{ hostPort: 80 }] }] },
  },
  { name: 'RequirePodLevel: hostUsers false', scc: REQUIRE, spec: { hostUsers: false } },
  {
    name: 'RequirePodLevel: hostUsers not set',
    scc: REQUIRE,
    errors: ['.spec.hostUsers: Invalid value: null: Host Users must be set to false'],
  },
  {
    name: 'an unknown userNamespaceLevel has no effect',
    scc: { userNamespaceLevel: 'RequireEverything' },
    spec: { hostUsers: true },
  },
]);

function sysctls(...names: string[]) {
  return { pod: { sysctls: names.map((name) => ({ name, value: '1' })) } };
}

checkStrategies([
  { name: 'safe sysctls', scc: {}, ...sysctls('kernel.shm_rmid_forced', 'net.ipv4.tcp_wmem') },
  {
    name: 'unsafe sysctls; slashes are not dots',
    scc: {},
    ...sysctls('kernel.msgmax', 'net.ipv4.tcp_rmem', 'net/ipv4/tcp_rmem'),
    errors: [
      'spec.securityContext.sysctls[0]: Forbidden: unsafe sysctl "kernel.msgmax" is not allowed',
      'spec.securityContext.sysctls[2]: Forbidden: unsafe sysctl "net/ipv4/tcp_rmem" is not allowed',
    ],
  },
  {
    name: 'sysctls allowed by name and by prefix',
    scc: { allowedUnsafeSysctls: ['kernel.msg*', 'vm.swappiness'] },
    ...sysctls('kernel.msgmax', 'vm.swappiness'),
  },
  {
    name: 'forbiddenSysctls override safe and allowed sysctls',
    scc: { allowedUnsafeSysctls: ['*'], forbiddenSysctls: ['kernel.*'] },
    ...sysctls('kernel.shm_rmid_forced'),
    errors: ['spec.securityContext.sysctls[0]: Forbidden: sysctl "kernel.shm_rmid_forced" is not allowed'],
  },
]);

const NAMESPACE = { path: 'namespace', fieldRef: { apiVersion: 'v1', fieldPath: 'metadata.namespace' } };
const INJECTED = [
  { serviceAccountToken: { path: 'token', expirationSeconds: 3607 } },
  { configMap: { name: 'kube-root-ca.crt', items: [{ key: 'ca.crt', path: 'ca.crt' }] } },
  { downwardAPI: { items: [NAMESPACE] } },
];

function volumes(...list: JsonObject[]): { readonly spec: JsonObject } {
  return { spec: { volumes: list } };
}

function projected(...sources: unknown[]): { readonly spec: JsonObject } {
  return volumes({ name: 'v', projected: { sources } });
}

const NOT_PROJECTED = ['.spec.volumes[0]: Invalid value: "projected": projected volumes are not allowed to be used'];

const likeInjected: StrategyCase[] = [{ audience: 'vault', path: 'token' }, { path: 'other' }].map(
  (serviceAccountToken) => ({
    name: `not the token for the service account: ${JSON.stringify(serviceAccountToken)}`,
    scc: { volumes: ['secret'] },
    ...projected({ serviceAccountToken }),
    errors: NOT_PROJECTED,
  }),
);

checkStrategies([
  { name: 'a listed volume type', scc: { volumes: ['nfs'] }, ...volumes({ name: 'v', nfs: {} }) },
  { name: 'all volume types', scc: { volumes: ['*'] }, ...volumes({ name: 'v', hostPath: {} }) },
  {
    name: 'volume types that are not listed',
    scc: { volumes: ['cephFS', 'none'] },
    ...volumes({ name: 'a', cephfs: {} }, { name: 'b', hostPath: {} }, { name: 'c', vsphereVolume: {} }),
    errors: [
      '.spec.volumes[1]: Invalid value: "hostPath": hostPath volumes are not allowed to be used',
      '.spec.volumes[2]: Invalid value: "vsphere": vsphere volumes are not allowed to be used',
    ],
  },
  {
    name: 'of several volume sources, the most dangerous applies',
    scc: { volumes: ['secret', 'emptyDir'] },
    ...volumes({ name: 'v', secret: {}, hostPath: {}, emptyDir: {} }),
    errors: ['.spec.volumes[0]: Invalid value: "hostPath": hostPath volumes are not allowed to be used'],
  },
  {
    name: 'an unknown volume source',
    scc: { volumes: ['secret'] },
    ...volumes({ name: 'v', hologram: {} }),
    errors: ['.spec.volumes[0]: Invalid value: "": unknown volume type for volume: {"name":"v","hologram":{}}'],
  },
  {
    name: 'the volume for the service account is allowed with secret',
    scc: { volumes: ['secret'] },
    ...projected(...INJECTED),
  },
  {
    name: 'the volume for the service account without secret',
    scc: { volumes: ['configMap'] },
    ...projected(...INJECTED),
    errors: NOT_PROJECTED,
  },
  {
    name: 'the volume for the service account with another source',
    scc: { volumes: ['secret'] },
    ...projected(...INJECTED, { secret: {} }),
    errors: NOT_PROJECTED,
  },
  ...likeInjected,
  {
    name: 'all flex volume drivers',
    scc: { volumes: ['flexVolume'] },
    ...volumes({ name: 'v', flexVolume: { driver: 'example/a' } }),
  },
  {
    name: 'a flex volume driver that is not listed',
    scc: { volumes: ['*'], allowedFlexVolumes: [{ driver: 'example/a' }] },
    ...volumes({ name: 'v', flexVolume: { driver: 'example/b' } }),
    errors: [
      '.spec.volumes[0].flexVolume.driver: Invalid value: "example/b": Flexvolume driver is not allowed to be used',
    ],
  },
]);

const folder = new URL('../../../src/policy/scc/strategies/', import.meta.url);

test('every strategy is registered once', async () => {
  const registered: readonly unknown[] = [...POD_STRATEGIES, ...CONTAINER_STRATEGIES];
  const strategies: unknown[] = [];
  for (const file of readdirSync(folder)) {
    if (file === 'index.ts') continue;
    const exported = Object.values((await import(new URL(file, folder).href)) as Record<string, unknown>);
    strategies.push(...exported.filter((value) => isStrategy(value)));
  }
  assert.equal(new Set(registered).size, registered.length);
  assert.deepEqual(new Set(strategies), new Set(registered));
});

function isStrategy(value: unknown): boolean {
  return typeof value === 'object' && value !== null && ('validate' in value || 'generate' in value);
}
