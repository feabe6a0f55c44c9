import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { parse } from 'yaml';
import type { PodLike } from '../../../src/kube/types.ts';
import { decodeError, evaluatePod } from '../../../src/policy/pss/index.ts';

const POLICY = { level: 'baseline', version: 'latest' } as const;

/** The pod as YAML, the path of the mistyped field, and the error without its prefix. */
const WRONG: readonly [given: string, path: string, message: string][] = [
  ['[]', '', 'array into Go value of type v1.Pod'],
  ['pod', '', 'string into Go value of type v1.Pod'],
  ['5', '', 'number into Go value of type v1.Pod'],
  ['metadata: []', 'metadata', 'array into Go struct field Pod.metadata of type v1.ObjectMeta'],
  [
    'metadata: { annotations: x }',
    'metadata.annotations',
    'string into Go struct field ObjectMeta.metadata.annotations of type map[string]string',
  ],
  [
    'metadata: { annotations: { a: b, "c[*]$&": true } }',
    'metadata.annotations[c[*]$&]',
    'bool into Go struct field ObjectMeta.metadata.annotations of type string',
  ],
  ['spec: x', 'spec', 'string into Go struct field Pod.spec of type v1.PodSpec'],
  [
    'spec: { hostNetwork: "true" }',
    'spec.hostNetwork',
    'string into Go struct field PodSpec.spec.hostNetwork of type bool',
  ],
  ['spec: { hostPID: 1 }', 'spec.hostPID', 'number into Go struct field PodSpec.spec.hostPID of type bool'],
  ['spec: { hostIPC: {} }', 'spec.hostIPC', 'object into Go struct field PodSpec.spec.hostIPC of type bool'],
  ['spec: { hostUsers: [] }', 'spec.hostUsers', 'array into Go struct field PodSpec.spec.hostUsers of type bool'],
  ['spec: { os: windows }', 'spec.os', 'string into Go struct field PodSpec.spec.os of type v1.PodOS'],
  ['spec: { os: { name: 1 } }', 'spec.os.name', 'number into Go struct field PodOS.spec.os.name of type v1.OSName'],
  [
    'spec: { runtimeClassName: 1 }',
    'spec.runtimeClassName',
    'number into Go struct field PodSpec.spec.runtimeClassName of type string',
  ],
  [
    'spec: { containers: { name: a } }',
    'spec.containers',
    'object into Go struct field PodSpec.spec.containers of type []v1.Container',
  ],
  [
    'spec: { initContainers: x }',
    'spec.initContainers',
    'string into Go struct field PodSpec.spec.initContainers of type []v1.Container',
  ],
  [
    'spec: { ephemeralContainers: 1 }',
    'spec.ephemeralContainers',
    'number into Go struct field PodSpec.spec.ephemeralContainers of type []v1.EphemeralContainer',
  ],
  [
    'spec: { containers: [{}, a] }',
    'spec.containers[1]',
    'string into Go struct field PodSpec.spec.containers of type v1.Container',
  ],
  [
    'spec: { containers: [{}, { name: 5 }] }',
    'spec.containers[1].name',
    'number into Go struct field Container.spec.containers.name of type string',
  ],
  [
    'spec: { initContainers: [{ image: {} }] }',
    'spec.initContainers[0].image',
    'object into Go struct field Container.spec.initContainers.image of type string',
  ],
  [
    'spec: { containers: [{ ports: [{}, 80] }] }',
    'spec.containers[0].ports[1]',
    'number into Go struct field Container.spec.containers.ports of type v1.ContainerPort',
  ],
  [
    'spec: { containers: [{ ports: [{}, { hostPort: "80" }] }] }',
    'spec.containers[0].ports[1].hostPort',
    'string into Go struct field ContainerPort.spec.containers.ports.hostPort of type int32',
  ],
  [
    'spec: { containers: [{ ports: [{ hostPort: 2147483648 }] }] }',
    'spec.containers[0].ports[0].hostPort',
    'number 2147483648 into Go struct field ContainerPort.spec.containers.ports.hostPort of type int32',
  ],
  [
    'spec: { containers: [{ livenessProbe: x }] }',
    'spec.containers[0].livenessProbe',
    'string into Go struct field Container.spec.containers.livenessProbe of type v1.Probe',
  ],
  [
    'spec: { containers: [{ readinessProbe: { httpGet: x } }] }',
    'spec.containers[0].readinessProbe.httpGet',
    'string into Go struct field Probe.spec.containers.readinessProbe.httpGet of type v1.HTTPGetAction',
  ],
  [
    'spec: { containers: [{ startupProbe: { tcpSocket: { host: 1 } } }] }',
    'spec.containers[0].startupProbe.tcpSocket.host',
    'number into Go struct field TCPSocketAction.spec.containers.startupProbe.tcpSocket.host of type string',
  ],
  [
    'spec: { containers: [{ lifecycle: { preStop: [] } }] }',
    'spec.containers[0].lifecycle.preStop',
    'array into Go struct field Lifecycle.spec.containers.lifecycle.preStop of type v1.LifecycleHandler',
  ],
  [
    'spec: { containers: [{ securityContext: x }] }',
    'spec.containers[0].securityContext',
    'string into Go struct field Container.spec.containers.securityContext of type v1.SecurityContext',
  ],
  [
    'spec: { ephemeralContainers: [{ securityContext: { privileged: "true" } }] }',
    'spec.ephemeralContainers[0].securityContext.privileged',
    'string into Go struct field SecurityContext.spec.ephemeralContainers.securityContext.privileged of type bool',
  ],
  [
    'spec: { containers: [{ securityContext: { allowPrivilegeEscalation: 0 } }] }',
    'spec.containers[0].securityContext.allowPrivilegeEscalation',
    'number into Go struct field SecurityContext.spec.containers.securityContext.allowPrivilegeEscalation of type bool',
  ],
  [
    'spec: { containers: [{ securityContext: { procMount: {} } }] }',
    'spec.containers[0].securityContext.procMount',
    'object into Go struct field SecurityContext.spec.containers.securityContext.procMount of type v1.ProcMountType',
  ],
  [
    'spec: { containers: [{ securityContext: { capabilities: [ALL] } }] }',
    'spec.containers[0].securityContext.capabilities',
    'array into Go struct field SecurityContext.spec.containers.securityContext.capabilities of type v1.Capabilities',
  ],
  [
    'spec: { containers: [{ securityContext: { capabilities: { drop: ALL } } }] }',
    'spec.containers[0].securityContext.capabilities.drop',
    'string into Go struct field Capabilities.spec.containers.securityContext.capabilities.drop of type []v1.Capability',
  ],
  [
    'spec: { containers: [{ securityContext: { capabilities: { add: [KILL, 5] } } }] }',
    'spec.containers[0].securityContext.capabilities.add[1]',
    'number into Go struct field Capabilities.spec.containers.securityContext.capabilities.add of type v1.Capability',
  ],
  [
    'spec: { containers: [{ securityContext: { runAsNonRoot: "true" } }] }',
    'spec.containers[0].securityContext.runAsNonRoot',
    'string into Go struct field SecurityContext.spec.containers.securityContext.runAsNonRoot of type bool',
  ],
  [
    'spec: { securityContext: [] }',
    'spec.securityContext',
    'array into Go struct field PodSpec.spec.securityContext of type v1.PodSecurityContext',
  ],
  [
    'spec: { securityContext: { runAsUser: "0" } }',
    'spec.securityContext.runAsUser',
    'string into Go struct field PodSecurityContext.spec.securityContext.runAsUser of type int64',
  ],
  [
    'spec: { securityContext: { runAsUser: 0.5 } }',
    'spec.securityContext.runAsUser',
    'number 0.5 into Go struct field PodSecurityContext.spec.securityContext.runAsUser of type int64',
  ],
  [
    'spec: { securityContext: { runAsUser: 1e30 } }',
    'spec.securityContext.runAsUser',
    'number 1e+30 into Go struct field PodSecurityContext.spec.securityContext.runAsUser of type int64',
  ],
  [
    'spec: { securityContext: { seccompProfile: RuntimeDefault } }',
    'spec.securityContext.seccompProfile',
    'string into Go struct field PodSecurityContext.spec.securityContext.seccompProfile of type v1.SeccompProfile',
  ],
  [
    'spec: { securityContext: { seccompProfile: { type: [RuntimeDefault] } } }',
    'spec.securityContext.seccompProfile.type',
    'array into Go struct field SeccompProfile.spec.securityContext.seccompProfile.type of type v1.SeccompProfileType',
  ],
  [
    'spec: { containers: [{ securityContext: { appArmorProfile: { type: 1 } } }] }',
    'spec.containers[0].securityContext.appArmorProfile.type',
    'number into Go struct field AppArmorProfile.spec.containers.securityContext.appArmorProfile.type of type v1.AppArmorProfileType',
  ],
  [
    'spec: { containers: [{ securityContext: { seLinuxOptions: { user: 1 } } }] }',
    'spec.containers[0].securityContext.seLinuxOptions.user',
    'number into Go struct field SELinuxOptions.spec.containers.securityContext.seLinuxOptions.user of type string',
  ],
  [
    'spec: { securityContext: { windowsOptions: { hostProcess: yes! } } }',
    'spec.securityContext.windowsOptions.hostProcess',
    'string into Go struct field WindowsSecurityContextOptions.spec.securityContext.windowsOptions.hostProcess of type bool',
  ],
  [
    'spec: { serviceAccountName: 1 }',
    'spec.serviceAccountName',
    'number into Go struct field PodSpec.spec.serviceAccountName of type string',
  ],
  [
    'spec: { securityContext: { fsGroup: "1" } }',
    'spec.securityContext.fsGroup',
    'string into Go struct field PodSecurityContext.spec.securityContext.fsGroup of type int64',
  ],
  [
    'spec: { securityContext: { supplementalGroups: [1, "2"] } }',
    'spec.securityContext.supplementalGroups[1]',
    'string into Go struct field PodSecurityContext.spec.securityContext.supplementalGroups of type int64',
  ],
  [
    'spec: { securityContext: { sysctls: {} } }',
    'spec.securityContext.sysctls',
    'object into Go struct field PodSecurityContext.spec.securityContext.sysctls of type []v1.Sysctl',
  ],
  [
    'spec: { securityContext: { sysctls: [{ name: a }, { name: 1 }] } }',
    'spec.securityContext.sysctls[1].name',
    'number into Go struct field Sysctl.spec.securityContext.sysctls.name of type string',
  ],
  [
    'spec: { volumes: { name: v } }',
    'spec.volumes',
    'object into Go struct field PodSpec.spec.volumes of type []v1.Volume',
  ],
  [
    'spec: { volumes: [{}, v] }',
    'spec.volumes[1]',
    'string into Go struct field PodSpec.spec.volumes of type v1.Volume',
  ],
  [
    'spec: { volumes: [{ name: 1 }] }',
    'spec.volumes[0].name',
    'number into Go struct field Volume.spec.volumes.name of type string',
  ],
  [
    'spec: { volumes: [{ name: v, hostPath: / }] }',
    'spec.volumes[0].hostPath',
    'string into Go struct field Volume.spec.volumes.hostPath of type v1.HostPathVolumeSource',
  ],
  [
    'spec: { volumes: [{ name: v, hostPath: {}, emptyDir: true }] }',
    'spec.volumes[0].emptyDir',
    'bool into Go struct field Volume.spec.volumes.emptyDir of type v1.EmptyDirVolumeSource',
  ],
  [
    'spec: { volumes: [{ name: v, hostPath: { path: 1 } }] }',
    'spec.volumes[0].hostPath.path',
    'number into Go struct field HostPathVolumeSource.spec.volumes.hostPath.path of type string',
  ],
];

