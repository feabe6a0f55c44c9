import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import fc from 'fast-check';
import type { SecurityContextConstraints } from '../../../src/kube/scc.ts';
import type { JsonObject, Namespace, Pod } from '../../../src/kube/types.ts';
import { assignScc } from '../../../src/policy/scc/assign.ts';
import {
  sccWarnings,
  type SccWarningsInput,
  compareAdmission,
  findSccProblems,
  formatSccProblems,
} from '../../../src/policy/scc/advice/scc-warnings.ts';
import { STANDARD_SCCS } from '../../../src/policy/scc/standard.ts';
import { canUseBy, laxScc, namespaceWith, type Grant } from '../../support/scc.ts';
import { pod as anyPod, scc as anyScc } from './arbitrary.ts';
import type { Compatibility } from '../../../src/policy/scc/mode.ts';

const RANGES = { 'openshift.io/sa.scc.uid-range': '1000000000/10000', 'openshift.io/sa.scc.mcs': 's0:c1,c0' };
const STANDARD = STANDARD_SCCS.map(({ scc }) => scc);
const ALL_USERS: readonly Grant[] = [{ group: 'system:authenticated', sccs: ['restricted-v2', 'restricted-v3'] }];

interface Given {
  readonly scc: JsonObject;
  readonly oldScc?: JsonObject;
  readonly grants?: readonly Grant[];
  readonly pods?: readonly Pod[];
  readonly brokenScc?: SccWarningsInput['brokenScc'];
  readonly standardSccs?: 'kept';
  readonly maxPods?: number;
  readonly isOver?: () => boolean;
}

function warningsOf({ scc, oldScc, grants = [], pods = [], brokenScc = 'skip', ...given }: Given) {
  const { standardSccs, maxPods = 100, isOver } = given;
  return sccWarnings({
    ...(standardSccs ? { standardSccs } : {}),
    scc: mine(scc),
    ...(oldScc ? { oldScc: mine(oldScc) } : {}),
    sccs: [...STANDARD, ...(oldScc ? [mine(oldScc)] : [])],
    pods,
    findNamespace: (name) => (name === 'exempt' ? undefined : namespaceIn(name)),
    canUse: canUseBy([...ALL_USERS, ...grants]),
    brokenScc,
    maxPods,
    isOver: isOver ?? (() => false),
  });
}

function mine(fields: JsonObject): SecurityContextConstraints {
  return laxScc({ name: 'mine', ...fields });
}

function namespaceIn(name: string): Namespace {
  return namespaceWith(name === 'new' ? {} : RANGES, name);
}

const REPLICA_SET = { apiVersion: 'apps/v1', kind: 'ReplicaSet', name: 'r', controller: true };

interface PodGiven {
  readonly namespace?: string;
  readonly name?: string;
  readonly serviceAccount?: string;
  readonly owner?: string;
  readonly annotations?: Readonly<Record<string, string>>;
  readonly container?: JsonObject;
}

/** A pod that is admitted by a standard SCC. */
function admitted({ namespace = 'shop', name = 'web', serviceAccount = 'default', ...given }: PodGiven = {}): Pod {
  const object = {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: {
      namespace,
      name,
      annotations: given.annotations ?? {},
      ...(given.owner === undefined ? {} : { ownerReferences: [{ ...REPLICA_SET, uid: given.owner }] }),
    },
    spec: { serviceAccountName: serviceAccount, containers: [{ name: 'c', image: 'i', ...given.container }] },
  };
  const userInfo = { username: 'alice', groups: ['system:authenticated'] };
  const canUse = canUseBy([...ALL_USERS, { user: 'alice', sccs: ['anyuid', 'hostnetwork-v2', 'nonroot-v2'] }]);
  const input = { operation: 'CREATE' as const, object, namespace: namespaceWith(RANGES, namespace), userInfo };
  const decision = assignScc({ ...input, sccs: STANDARD, canUse });
  assert.ok(decision.allowed);
  return decision.object as Pod;
}

const TEAM: readonly Grant[] = [{ group: 'system:serviceaccounts:shop', sccs: ['mine'] }];
const V2 = { annotations: { 'openshift.io/required-scc': 'restricted-v2' } };

