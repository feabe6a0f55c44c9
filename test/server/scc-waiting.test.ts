/** What reviews that wait for their namespaces cost: how many there may be, and what becomes of those nobody waits for. */
import assert from 'node:assert/strict';
import { Agent } from 'node:https';
import { suite, test } from 'node:test';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import type { Decision } from '../../src/kube/admission.ts';
import { startAdmissionServer } from '../support/admission-server.ts';
import { post } from '../support/https.ts';
import { createSccRig, podOf, podRequest, RANGES, type SccClient } from '../support/scc-webhooks.ts';

const CREATE = podRequest(podOf());
const MIB = 1024 * 1024;
const NOT_FOUND = 'error fetching namespace "shop": namespace "shop" not found';
const NO_RANGE = 'error fetching namespace "shop": unable to find annotation openshift.io/sa.scc.uid-range';

const answerOf = (decision: Decision): unknown => (decision.allowed ? true : decision.status);
const refusal = (message: string): object => ({
  metadata: {},
  status: 'Failure',
  message,
  reason: 'Forbidden',
  code: 403,
});

suite('as many wait as there is room for', () => {
  const cases: readonly {
    readonly name: string;
    readonly client: Omit<SccClient, 'signal'>;
    readonly fits: number;
    readonly namespace?: object;
    readonly message: string;
  }[] = [
    { name: 'small reviews, no namespace', client: { bodyBytes: 2000 }, fits: 2000, message: NOT_FOUND },
    { name: 'large reviews, no namespace', client: { bodyBytes: 3 * MIB }, fits: 10, message: NOT_FOUND },
    {
      name: 'small reviews, no ranges',
      client: { bodyBytes: 2000 },
      fits: 2000,
      namespace: { metadata: { name: 'shop' } },
      message: NO_RANGE,
    },
  ];
  for (const { name, client, fits, namespace, message } of cases) {
    test(name, async () => {
      const rig = createSccRig();
      if (namespace) rig.store.put('Namespace', namespace);
      const going = new AbortController();
      const waiting = Array.from({ length: fits }, () =>
        rig.ask('/scc/mutate', CREATE, 15_000, { ...client, signal: going.signal }),
      );
      assert.ok(waiting.every((one) => one instanceof Promise));
      for (const path of ['/scc/mutate', '/scc/validate']) {
        const decision = rig.ask(path, CREATE, 15_000, client);
        assert.ok(!(decision instanceof Promise), 'answered at once');
        assert.deepEqual(answerOf(decision), refusal(message));
      }
      going.abort();
      await Promise.all(waiting);
      const next = rig.ask('/scc/mutate', CREATE, 15_000, client);
      assert.ok(next instanceof Promise, 'there is room again');
      rig.store.put('Namespace', { metadata: { name: 'shop', annotations: RANGES } });
      assert.equal((await next).allowed, true);
    });
  }

  test('they go on one by one, so that others get their turn', async () => {
    const rig = createSccRig();
    let done = 0;
    const waiting = Array.from({ length: 100 }, async () => {
      await rig.ask('/scc/mutate', CREATE, 15_000);
      done++;
    });
    rig.store.put('Namespace', { metadata: { name: 'shop', annotations: RANGES } });
    await new Promise((resolve) => setImmediate(resolve));
    await new Promise((resolve) => setImmediate(resolve));
    assert.ok(done < 10, `${done}`);
    await Promise.all(waiting);
  });
});

suite('nobody waits for the answer any more', () => {
  test('the wait ends with the client', async () => {
    const rig = createSccRig();
    const going = new AbortController();
    const decision = rig.ask('/scc/mutate', CREATE, 15_000, { signal: going.signal });
    const startMs = performance.now();
    going.abort();
    assert.deepEqual(answerOf(await decision), refusal(NOT_FOUND));
    assert.ok(performance.now() - startMs < 1000);
  });

  test('over connections: the review is forgotten with them', async (t) => {
    const collect = collector();
    const rig = createSccRig();
    const reviews: WeakRef<object>[] = [];
    const server = await startAdmissionServer([
      {
        path: '/scc/mutate',
        decide(request, context) {
          reviews.push(new WeakRef(request));
          return rig.ask('/scc/mutate', request, 15_000, context);
        },
      },
    ]);
    t.after(() => server.stop());
    const body = JSON.stringify({ request: CREATE });
    const agent = new Agent({ keepAlive: true });
    const calls = Array.from({ length: 10 }, () =>
      post(server, '/scc/mutate?timeout=15s', body, 'application/json', agent),
    );
    const ended = Promise.allSettled(calls);
    await eventually(() => reviews.length === 10);
    assert.match(await server.metrics.expose(), /portcullis_webhook_requests_in_flight 10/);
    agent.destroy();
    assert.ok((await ended).every(({ status }) => status === 'rejected'));
    await eventually(() => server.log.length === 10);
    const { time, durationMs, ...line } = server.log[0] ?? {};
    assert.deepEqual([typeof time, typeof durationMs], ['number', 'number']);
    assert.deepEqual(line, {
      level: 30,
      logger: 'webhook',
      webhook: '/scc/mutate',
      uid: CREATE.uid,
      operation: 'CREATE',
      kind: 'Pod',
      namespace: 'shop',
      name: 'web',
      user: 'alice',
      msg: 'client disconnected before the response',
    });
    assert.match(await server.metrics.expose(), /portcullis_webhook_requests_in_flight 0/);
    await eventually(() => {
      collect();
      return reviews.every((review) => review.deref() === undefined);
    });
  });
});

/** Frees what nobody holds. */
function collector(): () => void {
  setFlagsFromString('--expose_gc');
  return runInNewContext('gc') as () => void;
}

async function eventually(holds: () => boolean): Promise<void> {
  const startMs = performance.now();
  while (!holds()) {
    assert.ok(performance.now() - startMs < 5000, 'in time');
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}