describe('a wrong type is denied at every level except privileged', () => {
  for (const [given, path, message] of WRONG) {
    test(given, () => {
      const pod = parse(given) as PodLike;
      const detail = `json: cannot unmarshal ${message}`;
      assert.equal(decodeError(pod), detail);
      const refusal = {
        allowed: false,
        violations: [{ check: 'decode', reason: 'undecodable field', detail }],
        reason: 'undecodable field',
        detail: `undecodable field (${detail})`,
      };
      assert.deepEqual(evaluatePod(pod, POLICY), refusal);
      assert.deepEqual(evaluatePod(pod, { level: 'restricted', version: 'v1.0' }), refusal);
      assert.equal(evaluatePod(pod, { level: 'privileged', version: 'latest' }).allowed, true);
    });

    test(`${given}: its field`, () => {
      const { violations } = evaluatePod(parse(given) as PodLike, { ...POLICY, fields: true });
      const fields = violations[0]?.fields?.map((field) => [field.type, field.path]);
      assert.deepEqual(fields, [['FieldValueTypeInvalid', path]]);
    });
  }
});

test('an absent pod is an error', () => {
  for (const nothing of [null, undefined]) {
    assert.equal(decodeError(nothing), 'there is no pod');
    const { detail } = evaluatePod(nothing as unknown as PodLike, POLICY);
    assert.equal(detail, 'undecodable field (there is no pod)');
  }
});

