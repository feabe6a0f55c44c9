/** Tests the level of an SCC with cases, and with random pods that the SCC admits. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import fc from 'fast-check';
import type { SecurityContextConstraints } from '../../../src/kube/scc.ts';
import { isObject, type JsonObject, type Namespace, type PodLike } from '../../../src/kube/types.ts';
import { psaLevel } from '../../../src/policy/psa/scc-level.ts';
import { evaluatePod, type Level, type Version } from '../../../src/policy/pss/index.ts';
import { assignScc, defaultScc, STANDARD_SCCS, validateSccObject } from '../../../src/policy/scc/index.ts';
import { candidatesFor, volumeSource } from '../../support/scc-witnesses.ts';
import { laxScc, namespaceWith } from '../../support/scc.ts';

const NAMESPACE = namespaceWith({ 'openshift.io/sa.scc.uid-range': '1000660000/10000' });
const NONE = namespaceWith({});

/** An SCC whose pods are restricted. */
const STRICT = {
  allowPrivilegeEscalation: false,
  requiredDropCapabilities: ['ALL'],
  seLinuxContext: { type: 'MustRunAs' },
  runAsUser: { type: 'MustRunAsNonRoot' },
  seccompProfiles: ['runtime/default'],
  volumes: ['secret'],
};

/** The recorded levels and the random pods below cover all other fields. */
suite('the upstream profile and the accurate profile give different levels only for', () => {
  const cases: readonly (readonly [fields: JsonObject, upstream: Level, accurate: Level])[] = [
    [{ requiredDropCapabilities: ['all'] }, 'baseline', 'baseline'],
    [{ defaultAddCapabilities: ['CHOWN'] }, 'restricted', 'baseline'],
    [{ defaultAddCapabilities: ['SYS_ADMIN'] }, 'restricted', 'privileged'],
    [{ allowedUnsafeSysctls: ['net.ipv4.tcp_rmem'] }, 'privileged', 'restricted'],
    [{ allowedUnsafeSysctls: ['net.*'] }, 'privileged', 'privileged'],
    [
      { seLinuxContext: { type: 'MustRunAs', seLinuxOptions: { type: 'container_engine_t' } } },
      'privileged',
      'restricted',
    ],
    [{ runAsUser: { type: 'RunAsAny' }, userNamespaceLevel: 'RequirePodLevel' }, 'baseline', 'restricted'],
  ];
  for (const [fields, upstream, accurate] of cases) {
    test(JSON.stringify(fields), () => {
      const scc = laxScc({ ...STRICT, ...fields });
      assert.deepEqual(psaLevel(scc, NAMESPACE, { profile: 'upstream' }), { level: upstream });
      assert.deepEqual(psaLevel(scc, NAMESPACE, { profile: 'accurate' }), { level: accurate });
    });
  }
});