/** A pod that is admitted by restricted-v2 and does not require it. */
function restricted(given: PodGiven = {}): Pod {
  const { metadata, spec } = admitted({ ...given, ...V2 });
  const annotations = { ...metadata?.annotations };
  delete annotations['openshift.io/required-scc'];
  return { metadata: { ...metadata, annotations }, spec } as Pod;
}

suite('an SCC that admits no pod', () => {
  const cases: readonly (readonly [name: string, given: Given, expected: readonly string[]])[] = [
    [
      'MustRunAs without a UID',
      { scc: { runAsUser: { type: 'MustRunAs' } } },
      ['SCC "mine" admits no pod: MustRunAs requires a UID'],
    ],
    [
      'MustRunAs without a UID, brokenScc refuse',
      { scc: { runAsUser: { type: 'MustRunAs' } }, brokenScc: 'refuse' },
      ['SCC "mine" blocks every pod of the cluster: MustRunAs requires a UID'],
    ],
    [
      'a range without uidRangeMax',
      { scc: { runAsUser: { type: 'MustRunAsRange', uidRangeMin: 5 } } },
      ['SCC "mine" admits no pod: MustRunAsRange requires a UIDRangeMax'],
    ],
    [
      'a range without uidRangeMin',
      { scc: { runAsUser: { type: 'MustRunAsRange', uidRangeMax: 5 } } },
      ['SCC "mine" admits no pod: MustRunAsRange requires a UIDRangeMin'],
    ],
    [
      'an empty range does not block other SCCs',
      {
        scc: { name: 'mine', runAsUser: { type: 'MustRunAsRange', uidRangeMin: 9, uidRangeMax: 5 } },
        brokenScc: 'refuse',
      },
      ['SCC "mine" admits no pod: runAsUser.uidRangeMin 9 is greater than uidRangeMax 5'],
    ],
    ['a range of the namespace', { scc: { runAsUser: { type: 'MustRunAsRange' } } }, []],
    ['a range with one ID', { scc: { runAsUser: { type: 'MustRunAsRange', uidRangeMin: 5, uidRangeMax: 5 } } }, []],
    [
      'level and groups of the namespace',
      { scc: { seLinuxContext: { type: 'MustRunAs' }, fsGroup: { type: 'MustRunAs' } } },
      [],
    ],
  ];
  for (const [name, given, expected] of cases) {
    test(name, () => assert.deepEqual(warningsOf(given), expected));
  }
});

suite('an SCC for all users', () => {
  const all = (which: string, priority: number): string =>
    `SCC "mine" is usable by all users, and its priority ${priority} orders it before ${which}: it will admit every pod that it allows`;
  const byRole: readonly Grant[] = [{ group: 'system:authenticated', sccs: ['mine'] }];
  const cases: readonly (readonly [name: string, given: Given, expected: readonly string[]])[] = [
    [
      'by its groups, with the highest priority',
      { scc: { priority: 11, groups: ['system:authenticated'] } },
      [all('anyuid and restricted-v2', 11)],
    ],
    ['by a role', { scc: { priority: 11 }, grants: byRole }, [all('anyuid and restricted-v2', 11)]],
    ['after anyuid', { scc: { priority: 10, groups: ['system:authenticated'] } }, [all('restricted-v2', 10)]],
    ['without a priority', { scc: { groups: ['system:authenticated'] } }, []],
    ['with a priority, for some users', { scc: { priority: 11, groups: ['ops'] } }, []],
    [
      'a standard SCC',
      { scc: { name: 'restricted-v2', priority: 1 } },
      [
        'SCC "restricted-v2" is usable by all users, and its priority 1 orders it before hostaccess, hostmount-anyuid and 9 more: it will admit every pod that it allows',
      ],
    ],
  ];
  for (const [name, given, expected] of cases) test(name, () => assert.deepEqual(warningsOf(given), expected));
});

