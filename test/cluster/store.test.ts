import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Change, createStore } from '../../src/cluster/store.ts';
import type { Namespace, Pod } from '../../src/kube/types.ts';

const namespace = (name: string): Namespace => ({ metadata: { name } });
const pod = (name: string, space: string, phase = 'Pending'): Pod => ({
  metadata: { name, namespace: space },
  status: { phase },
});

test('objects are found by kind, name and namespace', () => {
  const store = createStore();
  store.put('Namespace', namespace('a'));
  store.put('Pod', pod('p', 'a'));
  assert.equal(store.get('Namespace', 'a')?.metadata?.name, 'a');
  assert.equal(store.get('Pod', 'p', 'a')?.status?.phase, 'Pending');
  assert.equal(store.get('Pod', 'p'), undefined);
  assert.equal(store.get('Pod', 'p', 'b'), undefined);
  assert.equal(store.get('Pod', '__proto__', 'constructor'), undefined);
});

test('a list stays the same array until an object of its kind changes', () => {
  const store = createStore();
  store.put('Pod', pod('a', 'x'));
  const before = store.list('Pod');
  store.put('Namespace', namespace('x'));
  assert.equal(store.list('Pod'), before);
  store.put('Pod', pod('a', 'x', 'Running'));
  assert.notEqual(store.list('Pod'), before);
  assert.equal(before[0]?.status?.phase, 'Pending');
});

test('subscribers get the previous and current states until they unsubscribe', () => {
  const store = createStore();
  const changes: Change[] = [];
  const leave = store.subscribe((change) => changes.push(change));
  const first = pod('a', 'x');
  const second = pod('a', 'x', 'Running');
  store.put('Pod', first);
  store.put('Pod', second);
  store.remove('Pod', 'a', 'x');
  leave();
  store.put('Pod', first);
  assert.deepEqual(changes, [
    { kind: 'Pod', type: 'put', object: first },
    { kind: 'Pod', type: 'put', object: second, before: first },
    { kind: 'Pod', type: 'remove', object: second, before: second },
  ]);
});
