import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { findChanges, type Change } from '../../../src/policy/scc/advice/changes.ts';

describe('what differs between two pods', () => {
  const cases: readonly { name: string; before: unknown; after: unknown; expected: readonly Change[] }[] = [
    { name: 'nothing', before: { spec: { a: 1 } }, after: { spec: { a: 1 } }, expected: [] },
    { name: 'no pods', before: undefined, after: 'x', expected: [{ path: '', after: 'x' }] },
    {
      name: 'fields of an object that was not there',
      before: { spec: { containers: [{ name: 'a' }] } },
      after: {
        spec: { containers: [{ name: 'a', securityContext: { runAsUser: 5, capabilities: { drop: ['ALL'] } } }] },
      },
      expected: [
        { path: 'spec.containers[0].securityContext.runAsUser', after: 5 },
        { path: 'spec.containers[0].securityContext.capabilities.drop', after: ['ALL'] },
      ],
    },
    {
      name: 'fields of an object that was empty or null',
      before: { spec: { securityContext: {}, a: null } },
      after: { spec: { securityContext: { fsGroup: 5 }, a: { b: 1 } } },
      expected: [
        { path: 'spec.securityContext.fsGroup', after: 5 },
        { path: 'spec.a.b', after: 1 },
      ],
    },
    {
      name: 'an object that comes and goes empty',
      before: { spec: { a: {} } },
      after: { spec: { b: {} } },
      expected: [
        { path: 'spec.a', before: {} },
        { path: 'spec.b', after: {} },
      ],
    },
    {
      name: 'other values, one that went away',
      before: { spec: { a: 1, b: { c: 2 } } },
      after: { spec: { a: 2 } },
      expected: [
        { path: 'spec.a', before: 1, after: 2 },
        { path: 'spec.b.c', before: 2 },
      ],
    },
    {
      name: 'lists of other lengths, as a whole',
      before: { spec: { a: ['x'] } },
      after: { spec: { a: ['x', 'y'] } },
      expected: [{ path: 'spec.a', before: ['x'], after: ['x', 'y'] }],
    },
    {
      name: 'annotations, without those that tell the SCC',
      before: { metadata: {} },
      after: {
        metadata: {
          annotations: {
            'openshift.io/scc': 'restricted-v2',
            'security.openshift.io/validated-scc-subject-type': 'user',
            'seccomp.security.alpha.kubernetes.io/pod': 'runtime/default',
            simple: 'x',
          },
        },
      },
      expected: [
        { path: 'metadata.annotations[seccomp.security.alpha.kubernetes.io/pod]', after: 'runtime/default' },
        { path: 'metadata.annotations[simple]', after: 'x' },
      ],
    },
    {
      name: 'keys of any kind',
      before: JSON.parse('{"spec":{"__proto__":1}}'),
      after: JSON.parse('{"spec":{"constructor":{"a b":2}}}'),
      expected: [
        { path: 'spec[__proto__]', before: 1 },
        { path: 'spec.constructor[a b]', after: 2 },
      ],
    },
  ];
  for (const { name, before, after, expected } of cases) {
    test(name, () => assert.deepEqual(findChanges(before, after), expected));
  }
});
