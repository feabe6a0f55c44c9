/** What is equal is held once; what only looks equal to the pool is not. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { createObjectPool, createStringPool, createProjections } from '../../src/cluster/projection.ts';
import type { JsonObject, Pod, RoleBinding } from '../../src/kube/types.ts';

describe('a pool of objects', () => {
  test('gives what is equal to what was given, whatever came before', () => {
    const intern = createObjectPool();
    fc.assert(
      fc.property(fc.jsonValue(), (value) => assert.deepEqual(intern(value), value)),
      { numRuns: 500 },
    );
  });

  test('gives the same object for equal ones', () => {
    const intern = createObjectPool();
    const first = { a: [1, { b: null }], __proto__x: '' };
    assert.equal(intern(first), first);
    assert.equal(intern(structuredClone(first)), first);
  });

  test('tells objects apart that share a number', () => {
    const seen = new Map<number, string>();
    const intern = createObjectPool();
    // Of so many objects some share one of a billion numbers.
    for (let index = 0; index < 100_000; index++) {
      const value = intern({ index }) as { readonly index: number };
      assert.equal(value.index, index);
      seen.set(index, '');
    }
    assert.equal(seen.size, 100_000);
  });

  test('keeps a new object as it is asked to', () => {
    const intern = createObjectPool();
    const shared = Object.freeze({ a: 1 });
    assert.equal(
      intern({ a: 1 }, () => shared),
      shared,
    );
    assert.equal(
      intern({ a: 1 }, () => ({ a: 1 })),
      shared,
    );
  });
});

test('a pool of texts forgets those that were not used lately, and stays small', () => {
  const internText = createStringPool(10);
  for (let index = 0; index < 100; index++) assert.equal(internText(`team-${index % 25}`), `team-${index % 25}`);
});

const metadata = (more: JsonObject): JsonObject => ({ name: 'a', namespace: 'shop', ...more });

describe('metadata', () => {
  test('of pods keeps the annotations that decisions may read', () => {
    const annotations = {
      plain: 'kept',
      'openshift.io/scc': 'kept',
      'security.openshift.io/validated': 'kept',
      'container.apparmor.security.beta.kubernetes.io/web': 'kept',
      'seccomp.security.alpha.kubernetes.io/pod': 'kept',
      'portcullis.dev/x': 'kept',
      'k8s.v1.cni.cncf.io/network-status': 'not kept',
      'notopenshift.io/x': 'not kept',
      'kubectl.kubernetes.io/last-applied-configuration': 'not kept',
    };
    const pod = createProjections()('Pod').project({
      metadata: metadata({ annotations, labels: { app: 'web' }, generateName: 'a-', uid: 'u', resourceVersion: '1' }),
    }) as Pod;
    const kept = Object.fromEntries(Object.entries(annotations).filter(([, value]) => value === 'kept'));
    assert.deepEqual(pod.metadata, metadata({ annotations: kept, uid: 'u', resourceVersion: '1' }));
  });

  const odd: readonly (readonly [name: string, metadata: unknown])[] = [
    ['none', undefined],
    ['null', null],
    ['a text', 'x'],
    ['a list', []],
    ['odd members', { name: 7, namespace: [], labels: 'x', annotations: null, ownerReferences: {} }],
  ];
  for (const [name, value] of odd) {
    test(`that is ${name} stops nothing`, () => {
      const projectionOf = createProjections();
      for (const kind of ['Pod', 'Deployment', 'Namespace', 'RoleBinding', 'ClusterRole'] as const) {
        assert.doesNotThrow(() => projectionOf(kind).project({ metadata: value, roleRef: null, subjects: 'x' }));
      }
    });
  }

  test('bindings share what they have in common', () => {
    const projection = createProjections()('RoleBinding');
    const binding = (name: string): RoleBinding =>
      projection.project({
        metadata: { name, namespace: 'shop', labels: { a: 'b' } },
        roleRef: { kind: 'Role', name: 'deployer' },
        subjects: [{ kind: 'User', name: 'alice' }],
      }) as RoleBinding;
    const [a, b] = [binding('a'), binding('b')];
    assert.equal(a.roleRef, b.roleRef);
    assert.equal(a.subjects, b.subjects);
    assert.equal(a.metadata?.labels, b.metadata?.labels);
    assert.equal(a.metadata?.name, 'a');
  });
});
