import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { explainOrder, prepareScc } from '../../../src/policy/scc/scc.ts';
import { createSccSet } from '../../../src/policy/scc/order.ts';
import { laxScc } from '../../support/scc.ts';
import { STANDARD } from './requests.ts';
import { readNamespaceRanges } from '../../../src/policy/scc/namespace.ts';

const STANDARD_ORDER: readonly (readonly [name: string, score: number])[] = [
  ['anyuid', 154_950],
  ['restricted-v2', 132_010],
  ['restricted-v3', 132_010],
  ['restricted', 134_800],
  ['nested-container', 135_020],
  ['nonroot-v2', 142_010],
  ['nonroot', 144_800],
  ['hostmount-anyuid', 254_950],
  ['hostmount-anyuid-v2', 284_950],
  ['hostnetwork-v2', 1_332_010],
  ['hostnetwork', 1_334_800],
  ['hostaccess', 1_434_800],
  ['privileged', 3_089_000],
];

test('the standard SCCs with their scores', () => {
  assert.deepEqual(
    createSccSet([...STANDARD].reverse()).sccs.map(({ name, score }) => [name, score]),
    STANDARD_ORDER,
  );
});

test('names are compared byte by byte', () => {
  const names = ['b', 'a-', 'Z', 'a', 'ä'];
  assert.deepEqual(
    createSccSet(names.map((name) => laxScc({ name }))).sccs.map(({ name }) => name),
    ['Z', 'a', 'a-', 'b', 'ä'],
  );
});

suite('the score', () => {
  const cases: readonly (readonly [name: string, scc: object, score: number])[] = [
    ['unknown strategy types', {}, 5000],
    ['trivial volume types', { volumes: ['secret', 'none'] }, 5000],
    ['other volumes', { volumes: ['nfs'] }, 105_000],
    ['host paths and other volume types', { volumes: ['nfs', 'hostPath'] }, 205_000],
    ['capabilities added and allowed', { defaultAddCapabilities: ['A'], allowedCapabilities: ['B', 'C'] }, 5320],
    ['all capabilities in lower case', { allowedCapabilities: ['all'] }, 9000],
    [
      'capabilities add at most 9999 points',
      { allowedCapabilities: ['*'], defaultAddCapabilities: Array(9).fill('A') },
      9999,
    ],
    ['capabilities subtract at most 5000 points', { requiredDropCapabilities: Array(101).fill('A') }, 0],
    ['names of built-in properties', { runAsUser: { type: 'constructor' } }, 5000],
  ];
  for (const [name, scc, score] of cases) test(name, () => assert.equal(prepareScc(scc).score, score));
});

suite('explainOrder', () => {
  const reasons: readonly (readonly [first: object, second: object, reason: string])[] = [
    [{ priority: 1 }, {}, 'has higher priority'],
    [{ allowHostNetwork: true }, { allowHostPorts: true }, 'forbids host ports'],
    [{}, { volumes: ['*'] }, 'forbids host volume mounts'],
    [{ runAsUser: { type: 'MustRunAs', uid: 1 } }, {}, 'permits less runAs strategies'],
    [{ requiredDropCapabilities: ['ALL'] }, {}, 'permits less capabilities'],
    [{ name: 'a' }, { name: 'b' }, 'ordered by name'],
  ];
  for (const [first, second, reason] of reasons) {
    test(reason, () =>
      assert.equal(explainOrder(prepareScc(laxScc({ ...first })), prepareScc(laxScc({ ...second }))), reason),
    );
  }
});

suite('namespaces', () => {
  test('groups have the UID range without an annotation', () => {
    const annotations = { 'openshift.io/sa.scc.uid-range': '7/2' };
    const ranges = readNamespaceRanges({ metadata: { name: 'a', annotations } });
    assert.deepEqual(ranges.groupRanges, { value: [{ min: 7, max: 8 }] });
  });

  for (const [given, problem] of [
    [undefined, 'error fetching namespace "": namespace "" not found'],
    [{}, 'error fetching namespace "": unable to find annotation openshift.io/sa.scc.uid-range'],
    [
      { metadata: { name: 'a', annotations: { 'openshift.io/sa.scc.uid-range': 7 } } },
      'error fetching namespace "a": unable to find annotation openshift.io/sa.scc.uid-range',
    ],
  ] as const) {
    test(problem, () => assert.equal(readNamespaceRanges(given).problem, problem));
  }
});