suite('user namespaces change the level for only two fields of an SCC that requires user namespaces:', () => {
  const engine = { type: 'MustRunAs', seLinuxOptions: { type: 'container_engine_t' } };
  const required = { userNamespaceLevel: 'RequirePodLevel' };
  const anybody = { type: 'RunAsAny' };
  const cases: readonly (readonly [fields: JsonObject, ignore: Level, aware: Level])[] = [
    [{ ...required, runAsUser: anybody }, 'baseline', 'restricted'],
    [{ ...required, runAsUser: { type: 'Maybe' } }, 'privileged', 'restricted'],
    [{ ...required, runAsUser: { type: 'MustRunAsRange', uidRangeMin: 0, uidRangeMax: 9 } }, 'baseline', 'restricted'],
    [{ ...required, seLinuxContext: engine }, 'privileged', 'restricted'],
    [
      { ...required, seLinuxContext: { type: 'MustRunAs', seLinuxOptions: { type: 'spc_t' } } },
      'privileged',
      'privileged',
    ],
    [{ ...required, seccompProfiles: ['*'] }, 'privileged', 'privileged'],
    [{ ...required, requiredDropCapabilities: [] }, 'baseline', 'baseline'],
    [{ ...required, allowedUnsafeSysctls: ['net.ipv4.tcp_rmem'] }, 'privileged', 'privileged'],
    [{ runAsUser: anybody }, 'baseline', 'baseline'],
    [{ userNamespaceLevel: 'AllowHostLevel', seLinuxContext: engine }, 'privileged', 'privileged'],
  ];
  for (const [fields, ignore, aware] of cases) {
    test(JSON.stringify(fields), () => {
      const scc = laxScc({ ...STRICT, ...fields });
      const levelWith = (userNamespaces: 'aware' | 'ignore') =>
        psaLevel(scc, NAMESPACE, { profile: 'upstream', userNamespaces }).level;
      assert.deepEqual([levelWith('ignore'), levelWith('aware')], [ignore, aware]);
    });
  }

  test('a missing UID range does not affect the level of an SCC that requires user namespaces', () => {
    const scc = laxScc({ ...STRICT, ...required, runAsUser: { type: 'MustRunAsRange' } });
    const level = psaLevel(scc, NONE, { profile: 'upstream', userNamespaces: 'aware' });
    assert.deepEqual(level, { level: 'restricted' });
  });

  test('user namespaces can be ignored in the accurate profile', () => {
    const scc = laxScc({ ...STRICT, ...required, runAsUser: anybody });
    const level = psaLevel(scc, NAMESPACE, { profile: 'accurate', userNamespaces: 'ignore' });
    assert.deepEqual(level, { level: 'baseline' });
  });
});

suite('the level in the accurate profile depends on the version:', () => {
  const container_engine_t = { seLinuxContext: { type: 'MustRunAs', seLinuxOptions: { type: 'container_engine_t' } } };
  const anyUser = { userNamespaceLevel: 'RequirePodLevel', runAsUser: { type: 'RunAsAny' } };
  const cases: readonly (readonly [name: string, fields: JsonObject, version: Version, level: Level])[] = [
    ['tcp_rmem', { allowedUnsafeSysctls: ['net.ipv4.tcp_rmem'] }, 'v1.31', 'privileged'],
    ['tcp_rmem', { allowedUnsafeSysctls: ['net.ipv4.tcp_rmem'] }, 'v1.32', 'restricted'],
    ['container_engine_t', container_engine_t, 'v1.30', 'privileged'],
    ['container_engine_t', container_engine_t, 'v1.31', 'restricted'],
    ['any user in a user namespace', anyUser, 'v1.34', 'baseline'],
    ['any user in a user namespace', anyUser, 'v1.35', 'restricted'],
  ];
  for (const [name, fields, version, level] of cases) {
    test(`${name} at ${version}`, () => {
      const scc = laxScc({ ...STRICT, ...fields });
      assert.deepEqual(psaLevel(scc, NAMESPACE, { profile: 'accurate', version }), { level });
    });
  }
});

suite('an SCC that cannot be evaluated is privileged in the upstream profile, and the error is returned:', () => {
  const range = { runAsUser: { type: 'MustRunAsRange' } };
  const missing = 'namespace "demo": unable to find annotation openshift.io/sa.scc.uid-range';
  const cases: readonly (readonly [fields: JsonObject, error: string])[] = [
    [range, missing],
    [{ ...range, volumes: ['hologram'] }, 'unknown volume type "hologram"'],
    [{ runAsUser: { type: 'Maybe' } }, 'unknown strategy "Maybe" for runAsUser'],
  ];
  for (const [fields, error] of cases) {
    test(error, () => {
      const scc = laxScc({ ...STRICT, ...fields });
      assert.deepEqual(psaLevel(scc, NONE, { profile: 'upstream' }), { level: 'privileged', error });
      assert.deepEqual(psaLevel(scc, NONE, { profile: 'accurate' }), { level: 'baseline' });
    });
  }

  test('a field with the wrong type is an error', () => {
    const scc = laxScc({ ...STRICT, volumes: 'all' });
    for (const profile of ['upstream', 'accurate'] as const) {
      const error = 'volumes: Invalid value: "all": must be a list';
      assert.deepEqual(psaLevel(scc, NAMESPACE, { profile }), { level: 'privileged', error });
    }
  });
});

