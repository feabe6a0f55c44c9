/** Clients that try to exhaust a replica: descriptors, memory, the event loop and the log. Each suite attacks one process. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { openSync } from 'node:fs';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { loadavg, tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, suite, test, type TestContext } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { connect } from 'node:tls';
import { Worker } from 'node:worker_threads';
import { freePorts } from '../support/control-plane/process.ts';
import { eventually } from '../support/eventually.ts';
import { readUsage } from '../support/process-usage.ts';
import { podReview } from '../support/reviews.ts';
import { serve, start, type RunningServer } from '../support/serve-process.ts';
import { startLoad, type ExpectedReview, type LoadReport } from '../support/steady-load.ts';
import { createWebhookClient, type WebhookClient } from '../support/webhook-client.ts';
import type { Attack } from './attacker.ts';
import { assertNoFailures, buildSpec, NAMESPACE, recordFault, REVIEWS } from './stage.ts';

/** The memory limit of the Deployment, for which Node chooses this size of the heap. */
const MAX_RSS_MIB = 512;
const HEAP_MIB = 256;
/** The longest turn of the event loop. */
const MAX_TURN_MS = 50;
const PSA = '/psa/validate';
const MUTATE = '/scc/mutate';

const LABELS = { 'pod-security.kubernetes.io/enforce': 'restricted', 'portcullis.dev/scc': 'enforce' };
const MANIFEST = JSON.stringify({
  apiVersion: 'v1',
  kind: 'Namespace',
  metadata: { name: NAMESPACE, labels: LABELS },
});

function waitForDecisions(client: WebhookClient): Promise<void> {
  return eventually(async () => {
    for (const { path, review, allowed } of REVIEWS) assert.equal(await client.call(path, review), allowed, path);
  }, 60_000);
}

interface Target {
  readonly server: RunningServer;
  readonly client: WebhookClient;
  readonly pid: number;
  /** Reads the longest turn of the event loop since the start in milliseconds. */
  longestTurnMs(): Promise<number>;
  stop(): Promise<void>;
}

/** Starts a replica with the heap of a container of 512 MiB, and a namespace that enforces both policies. */
async function startTarget(openFiles?: number): Promise<Target> {
  const folder = await mkdtemp(join(tmpdir(), 'portcullis-attacks-'));
  await writeFile(join(folder, 'namespace.yaml'), MANIFEST);
  const limit = openFiles === undefined ? {} : { openFiles };
  const turns = join(folder, 'turns');
  const measure = new URL('loop-delay.ts', import.meta.url).href;
  const env = {
    NODE_OPTIONS: `--max-old-space-size=${HEAP_MIB} --import=${measure}`,
    LOOP_DELAY_FILE: turns,
  };
  const server = await serve(['--dev-cluster', `--manifests=${folder}`], env, undefined, limit);
  const { port } = server;
  const client = createWebhookClient({ port, serverName: 'localhost', authority: 'any', timeoutSeconds: 15 });
  await waitForDecisions(client);
  return {
    server,
    client,
    pid: server.child.pid ?? 0,
    longestTurnMs: async () => Number(await readFile(turns, 'utf8')),
    async stop() {
      client.close();
      await server.stop('SIGKILL');
      await rm(folder, { recursive: true, force: true });
    },
  };
}

interface RunningAttack {
  /** Ends the attack. Resolves to the responses. */
  stop(): Promise<readonly string[]>;
}

/** Starts an attack. Resolves when everything is sent. */
async function startAttack({ server: { port } }: Target, attack: Omit<Attack, 'port'>): Promise<RunningAttack> {
  const worker = new Worker(new URL('attacker.ts', import.meta.url), { workerData: { ...attack, port } });
  await once(worker, 'message');
  return {
    async stop() {
      worker.postMessage('stop');
      const [responses] = (await once(worker, 'message')) as [readonly string[]];
      await worker.terminate();
      return responses;
    },
  };
}

function formatHead(path: string, length: number): string {
  return `POST ${path}?timeout=10s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: ${length}\r\n\r\n`;
}

/** Sends other reviews during an attack. */
async function underAttack(t: TestContext, target: Target, attack: () => Promise<void>): Promise<LoadReport> {
  const { client, pid } = target;
  const load = startLoad({ client, reviews: REVIEWS, perSecond: 50 });
  try {
    await attack();
  } finally {
    await load.stop();
  }
  const { rssMiB, peakMiB, openFiles } = await readUsage(pid);
  t.diagnostic(
    `RSS ${rssMiB} MiB, peak ${peakMiB} MiB; ${openFiles} descriptors; longest turn ${await target.longestTurnMs()} ms; load ${loadavg()[0]?.toFixed(1)}`,
  );
  recordFault(t, load.report(), undefined, t.fullName);
  return load.report();
}

