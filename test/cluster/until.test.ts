import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { createStore, type WritableStore, waitFor } from '../../src/cluster/store.ts';
import type { Pod } from '../../src/kube/types.ts';

const LONG = { timeoutMs: 60_000 };
const SHOP = { kind: 'Namespace', name: 'shop' } as const;
const nothing = (): string | undefined => undefined;

function addNamespace(store: WritableStore, name: string): void {
  store.put('Namespace', { metadata: { name } });
}

suite('waiting for the store', () => {
  test('what is there is given at once, without a promise', () => {
    const store = createStore();
    addNamespace(store, 'shop');
    const found = waitFor(store, SHOP, () => store.get('Namespace', 'shop'), LONG);
    assert.deepEqual(found, { metadata: { name: 'shop' } });
  });

  test('what comes later is given with the change that brings it', async () => {
    const store = createStore();
    let looks = 0;
    const found = waitFor(
      store,
      SHOP,
      () => {
        looks++;
        return store.get('Namespace', 'shop');
      },
      LONG,
    );
    assert.ok(found instanceof Promise);
    addNamespace(store, 'other');
    addNamespace(store, 'shop');
    addNamespace(store, 'shop');
    assert.deepEqual(await found, { metadata: { name: 'shop' } });
    assert.equal(looks, 2, 'at once, and when the namespace came');
  });

  test('nothing comes: the time is up', async () => {
    const store = createStore();
    const startMs = performance.now();
    assert.equal(await waitFor(store, SHOP, nothing, { timeoutMs: 20 }), undefined);
    const waitedMs = performance.now() - startMs;
    assert.ok(waitedMs >= 15 && waitedMs < 5000, `${waitedMs}`);
  });

  test('the signal ends it', async () => {
    const aborting = new AbortController();
    const waiting = waitFor(createStore(), SHOP, nothing, { ...LONG, signal: aborting.signal });
    aborting.abort();
    assert.equal(await waiting, undefined);
  });

  test('the signal has been aborted before', async () => {
    assert.equal(await waitFor(createStore(), SHOP, nothing, { ...LONG, signal: AbortSignal.abort() }), undefined);
  });

  test('a gather that throws, at once and later', async () => {
    const store = createStore();
    const failing = (): undefined => {
      throw new TypeError('broken');
    };
    assert.throws(() => waitFor(store, SHOP, failing, LONG), { message: 'broken' });
    let looks = 0;
    const waiting = waitFor(store, SHOP, () => (looks++ === 0 ? undefined : failing()), LONG);
    addNamespace(store, 'shop');
    await assert.rejects(Promise.resolve(waiting), { message: 'broken' });
  });

  test('a thousand wait for the same', async () => {
    const store = createStore();
    const waiting = Array.from({ length: 1000 }, () =>
      Promise.resolve(waitFor(store, SHOP, () => store.get('Namespace', 'shop'), LONG)),
    );
    addNamespace(store, 'shop');
    const found = await Promise.all(waiting);
    assert.ok(found.every((one) => one?.metadata?.name === 'shop'));
  });

  test('each looks at changes of its own object only, by kind, namespace and name', async () => {
    const store = createStore();
    let looks = 0;
    const gather = (): Pod | undefined => {
      looks++;
      return store.get('Pod', 'web', 'shop');
    };
    const found = waitFor(store, { kind: 'Pod', name: 'web', namespace: 'shop' }, gather, LONG);
    addNamespace(store, 'web');
    store.put('Pod', { metadata: { name: 'web', namespace: 'other' } });
    store.put('Pod', { metadata: { name: 'db', namespace: 'shop' } });
    assert.equal(looks, 1);
    store.put('Pod', { metadata: { name: 'web', namespace: 'shop' } });
    assert.deepEqual(await found, { metadata: { name: 'web', namespace: 'shop' } });
    assert.equal(looks, 2);
  });

  test('those who wait share one subscription, which ends with the last of them', async () => {
    const { store, subscriptions } = createCountedStore();
    const aborting = new AbortController();
    const waiting = Array.from({ length: 1000 }, (_, index) =>
      Promise.resolve(
        waitFor(store, { kind: 'Namespace', name: `ns-${index % 10}` }, nothing, { ...LONG, signal: aborting.signal }),
      ),
    );
    assert.deepEqual(subscriptions, { now: 1, ever: 1 });
    aborting.abort();
    await Promise.all(waiting);
    assert.deepEqual(subscriptions, { now: 0, ever: 1 });
    const found = waitFor(store, SHOP, () => store.get('Namespace', 'shop'), LONG);
    assert.deepEqual(subscriptions, { now: 1, ever: 2 });
    addNamespace(store, 'shop');
    await found;
    assert.deepEqual(subscriptions, { now: 0, ever: 2 });
  });
});

interface CountedStore {
  readonly store: WritableStore;
  readonly subscriptions: { now: number; ever: number };
}

/** A store that counts who listens. */
function createCountedStore(): CountedStore {
  const store = createStore();
  const subscriptions = { now: 0, ever: 0 };
  const subscribe: WritableStore['subscribe'] = (listener) => {
    subscriptions.now++;
    subscriptions.ever++;
    const unsubscribe = store.subscribe(listener);
    return () => {
      subscriptions.now--;
      unsubscribe();
    };
  };
  return { store: { ...store, subscribe }, subscriptions };
}