/** Values of the right type, and fields that are not read. */
const RIGHT: readonly string[] = [
  '{}',
  'spec: null',
  'metadata: null',
  'metadata: { annotations: null, labels: 5 }',
  'metadata: { annotations: { a: null } }',
  'spec: { containers: null, initContainers: [null], hostNetwork: null, hostUsers: null, os: null }',
  'spec: { os: { name: null }, volumes: [null, { name: null, hostPath: null }] }',
  'spec: { securityContext: { sysctls: [], runAsUser: null, seccompProfile: null, windowsOptions: {} } }',
  'spec: { securityContext: { runAsUser: 9223372036854775807 } }',
  'spec: { securityContext: { runAsUser: -0 } }',
  'spec: { containers: [{ ports: [null, { hostPort: null }], securityContext: { capabilities: { add: null } } }] }',
  'spec: { containers: [{ env: 5, command: {}, __proto__: { securityContext: 5 }, constructor: [] }] }',
  'spec: { tolerations: x, hostNetworK: 1, toString: 1 }',
];

for (const given of RIGHT) {
  test(`decodes: ${given}`, () => assert.equal(decodeError(parse(given)), undefined));
}

test('a key named __proto__ in JSON sets nothing', () => {
  const pod = JSON.parse('{"spec":{"__proto__":{"hostNetwork":true,"volumes":5},"containers":[]}}') as PodLike;
  assert.equal(evaluatePod(pod, POLICY).allowed, true);
});

