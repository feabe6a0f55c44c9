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

// What whoever writes an SCC is warned of.

const RANGES = { 'openshift.io/sa.scc.uid-range': '1000000000/10000', 'openshift.io/sa.scc.mcs': 's0:c1,c0' };
const STANDARD = STANDARD_SCCS.map(({ scc }) => scc);
const EVERYBODY: readonly Grant[] = [{ group: 'system:authenticated', sccs: ['restricted-v2', 'restricted-v3'] }];

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
    scc: laxScc(scc),
    ...(oldScc ? { oldScc: laxScc(oldScc) } : {}),
    sccs: [...STANDARD, ...(oldScc ? [laxScc(oldScc)] : [])],
    pods,
    findNamespace: (name) => (name === 'exempt' ? undefined : namespaceIn(name)),
    canUse: canUseBy([...EVERYBODY, ...grants]),
    brokenScc,
    maxPods,
    isOver: isOver ?? (() => false),
  });
}

function namespaceIn(name: string): Namespace {
  return namespaceWith(name === 'new' ? {} : RANGES, name);
}

interface PodGiven {
  readonly namespace?: string;
  readonly name?: string;
  readonly serviceAccount?: string;
  readonly owner?: string;
  readonly annotations?: Readonly<Record<string, string>>;
  readonly container?: JsonObject;
}

/** A pod as the SCCs of the platform admit it. */
function admitted({ namespace = 'shop', name = 'web', serviceAccount = 'default', ...given }: PodGiven = {}): Pod {
  const object = {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: {
      namespace,
      name,
      annotations: given.annotations ?? {},
      ...(given.owner === undefined
        ? {}
        : {
            ownerReferences: [
              { apiVersion: 'apps/v1', kind: 'ReplicaSet', name: 'r', uid: given.owner, controller: true },
            ],
          }),
    },
    spec: { serviceAccountName: serviceAccount, containers: [{ name: 'c', image: 'i', ...given.container }] },
  };
  const userInfo = { username: 'alice', groups: ['system:authenticated'] };
  const canUse = canUseBy([...EVERYBODY, { user: 'alice', sccs: ['anyuid', 'hostnetwork-v2', 'nonroot-v2'] }]);
  const input = { operation: 'CREATE' as const, object, namespace: namespaceWith(RANGES, namespace), userInfo };
  const decision = assignScc({ ...input, sccs: STANDARD, canUse });
  assert.ok(decision.allowed);
  return decision.object as Pod;
}

const TEAM: readonly Grant[] = [{ group: 'system:serviceaccounts:shop', sccs: ['mine'] }];
const V2 = { annotations: { 'openshift.io/required-scc': 'restricted-v2' } };

/** Admitted by restricted-v2, but not held to it. */
function restricted(given: PodGiven = {}): Pod {
  const { metadata, spec } = admitted({ ...given, ...V2 });
  const annotations = { ...metadata?.annotations };
  delete annotations['openshift.io/required-scc'];
  return { metadata: { ...metadata, annotations }, spec } as Pod;
}

