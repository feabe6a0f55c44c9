import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import fc from 'fast-check';
import type { SecurityContextConstraints } from '../../../src/kube/scc.ts';
import type { JsonObject, Namespace, Pod } from '../../../src/kube/types.ts';
import type { SccWarningsInput } from '../../../src/policy/scc/advice/admission-changes.ts';
import { findSccProblems, formatSccProblems, sccWarnings } from '../../../src/policy/scc/advice/scc-problems.ts';
import { assignScc } from '../../../src/policy/scc/assign.ts';
import type { Compatibility } from '../../../src/policy/scc/mode.ts';
import { accessBy, type Grant, laxScc, namespaceWith } from '../../support/scc.ts';
import { pod as anyPod, scc as anyScc } from './arbitrary.ts';
import { denialMessage, readCases, request, STANDARD, STANDARD_GRANTS } from './requests.ts';

const RANGES = { 'openshift.io/sa.scc.uid-range': '1000000000/10000', 'openshift.io/sa.scc.mcs': 's0:c1,c0' };

interface Given {
  readonly scc: JsonObject;
  readonly oldScc?: JsonObject;
  readonly grants?: readonly Grant[];
  readonly pods?: readonly PodFixture[];
  readonly reconcilesStandardSccs?: true;
  readonly maxPods?: number;
  readonly maxSteps?: number;
}

/** Returns the warnings about a change, computed with at most the given number of steps. */
function evaluate(input: SccWarningsInput, maxSteps = Infinity): readonly string[] {
  const evaluation = sccWarnings(input);
  let result = evaluation.next();
  for (let steps = 0; !result.done; steps++) result = evaluation.next(steps < maxSteps);
  return result.value;
}

function getWarnings({ scc, oldScc, grants = [], pods = [], ...given }: Given) {
  const { reconcilesStandardSccs = false, maxPods = 100, maxSteps } = given;
  const input: SccWarningsInput = {
    reconcilesStandardSccs,
    scc: mine(scc),
    ...(oldScc ? { oldScc: mine(oldScc) } : {}),
    sccs: [...STANDARD, ...(oldScc ? [mine(oldScc)] : [])],
    pods: pods.map(createPod),
    findNamespace: (name) => (name === 'exempt' ? undefined : namespaceIn(name)),
    access: accessBy([STANDARD_GRANTS, ...grants]),
    maxPods,
    showsNamespaces: true,
  };
  return evaluate(input, maxSteps);
}

function mine(fields: JsonObject): SecurityContextConstraints {
  return laxScc({ name: 'mine', ...fields });
}

function namespaceIn(name: string): Namespace {
  return namespaceWith(name === 'new' ? {} : RANGES, name);
}

const REPLICA_SET = { apiVersion: 'apps/v1', kind: 'ReplicaSet', name: 'r', controller: true };

/** A pod that restricted-v2 has admitted, with the given members. */
interface PodFixture {
  readonly namespace?: string;
  readonly name?: string;
  readonly serviceAccount?: string;
  readonly owner?: string;
  readonly container?: JsonObject;
  readonly requiresScc?: true;
  /** Changes that were made after admission. */
  readonly volumes?: readonly JsonObject[];
  readonly metadata?: JsonObject;
  readonly spec?: JsonObject;
}

function createPod({ namespace = 'shop', name = 'web', serviceAccount = 'default', ...given }: PodFixture = {}): Pod {
  const object = {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: {
      namespace,
      name,
      annotations: { 'openshift.io/required-scc': 'restricted-v2' },
      ...(given.owner === undefined ? {} : { ownerReferences: [{ ...REPLICA_SET, uid: given.owner }] }),
    },
    spec: { serviceAccountName: serviceAccount, containers: [{ name: 'c', image: 'i', ...given.container }] },
  };
  const decision = assignScc(request({ object, namespace: namespaceWith(RANGES, namespace) }));
  assert.ok(decision.allowed, denialMessage(decision));
  const { metadata, spec } = decision.object as Pod;
  const annotations: Record<string, string> = { ...metadata?.annotations };
  if (!given.requiresScc) delete annotations['openshift.io/required-scc'];
  return {
    metadata: given.metadata ?? { ...metadata, annotations },
    spec: given.spec ?? { ...spec, ...(given.volumes && { volumes: given.volumes }) },
  } as Pod;
}

interface WarningCase extends Given {
  readonly name: string;
  readonly expected: readonly string[];
}

for (const { name, expected, ...given } of readCases<readonly WarningCase[]>('scc-warnings.yaml')) {
  test(`a change to an SCC causes the expected warnings: ${name}`, () =>
    assert.deepEqual(getWarnings(given), expected));
}

