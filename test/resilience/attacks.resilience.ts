/**
 * Tests clients that try to exhaust the descriptors, memory, event loop and log of a replica. Each suite attacks one
 * process.
 */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { openSync } from 'node:fs';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { loadavg, tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, suite, test, type TestContext } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { promisify } from 'node:util';
import { Worker } from 'node:worker_threads';
import { freePorts } from '../support/control-plane/process.ts';
import { eventually } from '../support/eventually.ts';
import { createMemoryGroup, type MemoryGroup } from '../support/memory-group.ts';
import { readUsage } from '../support/process-usage.ts';
import { podReview, type Review } from '../support/reviews.ts';
import { type ProcessOptions, type RunningServer, serve, start } from '../support/serve-process.ts';
import { type ExpectedReview, type LoadReport, startLoad } from '../support/steady-load.ts';
import { createWebhookClient, type WebhookClient } from '../support/webhook-client.ts';
import type { Attack } from './attacker.ts';
import { imageEnvironment } from './image.ts';
import { assertNoFailures, buildSpec, NAMESPACE, recordFault, REVIEWS, WITHOUT_SCCS } from './stage.ts';

/** The memory limit in the Deployment. */
const MAX_RSS_MIB = 512;
/** Limit of the memory during an attack. The remaining memory is reserved for the objects of a large cluster. */
const MAX_ATTACK_MIB = 400;
const PSA = '/validate/pods';
const MUTATE = '/mutate/pods';

const namespaceManifest = (name: string, scc: string): string =>
  JSON.stringify({
    apiVersion: 'v1',
    kind: 'Namespace',
    metadata: { name, labels: { 'pod-security.kubernetes.io/enforce': 'restricted', 'portcullis.dev/scc': scc } },
  });
const MANIFEST = [namespaceManifest(NAMESPACE, 'enforce'), namespaceManifest(WITHOUT_SCCS, 'off')].join('\n---\n');

function waitForDecisions(client: WebhookClient): Promise<void> {
  return eventually(async () => {
    for (const { path, review, allowed } of REVIEWS) assert.equal(await client.call(path, review), allowed, path);
  }, 60_000);
}

interface Target {
  readonly server: RunningServer;
  readonly client: WebhookClient;
  readonly pid: number;
  /** Returns the maximum CPU time that a turn of the event loop has used, in milliseconds. */
  longestTurnMs(): Promise<number>;
  stop(): Promise<void>;
}