suite('an SCC that does not work', () => {
  const cases: readonly (readonly [name: string, given: Given, expected: readonly string[]])[] = [
    [
      'a user is demanded and not named',
      { scc: { name: 'mine', runAsUser: { type: 'MustRunAs' } } },
      ['SCC "mine" admits no pod: MustRunAs requires a UID'],
    ],
    [
      'and stops all others',
      { scc: { name: 'mine', runAsUser: { type: 'MustRunAs' } }, brokenScc: 'refuse' },
      ['SCC "mine" blocks every pod of the cluster: MustRunAs requires a UID'],
    ],
    [
      'one bound of a range',
      { scc: { name: 'mine', runAsUser: { type: 'MustRunAsRange', uidRangeMin: 5 } } },
      ['SCC "mine" admits no pod: MustRunAsRange requires a UIDRangeMax'],
    ],
    [
      'the other one',
      { scc: { name: 'mine', runAsUser: { type: 'MustRunAsRange', uidRangeMax: 5 } } },
      ['SCC "mine" admits no pod: MustRunAsRange requires a UIDRangeMin'],
    ],
    [
      'an empty range, which stops nobody else',
      {
        scc: { name: 'mine', runAsUser: { type: 'MustRunAsRange', uidRangeMin: 9, uidRangeMax: 5 } },
        brokenScc: 'refuse',
      },
      ['SCC "mine" admits no pod: runAsUser.uidRangeMin 9 is greater than uidRangeMax 5'],
    ],
    ['bounds that are left to the namespace', { scc: { name: 'mine', runAsUser: { type: 'MustRunAsRange' } } }, []],
    [
      'a range of one',
      { scc: { name: 'mine', runAsUser: { type: 'MustRunAsRange', uidRangeMin: 5, uidRangeMax: 5 } } },
      [],
    ],
    [
      'levels and groups that are left to the namespace',
      { scc: { name: 'mine', seLinuxContext: { type: 'MustRunAs' }, fsGroup: { type: 'MustRunAs' } } },
      [],
    ],
  ];
  for (const [name, given, expected] of cases) {
    test(name, () => assert.deepEqual(warningsOf(given), expected));
  }
});

suite('an SCC for everybody', () => {
  const all = (which: string, priority: number): string =>
    `SCC "mine" is usable by all users, and its priority ${priority} orders it before ${which}: it will admit every pod that it allows`;
  const byRole: readonly Grant[] = [{ group: 'system:authenticated', sccs: ['mine'] }];
  const cases: readonly (readonly [name: string, given: Given, expected: readonly string[]])[] = [
    [
      'by its groups, before all',
      { scc: { name: 'mine', priority: 11, groups: ['system:authenticated'] } },
      [all('anyuid and restricted-v2', 11)],
    ],
    ['by a role', { scc: { name: 'mine', priority: 11 }, grants: byRole }, [all('anyuid and restricted-v2', 11)]],
    [
      'behind anyuid',
      { scc: { name: 'mine', priority: 10, groups: ['system:authenticated'] } },
      [all('restricted-v2', 10)],
    ],
    ['without a priority', { scc: { name: 'mine', groups: ['system:authenticated'] } }, []],
    ['with a priority for some', { scc: { name: 'mine', priority: 11, groups: ['ops'] } }, []],
    [
      'one of the standard ones',
      { scc: { name: 'restricted-v2', priority: 1 } },
      [
        'SCC "restricted-v2" is usable by all users, and its priority 1 orders it before hostaccess, hostmount-anyuid and 9 more: it will admit every pod that it allows',
      ],
    ],
  ];
  for (const [name, given, expected] of cases) test(name, () => assert.deepEqual(warningsOf(given), expected));
});