suite('pods of other SCCs', () => {
  const preferred = { priority: 5, volumes: ['*'], seccompProfiles: ['runtime/default'] };
  const warning = (pods: string, where: string, why = 'it has higher priority'): string =>
    `SCC "mine" would admit ${pods} instead of SCC "restricted-v2" in ${where} when created again: ${why}`;
  const cases: readonly (readonly [name: string, given: Given, expected: readonly string[]])[] = [
    ['no pods', { scc: preferred, grants: TEAM }, []],
    ['no service account may use it', { scc: preferred, pods: [restricted()] }, []],
    ['a pod', { scc: preferred, pods: [restricted()], grants: TEAM }, [warning('1 pod', 'namespace shop')]],
    [
      'by the users of the SCC',
      {
        scc: { ...preferred, users: ['system:serviceaccount:shop:robot'] },
        pods: [restricted(), restricted({ serviceAccount: 'robot' })],
      },
      [warning('1 pod', 'namespace shop')],
    ],
    [
      'generated values of the pod are ignored',
      {
        scc: {
          priority: 5,
          requiredDropCapabilities: ['KILL'],
          runAsUser: { type: 'MustRunAs', uid: 7 },
        },
        pods: [restricted()],
        grants: TEAM,
      },
      [warning('1 pod', 'namespace shop')],
    ],
    [
      'other values of the pod are kept',
      {
        scc: { ...preferred, runAsUser: { type: 'MustRunAs', uid: 7 } },
        pods: [restricted({ container: { securityContext: { runAsUser: 1_000_000_001 } } })],
        grants: TEAM,
      },
      [],
    ],
    [
      'a pod that does not fit',
      { scc: { ...preferred, volumes: [] }, pods: [withVolume(restricted())], grants: TEAM },
      [],
    ],
    ['a pod with a required SCC', { scc: preferred, pods: [admitted(V2)], grants: TEAM }, []],
    [
      'a pod of an exempt namespace',
      { scc: { ...preferred, groups: ['system:authenticated'] }, pods: [restricted({ namespace: 'exempt' })] },
      [
        'SCC "mine" is usable by all users, and its priority 5 orders it before restricted-v2: it will admit every pod that it allows',
      ],
    ],
    [
      'a namespace without ranges',
      { scc: { ...preferred, users: ['system:serviceaccount:new:default'] }, pods: [restricted({ namespace: 'new' })] },
      [],
    ],
    [
      'a pod that no SCC admitted',
      { scc: preferred, pods: [{ metadata: { namespace: 'shop' }, spec: { containers: [] } }], grants: TEAM },
      [],
    ],
    [
      'a malformed pod',
      { scc: preferred, pods: [{ metadata: restricted().metadata, spec: { containers: 'x' } } as never], grants: TEAM },
      [],
    ],
    [
      'an SCC that is ordered after the other',
      { scc: { seccompProfiles: ['*'], volumes: ['*'] }, pods: [restricted()], grants: TEAM },
      [],
    ],
    [
      'a lower score',
      {
        scc: {
          ...preferred,
          priority: 0,
          volumes: ['secret'],
          seLinuxContext: { type: 'MustRunAs' },
          runAsUser: { type: 'MustRunAsRange' },
          requiredDropCapabilities: ['ALL'],
        },
        pods: [restricted()],
        grants: TEAM,
      },
      [warning('1 pod', 'namespace shop', 'it forbids non-trivial volume mounts')],
    ],
    [
      'pods of one controller are evaluated once and counted',
      {
        scc: preferred,
        maxPods: 1,
        pods: ['a', 'b', 'c'].map((name) => restricted({ name, owner: 'u' })),
        grants: TEAM,
      },
      [warning('3 pods', 'namespace shop')],
    ],
    [
      'several namespaces',
      {
        scc: { ...preferred, groups: ['system:serviceaccounts'] },
        pods: ['c', 'a', 'b'].map((namespace) => restricted({ namespace })),
      },
      [warning('3 pods', 'namespaces a, b and c')],
    ],
    [
      'more namespaces than fit',
      {
        scc: { ...preferred, groups: ['system:serviceaccounts'] },
        pods: Array.from({ length: 60 }, (_, index) =>
          restricted({ namespace: `team-with-a-rather-long-name-${index + 10}` }),
        ),
      },
      [
        warning(
          '60 pods',
          'namespaces team-with-a-rather-long-name-10, team-with-a-rather-long-name-11, team-with-a-rather-long-name-12 and 57 more',
        ),
      ],
    ],
    [
      'too many pods',
      {
        scc: { ...preferred, groups: ['system:serviceaccounts'] },
        maxPods: 2,
        pods: ['a', 'b', 'c'].map((namespace) => restricted({ namespace })),
      },
      [
        warning('2 pods', 'namespaces a and b'),
        'SCC "mine" was evaluated for only 2 of 3 pods; it may admit others too',
      ],
    ],
    [
      'the time is over',
      {
        scc: { ...preferred, groups: ['system:serviceaccounts'] },
        isOver: () => true,
        pods: ['a', 'b', 'c'].map((namespace) => restricted({ namespace })),
      },
      [warning('1 pod', 'namespace a'), 'SCC "mine" was evaluated for only 1 of 3 pods; it may admit others too'],
    ],
    [
      'an update without effect on the pods',
      { scc: preferred, oldScc: { ...preferred, volumes: ['secret'] }, pods: [restricted()], grants: TEAM },
      [],
    ],
    [
      'an update of the priority',
      { scc: preferred, oldScc: { ...preferred, priority: 0 }, pods: [restricted()], grants: TEAM },
      [warning('1 pod', 'namespace shop')],
    ],
    [
      'an update that allows more',
      {
        scc: preferred,
        oldScc: { ...preferred, runAsUser: { type: 'MustRunAs', uid: 7 } },
        pods: [restricted(), restricted({ container: { securityContext: { runAsUser: 1_000_000_001 } } })],
        grants: TEAM,
      },
      [warning('1 pod', 'namespace shop')],
    ],
  ];
  for (const [name, given, expected] of cases) test(name, () => assert.deepEqual(warningsOf(given), expected));

  test('several SCCs', () => {
    const others = ['a', 'b', 'c', 'd', 'e'].map((name) => laxScc({ name }));
    const pods = others.flatMap(({ metadata }, index) =>
      Array.from({ length: index + 1 }, () => {
        const { metadata: own, spec } = restricted();
        return { metadata: { ...own, annotations: { 'openshift.io/scc': metadata?.name ?? '' } }, spec } as Pod;
      }),
    );
    const input: SccWarningsInput = {
      scc: laxScc({ name: 'mine', priority: 1, users: ['system:serviceaccount:shop:default'], seccompProfiles: ['*'] }),
      sccs: others,
      pods,
      findNamespace: namespaceIn,
      canUse: () => false,
      brokenScc: 'skip',
      maxPods: 100,
      isOver: () => false,
    };
    const warning = (pods: number, scc: string) =>
      `SCC "mine" would admit ${pods} pods instead of SCC "${scc}" in namespace shop when created again: it has higher priority`;
    assert.deepEqual(sccWarnings(input), [
      warning(5, 'e'),
      warning(4, 'd'),
      warning(3, 'c'),
      'SCC "mine" would also admit 3 pods instead of 2 other SCCs',
    ]);
  });
});

