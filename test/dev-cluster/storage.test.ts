import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { createStorage, keyOfObject, type Storage } from '../../src/dev-cluster/storage.ts';
import type { ApiObject } from '../../src/dev-cluster/types.ts';

const PODS = { group: '', resource: 'pods' };
const pod = (namespace: string, name: string, value = 0): ApiObject => ({ metadata: { namespace, name }, value });
const names = (objects: readonly ApiObject[]): string[] => objects.map(keyOfObject);

test('resource versions rise with every write, whatever is written', () => {
  const storage = createStorage();
  const before = storage.revision();
  const first = storage.create(PODS, pod('a', 'x'));
  const second = storage.create({ group: 'apps', resource: 'deployments' }, pod('a', 'x'));
  assert.equal(first?.metadata?.['resourceVersion'], String(before + 1));
  assert.equal(second?.metadata?.['resourceVersion'], String(before + 2));
});

test('a name is taken once', () => {
  const storage = createStorage();
  assert.ok(storage.create(PODS, pod('a', 'x')));
  assert.equal(storage.create(PODS, pod('a', 'x')), undefined);
  assert.ok(storage.create(PODS, pod('b', 'x')));
});

test('only who has seen the latest object can replace or remove it', () => {
  const storage = createStorage();
  const first = storage.create(PODS, pod('a', 'x')) ?? {};
  const second = storage.replace(PODS, first, pod('a', 'x', 2)) ?? {};
  assert.equal(storage.replace(PODS, first, pod('a', 'x', 3)), undefined);
  assert.equal(storage.remove(PODS, first), undefined);
  assert.equal(storage.get(PODS, 'a', 'x'), second);
  assert.ok(storage.remove(PODS, second));
  assert.equal(storage.get(PODS, 'a', 'x'), undefined);
});

test('what is stored cannot be changed', () => {
  const storage = createStorage();
  const stored = storage.create(PODS, { ...pod('a', 'x'), spec: { list: [{ a: 1 }] } });
  assert.throws(() => Object.assign(stored?.metadata ?? {}, { name: 'y' }), TypeError);
  const [item] = (stored?.['spec'] as { list: object[] }).list;
  assert.throws(() => Object.assign(item ?? {}, { a: 2 }), TypeError);
});

test('lists are in the order of bytes, namespace first', () => {
  const storage = createStorage();
  for (const [namespace, name] of [
    ['b', 'a'],
    ['a-b', 'z'],
    ['a', 'c'],
    ['a', 'b'],
  ] as const) {
    storage.create(PODS, pod(namespace, name));
  }
  assert.deepEqual(names(storage.list(PODS)), ['a-b/z', 'a/b', 'a/c', 'b/a']);
  assert.deepEqual(names(storage.list(PODS, 'a')), ['a/b', 'a/c']);
});

test('keys of every kind are only keys', () => {
  const storage = createStorage();
  for (const name of ['__proto__', 'constructor', 'toString']) {
    assert.equal(storage.get(PODS, 'a', name), undefined);
    assert.ok(storage.create(PODS, pod('a', name)));
    assert.equal(keyOfObject(storage.get(PODS, 'a', name) ?? {}), `a/${name}`);
  }
});

/** What somebody does to a small storage. */
const steps = fc.array(
  fc.record({
    name: fc.constantFrom('a', 'b', 'c'),
    action: fc.constantFrom('put', 'put', 'remove'),
    value: fc.integer(),
  }),
  { maxLength: 40 },
);

function act(storage: Storage, { name, action, value }: { name: string; action: string; value: number }): void {
  const before = storage.get(PODS, 'n', name);
  if (action === 'remove') {
    if (before) storage.remove(PODS, before);
  } else if (before) storage.replace(PODS, before, pod('n', name, value));
  else storage.create(PODS, pod('n', name, value));
}

test('whoever follows the changes ends up with what is stored', () => {
  fc.assert(
    fc.property(steps, (actions) => {
      const storage = createStorage();
      const followed = new Map<string, ApiObject>();
      storage.subscribe(({ type, object }) => {
        if (type === 'DELETED') followed.delete(keyOfObject(object));
        else followed.set(keyOfObject(object), object);
      });
      for (const action of actions) act(storage, action);
      assert.deepEqual(new Set(followed.values()), new Set(storage.list(PODS)));
    }),
  );
});