suite('pods that are won', () => {
  const winner = { name: 'mine', priority: 5, volumes: ['*'], seccompProfiles: ['runtime/default'] };
  const won = (pods: string, where: string, why = 'it has higher priority'): string =>
    `SCC "mine" would admit ${pods} instead of SCC "restricted-v2" in ${where} when created again: ${why}`;
  const cases: readonly (readonly [name: string, given: Given, expected: readonly string[]])[] = [
    ['no pods', { scc: winner, grants: TEAM }, []],
    ['nobody may use it', { scc: winner, pods: [restricted()] }, []],
    ['a pod', { scc: winner, pods: [restricted()], grants: TEAM }, [won('1 pod', 'namespace shop')]],
    [
      'by the users of the SCC',
      {
        scc: { ...winner, users: ['system:serviceaccount:shop:robot'] },
        pods: [restricted(), restricted({ serviceAccount: 'robot' })],
      },
      [won('1 pod', 'namespace shop')],
    ],
    [
      'what its SCC gave it is not held against it',
      {
        scc: {
          name: 'mine',
          priority: 5,
          requiredDropCapabilities: ['KILL'],
          runAsUser: { type: 'MustRunAs', uid: 7 },
        },
        pods: [restricted()],
        grants: TEAM,
      },
      [won('1 pod', 'namespace shop')],
    ],
    [
      'what it asked for itself is',
      {
        scc: { ...winner, runAsUser: { type: 'MustRunAs', uid: 7 } },
        pods: [restricted({ container: { securityContext: { runAsUser: 1_000_000_001 } } })],
        grants: TEAM,
      },
      [],
    ],
    [
      'a pod that does not fit',
      { scc: { ...winner, volumes: [] }, pods: [withVolume(restricted())], grants: TEAM },
      [],
    ],
    ['a pod that says which SCC it wants', { scc: winner, pods: [admitted(V2)], grants: TEAM }, []],
    [
      'a pod of an exempt namespace',
      { scc: { ...winner, groups: ['system:authenticated'] }, pods: [restricted({ namespace: 'exempt' })] },
      [
        'SCC "mine" is usable by all users, and its priority 5 orders it before restricted-v2: it will admit every pod that it allows',
      ],
    ],
    [
      'a namespace without ranges',
      { scc: { ...winner, users: ['system:serviceaccount:new:default'] }, pods: [restricted({ namespace: 'new' })] },
      [],
    ],
    [
      'a pod that no SCC admitted',
      { scc: winner, pods: [{ metadata: { namespace: 'shop' }, spec: { containers: [] } }], grants: TEAM },
      [],
    ],
    [
      'a pod that cannot be read',
      { scc: winner, pods: [{ metadata: restricted().metadata, spec: { containers: 'x' } } as never], grants: TEAM },
      [],
    ],
    ['an SCC behind the other', { scc: laxish({ name: 'mine' }), pods: [restricted()], grants: TEAM }, []],
    [
      'a lower score',
      {
        scc: {
          ...winner,
          priority: 0,
          volumes: ['secret'],
          seLinuxContext: { type: 'MustRunAs' },
          runAsUser: { type: 'MustRunAsRange' },
          requiredDropCapabilities: ['ALL'],
        },
        pods: [restricted()],
        grants: TEAM,
      },
      [won('1 pod', 'namespace shop', 'it forbids non-trivial volume mounts')],
    ],
    [
      'pods of one controller are tried once and all counted',
      { scc: winner, maxPods: 1, pods: ['a', 'b', 'c'].map((name) => restricted({ name, owner: 'u' })), grants: TEAM },
      [won('3 pods', 'namespace shop')],
    ],
    [
      'several namespaces',
      {
        scc: { ...winner, groups: ['system:serviceaccounts'] },
        pods: ['c', 'a', 'b'].map((namespace) => restricted({ namespace })),
      },
      [won('3 pods', 'namespaces a, b and c')],
    ],
    [
      'more namespaces than there is room for',
      {
        scc: { ...winner, groups: ['system:serviceaccounts'] },
        pods: Array.from({ length: 60 }, (_, index) =>
          restricted({ namespace: `team-with-a-rather-long-name-${index + 10}` }),
        ),
      },
      [
        won(
          '60 pods',
          'namespaces team-with-a-rather-long-name-10, team-with-a-rather-long-name-11, team-with-a-rather-long-name-12 and 57 more',
        ),
      ],
    ],
    [
      'too many pods',
      {
        scc: { ...winner, groups: ['system:serviceaccounts'] },
        maxPods: 2,
        pods: ['a', 'b', 'c'].map((namespace) => restricted({ namespace })),
      },
      [won('2 pods', 'namespaces a and b'), 'SCC "mine" was evaluated for only 2 of 3 pods; it may admit others too'],
    ],
    [
      'too little time',
      {
        scc: { ...winner, groups: ['system:serviceaccounts'] },
        isOver: () => true,
        pods: ['a', 'b', 'c'].map((namespace) => restricted({ namespace })),
      },
      [won('1 pod', 'namespace a'), 'SCC "mine" was evaluated for only 1 of 3 pods; it may admit others too'],
    ],
    [
      'an update that changes nothing of it',
      { scc: winner, oldScc: { ...winner, volumes: ['secret'] }, pods: [restricted()], grants: TEAM },
      [],
    ],
    [
      'an update that brings it to the front',
      { scc: winner, oldScc: { ...winner, priority: 0 }, pods: [restricted()], grants: TEAM },
      [won('1 pod', 'namespace shop')],
    ],
    [
      'an update that lets more in',
      {
        scc: winner,
        oldScc: { ...winner, runAsUser: { type: 'MustRunAs', uid: 7 } },
        pods: [restricted(), restricted({ container: { securityContext: { runAsUser: 1_000_000_001 } } })],
        grants: TEAM,
      },
      [won('1 pod', 'namespace shop')],
    ],
  ];
  for (const [name, given, expected] of cases) test(name, () => assert.deepEqual(warningsOf(given), expected));

  test('of many SCCs', () => {
    const rivals = ['a', 'b', 'c', 'd', 'e'].map((name) => laxScc({ name }));
    const pods = rivals.flatMap(({ metadata }, index) =>
      Array.from({ length: index + 1 }, () => {
        const { metadata: own, spec } = restricted();
        return { metadata: { ...own, annotations: { 'openshift.io/scc': metadata?.name ?? '' } }, spec } as Pod;
      }),
    );
    const input: SccWarningsInput = {
      scc: laxScc({ name: 'mine', priority: 1, users: ['system:serviceaccount:shop:default'], seccompProfiles: ['*'] }),
      sccs: rivals,
      pods,
      findNamespace: namespaceIn,
      canUse: () => false,
      brokenScc: 'skip',
      maxPods: 100,
      isOver: () => false,
    };
    const of = (pods: number, scc: string) =>
      `SCC "mine" would admit ${pods} pods instead of SCC "${scc}" in namespace shop when created again: it has higher priority`;
    assert.deepEqual(sccWarnings(input), [
      of(5, 'e'),
      of(4, 'd'),
      of(3, 'c'),
      'SCC "mine" would also admit 3 pods instead of 2 other SCCs',
    ]);
  });
});