for (const openFiles of [undefined, 600]) {
  const limit = openFiles === undefined ? '' : ` with ${openFiles} descriptors`;
  suite(`silent connections${limit}`, { timeout: 120_000 }, () => {
    let target: Target;
    before(async () => {
      target = await startTarget(openFiles);
    });
    after(() => target.stop());

    test('5000 leave no descriptors and no memory, and others are served', async (t) => {
      const before = await readUsage(target.pid);
      t.diagnostic(`before: RSS ${before.rssMiB} MiB; ${before.openFiles} descriptors`);
      const report = await underAttack(t, target, async () => {
        const attack = await startAttack(target, { protocol: 'tcp', connections: 5000 });
        await pause(15_000);
        await attack.stop();
      });
      assertNoFailures(report);
      await eventually(async () => {
        const { openFiles: now, rssMiB } = await readUsage(target.pid);
        assert.ok(now < before.openFiles + 50, `${now} descriptors after ${before.openFiles}`);
        assert.ok(rssMiB < before.rssMiB + 96, `RSS ${rssMiB} MiB after ${before.rssMiB} MiB`);
      }, 30_000);
    });
  });
}

suite('reviews that wait', { timeout: 120_000 }, () => {
  let target: Target;
  before(async () => {
    target = await startTarget();
  });
  after(() => target.stop());

  test('100 of 900,000 objects do not exhaust a heap of 256 MiB', async (t) => {
    const review = podReview({ namespace: 'missing', spec: { containers: Array(900_000).fill({}) } });
    const body = JSON.stringify(review);
    const report = await underAttack(t, target, async () => {
      const sent = formatHead(PSA, body.length) + body;
      const attack = await startAttack(target, { protocol: 'tls', connections: 100, sent });
      await pause(12_000);
      await attack.stop();
    });
    assert.equal(target.server.child.exitCode, null);
    assertNoFailures(report);
    const { peakMiB } = await readUsage(target.pid);
    assert.ok(peakMiB < MAX_RSS_MIB, `${peakMiB} MiB`);
    const turnMs = await target.longestTurnMs();
    assert.ok(turnMs <= MAX_TURN_MS, `a turn of ${turnMs} ms`);
  });
});

interface Unfinished {
  readonly name: string;
  readonly connections: number;
  readonly sent: string;
}

const MIB = 1024 * 1024;
const UNFINISHED: readonly Unfinished[] = [
  { name: 'bodies of 6 MiB', connections: 100, sent: formatHead(PSA, 7 * MIB) + ' '.repeat(6 * MIB) },
  { name: 'bodies of 127 KiB', connections: 2500, sent: formatHead(PSA, 128 * 1024) + ' '.repeat(127 * 1024) },
  {
    name: 'headers of 0.94 MiB',
    connections: 400,
    sent: `POST ${PSA} HTTP/1.1\r\nHost: x\r\nX: ${'x'.repeat(0.94 * MIB)}`,
  },
  { name: 'headers of 15 KiB', connections: 2500, sent: `POST ${PSA} HTTP/1.1\r\nHost: x\r\nX: ${'x'.repeat(15_000)}` },
];

for (const { name, connections, sent } of UNFINISHED) {
  suite(`unfinished requests: ${connections} with ${name}`, { timeout: 120_000 }, () => {
    let target: Target;
    before(async () => {
      target = await startTarget();
    });
    after(() => target.stop());

    test(`less than ${MAX_RSS_MIB} MiB, and others are served`, async (t) => {
      const report = await underAttack(t, target, async () => {
        const attack = await startAttack(target, { protocol: 'tls', connections, sent });
        await pause(5000);
        await attack.stop();
      });
      assertNoFailures(report);
      const { peakMiB } = await readUsage(target.pid);
      assert.ok(peakMiB < MAX_RSS_MIB, `${peakMiB} MiB`);
    });
  });
}

function buildMap(length: number): Readonly<Record<string, string>> {
  return Object.fromEntries(Array.from({ length }, (_, index) => [`k${index.toString(36)}`, '']));
}