test('the number and length of warnings are limited', () => {
  fc.assert(
    fc.property(anyScc, fc.array(anyScc, { maxLength: 8 }), fc.array(anyPod, { maxLength: 8 }), (scc, sccs, pods) => {
      const warnings = sccWarnings({
        scc,
        sccs,
        pods: pods.map((pod, index) => recordedUnder(pod, sccs[index % sccs.length])),
        findNamespace: namespaceIn,
        canUse: () => true,
        brokenScc: 'skip',
        maxPods: 4,
        isOver: () => false,
      });
      assert.ok(warnings.length <= 6);
      for (const warning of warnings) assert.ok(warning.length <= 256, warning);
    }),
  );
});

const distinctSccs = fc.uniqueArray(anyScc, {
  minLength: 1,
  maxLength: 6,
  selector: ({ metadata }) => metadata?.name,
});

test('compareAdmission agrees with the decision on a new pod', () => {
  const input = (sccs: readonly SecurityContextConstraints[], object: unknown) => ({
    operation: 'CREATE' as const,
    object,
    namespace: namespaceIn('shop'),
    userInfo: { username: 'alice', groups: ['system:authenticated'] },
    sccs,
    canUse: () => true,
  });
  const plain = {
    metadata: { namespace: 'shop', name: 'web' },
    spec: {
      serviceAccountName: 'default',
      containers: [{ name: 'c', image: 'i' }],
      volumes: [{ name: 'v', secret: {} }],
    },
  };
  fc.assert(
    fc.property(anyScc, distinctSccs, (generated, others) => {
      const scc = { ...generated, metadata: { name: 'mine' } };
      const before = assignScc(input(others, plain));
      fc.pre(before.allowed);
      const after = assignScc(input([...others, scc], plain));
      assert.ok(after.allowed);
      const { takenOver } = compareAdmission({
        scc,
        sccs: others,
        pods: [before.object as Pod],
        findNamespace: namespaceIn,
        canUse: () => true,
        maxPods: 1,
        isOver: () => false,
      });
      assert.equal(
        takenOver.length === 1,
        (after.object as Pod).metadata?.annotations?.['openshift.io/scc'] === 'mine',
      );
    }),
    { numRuns: 500 },
  );
});

