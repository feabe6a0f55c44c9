/** Tests the limits in bytes and time of the data that replicas keep between requests. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { createAccessReviews } from '../../src/cluster/access-reviews.ts';
import { CACHE_ENTRY_BYTES, createCache, digest } from '../../src/cluster/cache.ts';
import type { ClusterEvent } from '../../src/cluster/cluster.ts';
import { createEventRecorder, truncateNote } from '../../src/cluster/event-recorder.ts';
import { LIMITS } from '../../src/kube/limits.ts';
import { createMetrics } from '../../src/telemetry/metrics.ts';
import { createFakeClock } from '../support/fake-clock.ts';
import { measureRetained } from '../support/heap.ts';
import { createRecorder } from '../support/recorder.ts';

const MIB = 1024 * 1024;

suite('a cache', () => {
  const create = () => {
    const clock = createFakeClock();
    const options = { limit: 'ownWritesBytes', maxBytes: 3 * CACHE_ENTRY_BYTES, ttlMs: 1000, now: clock.now } as const;
    return { clock, cache: createCache<number>(options) };
  };

  test('drops the oldest entries when it exceeds its limit', () => {
    const { cache } = create();
    for (const [key, value] of Object.entries({ a: 1, b: 2, c: 3 })) cache.set(key, value);
    cache.set('a', 4);
    cache.set('d', 5);
    assert.deepEqual(
      ['a', 'b', 'c', 'd'].map((key) => cache.get(key)),
      [4, undefined, 3, 5],
    );
  });

  test('does not return expired entries, and drops all of them at the next change', async () => {
    const clock = createFakeClock();
    const cache = createCache<object>({
      limit: 'ownWritesBytes',
      maxBytes: 100 * CACHE_ENTRY_BYTES,
      ttlMs: 1000,
      now: clock.now,
    });
    const bytes = await measureRetained(() => {
      for (let index = 0; index < 50; index++) cache.set(String(index), new Array<number>(100_000).fill(index));
      clock.advance(1000);
      assert.equal(cache.get('49'), undefined);
      cache.set('x', {});
      return Promise.resolve(cache);
    });
    assert.ok(bytes < MIB, `${bytes} bytes`);
  });
});

const event = (uid: string): ClusterEvent => ({
  regarding: { apiVersion: 'apps/v1', kind: 'ReplicaSet', metadata: { name: 'web-1', namespace: 'shop', uid } },
  type: 'Warning',
  reason: 'PodSecurityViolation',
  action: 'CreatePod',
  note: 'x'.repeat(1000),
  reportingController: 'portcullis',
});

suite('the event recorder', () => {
  const createRig = () => {
    const clock = createFakeClock();
    const sent: unknown[] = [];
    const request = ({ method }: { readonly method: string }): Promise<Record<string, never>> => {
      sent.push(method);
      return Promise.resolve({});
    };
    const options = { connection: { request }, clock, now: () => new Date(0) };
    return { sent, record: createEventRecorder(options) };
  };

  test('rejects events about objects with long UIDs', async () => {
    const { sent, record } = createRig();
    await record(event('u'.repeat(LIMITS.eventReferenceCharacters)));
    const tooLong = event('u'.repeat(LIMITS.eventReferenceCharacters + 1));
    await assert.rejects(record(tooLong), { message: 'the reference to the object is too long' });
    assert.deepEqual(sent, ['POST']);
  });

  test('stays within its memory limits regardless of the number of objects and the length of their UIDs', async () => {
    const { record } = createRig();
    const bytes = await measureRetained(async () => {
      for (let index = 0; index < 10_000; index++) {
        const length = index % 2 === 0 ? 20_000 : LIMITS.eventReferenceCharacters;
        await record(event(String(index).padEnd(length, 'u'))).catch(() => undefined);
      }
      return record;
    });
    const limit = LIMITS.eventBucketsBytes + LIMITS.eventSeriesBytes;
    assert.ok(bytes < limit, `${bytes} bytes exceed ${limit}`);
    assert.ok(bytes > limit / 8, `${bytes} bytes`);
  });

  test('drops events while too many are being written', async () => {
    const clock = createFakeClock();
    const { promise, resolve } = Promise.withResolvers<Record<string, never>>();
    const record = createEventRecorder({ connection: { request: () => promise }, clock, now: () => new Date(0) });
    const writes = Array.from({ length: LIMITS.pendingEvents }, (_, index) => record(event(`u${index}`)));
    await assert.rejects(record(event('other')), { message: 'too many events are being written' });
    resolve({});
    await Promise.all(writes);
    await record(event('other'));
  });

  test('keeps only the truncated note of an event in memory, not the complete text', async () => {
    const bytes = await measureRetained(() =>
      Promise.resolve(Array.from({ length: 50 }, (_, index) => truncateNote(`${index}${'y'.repeat(MIB)}`, '.'))),
    );
    assert.ok(bytes < MIB, `${bytes} bytes`);
  });
});

test('cached results of SubjectAccessReviews do not exceed their memory limit, regardless of the number of groups', async () => {
  const review = createAccessReviews({
    cluster: { reviewAccess: () => Promise.resolve({ allowed: true }) },
    logger: createRecorder().logger,
    metrics: createMetrics({ version: '0.0.0' }).scc,
    takeAccessReview: () => true,
    now: () => 0,
  });
  const bytes = await measureRetained(async () => {
    for (let index = 0; index < 12_000; index++) {
      const groups = [`${index}`.padEnd(10_000, 'g')];
      const subject = { username: 'alice', groups };
      const client = { timeoutMs: 1000, address: undefined };
      await review({ subject, sccName: 'anyuid', namespaceName: 'shop' }, client);
    }
    return review;
  });
  assert.ok(bytes < LIMITS.accessReviewResultsBytes, `${bytes} bytes`);
  assert.ok(bytes > LIMITS.accessReviewResultsBytes / 8, `${bytes} bytes`);
});

test('digests have a fixed length', () => {
  assert.equal(digest('a').length, digest('a'.repeat(100_000)).length);
  assert.notEqual(digest('a'), digest('b'));
});
