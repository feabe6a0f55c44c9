import assert from 'node:assert/strict';
import { test, suite } from 'node:test';
import { createStore, type Change, type WritableStore, waitFor } from '../../src/cluster/store.ts';
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

test('lists are of everything or of one namespace, in the order of arrival', () => {
  const store = createStore();
  for (const [name, space] of [
    ['b', 'x'],
    ['a', 'x'],
    ['c', 'y'],
  ] as const) {
    store.put('Pod', pod(name, space));
  }
  const names = (pods: readonly Pod[]): unknown[] => pods.map(({ metadata }) => metadata?.name);
  assert.deepEqual(names(store.list('Pod')), ['b', 'a', 'c']);
  assert.deepEqual(names(store.list('Pod', 'x')), ['b', 'a']);
  assert.deepEqual(names(store.list('Pod', 'z')), []);
});

test('a list stays the same while its kind does, and is another one after a change', () => {
  const store = createStore();
  store.put('Pod', pod('a', 'x'));
  const before = store.list('Pod');
  store.put('Namespace', namespace('x'));
  assert.equal(store.list('Pod'), before);
  store.put('Pod', pod('a', 'x', 'Running'));
  assert.notEqual(store.list('Pod'), before);
  assert.equal(before[0]?.status?.phase, 'Pending');
});

test('revisions rise with changes of their own kind', () => {
  const store = createStore();
  assert.equal(store.revision('Pod'), 0);
  store.put('Pod', pod('a', 'x'));
  store.put('Namespace', namespace('x'));
  assert.equal(store.revision('Pod'), 1);
  store.remove('Pod', 'nothing', 'x');
  assert.equal(store.revision('Pod'), 1);
  store.remove('Pod', 'a', 'x');
  assert.equal(store.revision('Pod'), 2);
});

test('subscribers receive the previous and the current state until they unsubscribe', () => {
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

test('a store is synced after markSynced', () => {
  const store = createStore();
  assert.equal(store.synced(), false);
  store.markSynced();
  assert.equal(store.synced(), true);
});

const LONG = { timeoutMs: 60_000 };
const SHOP = { kind: 'Namespace', name: 'shop' } as const;
const nothing = (): string | undefined => undefined;

function addNamespace(store: WritableStore, name: string): void {
  store.put('Namespace', { metadata: { name } });
}

suite('waiting for the store', () => {
  test('an available value is returned synchronously', () => {
    const store = createStore();
    addNamespace(store, 'shop');
    const found = waitFor(store, SHOP, () => store.get('Namespace', 'shop'), LONG);
    assert.deepEqual(found, { metadata: { name: 'shop' } });
  });

  test('without a change the wait times out', async () => {
    const store = createStore();
    const startMs = performance.now();
    assert.equal(await waitFor(store, SHOP, nothing, { timeoutMs: 20 }), undefined);
    const waitedMs = performance.now() - startMs;
    assert.ok(waitedMs >= 15 && waitedMs < 5000, `${waitedMs}`);
  });

  test('the signal has been aborted before', async () => {
    assert.equal(await waitFor(createStore(), SHOP, nothing, { ...LONG, signal: AbortSignal.abort() }), undefined);
  });

  test('an error of gather, immediately and after a change', async () => {
    const store = createStore();
    const failing = (): undefined => {
      throw new TypeError('broken');
    };
    assert.throws(() => waitFor(store, SHOP, failing, LONG), { message: 'broken' });
    let calls = 0;
    const waiting = waitFor(store, SHOP, () => (calls++ === 0 ? undefined : failing()), LONG);
    addNamespace(store, 'shop');
    await assert.rejects(Promise.resolve(waiting), { message: 'broken' });
  });

  test('a thousand waiters of one object', async () => {
    const store = createStore();
    const waiting = Array.from({ length: 1000 }, () =>
      Promise.resolve(waitFor(store, SHOP, () => store.get('Namespace', 'shop'), LONG)),
    );
    addNamespace(store, 'shop');
    const found = await Promise.all(waiting);
    assert.ok(found.every((one) => one?.metadata?.name === 'shop'));
  });

  test('gather is called only for changes of the target', async () => {
    const store = createStore();
    let calls = 0;
    const gather = (): Pod | undefined => {
      calls++;
      return store.get('Pod', 'web', 'shop');
    };
    const found = waitFor(store, { kind: 'Pod', name: 'web', namespace: 'shop' }, gather, LONG);
    assert.ok(found instanceof Promise);
    addNamespace(store, 'web');
    store.put('Pod', { metadata: { name: 'web', namespace: 'other' } });
    store.put('Pod', { metadata: { name: 'db', namespace: 'shop' } });
    assert.equal(calls, 1);
    store.put('Pod', { metadata: { name: 'web', namespace: 'shop' } });
    assert.deepEqual(await found, { metadata: { name: 'web', namespace: 'shop' } });
    assert.equal(calls, 2);
  });

  test('a waiter unsubscribes when it ends', async () => {
    const store = createStore();
    let subscriptions = 0;
    const subscribe: WritableStore['subscribe'] = (listener) => {
      subscriptions++;
      const unsubscribe = store.subscribe(listener);
      return () => {
        subscriptions--;
        unsubscribe();
      };
    };
    const aborting = new AbortController();
    const waiting = waitFor({ ...store, subscribe }, SHOP, nothing, { ...LONG, signal: aborting.signal });
    assert.equal(subscriptions, 1);
    aborting.abort();
    assert.equal(await waiting, undefined);
    assert.equal(subscriptions, 0);
  });
});
