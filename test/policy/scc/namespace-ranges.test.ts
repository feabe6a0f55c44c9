import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { readNamespaceRanges } from '../../../src/policy/scc/namespace.ts';

suite('namespaces', () => {
  test('groups fall back to the range of users, if they have no annotation', () => {
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
