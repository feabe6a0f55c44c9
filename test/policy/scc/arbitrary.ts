/** Generates pods, SCCs and requests. The values come from small sets, so SCCs often allow pods. */
import fc from 'fast-check';
import type { SecurityContextConstraints } from '../../../src/kube/scc.ts';
import type { JsonObject } from '../../../src/kube/types.ts';
import type { SccInput } from '../../../src/policy/scc/index.ts';
import { defaultScc } from '../../../src/policy/scc/object-defaults.ts';
import { validateSccObject } from '../../../src/policy/scc/object-validation.ts';
import { STANDARD_SCCS } from '../../../src/policy/scc/standard.ts';
import { accessBy, type Grant } from '../../support/scc.ts';

const one = fc.constantFrom;
const CAPABILITIES = ['ALL', 'CHOWN', 'KILL', 'MKNOD', 'NET_BIND_SERVICE', 'CAP_SYS_ADMIN', 'SETUID'];
const PROFILES = ['runtime/default', 'docker/default', 'unconfined', 'localhost/a', 'localhost/', 'odd'];
const SYSCTLS = ['kernel.shm_rmid_forced', 'net.ipv4.tcp_rmem', 'kernel.msgmax'];
const LEVELS = ['s0:c26,c5', 's0:c5,c26', 's0', ''];
const VOLUMES = ['secret', 'emptyDir', 'configMap', 'projected', 'csi', 'hostPath', 'nfs', 'flexVolume'];
const IDS = [0, 1, 999, 1000, 5000, 1_000_650_000, 1_000_650_001];
const HEADS = ['seccomp.security.alpha.kubernetes.io/pod', 'container.seccomp.security.alpha.kubernetes.io/a'];

/** The objects usually have at most two members, because no SCC allows a pod that sets many fields. */
function some<T extends Readonly<Record<string, fc.Arbitrary<unknown>>>>(members: T): fc.Arbitrary<JsonObject> {
  const few = fc.subarray(Object.keys(members), { maxLength: 2 }).chain((keys) => {
    const chosen = Object.entries(members).filter(([name]) => keys.includes(name));
    return fc.record(Object.fromEntries(chosen));
  });
  return fc.oneof({ weight: 4, arbitrary: few }, { weight: 1, arbitrary: fc.record(members, { requiredKeys: [] }) });
}

const seLinuxOptions = some({ level: one(...LEVELS), type: one('container_t', 'spc_t'), user: one('system_u') });
const seccompProfile = fc.oneof(
  one({ type: 'RuntimeDefault' }, { type: 'Unconfined' }, { type: 'Localhost' }),
  fc.record({ type: fc.constant('Localhost'), localhostProfile: one('a', 'b') }),
);
const shared = {
  runAsUser: one(...IDS),
  runAsNonRoot: fc.boolean(),
  seLinuxOptions,
  seccompProfile,
};

const rarely = one(false, false, false, true);

const container = fc.record(
  {
    name: one('a', 'b'),
    image: fc.constant('registry.example/app:1'),
    ports: fc.array(some({ containerPort: one(80), hostPort: one(0, 0, 0, 80, 8080) }), { maxLength: 2 }),
    securityContext: some({
      ...shared,
      privileged: rarely,
      allowPrivilegeEscalation: fc.boolean(),
      readOnlyRootFilesystem: fc.boolean(),
      capabilities: some({
        add: fc.array(one(...CAPABILITIES), { maxLength: 3 }),
        drop: fc.array(one(...CAPABILITIES), { maxLength: 3 }),
      }),
    }),
  },
  { requiredKeys: ['name', 'image'] },
);

const volume = fc.oneof(
  one(...VOLUMES).map((type) => ({ name: type, [type]: type === 'flexVolume' ? { driver: 'example/a' } : {} })),
  fc.constant({ name: 'kube-api-access', projected: { sources: [{ serviceAccountToken: { path: 'token' } }] } }),
);

/** Some fast-check objects have no prototype, unlike objects from JSON.parse. */
function asParsed<T>(value: T): T {
  return JSON.parse(JSON.stringify(value)) as T;
}

export const pod: fc.Arbitrary<JsonObject> = fc
  .record({
    apiVersion: fc.constant('v1'),
    kind: fc.constant('Pod'),
    metadata: fc.record(
      {
        name: fc.constant('p'),
        annotations: fc.dictionary(one(...HEADS, 'other'), one(...PROFILES), { maxKeys: 1, noNullPrototype: true }),
      },
      { requiredKeys: ['name'] },
    ),
    spec: fc.record(
      {
        serviceAccountName: one('default', 'builder'),
        hostNetwork: fc.boolean(),
        hostPID: fc.boolean(),
        hostIPC: fc.boolean(),
        hostUsers: fc.boolean(),
        securityContext: some({
          ...shared,
          fsGroup: one(...IDS),
          supplementalGroups: fc.array(one(...IDS), { maxLength: 2 }),
          sysctls: fc.array(fc.record({ name: one(...SYSCTLS), value: fc.constant('1') }), { maxLength: 2 }),
        }),
        volumes: fc.array(volume, { maxLength: 2 }),
        initContainers: fc.array(container, { maxLength: 1 }),
        containers: fc.array(container, { minLength: 1, maxLength: 2 }),
        ephemeralContainers: fc.array(container, { maxLength: 1 }),
      },
      { requiredKeys: ['containers'] },
    ),
  })
  .map(asParsed);