test('long names', () => {
  const name = 'x'.repeat(253);
  const given = { scc: { name, priority: 11, groups: ['system:authenticated'] }, pods: [restricted()] };
  for (const warning of warningsOf(given)) assert.ok(warning.length <= 256, warning);
});

function recordedUnder(pod: JsonObject, scc: SecurityContextConstraints | undefined): Pod {
  const metadata = { namespace: 'shop', annotations: { 'openshift.io/scc': scc?.metadata?.name ?? '' } };
  return { ...pod, metadata };
}

function withVolume({ metadata, spec }: Pod): Pod {
  return { metadata, spec: { ...spec, volumes: [{ name: 'v', secret: {} }] } } as Pod;
}

suite('a standard SCC', () => {
  const named = (name: string, fields: JsonObject): JsonObject => ({
    ...STANDARD.find(({ metadata }) => metadata?.name === name),
    ...fields,
    name,
  });
  const reverted = (name: string, fields: string): string =>
    `SCC "${name}" is a standard SCC and is reconciled. Changes to these fields will be reverted: ${fields}. Create an SCC with another name instead.`;

  test('a reconciled SCC is changed', () => {
    const scc = named('restricted-v2', { priority: 50, volumes: ['configmap'] });
    assert.deepEqual(warningsOf({ scc, standardSccs: 'kept' }), [reverted('restricted-v2', 'priority, volumes')]);
  });
  test('reconciled SCCs without changes', () => {
    for (const { scc } of STANDARD_SCCS) {
      const name = scc.metadata?.name ?? '';
      assert.deepEqual(warningsOf({ scc: named(name, {}), standardSccs: 'kept' }), [], name);
    }
  });
  test('an SCC that is only created may be changed', () => {
    assert.deepEqual(warningsOf({ scc: named('anyuid', { priority: 50 }), standardSccs: 'kept' }), []);
  });
  test('SCCs are not reconciled', () => {
    assert.deepEqual(warningsOf({ scc: named('restricted-v2', { priority: 50 }) }), [
      'SCC "restricted-v2" is usable by all users, and its priority 50 orders it before anyuid: it will admit every pod that it allows',
    ]);
  });
});

