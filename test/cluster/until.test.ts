import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { createStore, type WritableStore } from '../../src/cluster/store.ts';
import { until } from '../../src/cluster/until.ts';

const LONG = { timeoutMs: 60_000 };
const nothing = (): string | undefined => undefined;

function addNamespace(store: WritableStore, name: string): void {
  store.put('Namespace', { metadata: { name } });
}

suite('waiting for the store', () => {
  test('what is there is given at once, without a promise', () => {
    const store = createStore();
    addNamespace(store, 'shop');
    const found = until(store, () => store.get('Namespace', 'shop'), LONG);
    assert.deepEqual(found, { metadata: { name: 'shop' } });
  });

  test('what comes later is given with the change that brings it', async () => {
    const store = createStore();
    let looks = 0;
    const found = until(
      store,
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
    assert.equal(looks, 3);
  });

  test('nothing comes: the time is up', async () => {
    const store = createStore();
    const startMs = performance.now();
    assert.equal(await until(store, nothing, { timeoutMs: 20 }), undefined);
    const waitedMs = performance.now() - startMs;
    assert.ok(waitedMs >= 15 && waitedMs < 5000, `${waitedMs}`);
  });

  test('the signal ends it', async () => {
    const aborting = new AbortController();
    const waiting = until(createStore(), nothing, { ...LONG, signal: aborting.signal });
    aborting.abort();
    assert.equal(await waiting, undefined);
  });

  test('the signal has been aborted before', async () => {
    assert.equal(await until(createStore(), nothing, { ...LONG, signal: AbortSignal.abort() }), undefined);
  });

  test('a gather that throws, at once and later', async () => {
    const store = createStore();
    const failing = (): undefined => {
      throw new TypeError('broken');
    };
    assert.throws(() => until(store, failing, LONG), { message: 'broken' });
    let looks = 0;
    const waiting = until(store, () => (looks++ === 0 ? undefined : failing()), LONG);
    addNamespace(store, 'shop');
    await assert.rejects(Promise.resolve(waiting), { message: 'broken' });
  });

  test('a thousand wait for the same', async () => {
    const store = createStore();
    const waiting = Array.from({ length: 1000 }, () =>
      Promise.resolve(until(store, () => store.get('Namespace', 'shop'), LONG)),
    );
    addNamespace(store, 'shop');
    const found = await Promise.all(waiting);
    assert.ok(found.every((one) => one?.metadata?.name === 'shop'));
  });
});