/** Starts a replica with the heap of a 512 MiB container, and creates a namespace that enforces both policies. */
async function startTarget(options: ProcessOptions = {}, main?: string): Promise<Target> {
  const folder = await mkdtemp(join(tmpdir(), 'portcullis-attacks-'));
  await writeFile(join(folder, 'namespace.yaml'), MANIFEST);
  const turns = join(folder, 'turns');
  const env = imageEnvironment(MAX_RSS_MIB, turns);
  const server = await serve(['--dev-cluster', `--manifests=${folder}`], env, main, options);
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

/** Starts an attack. Resolves when all bytes are sent. */
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

/** Asserts that no turn of the event loop used as much CPU time as this machine needs to parse the body at once. */
async function assertDivided(t: TestContext, target: Target, body: string): Promise<void> {
  const before = process.threadCpuUsage();
  JSON.parse(body);
  const { user, system } = process.threadCpuUsage(before);
  const parseMs = (user + system) / 1000;
  const turnMs = await target.longestTurnMs();
  t.diagnostic(`longest turn ${turnMs} ms, parsing at once ${parseMs.toFixed()} ms`);
  assert.ok(turnMs < parseMs, `a turn of ${turnMs} ms, and parsing at once takes ${parseMs} ms`);
}

for (const openFiles of [undefined, 600]) {
  const limit = openFiles === undefined ? '' : ` with ${openFiles} descriptors`;
  suite(`silent TCP connections to a replica${limit}`, { timeout: 120_000 }, () => {
    let target: Target;
    before(async () => {
      target = await startTarget(openFiles === undefined ? {} : { openFiles });
    });
    after(() => target.stop());

    test('leave no descriptors or memory behind when 5000 of them are closed, and do not affect other clients', async (t) => {
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

interface Unfinished {
  readonly name: string;
  readonly connections: number;
  readonly sent: string;
}

const MIB = 1024 * 1024;
const UNFINISHED: readonly Unfinished[] = [
  {
    name: 'headers of 0.94 MiB',
    connections: 400,
    sent: `POST ${PSA} HTTP/1.1\r\nHost: x\r\nX: ${'x'.repeat(0.94 * MIB)}`,
  },
  { name: 'headers of 15 KiB', connections: 2500, sent: `POST ${PSA} HTTP/1.1\r\nHost: x\r\nX: ${'x'.repeat(15_000)}` },
];

for (const { name, connections, sent } of UNFINISHED) {
  suite(`${connections} requests with incomplete ${name}`, { timeout: 120_000 }, () => {
    let target: Target;
    before(async () => {
      target = await startTarget();
    });
    after(() => target.stop());

    test(`use less than ${MAX_RSS_MIB} MiB, and do not affect other clients`, async (t) => {
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

suite('large reviews from eight clients do not delay other clients:', { timeout: 300_000 }, () => {
  let target: Target;
  before(async () => {
    target = await startTarget();
  });
  after(() => target.stop());

  for (const { name, body } of AUTHORS) {
    test(`each pod has ${name}`, async (t) => {
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
      await assertDivided(t, target, body);
    });
  }
});

/** Returns a review of a privileged pod with additional fields in its spec, container and metadata. */
function forbiddenReview(spec: object, container: object = {}, metadata: object = {}): Review {
  const forbidden = { ...CONTAINER, ...container, securityContext: { privileged: true } };
  const { request, ...review } = podReview({ namespace: NAMESPACE, spec: { containers: [forbidden], ...spec } });
  const object = request.object as { readonly metadata: object };
  return { ...review, request: { ...request, object: { ...object, metadata: { ...object.metadata, ...metadata } } } };
}

/** Formats a review of an update that changes the image, so the pod is evaluated. */
function formatUpdate({ request, ...review }: Review): string {
  const text = JSON.stringify(request.object);
  const oldObject: unknown = JSON.parse(text.replace(/"image":"/, '$&old.'));
  return JSON.stringify({ ...review, request: { ...request, operation: 'UPDATE', oldObject } });
}

const DEPTH = 5.5 * MIB;
const PLACEHOLDER = 'NESTED';
const withNested = (text: string): string =>
  JSON.stringify(forbiddenReview({ affinity: PLACEHOLDER })).replace(`"${PLACEHOLDER}"`, text);
const longEnv = Array.from({ length: 400_000 }, (_, index) => ({ name: `k${index.toString(36).padStart(12, '0')}` }));

interface MemoryAttack {
  readonly name: string;
  readonly connections: number;
  readonly body: string;
  /** Number of bytes at the end that the client does not send. */
  readonly missing?: number;
}

const MEMORY_ATTACKS: readonly MemoryAttack[] = [
  {
    name: '18 MiB of empty objects',
    connections: 12,
    body: withNested(
      `[${Array(6 * MIB)
        .fill('{}')
        .join()}]`,
    ),
  },
  {
    name: '18 MiB of members',
    connections: 12,
    body: withNested(
      `{${Array(3 * MIB)
        .fill('"a":1')
        .join()}}`,
    ),
  },
  { name: '5.5 MiB of nested lists', connections: 12, body: withNested('['.repeat(DEPTH / 2) + ']'.repeat(DEPTH / 2)) },
  { name: '5.5 MiB of [', connections: 12, body: withNested('['.repeat(DEPTH)) },
  {
    name: '18 MiB of environment variables',
    connections: 12,
    body: formatUpdate(forbiddenReview({}, { env: longEnv })),
  },
  {
    name: '18 MiB of annotations',
    connections: 12,
    body: formatUpdate(forbiddenReview({}, {}, { annotations: buildMap(900_000) })),
  },
  { name: 'unfinished bodies of 127 KiB', connections: 1000, body: ' '.repeat(128 * 1024), missing: 1024 },
  { name: 'unfinished bodies of 6 MiB', connections: 200, body: ' '.repeat(7 * MIB), missing: MIB },
  {
    name: '900,000 containers',
    connections: 100,
    body: JSON.stringify(podReview({ namespace: 'missing', spec: { containers: Array(900_000).fill({}) } })),
  },
];

suite('the bundle, within the memory limit of the manifests,', { timeout: 600_000 }, () => {
  let folder: string;
  let main: string;
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'portcullis-bundle-'));
    await promisify(execFile)(process.execPath, ['scripts/build.ts', folder]);
    main = join(folder, 'main.js');
  });
  after(() => rm(folder, { recursive: true, force: true }));

  for (const { name, connections, body, missing } of MEMORY_ATTACKS) {
    test(`serves other clients during ${connections} connections with ${name}, and needs less than ${MAX_ATTACK_MIB} MiB`, async (t) => {
      const group: MemoryGroup | undefined = await createMemoryGroup('portcullis', MAX_RSS_MIB);
      if (!group) t.diagnostic('no memory cgroup can be created: only the resident memory is measured');
      const target = await startTarget(group ? { processes: group.processes } : {}, main);
      let responses: readonly string[] = [];
      try {
        const report = await underAttack(t, target, async () => {
          const sent = formatHead(PSA, Buffer.byteLength(body)) + (missing ? body.slice(0, -missing) : body);
          const addresses = ['127.0.0.2', '127.0.0.3', '127.0.0.4', '127.0.0.5'];
          const isRepeated = missing === undefined;
          const attack = await startAttack(target, { protocol: 'tls', connections, addresses, sent, isRepeated });
          await pause(10_000);
          responses = await attack.stop();
        });
        const counts = Map.groupBy(responses, (response) => response);
        t.diagnostic(`responses: ${[...counts].map(([one, { length }]) => `${length} × ${one}`).join(', ')}`);
        const { peakMiB } = await readUsage(target.pid);
        assert.ok(peakMiB < MAX_ATTACK_MIB, `${peakMiB} MiB`);
        assert.equal((await group?.kills()) ?? 0, 0);
        assertNoFailures(report);
        const answered = responses.filter((response) => response !== 'closed');
        assert.deepEqual([...new Set(answered)], missing === undefined ? ['200 false'] : []);
      } finally {
        await target.stop();
        await group?.remove();
      }
    });
  }
});

suite('large reviews are not delayed by', { timeout: 120_000 }, () => {
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
      namespace: WITHOUT_SCCS,
      spec: { ...buildSpec('restricted'), initContainers: [{ ...CONTAINER, name: 'large', args }] },
    }),
  };

  for (const { name, connections, bytes } of [
    { name: 'two connections that declare 32 MiB and send one byte', connections: 2, bytes: 1 },
    { name: '100 connections that declare 32 MiB and send one byte', connections: 100, bytes: 1 },
    { name: '20 connections that declare 32 MiB and send 8 MiB', connections: 20, bytes: 8 * MIB },
  ]) {
    test(name, async (t) => {
      const sent = formatHead(PSA, 31 * MIB) + ' '.repeat(bytes);
      const attack = await startAttack(target, { protocol: 'tls', connections, sent });
      // By then, the server has received the bytes of the connections.
      await pause(1000);
      const startMs = performance.now();
      const allowed = await target.client.call(large.path, large.review).catch((error: unknown) => String(error));
      t.diagnostic(`a large review took ${Math.round(performance.now() - startMs)} ms: ${allowed}`);
      await attack.stop();
      assert.equal(allowed, true);
    });
  }
});

suite('a replica serves reviews although its log cannot be written:', { timeout: 120_000 }, () => {
  let folder: string;
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'portcullis-logs-'));
    await writeFile(join(folder, 'namespace.yaml'), MANIFEST);
  });
  after(() => rm(folder, { recursive: true, force: true }));

  for (const [name, stderr] of [
    ['a closed log', 'pipe'],
    ['a full disk', openSync('/dev/full', 'w')],
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