test('whatever SCCs and pods there are: a handful of warnings, none too long', () => {
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

test('pods that ask for nothing are won exactly if they would be', () => {
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
      const { takenOver: wins } = compareAdmission({
        scc,
        sccs: others,
        pods: [before.object as Pod],
        findNamespace: namespaceIn,
        canUse: () => true,
        maxPods: 1,
        isOver: () => false,
      });
      assert.equal(wins.length === 1, (after.object as Pod).metadata?.annotations?.['openshift.io/scc'] === 'mine');
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

function laxish(fields: JsonObject): JsonObject {
  return { seccompProfiles: ['*'], volumes: ['*'], ...fields };
}

suite('an SCC that ships with the platform', () => {
  const named = (name: string, fields: JsonObject): JsonObject => ({
    ...STANDARD.find(({ metadata }) => metadata?.name === name),
    ...fields,
    name,
  });
  const undone = (name: string, fields: string): string =>
    `SCC "${name}" is a standard SCC and is reconciled. Changes to these fields will be reverted: ${fields}. Create an SCC with another name instead.`;

  test('and is kept as it is', () => {
    const scc = named('restricted-v2', { priority: 50, volumes: ['configmap'] });
    assert.deepEqual(warningsOf({ scc, standardSccs: 'kept' }), [undone('restricted-v2', 'priority, volumes')]);
  });
  test('and is kept as it is, of which nothing is changed', () => {
    for (const { scc } of STANDARD_SCCS) {
      const name = scc.metadata?.name ?? '';
      assert.deepEqual(warningsOf({ scc: named(name, {}), standardSccs: 'kept' }), [], name);
    }
  });
  test("and is the administrator's to change", () => {
    assert.deepEqual(warningsOf({ scc: named('anyuid', { priority: 50 }), standardSccs: 'kept' }), []);
  });
  test('and is left alone', () => {
    assert.deepEqual(warningsOf({ scc: named('restricted-v2', { priority: 50 }) }), [
      'SCC "restricted-v2" is usable by all users, and its priority 50 orders it before anyuid: it will admit every pod that it allows',
    ]);
  });
});

suite('values that match nothing', () => {
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
        warningsOf({ scc: { name: 'mine', ...fields } }),
        expected.map((text) => `SCC "mine": ${text}`),
      );
    });
  }
  test('are many', () => {
    const warnings = warningsOf({ scc: { name: 'mine', volumes: ['a', 'b', 'c', 'd', 'e'] } });
    assert.deepEqual(warnings.slice(2), [
      'SCC "mine": "c" in volumes is not a volume type',
      'SCC "mine" has 2 more invalid values',
    ]);
  });
});