const range = fc.tuple(one(...IDS), one(...IDS)).map(([a, b]) => ({ min: Math.min(a, b), max: Math.max(a, b) }));
const groups = some({ type: one('MustRunAs', 'RunAsAny'), ranges: fc.array(range, { maxLength: 2 }) });

/** Generates SCCs that the API accepts. */
export const scc: fc.Arbitrary<SecurityContextConstraints> = fc
  .record(
    {
      metadata: fc.record({ name: fc.stringMatching(/^custom-[a-z]$/) }),
      priority: one(0, 5, 10, 20),
      allowPrivilegedContainer: fc.boolean(),
      allowHostDirVolumePlugin: fc.boolean(),
      allowHostNetwork: fc.boolean(),
      allowHostPorts: fc.boolean(),
      allowHostPID: fc.boolean(),
      allowHostIPC: fc.boolean(),
      userNamespaceLevel: one('AllowHostLevel', 'RequirePodLevel'),
      allowPrivilegeEscalation: fc.boolean(),
      defaultAllowPrivilegeEscalation: fc.boolean(),
      defaultAddCapabilities: fc.subarray(CAPABILITIES),
      requiredDropCapabilities: fc.subarray(CAPABILITIES),
      allowedCapabilities: fc.subarray(['*', ...CAPABILITIES]),
      volumes: fc.subarray(['*', ...VOLUMES]),
      allowedFlexVolumes: fc.subarray([{ driver: 'example/a' }, { driver: 'example/b' }]),
      seLinuxContext: fc.record({ type: one('MustRunAs', 'RunAsAny'), seLinuxOptions }, { requiredKeys: ['type'] }),
      runAsUser: fc.oneof(
        fc.record({ type: one('RunAsAny', 'MustRunAsNonRoot', 'MustRunAsRange') }),
        fc.record({ type: fc.constant('MustRunAs'), uid: one(...IDS) }),
        range.map(({ min, max }) => ({ type: 'MustRunAsRange', uidRangeMin: min, uidRangeMax: max })),
      ),
      supplementalGroups: groups,
      fsGroup: groups,
      readOnlyRootFilesystem: fc.boolean(),
      users: fc.subarray(['alice', 'system:serviceaccount:demo:builder']),
      groups: fc.subarray(['dev', 'system:authenticated', 'system:serviceaccounts:demo']),
      seccompProfiles: fc.subarray(['*', ...PROFILES]),
      allowedUnsafeSysctls: fc.subarray(['kernel.*', 'net.ipv4.tcp_rmem']),
      forbiddenSysctls: fc.subarray(['kernel.msgmax']),
    },
    { requiredKeys: ['metadata', 'seLinuxContext', 'runAsUser'] },
  )
  .map(defaultScc)
  .filter((object) => validateSccObject(object).length === 0);

const grant: fc.Arbitrary<Grant> = fc.record(
  {
    user: one('alice', 'system:serviceaccount:demo:default'),
    group: one('dev', 'system:authenticated'),
    namespace: one('demo', 'elsewhere'),
    sccs: fc.subarray([
      'anyuid',
      'restricted',
      'nonroot',
      'nonroot-v2',
      'hostmount-anyuid',
      'hostaccess',
      'privileged',
    ]),
  },
  { requiredKeys: ['group', 'sccs'] },
);

const STANDARD = STANDARD_SCCS.map((standard) => standard.scc);
const STANDARD_GRANTS: Grant = { group: 'system:authenticated', sccs: ['restricted-v2', 'restricted-v3'] };

/** A decision input that contains the SCCs as objects. */
export type ListedInput = SccInput & { readonly sccs: readonly SecurityContextConstraints[] };

/** Generates requests to create a pod in a namespace with valid ranges. */
export const create: fc.Arbitrary<ListedInput> = fc
  .record({
    object: pod,
    sccs: fc
      .uniqueArray(scc, { maxLength: 5, selector: ({ metadata }) => metadata?.name })
      .map((custom) => [...STANDARD, ...custom]),
    userInfo: one(
      { username: 'alice', groups: ['dev', 'system:authenticated'] },
      { username: 'bob', groups: ['system:authenticated'] },
    ),
    annotations: fc.record(
      {
        'openshift.io/sa.scc.uid-range': one('1000650000/10000', '0/10', '1000-2000'),
        'openshift.io/sa.scc.mcs': one('s0:c26,c5', 's0'),
        'openshift.io/sa.scc.supplemental-groups': one('1000650000/10000', '1/5,1000-2000'),
      },
      { requiredKeys: ['openshift.io/sa.scc.uid-range', 'openshift.io/sa.scc.mcs'] },
    ),
    grants: fc.array(grant, { maxLength: 3 }),
    preferUserNamespaces: fc.boolean(),
  })
  .map(({ annotations, grants, ...input }) => ({
    ...asParsed(input),
    operation: 'CREATE' as const,
    namespace: asParsed({ metadata: { name: 'demo', annotations } }),
    access: accessBy([STANDARD_GRANTS, ...grants]),
  }));
