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

/** What an SCC makes of a pod, or what it holds against it. */
interface StrategyCase {
  readonly name: string;
  /** Beside these fields the SCC is lax; it takes nothing from a namespace. */
  readonly scc: JsonObject;
  /** The security context of the pod, and that of its one container `app`. */
  readonly pod?: JsonObject;
  readonly container?: JsonObject;
  /** Fields of the pod spec beside them, and annotations. */
  readonly spec?: JsonObject;
  readonly annotations?: JsonObject;
  /** The parts that are to change; without errors and changes the pod stays as it is. */
  readonly expected: {
    readonly errors?: readonly string[];
    readonly pod?: JsonObject;
    readonly container?: JsonObject;
    readonly annotations?: JsonObject;
  };
}

function checkStrategies(cases: readonly StrategyCase[]): void {
  for (const { name, scc, expected, ...parts } of cases) {
    test(name, () => {
      const before = podOf(parts);
      const prepared = prepareScc(laxScc({ ...scc, name: 'some' }));
      const attempt = completePod(prepared, { namespace: readNamespaceRanges({}), pod: podFieldsOf(before) });
      assert.deepEqual(formatErrors('some', attempt.errors), expected.errors ?? []);
      if (expected.errors) return;
      const { pod = parts.pod, container = parts.container } = expected;
      const annotations = { ...parts.annotations, ...expected.annotations };
      const after = podOf({ ...parts, ...(pod && { pod }), ...(container && { container }), annotations });
      assert.deepEqual(writePod(attempt, {}), after);
    });
  }
}

function podOf({
  pod,
  container,
  spec,
  annotations = {},
}: Omit<StrategyCase, 'name' | 'scc' | 'expected'>): JsonObject {
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
  { name: 'the lowest id of the range', scc: RANGE, expected: { container: { runAsUser: 1000, runAsNonRoot: true } } },
  {
    name: 'the user of the pod is taken over',
    scc: RANGE,
    pod: { runAsUser: 1500 },
    expected: { container: { runAsNonRoot: true } },
  },
  {
    name: 'the user of the container goes before a wrong one of the pod',
    scc: RANGE,
    pod: { runAsUser: 0 },
    container: { runAsUser: 1999 },
    expected: { container: { runAsUser: 1999, runAsNonRoot: true } },
  },
  {
    name: 'a user above the range',
    scc: RANGE,
    container: { runAsUser: 2000 },
    expected: {
      errors: ['provider some: .containers[0].runAsUser: Invalid value: 2000: must be in the ranges: [1000, 1999]'],
    },
  },
  {
    name: 'an id fits no empty range, not even its own first',
    scc: { runAsUser: { type: 'MustRunAsRange', uidRangeMin: 5, uidRangeMax: 4 } },
    expected: { errors: ['provider some: .containers[0].runAsUser: Invalid value: 5: must be in the ranges: [5, 4]'] },
  },
  { name: 'root is not marked as another', scc: ROOT, expected: { container: { runAsUser: 0 } } },
  {
    name: 'a user other than the one',
    scc: ROOT,
    pod: { runAsUser: 7 },
    expected: { errors: ['provider some: .containers[0].runAsUser: Invalid value: 7: must be: 0'] },
  },
  { name: 'not root, whoever the image names', scc: NON_ROOT, expected: { container: { runAsNonRoot: true } } },
  {
    name: 'not root, but root is asked for',
    scc: NON_ROOT,
    container: { runAsUser: 0 },
    expected: {
      errors: ['provider some: .containers[0].runAsUser: Invalid value: 0: running with the root UID is forbidden'],
    },
  },
  {
    name: 'root may not be left open',
    scc: NON_ROOT,
    pod: { runAsNonRoot: false },
    container: { runAsUser: 1000 },
    expected: { errors: ['provider some: .containers[0].runAsNonRoot: Invalid value: false: must be true'] },
  },
  {
    name: 'any user is marked if it is not root',
    scc: {},
    container: { runAsUser: 1000 },
    expected: { container: { runAsUser: 1000, runAsNonRoot: true } },
  },
  { name: 'any user: nobody is nobody', scc: {}, expected: {} },
]);

const LABEL = { seLinuxContext: { type: 'MustRunAs', seLinuxOptions: { level: 's0:c26,c5', type: 'svirt_t' } } };
const OPTIONS = { level: 's0:c26,c5', type: 'svirt_t' };