suite('the accurate profile agrees with the newest checks for', () => {
  const isBaseline = (securityContext: JsonObject, container: JsonObject = {}): boolean => {
    const pod = { spec: { securityContext, containers: [{ name: 'a', securityContext: container }] } };
    return evaluatePod(pod, { level: 'baseline', version: 'latest' }).allowed;
  };
  const isPrivileged = (fields: JsonObject): boolean =>
    psaLevel(laxScc({ ...STRICT, ...fields }), NAMESPACE, { profile: 'accurate' }).level === 'privileged';

  for (const type of ['container_t', 'container_init_t', 'container_kvm_t', 'container_engine_t', 'spc_t']) {
    test(type, () => {
      const seLinuxContext = { type: 'MustRunAs', seLinuxOptions: { type } };
      assert.equal(isPrivileged({ seLinuxContext }), !isBaseline({ seLinuxOptions: { type } }));
    });
  }

  const capabilities = [
    ...['AUDIT_WRITE', 'CHOWN', 'DAC_OVERRIDE', 'FOWNER', 'FSETID', 'KILL', 'MKNOD', 'NET_BIND_SERVICE', 'SETFCAP'],
    ...['SETGID', 'SETPCAP', 'SETUID', 'SYS_CHROOT', 'SYS_ADMIN', 'NET_RAW', 'ALL', '*'],
  ];
  for (const name of capabilities) {
    test(name, () =>
      assert.equal(isPrivileged({ allowedCapabilities: [name] }), !isBaseline({}, { capabilities: { add: [name] } })),
    );
  }
});

const one = fc.constantFrom;
const CAPABILITIES = ['ALL', 'CHOWN', 'KILL', 'NET_BIND_SERVICE', 'NET_RAW', 'SYS_ADMIN', 'SETUID'];
const PROFILES = ['runtime/default', 'docker/default', 'unconfined', 'localhost/a'];
const SYSCTLS = ['kernel.shm_rmid_forced', 'net.ipv4.tcp_rmem', 'net.ipv4.tcp_notsent_lowat', 'kernel.msgmax'];
const SAFE_VOLUMES = ['configMap', 'csi', 'downwardAPI', 'emptyDir', 'ephemeral', 'image', 'projected', 'secret'];
const VOLUMES = [...SAFE_VOLUMES, 'persistentVolumeClaim', 'nfs', 'flexVolume', 'gitRepo', 'cephFS', 'hostPath'];
const TYPES = ['container_t', 'container_init_t', 'container_kvm_t', 'container_engine_t', 'spc_t'];
const IDS = [0, 1, 1000, 1_000_650_000];

/**
 * The objects have at most three members. With more members, almost every object would be privileged, because the most
 * permissive member determines the level.
 */
function few<T extends Readonly<Record<string, fc.Arbitrary<unknown>>>>(members: T, maxLength = 3) {
  return fc
    .subarray(Object.keys(members), { maxLength: Math.min(maxLength, Object.keys(members).length) })
    .chain((keys) => {
      const chosen = Object.entries(members).filter(([name]) => keys.includes(name));
      return fc.record(Object.fromEntries(chosen));
    });
}

/** An SCC whose pods are restricted. */
const RESTRICTED_SCC = {
  metadata: { name: 'custom' },
  allowPrivilegeEscalation: false,
  requiredDropCapabilities: ['ALL'],
  seLinuxContext: { type: 'MustRunAs' },
  runAsUser: { type: 'MustRunAsRange' },
  seccompProfiles: ['runtime/default'],
  volumes: SAFE_VOLUMES,
};

const seLinuxOptions = few({ type: one(...TYPES), level: one('s0', 's0:c5,c26'), user: one('system_u') }, 2);

