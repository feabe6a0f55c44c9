import fc, { type Arbitrary } from 'fast-check';
import type { PodLike } from '../../../src/kube/types.ts';
import { minorVersion } from '../../../src/policy/pss/cel-policy.ts';
import { checks, newestVersion, type Version } from '../../../src/policy/pss/library.ts';
import { violatingPod } from '../../support/pod-security.ts';

/**
 * Generates correctly typed pods with boundary values for the checks, and the example of each check. Most fields have
 * the value of a compliant pod, so many pods violate at most one check.
 */
export function pods(): Arbitrary<PodLike> {
  const pod = fc.oneof(
    { weight: 9, arbitrary: fc.record({ metadata: maybe(metadata), spec }) },
    { weight: 1, arbitrary: fc.constantFrom(...checks.map(violatingPod)) },
  );
  return pod.map((one) => JSON.parse(JSON.stringify(one)) as PodLike);
}

/** Generates the known versions, a newer version, and `latest`. */
export function versions(): Arbitrary<Version> {
  return fc.oneof(
    fc.integer({ min: 0, max: minorVersion(newestVersion) + 1 }).map((minor): Version => `v1.${minor}`),
    fc.constant<Version>('latest'),
  );
}

const annotationKeys = [
  'example.org/a',
  'container.apparmor.security.beta.kubernetes.io/a',
  'container.seccomp.security.alpha.kubernetes.io/a',
  'seccomp.security.alpha.kubernetes.io/pod',
];

const metadata = fc.record(
  {
    annotations: fc.dictionary(
      fc.constantFrom(...annotationKeys),
      fc.constantFrom('', 'runtime/default', 'unconfined'),
    ),
  },
  { requiredKeys: [] },
);

const profile = mostly({ type: 'RuntimeDefault' }, { type: 'Localhost' }, { type: 'Unconfined' }, {});
const seLinuxOptions = mostly(
  {},
  { type: 'container_t' },
  { type: 'container_engine_t' },
  { type: 'spc_t' },
  { user: 'u', role: 'r' },
);

const shared = {
  runAsNonRoot: mostly(true, false, undefined),
  runAsUser: mostly(1000, 0, undefined),
  seccompProfile: profile,
  appArmorProfile: maybe(profile),
  seLinuxOptions: maybe(seLinuxOptions),
  windowsOptions: mostly(undefined, { hostProcess: true }, { hostProcess: false }),
};

const capabilities = fc.record({
  drop: mostly(['ALL'], [], ['NET_RAW']),
  add: mostly(undefined, ['NET_BIND_SERVICE'], ['CHOWN'], ['SYS_ADMIN', 'CHOWN']),
});

const securityContext = fc.record({
  ...shared,
  capabilities: mostlyPresent(capabilities),
  allowPrivilegeEscalation: mostly(false, true, undefined),
  privileged: mostly(undefined, true, false),
  procMount: mostly(undefined, 'Default', 'Unmasked', ''),
});

const handler = mostly({ httpGet: { port: 80 } }, { tcpSocket: { host: 'h' } }, { httpGet: { host: '' } });

const container = fc.record({
  name: fc.constantFrom('a', 'b', 'c'),
  securityContext: mostlyPresent(securityContext),
  ports: mostly(undefined, [{ containerPort: 80 }], [{ hostPort: 80 }, { hostPort: 0 }]),
  livenessProbe: maybe(handler),
  lifecycle: maybe(fc.record({ postStart: handler })),
});

const volume = fc.oneof(
  { weight: 4, arbitrary: fc.constantFrom({ emptyDir: {} }, { configMap: {} }, { projected: {} }, { image: {} }) },
  { weight: 1, arbitrary: fc.constantFrom({ hostPath: { path: '/' } }, { nfs: {} }, {}, { hostPath: {}, secret: {} }) },
);

const spec = fc.record({
  hostNetwork: mostly(undefined, true, false),
  hostPID: mostly(undefined, true),
  hostIPC: mostly(undefined, true),
  hostUsers: mostly(undefined, false, true),
  os: mostly(undefined, { name: 'windows' }, { name: 'linux' }),
  securityContext: mostlyPresent(
    fc.record({ ...shared, sysctls: mostly([], [{ name: 'net.ipv4.tcp_rmem' }], [{ name: 'kernel.msgmax' }]) }),
  ),
  volumes: fc.array(volume, { maxLength: 3 }),
  initContainers: fc.array(container, { maxLength: 1 }),
  containers: fc.array(container, { maxLength: 2 }),
  ephemeralContainers: maybe(fc.array(container, { maxLength: 1 })),
});

/** Generates the first value with a probability of 15/16, otherwise another value. */
function mostly<T>(usual: T, ...others: readonly T[]): Arbitrary<T> {
  return fc.oneof({ weight: 15, arbitrary: fc.constant(usual) }, { weight: 1, arbitrary: fc.constantFrom(...others) });
}

function mostlyPresent<T>(usual: Arbitrary<T>): Arbitrary<T | undefined> {
  return fc.oneof({ weight: 15, arbitrary: usual }, { weight: 1, arbitrary: fc.constant(undefined) });
}

function maybe<T>(arbitrary: Arbitrary<T>): Arbitrary<T | undefined> {
  return fc.oneof({ weight: 4, arbitrary: fc.constant(undefined) }, { weight: 1, arbitrary });
}