test('a warning about an SCC counts the namespaces that it does not list', () => {
  const scc = { priority: 5, seccompProfiles: ['runtime/default'], groups: ['system:serviceaccounts'] };
  const names = Array.from({ length: 60 }, (_, index) => `team-with-a-rather-long-name-${index + 10}`);
  assert.deepEqual(getWarnings({ scc, pods: names.map((namespace) => ({ namespace })) }), [
    'SCC "mine" would admit 60 pods instead of SCC "restricted-v2" in namespaces team-with-a-rather-long-name-10, team-with-a-rather-long-name-11, team-with-a-rather-long-name-12 and 57 more if recreated, because it has higher priority',
  ]);
});

test('warnings about an SCC list the other SCCs with the most pods, and summarize the rest', () => {
  const others = ['a', 'b', 'c', 'd', 'e'].map((name) => laxScc({ name }));
  const pods = others.flatMap(({ metadata }, index) =>
    Array.from({ length: index + 1 }, () => {
      const { metadata: own, spec } = createPod();
      return { metadata: { ...own, annotations: { 'openshift.io/scc': metadata?.name ?? '' } }, spec } as Pod;
    }),
  );
  const input: SccWarningsInput = {
    scc: laxScc({ name: 'mine', priority: 1, users: ['system:serviceaccount:shop:default'], seccompProfiles: ['*'] }),
    sccs: others,
    pods,
    findNamespace: namespaceIn,
    access: { canUse: () => false },
    reconcilesStandardSccs: false,
    maxPods: 100,
    showsNamespaces: true,
  };
  const warning = (pods: number, scc: string) =>
    `SCC "mine" would admit ${pods} pods instead of SCC "${scc}" in namespace shop if recreated, because it has higher priority`;
  assert.deepEqual(evaluate(input), [
    warning(5, 'e'),
    warning(4, 'd'),
    warning(3, 'c'),
    'SCC "mine" would also admit 3 pods instead of 2 other SCCs',
  ]);
});

test('static pods are evaluated separately from other pods of a node when an SCC changes', () => {
  const node = { apiVersion: 'v1', kind: 'Node', name: 'n', uid: 'n', controller: true };
  const pods = [{ name: 'a', volumes: [{ name: 'v', emptyDir: {} }] }, { name: 'b' }].map((given) => {
    const { metadata, spec } = createPod(given);
    return { metadata: { ...metadata, ownerReferences: [node] }, spec } as Pod;
  });
  const input: SccWarningsInput = {
    scc: laxScc({ name: 'mine', priority: 1, groups: ['system:authenticated'], seccompProfiles: ['*'], volumes: [] }),
    sccs: [laxScc({ name: 'restricted-v2' })],
    pods,
    findNamespace: namespaceIn,
    access: { canUse: () => false },
    reconcilesStandardSccs: false,
    maxPods: 100,
    showsNamespaces: true,
  };
  assert.ok(
    evaluate(input).includes(
      'SCC "mine" would admit 1 pod instead of SCC "restricted-v2" in namespace shop if recreated, because it has higher priority',
    ),
  );
});

test('the number and length of warnings about an SCC are limited', () => {
  fc.assert(
    fc.property(anyScc, fc.array(anyScc, { maxLength: 8 }), fc.array(anyPod, { maxLength: 8 }), (scc, sccs, pods) => {
      const warnings = evaluate({
        scc,
        sccs,
        pods: pods.map((pod, index) => recordedUnder(pod, sccs[index % sccs.length])),
        findNamespace: namespaceIn,
        access: { canUse: () => true },
        reconcilesStandardSccs: false,
        maxPods: 4,
        showsNamespaces: true,
      });
      // These are one warning about the priority, three comparisons with two summaries, and three values with one
      // summary.
      assert.ok(warnings.length <= 10);
      for (const warning of warnings) assert.ok(warning.length <= 256, warning);
    }),
  );
});

const distinctSccs = fc.uniqueArray(anyScc, {
  minLength: 1,
  maxLength: 6,
  selector: ({ metadata }) => metadata?.name,
});

test('a pod causes a warning exactly if the changed SCC would admit the pod instead of its current SCC when it is created again', () => {
  const input = (sccs: readonly SecurityContextConstraints[], object: unknown) => ({
    operation: 'CREATE' as const,
    object,
    namespace: namespaceIn('shop'),
    userInfo: { username: 'alice', groups: ['system:authenticated'] },
    sccs,
    access: { canUse: () => true },
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
      const warnings = evaluate({
        scc,
        sccs: others,
        pods: [before.object as Pod],
        findNamespace: namespaceIn,
        access: { canUse: () => true },
        reconcilesStandardSccs: false,
        maxPods: 1,
        showsNamespaces: true,
      });
      assert.equal(
        warnings.some((warning) => warning.startsWith('SCC "mine" would admit 1 pod instead of ')),
        (after.object as Pod).metadata?.annotations?.['openshift.io/scc'] === 'mine',
      );
    }),
    { numRuns: 500 },
  );
});