const scc: fc.Arbitrary<SecurityContextConstraints> = few({
  allowPrivilegedContainer: fc.boolean(),
  allowHostDirVolumePlugin: fc.boolean(),
  allowHostNetwork: fc.boolean(),
  allowHostPorts: fc.boolean(),
  allowHostPID: fc.boolean(),
  allowHostIPC: fc.boolean(),
  userNamespaceLevel: one('AllowHostLevel', 'RequirePodLevel'),
  allowPrivilegeEscalation: one(true, false, null),
  defaultAllowPrivilegeEscalation: fc.boolean(),
  defaultAddCapabilities: fc.subarray(CAPABILITIES, { maxLength: 2 }),
  requiredDropCapabilities: fc.subarray(CAPABILITIES, { maxLength: 2 }),
  allowedCapabilities: fc.subarray(['*', ...CAPABILITIES], { maxLength: 2 }),
  volumes: fc.oneof(fc.subarray(['*', 'none', ...VOLUMES], { maxLength: 3 }), one(null)),
  seLinuxContext: fc.record({ type: one('MustRunAs', 'RunAsAny'), seLinuxOptions }, { requiredKeys: ['type'] }),
  runAsUser: fc.oneof(
    fc.record({ type: one('RunAsAny', 'MustRunAsNonRoot', 'MustRunAsRange') }),
    fc.record({ type: fc.constant('MustRunAs'), uid: one(...IDS) }),
    one(...IDS).map((min) => ({ type: 'MustRunAsRange', uidRangeMin: min, uidRangeMax: min + 10 })),
  ),
  fsGroup: fc.record({ type: one('MustRunAs', 'RunAsAny') }),
  readOnlyRootFilesystem: fc.boolean(),
  seccompProfiles: fc.subarray(['*', ...PROFILES], { maxLength: 2 }),
  allowedUnsafeSysctls: fc.subarray(['net.*', 'kernel.*', '*', ...SYSCTLS], { maxLength: 2 }),
  forbiddenSysctls: fc.subarray(['net.*', ...SYSCTLS], { maxLength: 2 }),
})
  .map((fields) => defaultScc(asParsed({ ...RESTRICTED_SCC, ...fields })))
  .filter((object) => validateSccObject(object).length === 0);

const shared = {
  runAsUser: one(...IDS),
  runAsNonRoot: fc.constant(true),
  seLinuxOptions,
  seccompProfile: one({ type: 'RuntimeDefault' }, { type: 'Unconfined' }, { type: 'Localhost', localhostProfile: 'a' }),
};

const container = few({
  ports: one([{ containerPort: 80 }], [{ containerPort: 80, hostPort: 80 }]),
  securityContext: few(
    {
      ...shared,
      privileged: fc.boolean(),
      allowPrivilegeEscalation: fc.boolean(),
      capabilities: few({
        add: fc.subarray(CAPABILITIES, { maxLength: 2 }),
        drop: fc.subarray(CAPABILITIES, { maxLength: 2 }),
      }),
    },
    2,
  ),
}).map((fields) => ({ name: 'a', image: 'registry.example/app:1', ...fields }));

const pod: fc.Arbitrary<JsonObject> = fc
  .record({
    spec: few({
      hostNetwork: fc.boolean(),
      hostPID: fc.boolean(),
      hostIPC: fc.boolean(),
      hostUsers: one(false, false, true),
      securityContext: few({
        ...shared,
        sysctls: fc.subarray(SYSCTLS, { maxLength: 2 }).map((names) => names.map((name) => ({ name, value: '1' }))),
      }),
      volumes: fc
        .subarray(VOLUMES, { maxLength: 2 })
        .map((types) => types.map((type) => ({ name: type.toLowerCase(), [volumeSource(type)]: {} }))),
      initContainers: fc.array(container, { maxLength: 1 }),
    }),
    containers: fc.array(container, { minLength: 1, maxLength: 2 }),
  })
  .map(({ spec, containers }) => asParsed({ metadata: { name: 'p' }, spec: { ...spec, containers } }))
  .filter((object) => !overridesRoot(object as PodLike));