checkStrategies([
  { name: 'the pod gets all members', scc: LABEL, expected: { pod: { seLinuxOptions: OPTIONS } } },
  {
    name: 'categories in another order are the same',
    scc: LABEL,
    pod: { seLinuxOptions: { level: 's0:c5,c26', type: 'svirt_t' } },
    expected: {},
  },
  {
    name: 'ranges are not expanded',
    scc: { seLinuxContext: { type: 'MustRunAs', seLinuxOptions: { level: 's0:c1.c3' } } },
    pod: { seLinuxOptions: { level: 's0:c1,c2,c3' } },
    expected: {
      errors: [
        'provider some: .spec.securityContext.seLinuxOptions.level: Invalid value: "s0:c1,c2,c3": must be s0:c1.c3',
        'provider some: .containers[0].seLinuxOptions.level: Invalid value: "s0:c1,c2,c3": must be s0:c1.c3',
      ],
    },
  },
  {
    name: 'options of a container stand alone: what they lack is empty',
    scc: LABEL,
    container: { seLinuxOptions: { user: 'u' } },
    expected: {
      errors: [
        'provider some: .containers[0].seLinuxOptions.level: Invalid value: "": must be s0:c26,c5',
        'provider some: .containers[0].seLinuxOptions.type: Invalid value: "": must be svirt_t',
        'provider some: .containers[0].seLinuxOptions.user: Invalid value: "u": must be ',
      ],
    },
  },
  {
    name: 'any context: options of the SCC mean nothing',
    scc: { seLinuxContext: { type: 'RunAsAny', seLinuxOptions: OPTIONS } },
    expected: {},
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
  { name: 'the first fsGroup', scc: FS_GROUP, expected: { pod: { fsGroup: 10 } } },
  { name: 'an fsGroup of the second range', scc: FS_GROUP, pod: { fsGroup: 30 }, expected: {} },
  {
    name: 'an fsGroup between the ranges',
    scc: FS_GROUP,
    pod: { fsGroup: 20 },
    expected: {
      errors: ['provider some: .spec.securityContext.fsGroup: Invalid value: [20]: 20 is not an allowed group'],
    },
  },
  { name: 'the first supplemental group', scc: SUPPLEMENTAL, expected: { pod: { supplementalGroups: [10] } } },
  {
    name: 'an empty list is none',
    scc: SUPPLEMENTAL,
    pod: { supplementalGroups: [] },
    expected: { pod: { supplementalGroups: [10] } },
  },
  {
    name: 'each wrong group is told with all of them',
    scc: SUPPLEMENTAL,
    pod: { supplementalGroups: [10, 1, 2] },
    expected: {
      errors: [
        'provider some: .spec.securityContext.supplementalGroups: Invalid value: [10,1,2]: 1 is not an allowed group',
        'provider some: .spec.securityContext.supplementalGroups: Invalid value: [10,1,2]: 2 is not an allowed group',
      ],
    },
  },
  {
    name: 'of a long list only the first wrong group is told',
    scc: SUPPLEMENTAL,
    pod: { supplementalGroups: LONG },
    expected: {
      errors: [
        `provider some: .spec.securityContext.supplementalGroups: Invalid value: ${JSON.stringify(LONG)}: 100 is not an allowed group`,
      ],
    },
  },
  { name: 'any group', scc: {}, pod: { fsGroup: 0, supplementalGroups: [0] }, expected: {} },
]);

const POD = 'seccomp.security.alpha.kubernetes.io/pod';
const APP = 'container.seccomp.security.alpha.kubernetes.io/app';
const DEFAULT = { seccompProfiles: ['runtime/default'] };

checkStrategies([
  {
    name: 'the first profile, as field and as annotation',
    scc: { seccompProfiles: ['*', 'localhost/a', 'unconfined'] },
    expected: {
      pod: { seccompProfile: { type: 'Localhost', localhostProfile: 'a' } },
      annotations: { [POD]: 'localhost/a' },
    },
  },
  { name: 'a wildcard alone generates nothing', scc: { seccompProfiles: ['*'] }, expected: {} },
  {
    name: 'a field brings its annotation, under every SCC that allows it',
    scc: { seccompProfiles: ['*'] },
    pod: { seccompProfile: { type: 'Unconfined' } },
    expected: { annotations: { [POD]: 'unconfined' } },
  },
  {
    name: 'the annotation goes before the field and rewrites it',
    scc: { seccompProfiles: ['*'] },
    pod: { seccompProfile: { type: 'Unconfined' } },
    annotations: { [POD]: 'docker/default' },
    expected: { pod: { seccompProfile: { type: 'RuntimeDefault' } } },
  },
  {
    name: 'an annotation that says nothing known removes the field',
    scc: { seccompProfiles: ['*'] },
    pod: { runAsUser: 0, seccompProfile: { type: 'Unconfined' } },
    annotations: { [POD]: 'localhost/' },
    expected: { pod: { runAsUser: 0 } },
  },
  {
    name: 'the annotation of a container becomes its field',
    scc: { seccompProfiles: ['*'] },
    annotations: { [APP]: 'localhost/b' },
    expected: { container: { seccompProfile: { type: 'Localhost', localhostProfile: 'b' } } },
  },
  {
    name: 'both names of the default of the runtime are one',
    scc: { seccompProfiles: ['docker/default'] },
    pod: { seccompProfile: { type: 'RuntimeDefault' } },
    expected: { annotations: { [POD]: 'runtime/default' } },
  },
  {
    name: 'an SCC without profiles allows none',
    scc: {},
    pod: { seccompProfile: { type: 'RuntimeDefault' } },
    expected: {
      errors: [
        `metadata.annotations[${POD}]: Forbidden: seccomp may not be set`,
        `metadata.annotations[${APP}]: Forbidden: seccomp may not be set`,
      ],
    },
  },
  {
    name: 'a profile that is not listed',
    scc: { seccompProfiles: ['runtime/default', 'localhost/a'] },
    container: { seccompProfile: { type: 'Localhost', localhostProfile: 'b' } },
    expected: {
      errors: [
        `metadata.annotations[${APP}]: Forbidden: localhost/b is not an allowed seccomp profile. Valid values are [runtime/default localhost/a]`,
      ],
    },
  },
  {
    name: 'localhost/* is no pattern',
    scc: { seccompProfiles: ['localhost/*'] },
    annotations: { [POD]: 'localhost/a' },
    expected: {
      errors: [POD, APP].map(
        (key) =>
          `metadata.annotations[${key}]: Forbidden: localhost/a is not an allowed seccomp profile. Valid values are [localhost/*]`,
      ),
    },
  },
  {
    name: 'a field of the container is enough against a default of the pod',
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
    expected: {
      errors: ['provider some: .containers[0].privileged: Invalid value: true: Privileged containers are not allowed'],
    },
  },
  {
    name: 'privileged where it is allowed',
    scc: { allowPrivilegedContainer: true },
    container: { privileged: true },
    expected: {},
  },
  {
    name: 'no escalation is the default where it is forbidden',
    scc: NO_ESCALATION,
    expected: { container: { allowPrivilegeEscalation: false } },
  },
  {
    name: 'also of privileged containers',
    scc: { ...NO_ESCALATION, allowPrivilegedContainer: true, defaultAllowPrivilegeEscalation: true },
    container: { privileged: true },
    expected: { container: { privileged: true, allowPrivilegeEscalation: false } },
  },
  {
    name: 'escalation',
    scc: NO_ESCALATION,
    container: { allowPrivilegeEscalation: true },
    expected: {
      errors: [
        'provider some: .containers[0].allowPrivilegeEscalation: Invalid value: true: Allowing privilege escalation for containers is not allowed',
      ],
    },
  },
  {
    name: 'the default of the SCC',
    scc: { defaultAllowPrivilegeEscalation: false },
    expected: { container: { allowPrivilegeEscalation: false } },
  },
  {
    name: 'the default is not for CAP_SYS_ADMIN',
    scc: { defaultAllowPrivilegeEscalation: false, allowedCapabilities: ['*'] },
    container: { capabilities: { add: ['CAP_SYS_ADMIN'] } },
    expected: {},
  },
  {
    name: 'but for SYS_ADMIN',
    scc: { defaultAllowPrivilegeEscalation: false, allowedCapabilities: ['*'] },
    container: { capabilities: { add: ['SYS_ADMIN'] } },
    expected: { container: { capabilities: { add: ['SYS_ADMIN'] }, allowPrivilegeEscalation: false } },
  },
  {
    name: 'a root file system for reading',
    scc: { readOnlyRootFilesystem: true },
    expected: { container: { readOnlyRootFilesystem: true } },
  },
  {
    name: 'a root file system for writing',
    scc: { readOnlyRootFilesystem: true },
    container: { readOnlyRootFilesystem: false },
    expected: {
      errors: [
        'provider some: .containers[0].readOnlyRootFilesystem: Invalid value: false: ReadOnlyRootFilesystem must be set to true',
      ],
    },
  },
]);

checkStrategies([
  {
    name: 'defaults are added and drops dropped',
    scc: { defaultAddCapabilities: ['KILL'], requiredDropCapabilities: ['MKNOD', 'CHOWN'] },
    expected: { container: { capabilities: { add: ['KILL'], drop: ['CHOWN', 'MKNOD'] } } },
  },
  {
    name: 'what the container drops is not added',
    scc: { defaultAddCapabilities: ['KILL'] },
    container: { capabilities: { drop: ['KILL'] } },
    expected: {},
  },
  {
    name: 'lists that lack nothing stay as they are, repetitions and all',
    scc: { requiredDropCapabilities: ['MKNOD'] },
    container: { capabilities: { add: [], drop: ['MKNOD', 'ALL', 'MKNOD'] } },
    expected: {},
  },
  {
    name: 'ALL does not stand for the others',
    scc: { requiredDropCapabilities: ['KILL', 'MKNOD'] },
    container: { capabilities: { drop: ['ALL'] } },
    expected: { container: { capabilities: { drop: ['ALL', 'KILL', 'MKNOD'] } } },
  },
  {
    name: 'case counts',
    scc: { requiredDropCapabilities: ['ALL'] },
    container: { capabilities: { drop: ['all'] } },
    expected: { container: { capabilities: { drop: ['ALL', 'all'] } } },
  },
  {
    name: 'added without permission',
    scc: { allowedCapabilities: ['ALL'] },
    container: { capabilities: { add: ['NET_RAW', 'ALL'] } },
    expected: {
      errors: ['provider some: .containers[0].capabilities.add: Invalid value: "NET_RAW": capability may not be added'],
    },
  },
  {
    name: 'a wildcard allows all',
    scc: { allowedCapabilities: ['*'] },
    container: { capabilities: { add: ['NET_RAW'] } },
    expected: {},
  },
]);

const EVERYTHING = { allowHostNetwork: true, allowHostPorts: true, allowHostPID: true, allowHostIPC: true };
const REQUIRE = { userNamespaceLevel: 'RequirePodLevel' };

checkStrategies([
  {
    name: 'namespaces of the host, told of the pod and of the container',
    scc: {},
    spec: { hostNetwork: true, hostPID: true, hostIPC: true },
    expected: {
      errors: [
        'provider some: .spec.hostNetwork: Invalid value: true: Host network is not allowed to be used',
        'provider some: .spec.hostPID: Invalid value: true: Host PID is not allowed to be used',
        'provider some: .spec.hostIPC: Invalid value: true: Host IPC is not allowed to be used',
        'provider some: .containers[0].hostNetwork: Invalid value: true: Host network is not allowed to be used',
        'provider some: .containers[0].hostPID: Invalid value: true: Host PID is not allowed to be used',
        'provider some: .containers[0].hostIPC: Invalid value: true: Host IPC is not allowed to be used',
      ],
    },
  },
  {
    name: 'each container is charged with the ports of all',
    scc: {},
    spec: {
      initContainers: [{ name: 'init', ports: [{ hostPort: 0 }, { hostPort: 80 }] }],
      containers: [{ name: 'app' }],
    },
    expected: {
      errors: [
        'provider some: .initContainers[0].initContainers[0].hostPort: Invalid value: 80: Host ports are not allowed to be used',
        'provider some: .containers[0].initContainers[0].hostPort: Invalid value: 80: Host ports are not allowed to be used',
      ],
    },
  },
  {
    name: 'all where it is allowed',
    scc: EVERYTHING,
    spec: { hostNetwork: true, hostPID: true, hostIPC: true, containers: [{ name: 'app', ports: [{ hostPort: 80 }] }] },
    expected: {},
  },
  { name: 'a user namespace where one is required', scc: REQUIRE, spec: { hostUsers: false }, expected: {} },
  {
    name: 'no word about a user namespace where one is required',
    scc: REQUIRE,
    expected: { errors: ['provider some: .spec.hostUsers: Invalid value: null: Host Users must be set to false'] },
  },
  {
    name: 'a level that nobody knows requires nothing',
    scc: { userNamespaceLevel: 'RequireEverything' },
    spec: { hostUsers: true },
    expected: {},
  },
]);

function sysctls(...names: string[]) {
  return { pod: { sysctls: names.map((name) => ({ name, value: '1' })) } };
}

checkStrategies([
  { name: 'safe ones', scc: {}, ...sysctls('kernel.shm_rmid_forced', 'net.ipv4.tcp_wmem'), expected: {} },
  {
    name: 'unsafe ones, each with its place; another spelling is another name',
    scc: {},
    ...sysctls('kernel.msgmax', 'net.ipv4.tcp_rmem', 'net/ipv4/tcp_rmem'),
    expected: {
      errors: [
        'spec.securityContext.sysctls[0]: Forbidden: unsafe sysctl "kernel.msgmax" is not allowed',
        'spec.securityContext.sysctls[2]: Forbidden: unsafe sysctl "net/ipv4/tcp_rmem" is not allowed',
      ],
    },
  },
  {
    name: 'allowed by name and by prefix',
    scc: { allowedUnsafeSysctls: ['kernel.msg*', 'vm.swappiness'] },
    ...sysctls('kernel.msgmax', 'vm.swappiness'),
    expected: {},
  },
  {
    name: 'forbidden goes before safe and allowed',
    scc: { allowedUnsafeSysctls: ['*'], forbiddenSysctls: ['kernel.*'] },
    ...sysctls('kernel.shm_rmid_forced'),
    expected: {
      errors: ['spec.securityContext.sysctls[0]: Forbidden: sysctl "kernel.shm_rmid_forced" is not allowed'],
    },
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

const notProjected = {
  errors: ['provider some: .spec.volumes[0]: Invalid value: "projected": projected volumes are not allowed to be used'],
};

const likeInjected: StrategyCase[] = [{ audience: 'vault', path: 'token' }, { path: 'other' }].map(
  (serviceAccountToken) => ({
    name: `not injected: a token with ${JSON.stringify(serviceAccountToken)}`,
    scc: { volumes: ['secret'] },
    ...projected({ serviceAccountToken }),
    expected: notProjected,
  }),
);

checkStrategies([
  { name: 'a listed type', scc: { volumes: ['nfs'] }, ...volumes({ name: 'v', nfs: {} }), expected: {} },
  { name: 'every type', scc: { volumes: ['*'] }, ...volumes({ name: 'v', hostPath: {} }), expected: {} },
  {
    name: 'types that are not listed, each with its place',
    scc: { volumes: ['cephFS', 'none'] },
    ...volumes({ name: 'a', cephfs: {} }, { name: 'b', hostPath: {} }, { name: 'c', vsphereVolume: {} }),
    expected: {
      errors: [
        'provider some: .spec.volumes[1]: Invalid value: "hostPath": hostPath volumes are not allowed to be used',
        'provider some: .spec.volumes[2]: Invalid value: "vsphere": vsphere volumes are not allowed to be used',
      ],
    },
  },
  {
    name: 'of several sources the most dangerous counts',
    scc: { volumes: ['secret', 'emptyDir'] },
    ...volumes({ name: 'v', secret: {}, hostPath: {}, emptyDir: {} }),
    expected: {
      errors: [
        'provider some: .spec.volumes[0]: Invalid value: "hostPath": hostPath volumes are not allowed to be used',
      ],
    },
  },
  {
    name: 'a source that is not known',
    scc: { volumes: ['secret'] },
    ...volumes({ name: 'v', hologram: {} }),
    expected: {
      errors: [
        'provider some: .spec.volumes[0]: Invalid value: "": unknown volume type for volume: {"name":"v","hologram":{}}',
      ],
    },
  },
  {
    name: 'what is injected for the service account',
    scc: { volumes: ['secret'] },
    ...projected(...INJECTED),
    expected: {},
  },
  { name: 'not without secrets', scc: { volumes: ['configMap'] }, ...projected(...INJECTED), expected: notProjected },
  {
    name: 'nor with others beside it',
    scc: { volumes: ['secret'] },
    ...projected(...INJECTED, { secret: {} }),
    expected: notProjected,
  },
  ...likeInjected,
  {
    name: 'flex volumes of every driver',
    scc: { volumes: ['flexVolume'] },
    ...volumes({ name: 'v', flexVolume: { driver: 'example/a' } }),
    expected: {},
  },
  {
    name: 'flex volumes of listed drivers only',
    scc: { volumes: ['*'], allowedFlexVolumes: [{ driver: 'example/a' }] },
    ...volumes({ name: 'v', flexVolume: { driver: 'example/b' } }),
    expected: {
      errors: [
        'provider some: .spec.volumes[0].flexVolume.driver: Invalid value: "example/b": Flexvolume driver is not allowed to be used',
      ],
    },
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
