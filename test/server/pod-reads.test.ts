/**
 * Tests many concurrent `exec` requests over TLS, including concurrent and shared reads of pods, other clients and
 * limits.
 */
import assert from 'node:assert/strict';
import { Agent } from 'node:https';
import { suite, test, type TestContext } from 'node:test';
import { createStore } from '../../src/cluster/store.ts';
import { LIMITS } from '../../src/kube/limits.ts';
import type { Pod } from '../../src/kube/types.ts';
import type { Webhook } from '../../src/server/webhook.ts';
import { startAdmissionServer } from '../support/admission-server.ts';
import { eventually } from '../support/eventually.ts';
import { post } from '../support/https.ts';
import { buildPod, createTestWebhooks, podRequest, RANGES } from '../support/scc-webhooks.ts';

const MAX_READS = LIMITS.podReads;
const API_SERVER = '127.0.0.1';
const STRANGER = '127.0.0.2';

interface Read {
  readonly name: string;
  /** Responds to a read. Default: a pod that every user may create. */
  answer(spec?: object): void;
}

interface Rig {
  /** The reads that were sent to the API server. */
  readonly reads: readonly Read[];
  /** Sends a review whose object has a number of values, and resolves to `allowed` or the reason for the denial. */
  exec(name: string, address?: string, values?: number): Promise<string>;
  /** Resolves once the server has received the given number of reviews. */
  received(count: number): Promise<void>;
}

interface RigOptions {
  /** Annotations of the namespace. Default: its ranges. */
  readonly annotations?: Readonly<Record<string, string>>;
  /** Timeout of the review. */
  readonly timeout?: string;
}

async function startRig(t: TestContext, { annotations, timeout = '10s' }: RigOptions = {}): Promise<Rig> {
  const store = createStore();
  store.put('Namespace', { metadata: { name: 'shop', annotations: annotations ?? RANGES } });
  const reads: Read[] = [];
  const get = (_kind: string, name: string): Promise<never> => {
    const read = Promise.withResolvers<Pod>();
    reads.push({ name, answer: (spec = {}) => read.resolve(buildPod({}, { name, ...spec }) as unknown as Pod) });
    return read.promise as Promise<never>;
  };
  let count = 0;
  const webhooks = createTestWebhooks(store, { cluster: { get } }).map((webhook): Webhook => ({
    ...webhook,
    async decide(request, context) {
      count++;
      return await webhook.decide(request, context);
    },
  }));
  const server = await startAdmissionServer(webhooks, { store });
  const agents = [API_SERVER, STRANGER].map((localAddress) => [localAddress, new Agent({ localAddress })] as const);
  t.after(async () => {
    for (const [, agent] of agents) agent.destroy();
    await server.stop();
  });
  return {
    reads,
    async exec(name, address = API_SERVER, values = 0) {
      const object = { wide: Array(values).fill(0) };
      const body = JSON.stringify({ request: podRequest(object, { name, operation: 'CONNECT', subResource: 'exec' }) });
      const reply = await post(
        server,
        `/connect/pods?timeout=${timeout}`,
        body,
        'application/json',
        new Map(agents).get(address),
      );
      const { response } = JSON.parse(reply.body) as { response: { status?: { message: string } } };
      return response.status?.message ?? 'allowed';
    },
    received: (expected) => eventually(() => assert.equal(count, expected)),
  };
}

/** Sends `exec` requests to pods with different names. */
function execMany({ exec }: Rig, count: number, address?: string, values?: number): readonly Promise<string>[] {
  return Array.from({ length: count }, (_, index) => {
    const result = exec(`pod-${index}`, address, values);
    result.catch(() => undefined);
    return result;
  });
}

suite('reads of pods for exec reviews are limited:', () => {
  test('many requests may wait, but only a few pods are read at the same time', async (t) => {
    const rig = await startRig(t);
    const count = 2.5 * MAX_READS;
    const results = execMany(rig, count);
    await rig.received(count);
    for (const sent of [MAX_READS, 2 * MAX_READS, count]) {
      await eventually(() => assert.equal(rig.reads.length, sent));
      for (const read of rig.reads) read.answer();
    }
    assert.deepEqual([...new Set(await Promise.all(results))], ['allowed']);
  });

  test('each request is decided with a read that starts after the request', async (t) => {
    const rig = await startRig(t);
    const early = rig.exec('web');
    await rig.received(1);
    const late = rig.exec('web');
    await eventually(() => assert.equal(rig.reads.length, 2));
    const debug = { name: 'debug', image: 'i', securityContext: { privileged: true } };
    rig.reads[1]?.answer({ ephemeralContainers: [debug] });
    assert.match(await late, /^exec operation is not allowed because the pod's security context exceeds your/);
    rig.reads[0]?.answer();
    assert.equal(await early, 'allowed');
  });

  test('addresses are served in turn', async (t) => {
    const rig = await startRig(t);
    void execMany(rig, MAX_READS + 50, STRANGER);
    await rig.received(MAX_READS + 50);
    const result = rig.exec('web');
    await rig.received(MAX_READS + 51);
    for (const read of rig.reads.slice(0, 2)) read.answer();
    await eventually(() => assert.equal(rig.reads[MAX_READS + 1]?.name, 'web'));
    rig.reads[MAX_READS + 1]?.answer();
    assert.equal(await result, 'allowed');
  });

  test('if the waiting requests exceed 48 MiB, the oldest request of the address with the most is denied', async (t) => {
    const rig = await startRig(t);
    const result = rig.exec('web');
    await rig.received(1);
    const denied = await Promise.race(execMany(rig, 20, STRANGER, 60_000));
    assert.equal(denied, 'failed to get pod: too many concurrent pod reads; try again');
    rig.reads[0]?.answer();
    assert.equal(await result, 'allowed');
  });
});