const namespace: fc.Arbitrary<Namespace> = one('1000650000/10000', '0/10', '1-100').map((range) => ({
  metadata: {
    name: 'demo',
    annotations: { 'openshift.io/sa.scc.uid-range': range, 'openshift.io/sa.scc.mcs': 's0:c26,c5' },
  },
}));

/** The standards evaluate a pod-level user even if every container overrides it, but SCCs do not. */
function overridesRoot({ spec }: PodLike): boolean {
  const containers = [...(spec?.initContainers ?? []), ...(spec?.containers ?? [])];
  return (
    spec?.securityContext?.runAsUser === 0 &&
    containers.every(({ securityContext }) => securityContext?.runAsUser !== undefined)
  );
}

function asParsed<T>(value: T): T {
  return JSON.parse(JSON.stringify(value)) as T;
}

/** Returns the pod with the changes of the SCC, or `undefined` if the SCC does not admit the pod. */
function admittedBy(object: SecurityContextConstraints, given: unknown, place: Namespace): PodLike | undefined {
  const decision = assignScc({
    operation: 'CREATE',
    object: given,
    namespace: place,
    userInfo: { username: 'alice', groups: [] },
    sccs: [object],
    access: { canUse: () => true },
  });
  return decision.allowed && isObject(decision.object) ? decision.object : undefined;
}

function isAllowed(given: PodLike, level: Level): boolean {
  return evaluatePod(given, { level, version: 'latest' }).allowed;
}

const STRICTER: Readonly<Record<Level, Level | undefined>> = {
  privileged: 'baseline',
  baseline: 'restricted',
  restricted: undefined,
};

suite('the accurate level of an SCC', () => {
  test('admits every pod that the SCC admits', () => {
    const admitted = { privileged: 0, baseline: 0, restricted: 0 };
    fc.assert(
      fc.property(scc, pod, namespace, (object, given, place) => {
        const { level } = psaLevel(object, place, { profile: 'accurate' });
        assert.ok(level);
        const found = admittedBy(object, given, place);
        if (found === undefined) return;
        admitted[level]++;
        const { allowed, detail } = evaluatePod(found, { level, version: 'latest' });
        assert.ok(allowed, `${level}: ${detail}`);
      }),
      { numRuns: 1500 },
    );
    assert.ok(admitted.restricted > 20 && admitted.baseline > 20, JSON.stringify(admitted));
  });

  test('is necessary for at least one pod that the SCC admits', () => {
    const found = { privileged: 0, baseline: 0 };
    fc.assert(
      fc.property(scc, namespace, (object, place) => {
        const { level } = psaLevel(object, place, { profile: 'accurate' });
        assert.ok(level);
        const stricter = STRICTER[level];
        const pods = candidatesFor(object).flatMap((given) => admittedBy(object, given, place) ?? []);
        if (stricter === undefined || pods.length === 0 || level === 'restricted') return;
        found[level]++;
        assert.ok(
          pods.some((given) => !isAllowed(given, stricter)),
          `no admitted pod needs ${level}`,
        );
      }),
      { numRuns: 600 },
    );
    assert.ok(found.privileged > 50 && found.baseline > 50, JSON.stringify(found));
  });

  test('is correct for every standard SCC', () => {
    const place = fc.sample(namespace, 1)[0];
    assert.ok(place);
    for (const standard of STANDARD_SCCS) {
      const { level } = psaLevel(standard.scc, place, { profile: 'accurate' });
      const pods = candidatesFor(standard.scc).flatMap((given) => admittedBy(standard.scc, given, place) ?? []);
      assert.ok(level && pods.length > 0, standard.scc.metadata?.name);
      const stricter = STRICTER[level];
      for (const given of pods) assert.ok(isAllowed(given, level));
      assert.ok(stricter === undefined || pods.some((given) => !isAllowed(given, stricter)));
    }
  });
});