const PROBLEMS_TEST_STANDARD = STANDARD_SCCS.map(({ scc }) => scc);

suite('what decisions do without', () => {
  const cases: readonly {
    readonly name: string;
    readonly sccs: readonly SecurityContextConstraints[];
    readonly compatibility?: Compatibility;
    readonly expected: string | undefined;
  }[] = [
    { name: 'nothing', sccs: PROBLEMS_TEST_STANDARD, expected: undefined },
    {
      name: 'one standard SCC',
      sccs: PROBLEMS_TEST_STANDARD.filter(({ metadata }) => metadata?.name !== 'nonroot'),
      expected: 'standard SCC nonroot is missing',
    },
    {
      name: 'standard SCCs that older platforms do not have',
      sccs: PROBLEMS_TEST_STANDARD.filter(
        ({ metadata }) => !['restricted-v3', 'nested-container'].includes(metadata?.name ?? ''),
      ),
      expected: undefined,
    },
    {
      name: 'SCCs that are required',
      sccs: PROBLEMS_TEST_STANDARD.filter(({ metadata }) => metadata?.name !== 'nonroot'),
      compatibility: { requiredSccs: ['nosuch', 'privileged', 'neither'] },
      expected: 'no pod is admitted because required SCCs nosuch, neither are missing; standard SCC nonroot is missing',
    },
    {
      name: 'a standard SCC where OpenShift requires it',
      sccs: PROBLEMS_TEST_STANDARD.filter(({ metadata }) => metadata?.name !== 'nonroot'),
      compatibility: 'openshift',
      expected: 'no pod is admitted because required SCC nonroot is missing',
    },
    {
      name: 'no SCC at all',
      sccs: [],
      expected:
        'standard SCCs anyuid, hostaccess, hostmount-anyuid, hostnetwork, hostnetwork-v2, nonroot, nonroot-v2, privileged, restricted, restricted-v2 are missing',
    },
    {
      name: 'broken ones, by name',
      sccs: [
        ...PROBLEMS_TEST_STANDARD,
        laxScc({ name: 'z', runAsUser: { type: 'MustRunAs' } }),
        laxScc({ name: 'half', runAsUser: { type: 'MustRunAsRange', uidRangeMin: 1 } }),
        laxScc({ name: 'typo', fsGroup: { type: 'MustRunAsRange' } }),
      ],
      expected:
        'SCC half is invalid (MustRunAsRange requires a UIDRangeMax); SCC typo is invalid (Unrecognized FSGroup strategy type MustRunAsRange); SCC z is invalid (MustRunAs requires a UID)',
    },
    {
      name: 'a field of a wrong type',
      sccs: [...PROBLEMS_TEST_STANDARD, laxScc({ name: 'wrong', priority: 'high' })],
      expected: 'SCC wrong is invalid (priority: Invalid value: "high": must be an integer)',
    },
  ];
  for (const { name, sccs, compatibility, expected } of cases) {
    test(name, () => {
      assert.equal(formatSccProblems(findSccProblems(sccs, compatibility)), expected);
    });
  }
});