suite('invalid values', () => {
  const ACCOUNT = 'is not a service account (system:serviceaccount:NAMESPACE:NAME)';
  const cases: readonly { readonly fields: JsonObject; readonly expected: readonly string[] }[] = [
    {
      fields: { volumes: ['configmap', 'hostpath', 'disk', 'secret', '*'] },
      expected: [
        '"configmap" in volumes is not a volume type; use "configMap"',
        '"hostpath" in volumes is not a volume type; use "hostPath"',
        '"disk" in volumes is not a volume type',
      ],
    },
    {
      fields: { allowedCapabilities: ['CAP_NET_ADMIN', '*'], requiredDropCapabilities: ['ALL', 'net-admin'] },
      expected: [
        '"CAP_NET_ADMIN" in allowedCapabilities is not a capability name; use "NET_ADMIN"',
        '"net-admin" in requiredDropCapabilities is not a capability name',
      ],
    },
    {
      fields: { defaultAddCapabilities: ['net_admin', 'AUDIT_WRITE'] },
      expected: ['"net_admin" in defaultAddCapabilities is not a capability name; use "NET_ADMIN"'],
    },
    {
      fields: { seccompProfiles: ['RuntimeDefault', 'unconfined', 'localhost/x.json', 'x.json'] },
      expected: [
        '"RuntimeDefault" in seccompProfiles is not a seccomp profile; use "runtime/default"',
        '"x.json" in seccompProfiles is not a seccomp profile',
      ],
    },
    {
      fields: {
        users: ['alice', 'system:serviceaccount:payments', 'system:serviceaccount:payments:worker.a', 'system:x'],
      },
      expected: [`"system:serviceaccount:payments" in users ${ACCOUNT}`],
    },
    {
      fields: { users: ['system:serviceaccount:a:b:c'] },
      expected: [`"system:serviceaccount:a:b:c" in users ${ACCOUNT}`],
    },
  ];
  for (const { fields, expected } of cases) {
    test(JSON.stringify(fields), () => {
      assert.deepEqual(
        warningsOf({ scc: { ...fields } }),
        expected.map((text) => `SCC "mine": ${text}`),
      );
    });
  }
  test('only three are listed', () => {
    const warnings = warningsOf({ scc: { volumes: ['a', 'b', 'c', 'd', 'e'] } });
    assert.deepEqual(warnings.slice(2), [
      'SCC "mine": "c" in volumes is not a volume type',
      'SCC "mine" has 2 more invalid values',
    ]);
  });
});

function without(...names: readonly string[]): readonly SecurityContextConstraints[] {
  return STANDARD.filter(({ metadata }) => !names.includes(metadata?.name ?? ''));
}

suite('formatSccProblems', () => {
  const cases: readonly (readonly [
    name: string,
    sccs: readonly SecurityContextConstraints[],
    expected: string | undefined,
    compatibility?: Compatibility,
  ])[] = [
    ['all standard SCCs', STANDARD, undefined],
    ['a missing standard SCC', without('nonroot'), 'standard SCC nonroot is missing'],
    ['standard SCCs that older clusters lack', without('restricted-v3', 'nested-container'), undefined],
    [
      'missing required SCCs',
      without('nonroot'),
      'no pod is admitted because required SCCs nosuch, neither are missing; standard SCC nonroot is missing',
      { requiredSccs: ['nosuch', 'privileged', 'neither'] },
    ],
    [
      'a missing standard SCC that OpenShift requires',
      without('nonroot'),
      'no pod is admitted because required SCC nonroot is missing',
      'openshift',
    ],
    [
      'no SCCs',
      [],
      'standard SCCs anyuid, hostaccess, hostmount-anyuid, hostnetwork, hostnetwork-v2, nonroot, nonroot-v2, privileged, restricted, restricted-v2 are missing',
    ],
    [
      'invalid SCCs are sorted by name',
      [
        ...STANDARD,
        laxScc({ name: 'z', runAsUser: { type: 'MustRunAs' } }),
        laxScc({ name: 'half', runAsUser: { type: 'MustRunAsRange', uidRangeMin: 1 } }),
        laxScc({ name: 'typo', fsGroup: { type: 'MustRunAsRange' } }),
      ],
      'SCC half is invalid (MustRunAsRange requires a UIDRangeMax); SCC typo is invalid (Unrecognized FSGroup strategy type MustRunAsRange); SCC z is invalid (MustRunAs requires a UID)',
    ],
    [
      'a field of a wrong type',
      [...STANDARD, laxScc({ name: 'wrong', priority: 'high' })],
      'SCC wrong is invalid (priority: Invalid value: "high": must be an integer)',
    ],
  ];
  for (const [name, sccs, expected, compatibility] of cases) {
    test(name, () => assert.equal(formatSccProblems(findSccProblems(sccs, compatibility)), expected));
  }
});
