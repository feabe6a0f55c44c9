import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { readNamespaceRanges } from '../../../src/policy/scc/namespace.ts';
import { createSccSet } from '../../../src/policy/scc/order.ts';
import { explainOrder, prepareScc } from '../../../src/policy/scc/scc.ts';
import { laxScc } from '../../support/scc.ts';

test('SCC names are compared byte by byte', () => {
  const names = ['b', 'a-', 'Z', 'a', 'ä'];
  assert.deepEqual(
    createSccSet(names.map((name) => laxScc({ name }))).sccs.map(({ name }) => name),
    ['Z', 'a', 'a-', 'b', 'ä'],
  );
});

suite('the score of an SCC increases with its permissions:', () => {
  const cases: readonly (readonly [name: string, scc: object, score: number])[] = [
    ['unknown strategy types', {}, 5000],
    ['capabilities added and allowed', { defaultAddCapabilities: ['A'], allowedCapabilities: ['B', 'C'] }, 5320],
    ['strategies with names of built-in properties', { runAsUser: { type: 'constructor' } }, 5000],
  ];
  for (const [name, scc, score] of cases) test(name, () => assert.equal(prepareScc(scc).score, score));
});

suite('explainOrder returns the reason why an SCC comes first:', () => {
  const reasons: readonly (readonly [first: object, second: object, reason: string])[] = [
    [{ priority: 1 }, {}, 'has higher priority'],
    [{ allowHostNetwork: true }, { allowHostPorts: true }, 'forbids host ports'],
    [{ name: 'a' }, { name: 'b' }, 'ordered by name'],
  ];
  for (const [first, second, reason] of reasons) {
    test(reason, () =>
      assert.equal(explainOrder(prepareScc(laxScc({ ...first })), prepareScc(laxScc({ ...second }))), reason),
    );
  }
});

suite('readNamespaceRanges returns the ranges or the problem:', () => {
  test('the UID range is used for groups if their annotation is missing', () => {
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