function authorReview(change: { readonly metadata?: object; readonly spec?: object }): string {
  const { request, ...review } = podReview({
    namespace: NAMESPACE,
    spec: { ...buildSpec('restricted'), ...change.spec },
  });
  const object = request.object as { readonly metadata: object };
  const metadata = { ...object.metadata, ...change.metadata };
  return JSON.stringify({ ...review, request: { ...request, object: { ...object, metadata } } });
}

const [CONTAINER] = buildSpec('restricted')['containers'] as readonly object[];
const env = Array.from({ length: 200_000 }, (_, index) => ({ name: `k${index.toString(36)}` }));
const AUTHORS: readonly { readonly name: string; readonly body: string }[] = [
  { name: '190,000 annotations', body: authorReview({ metadata: { annotations: buildMap(190_000) } }) },
  { name: '200,000 environment variables', body: authorReview({ spec: { containers: [{ ...CONTAINER, env }] } }) },
  { name: '200,000 keys of a nodeSelector', body: authorReview({ spec: { nodeSelector: buildMap(200_000) } }) },
];

suite('authors of large pods', { timeout: 300_000 }, () => {
  let target: Target;
  before(async () => {
    target = await startTarget();
  });
  after(() => target.stop());

  for (const { name, body } of AUTHORS) {
    test(`eight with ${name} do not delay others`, async (t) => {
      let responses: readonly string[] = [];
      const report = await underAttack(t, target, async () => {
        const attacks = [PSA, MUTATE].map((path) => {
          const sent = formatHead(path, body.length) + body;
          return startAttack(target, { protocol: 'tls', connections: 4, sent, isRepeated: true });
        });
        await pause(15_000);
        const stopped = await Promise.all(attacks.map(async (attack) => await (await attack).stop()));
        responses = stopped.flat();
      });
      const counts = Map.groupBy(responses, (response) => response);
      t.diagnostic(
        `the large reviews: ${[...counts].map(([status, { length }]) => `${length} × ${status}`).join(', ')}`,
      );
      assertNoFailures(report);
      assert.ok(report.p99Ms < 250, `${report.p99Ms} ms`);
      const turnMs = await target.longestTurnMs();
      assert.ok(turnMs <= MAX_TURN_MS, `a turn of ${turnMs} ms`);
    });
  }
});

/** Peak memory during reviews of hostile bodies, from a container with the limit of the manifests. */
const MAX_HOSTILE_MIB = 400;
const [BEFORE_OBJECT = '', AFTER_OBJECT = ''] = JSON.stringify(
  podReview({ namespace: NAMESPACE, spec: { nodeSelector: 'HOSTILE' } }),
).split('"HOSTILE"');
/** Deep nesting is denied. The other values are in a field that no decision reads. */
const HOSTILE: readonly { readonly name: string; readonly value: string; readonly response: string }[] = [
  { name: '5.5 MiB of nested lists', value: '['.repeat(5.5 * MIB), response: '200 false' },
  {
    name: '18 MiB of empty objects',
    value: `[${Array(6 * MIB)
      .fill('{}')
      .join()}]`,
    response: '200 false',
  },
  {
    name: '18 MiB of members',
    value: `{${Array(3 * MIB)
      .fill('"a":1')
      .join()}}`,
    response: '200 false',
  },
];

suite('hostile bodies', { timeout: 300_000 }, () => {
  let target: Target;
  before(async () => {
    target = await startTarget();
  });
  after(() => target.stop());

  for (const { name, value, response } of HOSTILE) {
    test(`twelve with ${name} take less than ${MAX_HOSTILE_MIB} MiB`, async (t) => {
      const body = BEFORE_OBJECT + value + AFTER_OBJECT;
      let responses: readonly string[] = [];
      const report = await underAttack(t, target, async () => {
        const sent = formatHead(PSA, body.length) + body;
        const attack = await startAttack(target, { protocol: 'tls', connections: 12, sent, isRepeated: true });
        await pause(10_000);
        responses = await attack.stop();
      });
      assertNoFailures(report);
      const { peakMiB } = await readUsage(target.pid);
      assert.ok(peakMiB < MAX_HOSTILE_MIB, `${peakMiB} MiB`);
      const answered = responses.filter((one) => one !== 'closed');
      assert.deepEqual([...new Set(answered)], [response]);
    });
  }
});