test('warnings about an SCC truncate long names', () => {
  const name = 'x'.repeat(253);
  const given = { scc: { name, priority: 11, groups: ['system:authenticated'] }, pods: [{}] };
  for (const warning of getWarnings(given)) assert.ok(warning.length <= 256, warning);
});

function recordedUnder(pod: JsonObject, scc: SecurityContextConstraints | undefined): Pod {
  const metadata = { namespace: 'shop', annotations: { 'openshift.io/scc': scc?.metadata?.name ?? '' } };
  return { ...pod, metadata };
}

suite('a warning states that a change to a standard SCC will be reverted:', () => {
  const change = (name: string, fields: JsonObject): JsonObject => ({
    ...STANDARD.find(({ metadata }) => metadata?.name === name),
    ...fields,
    name,
  });
  const reverted = (name: string, fields: string): string =>
    `SCC "${name}" is a standard SCC and is reconciled. Changes to these fields will be reverted: ${fields}. Create an SCC with another name instead.`;
  const cases: readonly (readonly [name: string, scc: JsonObject, expected: readonly string[]])[] = [
    [
      'a reconciled SCC is changed',
      change('restricted-v2', { priority: 50, volumes: ['configmap'] }),
      [reverted('restricted-v2', 'priority, volumes')],
    ],
    ['an SCC that is only created is changed, without a warning', change('anyuid', { priority: 50 }), []],
    ...STANDARD.map(
      ({ metadata: { name = '' } = {} }) =>
        [`${name} is not changed, without a warning`, change(name, {}), []] as const,
    ),
  ];
  for (const [name, scc, expected] of cases) {
    test(name, () => assert.deepEqual(getWarnings({ scc, reconcilesStandardSccs: true }), expected));
  }
  test('no warning is needed if standard SCCs are not reconciled', () => {
    assert.deepEqual(getWarnings({ scc: change('restricted-v2', { priority: 50 }) }), [
      'SCC "restricted-v2" is usable by all users, and its priority 50 puts it before anyuid, so it will admit every pod that it allows',
    ]);
  });
});

test('a warning about an SCC lists three invalid values and summarizes the rest', () => {
  const warnings = getWarnings({ scc: { volumes: ['a', 'b', 'c', 'd', 'e'] } });
  assert.deepEqual(warnings.slice(2), [
    'SCC "mine": "c" in volumes is not a volume type',
    'SCC "mine" has 2 more invalid values',
  ]);
});

function without(...names: readonly string[]): readonly SecurityContextConstraints[] {
  return STANDARD.filter(({ metadata }) => !names.includes(metadata?.name ?? ''));
}

suite('formatSccProblems describes', () => {
  const cases: readonly (readonly [
    name: string,
    sccs: readonly SecurityContextConstraints[],
    expected: string | undefined,
    compatibility?: Compatibility,
  ])[] = [
    ['no problem if all standard SCCs exist', STANDARD, undefined],
    ['a missing standard SCC', without('nonroot'), 'standard SCC nonroot is missing'],
    ['standard SCCs that older clusters lack', without('restricted-v3', 'nested-container'), undefined],
    [
      'missing standard SCCs that OpenShift requires',
      without('nonroot', 'privileged'),
      'no pod is admitted because required SCCs nonroot, privileged are missing',
      'openshift',
    ],
    [
      'the absence of all SCCs',
      [],
      'standard SCCs anyuid, hostaccess, hostmount-anyuid, hostnetwork, hostnetwork-v2, nonroot, nonroot-v2, privileged, restricted, restricted-v2 are missing',
    ],
    [
      'invalid SCCs, sorted by name',
      [
        ...STANDARD,
        laxScc({ name: 'z', runAsUser: { type: 'MustRunAs' } }),
        laxScc({ name: 'half', runAsUser: { type: 'MustRunAsRange', uidRangeMin: 1 } }),
        laxScc({ name: 'typo', fsGroup: { type: 'MustRunAsRange' } }),
      ],
      'SCC half is invalid (MustRunAsRange requires a UIDRangeMax); SCC typo is invalid (Unrecognized FSGroup strategy type MustRunAsRange); SCC z is invalid (MustRunAs requires a UID)',
    ],
    [
      'an invalid SCC in OpenShift compatibility mode, which denies every pod',
      [...STANDARD, laxScc({ name: 'z', runAsUser: { type: 'MustRunAs' } })],
      'no pod is admitted because SCC z is invalid (MustRunAs requires a UID)',
      'openshift',
    ],
    [
      'a field of the wrong type',
      [...STANDARD, laxScc({ name: 'wrong', priority: 'high' })],
      'SCC wrong is invalid (priority: Invalid value: "high": must be an integer)',
    ],
  ];
  for (const [name, sccs, expected, compatibility] of cases) {
    test(name, () => assert.equal(formatSccProblems(findSccProblems(sccs, compatibility)), expected));
  }
});