test('an object without a prototype is an object', () => {
  const pod = Object.assign(Object.create(null) as PodLike, { spec: { hostPID: true } });
  assert.equal(evaluatePod(pod, POLICY).detail, 'host namespaces (hostPID=true)');
});

test('long lists are evaluated completely', () => {
  const containers = Array.from({ length: 500 }, (_, index) => ({
    name: `c${index}`,
    securityContext: { privileged: index === 499 },
    ports: Array.from({ length: 30 }, () => ({ containerPort: 80 })),
  }));
  const sysctls = Array.from({ length: 500 }, (_, index) => ({
    name: index === 499 ? 'x' : 'kernel.shm_rmid_forced',
    value: '1',
  }));
  const volumes = Array.from({ length: 500 }, (_, index) => ({
    name: `v${index}`,
    [index === 499 ? 'hostPath' : 'emptyDir']: {},
  }));
  const pod = { spec: { containers, volumes, securityContext: { sysctls } } } as unknown as PodLike;
  assert.equal(
    evaluatePod(pod, POLICY).detail,
    'hostPath volumes (volume "v499"), privileged (container "c499" must not set securityContext.privileged=true), forbidden sysctls (x)',
  );
  assert.equal(evaluatePod({ spec: { containers: [] } }, POLICY).allowed, true);
});

test('a huge pod is evaluated within seconds', () => {
  const add = Array.from({ length: 9_000 }, (_, index) => `CAP_${index}`);
  const ports = Array.from({ length: 9_000 }, (_, index) => ({ hostPort: index + 1 }));
  const pod = {
    spec: { containers: [{ name: 'c', ports, securityContext: { capabilities: { add } } }] },
  } as unknown as PodLike;
  const start = performance.now();
  assert.equal(evaluatePod(pod, { ...POLICY, fields: true }).reason, 'non-default capabilities, hostPort');
  assert.ok(performance.now() - start < 5_000);
});