suite('large bodies that stop', { timeout: 120_000 }, () => {
  let target: Target;
  before(async () => {
    target = await startTarget();
  });
  after(() => target.stop());

  const args = ['x'.repeat(200_000)];
  const large: ExpectedReview = {
    path: PSA,
    allowed: true,
    review: podReview({
      namespace: NAMESPACE,
      spec: { ...buildSpec('restricted'), initContainers: [{ ...CONTAINER, name: 'large', args }] },
    }),
  };

  for (const { name, connections, bytes } of [
    { name: 'two that declare 32 MiB and send one byte', connections: 2, bytes: 1 },
    { name: '100 that declare 32 MiB and send one byte', connections: 100, bytes: 1 },
    { name: '20 that declare 32 MiB and send 8 MiB', connections: 20, bytes: 8 * MIB },
  ]) {
    test(`${name} do not block large reviews`, async (t) => {
      const sent = formatHead(PSA, 31 * MIB) + ' '.repeat(bytes);
      const attack = await startAttack(target, { protocol: 'tls', connections, sent });
      // The server has received what the connections sent.
      await pause(1000);
      const startMs = performance.now();
      const allowed = await target.client.call(large.path, large.review).catch((error: unknown) => String(error));
      t.diagnostic(`a large review took ${Math.round(performance.now() - startMs)} ms: ${allowed}`);
      await attack.stop();
      assert.equal(allowed, true);
    });
  }
});

suite('long texts', { timeout: 120_000 }, () => {
  let target: Target;
  before(async () => {
    target = await startTarget();
  });
  after(() => target.stop());

  const text = 'x'.repeat(6 * MIB);
  const { request, ...review } = podReview({ namespace: NAMESPACE });
  for (const [field, body] of [
    ['kind of the review', { ...review, kind: text, request }],
    ['apiVersion of the review', { ...review, apiVersion: text, request }],
    ['kind', { ...review, request: { ...request, kind: { ...request.kind, kind: text } } }],
    ['uid', { ...review, request: { ...request, uid: text } }],
    ['name', { ...review, request: { ...request, name: text } }],
    ['namespace', { ...review, request: { ...request, namespace: text } }],
    ['user', { ...review, request: { ...request, userInfo: { username: text } } }],
    ['operation', { ...review, request: { ...request, operation: text } }],
    ['image', { ...review, request: { ...request, object: { ...(request.object as object), kind: text } } }],
  ] as const) {
    test(`${field}: the response and the log are bounded`, async (t) => {
      const sent = JSON.stringify(body);
      const before = target.server.output().stderr.length;
      const { port } = target.server;
      const socket = connect({ host: '127.0.0.1', port, rejectUnauthorized: false });
      let received = 0;
      socket.on('data', (chunk: Buffer) => (received += chunk.length));
      socket.write(formatHead(PSA, sent.length) + sent);
      await pause(1500);
      socket.destroy();
      const logged = target.server.output().stderr.length - before;
      t.diagnostic(`${received} bytes of response, ${logged} bytes of log`);
      assert.ok(received > 0 && received < 300_000 && logged < 40_000, `${received} and ${logged}`);
    });
  }
});

suite('logs that cannot be written', { timeout: 120_000 }, () => {
  let folder: string;
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'portcullis-logs-'));
    await writeFile(join(folder, 'namespace.yaml'), MANIFEST);
  });
  after(() => rm(folder, { recursive: true, force: true }));

  for (const [name, stderr] of [
    ['closed log', 'pipe'],
    ['full disk', openSync('/dev/full', 'w')],
  ] as const) {
    test(name, async (t) => {
      const [port = 0, probes = 0] = await freePorts(2);
      const args = [`--secure-port=${port}`, '--cluster-port=0', `--health-probe-bind-address=127.0.0.1:${probes}`];
      const dirs = [`--cert-dir=${join(folder, name)}`, `--manifests=${folder}`];
      const started = start(['--dev-cluster', ...args, ...dirs], {}, undefined, { stderr });
      const client = createWebhookClient({ port, serverName: 'localhost', authority: 'any', timeoutSeconds: 15 });
      t.after(async () => {
        client.close();
        started.child.kill('SIGKILL');
        await started.finished;
      });
      await waitForDecisions(client);
      started.child.stdout?.destroy();
      started.child.stderr?.destroy();
      const load = startLoad({ client, reviews: REVIEWS, perSecond: 100 });
      await pause(10_000);
      const report = await load.stop();
      recordFault(t, report);
      assertNoFailures(report);
      assert.equal(started.child.exitCode, null);
    });
  }
});
