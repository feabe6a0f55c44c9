/**
 * Probes of the limits. A probe sends an input of a given size to the server, the store, a cache or a file reader, and
 * returns the outcome as documented. To add a limit, add an entry here, in `LIMITS` and in the table in
 * docs/explanation/security-model.md.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtemp, rm, truncate, writeFile } from 'node:fs/promises';
import type { IncomingMessage } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PassThrough, Readable } from 'node:stream';
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { confirm } from '../../src/cli/confirm.ts';
import { createAccessReviewLimit } from '../../src/cluster/access-reviews.ts';
import { CACHE_ENTRY_BYTES, createCache } from '../../src/cluster/cache.ts';
import type { Connection } from '../../src/cluster/connection.ts';
import { createEventRecorder, isRecordable } from '../../src/cluster/event-recorder.ts';
import { readPages } from '../../src/cluster/lists.ts';
import { createParser, startParseWorker } from '../../src/cluster/parser.ts';
import { project } from '../../src/cluster/projection.ts';
import { readSource } from '../../src/config/files.ts';
import { readManifests } from '../../src/config/manifests.ts';
import { createDefaultSettings } from '../../src/config/portcullis-configuration.ts';
import { readDocuments } from '../../src/config/yaml.ts';
import { type AdmissionRequest, allow, type Decision, deny } from '../../src/kube/admission.ts';
import { type LimitName, LIMITS } from '../../src/kube/limits.ts';
import { createStatus } from '../../src/kube/status.ts';
import { finishSteps } from '../../src/kube/steps.ts';
import type { Node } from '../../src/kube/types.ts';
import { decodePod, findCompletionError } from '../../src/policy/pod/index.ts';
import { evaluateStepwise } from '../../src/policy/rollout/index.ts';
import { createBodyReader } from '../../src/server/body.ts';
import { applyLimits, createQueue } from '../../src/server/limits.ts';
import { buildProbes } from '../../src/server/probes.ts';
import { createWaitingRoom } from '../../src/server/waiting-room.ts';
import type { WebhookContext } from '../../src/server/webhook.ts';
import { createExceptionReviewer } from '../../src/server/webhooks/objects/exceptions.ts';
import { createPodReads } from '../../src/server/webhooks/pods-connect.ts';
import { createMetrics } from '../../src/telemetry/metrics.ts';
import { readCertificates } from '../../src/tls/certificate-pair.ts';
import { createAuthority } from '../../src/tls/issue.ts';
import { nodeState } from '../../src/views/kubelet.ts';
import { evaluateManifests } from '../../src/web/evaluate.ts';
import { decodeState } from '../../src/web/share.ts';
import { startAdmissionServer, type TestServer } from './admission-server.ts';
import { post, sendRaw } from './https.ts';
import { runProgram } from './memory-io.ts';
import { podReview } from './reviews.ts';

/** Yields the JSON text of a value, padded to a size. */
async function* bytesOf(value: unknown, size = 0, end = ''): AsyncGenerator<Buffer, void> {
  yield await Promise.resolve(Buffer.from(JSON.stringify(value).padEnd(size) + end));
}

interface Probe {
  /** Outcomes for an input at the limit, and for one more byte or item. */
  readonly within: unknown;
  readonly beyond: unknown;
  /** Limit under which the excess is counted. Defaults to the limit itself. */
  readonly counted?: LimitName | false;
  /** Excess of the second input. Defaults to one. */
  readonly step?: number;
  send(size: number): unknown;
}

const JSON_TYPE = 'application/json';
const AUTHORIZER = '/authorize/minimum-kubelet-version';

/** Decision function of the webhook `/probe`. The probes replace it. */
let decide: (request: AdmissionRequest, context: WebhookContext) => Decision = () => allow();

let shared: Promise<TestServer> | undefined;

/** Starts the server on first use. */
function getServer(): Promise<TestServer> {
  const { kubelet } = createDefaultSettings({ controllers: [], namespace: 'portcullis' });
  const settings = { ...kubelet, isOn: true, minimumVersion: '1.33.0' };
  return (shared ??= startAdmissionServer(
    [{ path: '/probe', readsWholeObjects: true, decide: (...args) => decide(...args) }],
    { createScope: (store) => ({ store, settings: () => settings, hasSettingsObject: false }) },
  ));
}

export async function stopProbes(): Promise<void> {
  await (await shared)?.stop();
}

interface Outcome {
  readonly status: number;
  /** Code and message of a denial. */
  readonly code?: number | undefined;
  readonly message?: string | undefined;
}

async function sendReview(body: string, path = '/probe'): Promise<Outcome> {
  const reply = await post(await getServer(), path, body, JSON_TYPE);
  const { response } = reply.status === 200 ? (JSON.parse(reply.body) as { response?: { status?: Outcome } }) : {};
  const { code, message } = (response?.status ?? {}) as { readonly code?: number; readonly message?: string };
  return code === undefined ? { status: reply.status } : { status: reply.status, code, message };
}

/** Builds a review in which the text `"SIZED"` is replaced. */
function review(change: object, sized = '""'): string {
  const { request, ...envelope } = podReview({});
  return JSON.stringify({ ...envelope, request: { ...request, ...change } }).replace('"SIZED"', sized);
}

/** Pads a review, so the worker reduces it. */
const LARGE = { object: { padding: 'x'.repeat(200_000), sized: 'SIZED' } };
const nested = (levels: number): string => '['.repeat(levels) + ']'.repeat(levels);
const tooLarge = (message: string): Outcome => ({ status: 200, code: 413, message });
const OK: Outcome = { status: 200 };

/**
 * Denies a review with a message of the given size. Returns whether the message in the response or in the log is
 * truncated.
 */
async function sendMessage(size: number, read: (outcome: Outcome, server: TestServer) => unknown): Promise<string> {
  decide = () => deny(createStatus(403, 'Forbidden', 'x'.repeat(size)));
  const server = await getServer();
  const text = String(read(await sendReview(review({})), server));
  decide = () => allow();
  return text.endsWith('x…') ? 'truncated' : 'complete';
}

/** Opens TCP connections from two addresses, and returns how many of them the server closes. */
async function openConnections({ server }: FastifyInstance, count: number): Promise<number> {
  const { port } = server.address() as AddressInfo;
  let closed = 0;
  const sockets: Socket[] = [];
  while (sockets.length < count) {
    const localAddress = sockets.length % 2 === 0 ? '127.0.0.1' : '127.0.0.2';
    const socket = connect({ host: '127.0.0.1', port, localAddress }).on('error', () => undefined);
    await once(socket, 'connect');
    sockets.push(socket.once('close', () => closed++));
  }
  await sleep(300);
  const result = closed;
  for (const socket of sockets) socket.destroy();
  return result;
}

/**
 * Sends the beginning of bodies of the given lengths to the body reader. Returns whether each body is read, paused or
 * rejected.
 */
function readBodies(sizes: readonly (readonly [sent: number, length: number])[]): readonly string[] {
  const { read } = createBodyReader(() => 0);
  const bodies = sizes.map(([size, length]) => {
    const payload = new PassThrough();
    const raw = { headers: { 'content-length': String(length) }, socket: new PassThrough() };
    const state = { payload, rejected: false };
    const request = { raw, query: {}, ip: '127.0.0.1', is404: false } as unknown as FastifyRequest;
    read(request, payload as unknown as IncomingMessage, (_error, body) => {
      state.rejected = body?.limit !== undefined;
    });
    payload.emit('data', Buffer.alloc(size));
    if (size === length) payload.emit('end');
    return state;
  });
  const states = bodies.map(({ payload, rejected }) =>
    rejected ? 'rejected' : payload.isPaused() ? 'paused' : 'read',
  );
  for (const { payload } of bodies) {
    // A rejected body has no listener.
    if (payload.listenerCount('error') > 0) payload.emit('error', new Error('closed'));
  }
  return states;
}

/** Fills a cache. Returns whether the first entry was kept or dropped. */
function fillCache(limit: LimitName, bytes: number): string {
  const cache = createCache<number>({ limit, ttlMs: 1000, now: () => 0 });
  for (let index = 0; index < bytes / CACHE_ENTRY_BYTES; index++) cache.set(String(index), index);
  return cache.get('0') === undefined ? 'dropped' : 'kept';
}

const cacheProbe = (limit: LimitName): Probe => ({
  within: 'kept',
  beyond: 'dropped',
  step: CACHE_ENTRY_BYTES,
  send: (size) => fillCache(limit, size),
});

const documentError = (text: string): string => readDocuments(text, '').errors[0]?.message ?? 'read';

async function inFolder<T>(use: (folder: string) => Promise<T>): Promise<T> {
  const folder = await mkdtemp(join(tmpdir(), 'portcullis-'));
  const start = process.cwd();
  try {
    return await use(folder);
  } finally {
    process.chdir(start);
    await rm(folder, { recursive: true });
  }
}

/** Takes SubjectAccessReviews from a limit. Returns whether the last review is permitted. */
function takeAccessReviews(...counts: readonly number[]): string {
  let nowMs = 0;
  const take = createAccessReviewLimit(() => nowMs);
  let isTaken = true;
  for (const count of counts) {
    for (let index = 0; index < count; index++) isTaken = take('192.0.2.1');
    nowMs += 1000;
  }
  return isTaken ? 'sent' : 'denied';
}

/** Records events while the API server does not respond. Returns the outcome of the last event, and the requests. */
async function recordEvents(count: number): Promise<{ readonly last: string; readonly requests: number }> {
  const sent = Promise.withResolvers<never>();
  let requests = 0;
  const request = (): Promise<never> => {
    requests++;
    return sent.promise;
  };
  const record = createEventRecorder({
    connection: { request },
    clock: { now: () => 0, after: () => () => undefined },
    now: () => new Date(0),
  });
  const events = Array.from({ length: count }, async (_, index) => {
    const metadata = { name: `pod-${index}`, namespace: 'shop' };
    const regarding = { apiVersion: 'v1', kind: 'Pod', metadata };
    const texts = { type: 'Warning', reason: 'r', action: 'a', note: 'n', reportingController: 'c' } as const;
    await record({ regarding, ...texts });
  });
  const last = await Promise.race([events.at(-1)?.catch((error: unknown) => String(error)), sleep(50, 'pending')]);
  const result = { last: String(last), requests };
  sent.reject(new Error('stopped'));
  await Promise.allSettled(events);
  return result;
}

const annotated = (size: number): unknown => {
  const decoded = decodePod({ metadata: { annotations: { a: 'x'.repeat(size - 1) } }, spec: { containers: [] } });
  return decoded.pod && (findCompletionError(decoded.pod)?.type ?? 'evaluated');
};

const podError = (spec: object): string => decodePod({ spec }).error?.message ?? 'evaluated';

export const PROBES: Readonly<Record<string, Probe>> = {
  reviewConnections: {
    within: 0,
    beyond: 1,
    async send(size) {
      const server = await startAdmissionServer([]);
      try {
        return await openConnections(server.app, size);
      } finally {
        await server.stop();
      }
    },
  },
  urlCharacters: {
    within: 404,
    beyond: 414,
    send: async (size) => (await post(await getServer(), `/${'x'.repeat(size - 1)}`, '{}', JSON_TYPE)).status,
  },
  headerBytes: {
    within: 200,
    beyond: 431,
    async send(size) {
      const names = 'hostconnectionx';
      const value = 'x'.repeat(size - '/'.length - names.length - 'acloseb'.length + 'b'.length);
      const request = `GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\nx: ${value}\r\n\r\n`;
      return Number(/^HTTP\/1\.1 (\d+)/.exec(await sendRaw(await getServer(), request))?.[1]);
    },
  },
  reviewBytes: {
    within: 200,
    beyond: 413,
    async send(size) {
      const text = review({});
      return (await sendReview(text + ' '.repeat(size - text.length))).status;
    },
  },
  unfinishedSmallReviewsBytes: {
    within: 'read',
    beyond: 'rejected',
    send(size) {
      const lengths = Array.from({ length: Math.floor(size / 100_000) - 1 }, () => 100_000);
      const half = 50_000 + (size % 100_000) / 2;
      const all = [...lengths, Math.floor(half), Math.ceil(half)];
      return readBodies(all.map((length) => [1, length] as const))[0];
    },
  },
  queuedReviewsBytes: {
    within: 'waits',
    beyond: 'displaced',
    async send(size) {
      let nowMs = 0;
      const { wait } = createQueue(() => (nowMs += 10));
      // The first review does not wait, because the main thread has time for it.
      await wait('a', 0);
      const [isNext] = await Promise.all([wait('a', size - 30_000), wait('b', 30_000)]);
      return isNext ? 'waits' : 'displaced';
    },
  },
  unreviewedLargeReviewsBytes: {
    within: ['read', 'read', 'read'],
    beyond: ['read', 'read', 'paused'],
    send(size) {
      const complete = 300_000;
      const unfinished = [1000, size - complete - 1000].map((bytes) => [bytes, 20_000_000] as const);
      return readBodies([[complete, complete], ...unfinished]);
    },
  },
  waitingReviewsBytes: {
    within: 'waits',
    beyond: 'displaced',
    send(size) {
      const { enter } = createWaitingRoom();
      let state = 'waits';
      enter({ address: 'a', measure: () => size - 30_000 }, () => (state = 'displaced'));
      enter({ address: 'b', measure: () => 30_000 }, () => undefined);
      return state;
    },
  },
  podReads: {
    within: 'read',
    beyond: 'waits',
    async send(size) {
      let started = 0;
      const get = (): Promise<never> => {
        started++;
        return new Promise(() => undefined);
      };
      const read = createPodReads({ cluster: { get }, waitingRoom: createWaitingRoom() });
      const context = { now: () => 0, deadlineMs: 1000 } as unknown as WebhookContext;
      for (let index = 0; index < size; index++) read(`pod-${index}`, 'shop', context).catch(() => undefined);
      await nextTurn();
      return started === size ? 'read' : 'waits';
    },
  },
  accessReviewBurst: {
    counted: 'accessReviewsPerSecond',
    within: 'sent',
    beyond: 'denied',
    send: (size) => takeAccessReviews(size),
  },
  accessReviewsPerSecond: {
    within: 'sent',
    beyond: 'denied',
    send: (size) => takeAccessReviews(LIMITS.accessReviewBurst, size),
  },
  accessReviewBytes: {
    within: 'node "a" not found',
    beyond: 'the review has more than 65536 bytes',
    async send(size) {
      const resourceAttributes = { verb: 'list', resource: 'pods' };
      const spec = { user: 'system:node:a', groups: ['system:nodes'], resourceAttributes };
      const body = JSON.stringify({ apiVersion: 'authorization.k8s.io/v1', kind: 'SubjectAccessReview', spec });
      const reply = await post(await getServer(), AUTHORIZER, body.padEnd(size), JSON_TYPE);
      return (JSON.parse(reply.body) as { readonly status: { readonly reason?: string } }).status.reason;
    },
  },
  identityBytes: {
    within: { status: 200, code: 413 },
    beyond: { status: 413 },
    async send(size) {
      const { uid, operation, kind, resource, userInfo } = podReview({}).request;
      const identity = JSON.stringify({ padding: 'PADDING', uid, kind, resource, operation, userInfo }).slice(0, -1);
      const start = `{"request":${identity}`;
      const padding = 'x'.repeat(size - start.length + 'PADDING'.length);
      const text = `${start.replace('PADDING', padding)},"object":{"x":"${'x'.repeat(200_000)}","y":${nested(200)}}}}`;
      const { status, code } = await sendReview(text);
      return code === undefined ? { status } : { status, code };
    },
  },
  nameCharacters: {
    within: OK,
    beyond: { status: 400 },
    send: (size) => sendReview(review({ name: 'x'.repeat(size) })),
  },
  claimCharacters: {
    within: OK,
    beyond: { status: 400 },
    send: (size) => sendReview(review({ userInfo: { username: 'alice', groups: ['x'.repeat(size)] } })),
  },
  reviewValues: {
    within: OK,
    beyond: tooLarge('the fields that decisions read exceed a limit: more than 250000 values'),
    // The review contains 33 other values.
    send: (size) => sendReview(review(LARGE, `[${'0,'.repeat(size - 34)}0]`)),
  },
  relevantBytes: {
    within: OK,
    beyond: tooLarge('the fields that decisions read exceed a limit: more than 8388608 bytes'),
    send(size) {
      const { oldObject: _oldObject, options: _options, ...request } = podReview({}).request;
      const whole = JSON.stringify({ ...podReview({}), request: { ...request, object: { sized: '' } } });
      return sendReview(review({ object: { sized: 'SIZED' } }, `"${'x'.repeat(size - whole.length - NULL_LENGTH)}"`));
    },
  },
  nestingLevels: {
    within: OK,
    beyond: tooLarge('the fields that decisions read exceed a limit: nested more than 100 levels deep'),
    // The review, the request and the object are the first levels.
    send: (size) => sendReview(review(LARGE, nested(size - 3))),
  },
  ignoredNestingLevels: {
    within: OK,
    beyond: tooLarge('the review exceeds a limit: nested more than 10000 levels deep'),
    send: (size) =>
      sendReview(review({ ...LARGE, object: { padding: LARGE.object.padding }, other: 'SIZED' }, nested(size - 2))),
  },
  messageCharacters: {
    within: 'complete',
    beyond: 'truncated',
    send: (size) => sendMessage(size, ({ message }) => message),
  },
  loggedCharacters: {
    within: 'complete',
    beyond: 'truncated',
    send: (size) => sendMessage(size, (_outcome, { log }) => log.at(-1)?.['reason']),
  },
  malformedCharacters: {
    within: 'complete',
    beyond: 'truncated',
    async send(size) {
      const reason = 'unexpected AdmissionReview kind: admission.k8s.io/v1, Kind=';
      const body = JSON.stringify({ kind: 'x'.repeat(size - reason.length) });
      return (await post(await getServer(), '/probe', body, JSON_TYPE)).body.endsWith('x…\n')
        ? 'truncated'
        : 'complete';
    },
  },
  probeConnections: {
    within: 0,
    beyond: 1,
    async send(size) {
      const app = buildProbes({ livez: [], readyz: [], metrics: createMetrics({ version: '' }) });
      await app.listen({ host: '127.0.0.1', port: 0 });
      try {
        return await openConnections(app, size);
      } finally {
        await app.close();
      }
    },
  },
  metricsAgeMilliseconds: {
    counted: false,
    within: 'shared',
    beyond: 'rendered again',
    async send(size) {
      let nowMs = 0;
      let renderings = 0;
      const metrics = { contentType: 'text/plain', expose: () => Promise.resolve(String(++renderings)) };
      const app = buildProbes({ livez: [], readyz: [], metrics, now: () => nowMs });
      await app.inject('/metrics');
      nowMs = size;
      return (await app.inject('/metrics')).body === '1' ? 'shared' : 'rendered again';
    },
  },
  containers: {
    counted: false,
    within: 'evaluated',
    beyond: 'spec.containers: Too many: 5001: must have at most 5000 items',
    send: (size) => podError({ containers: Array.from({ length: size }, () => ({ name: 'c' })) }),
  },
  podItems: {
    counted: false,
    within: 'evaluated',
    beyond: 'spec.volumes: Too many: 20001: must have at most 20000 items',
    send: (size) => podError({ containers: [], volumes: Array.from({ length: size }, () => ({ name: 'v' })) }),
  },
  annotationBytes: { counted: false, within: 'evaluated', beyond: 'FieldValueTooLong', send: annotated },
  exceptionSpecBytes: {
    within: false,
    beyond: true,
    async send(size) {
      const { exceptions } = createDefaultSettings({ controllers: [], namespace: 'portcullis' });
      const webhook = createExceptionReviewer({
        settings: () => exceptions,
        cluster: { reviewAccess: () => Promise.reject(new Error('no review')) },
        takeAccessReview: () => true,
        date: () => new Date(),
      });
      const exempted = [
        { check: 'capabilities_baseline', container: 'c', image: 'r.example/i', values: ['NET_ADMIN'] },
      ];
      const rest = { serviceAccountName: 'a', allow: exempted, expiresAt: '2027-01-15T00:00:00Z' };
      const spec = { ...rest, reason: 'x'.repeat(size - JSON.stringify({ ...rest, reason: '' }).length) };
      const request = { ...podReview({}).request, object: { metadata: { name: 'e' }, spec } };
      const reviewed = await webhook.validate(request, {} as never);
      const decision = applyLimits(
        { ...webhook, path: '/', decide: webhook.validate },
        { request, store: undefined as never },
        reviewed,
      );
      return !decision.allowed && decision.status.message.includes('spec: Too long');
    },
  },
  eventReferenceCharacters: {
    within: true,
    beyond: false,
    send: (size) => isRecordable({ apiVersion: 'x'.repeat(size), kind: 'Pod', metadata: {} }),
  },
  eventBucketsBytes: cacheProbe('eventBucketsBytes'),
  eventSeriesBytes: cacheProbe('eventSeriesBytes'),
  pendingEvents: {
    within: 'pending',
    beyond: 'Error: too many events are being written',
    send: async (size) => (await recordEvents(size)).last,
  },
  eventWrites: {
    within: true,
    beyond: false,
    send: async (size) => (await recordEvents(size)).requests === size,
  },
  accessReviewBucketsBytes: cacheProbe('accessReviewBucketsBytes'),
  accessReviewResultsBytes: cacheProbe('accessReviewResultsBytes'),
  evaluationCharacters: { counted: false, within: true, beyond: false, send: keepsAllDetails },
  predictedLevelsBytes: cacheProbe('predictedLevelsBytes'),
  counterSeries: {
    within: { hasOther: false, series: 1000 },
    beyond: { hasOther: true, series: 1001 },
    step: 100,
    async send(size) {
      const metrics = createMetrics({ version: '' });
      for (let index = 0; index < size; index++) {
        const request = { request_operation: 'create', resource: 'pod', subresource: String(index) };
        metrics.podSecurity.exemptions.cell(request).count++;
      }
      const lines = (await metrics.expose())
        .split('\n')
        .filter((line) => /^pod_security_exemptions_total\{/.test(line));
      return { hasOther: lines.some((line) => /"other".*"other".*"other".* 100$/.test(line)), series: lines.length };
    },
  },
  ownWritesBytes: cacheProbe('ownWritesBytes'),
  listPages: {
    within: 'read',
    beyond: 'listing /api/v1/pods does not terminate: it has more than 10000 pages',
    async send(size) {
      let page = 0;
      const read: Connection['read'] = (_request, collect) => {
        const token = ++page === size ? {} : { continue: String(page) };
        return collect(bytesOf({ kind: 'PodList', metadata: { resourceVersion: '1', ...token }, items: [] }));
      };
      const pages = readPages({ read }, { path: '/api/v1/pods' }, () => () => undefined);
      return await pages.then(
        () => 'read',
        (error: unknown) => (error as Error).message,
      );
    },
  },
  pageBytes: {
    within: ['500'],
    beyond: ['500', '125'],
    async send(size) {
      const limits: unknown[] = [];
      const read: Connection['read'] = ({ query }, collect) => {
        limits.push(query?.['limit']);
        return collect(
          bytesOf({ kind: 'PodList', metadata: { resourceVersion: '1' } }, limits.length === 1 ? size : 0),
        );
      };
      await readPages({ read }, { path: '/api/v1/pods' }, () => () => undefined);
      return limits;
    },
  },
  responseBytes: {
    within: 1,
    beyond: 'more than 16777216 bytes',
    async send(size) {
      let lines = 0;
      try {
        for await (const _line of createParser().lines(bytesOf({}, size, '\n'))) lines++;
        return lines;
      } catch (error) {
        return (error as Error).message;
      }
    },
  },
  mainThreadBytes: {
    counted: false,
    within: 'main thread',
    beyond: 'worker',
    send: (size) =>
      createParser(() => {
        throw new Error('worker');
      })
        .parse(Buffer.from('[]'.padEnd(size)), { form: 'list' })
        .then(
          () => 'main thread',
          (error: unknown) => (error as Error).message,
        ),
  },
  jsonValues: {
    within: 'parsed',
    beyond: 'more than 1500000 values',
    async send(size) {
      const parser = createParser(startParseWorker);
      const parsed = parser.parse(Buffer.from(`[${'0,'.repeat(size - 2)}0]`), { form: 'list' });
      const result = await parsed.then(
        () => 'parsed',
        (error: unknown) => (error as Error).message,
      );
      await parser.close();
      return result;
    },
  },
  storedPodBytes: {
    counted: false,
    within: '',
    beyond: 'spec: Too long: may not be more than 32768 bytes',
    send(size) {
      const pod = (image: string) => ({ metadata: {}, spec: { containers: [{ name: 'c', image }] } });
      const stored = project('Pod', pod('x'.repeat(size - JSON.stringify(pod('')).length)));
      return decodePod(stored).error?.message ?? '';
    },
  },
  storedObjectBytes: {
    counted: false,
    within: undefined,
    beyond: 'spec, status',
    send(size) {
      const exception = (reason: string) => ({ metadata: {}, spec: { reason } });
      return project('PodSecurityException', exception('x'.repeat(size - JSON.stringify(exception('')).length)))?.[
        'excess'
      ];
    },
  },
  kubeletVersionCharacters: {
    counted: false,
    within: 'complete',
    beyond: 'truncated',
    send(size) {
      const status = { nodeInfo: { kubeletVersion: 'x'.repeat(size) } } as NonNullable<Node['status']>;
      const { kubeletVersion } = nodeState({ metadata: { name: 'n' }, status }, {});
      return kubeletVersion.endsWith('…') ? 'truncated' : 'complete';
    },
  },
  storedNames: {
    counted: false,
    within: undefined,
    beyond: 'subjects',
    send(size) {
      const subjects = Array.from({ length: size }, (_, index) => ({ kind: 'User', name: `user-${index}` }));
      const metadata = { name: 'a', namespace: 'shop' };
      return project('RoleBinding', { metadata, roleRef: { kind: 'Role', name: 'r' }, subjects })?.['excess'];
    },
  },
  optionCharacters: {
    counted: false,
    within: 'must be one of json, yaml',
    beyond: 'may not be more than 131072 characters',
    async send(size) {
      const { stderr } = await runProgram(['version', `--output=${'x'.repeat(size)}`]);
      return /: ([^:\n]*)\n/.exec(stderr)?.[1];
    },
  },
  confirmationCharacters: {
    counted: false,
    within: 'read',
    beyond: 'closed',
    async send(size) {
      const written: string[] = [];
      const chunks = async function* (): AsyncGenerator<string> {
        yield await Promise.resolve('x'.repeat(size));
        written.push('read');
        yield await Promise.resolve('\n');
      };
      const io = { stdin: chunks(), stderr: { write: () => true }, signal: new AbortController().signal };
      await confirm('', io as unknown as Parameters<typeof confirm>[1]);
      return written[0] ?? 'closed';
    },
  },
  certificates: {
    counted: false,
    within: true,
    beyond: false,
    send(size) {
      const { cert } = createAuthority({ now: new Date(), days: 1 });
      return readCertificates(cert.repeat(size)).length === size;
    },
  },
  fileBytes: {
    counted: false,
    within: ['not a text file in UTF-8', 'read'],
    beyond: ['larger than 256 MiB', 'cannot read FILE: larger than 256 MiB'],
    async send(size) {
      const chunk = Buffer.alloc(1 << 20, ' ').fill(0xff, 0, 1);
      const chunks = function* (): Generator<Buffer> {
        for (let sent = 0; sent < size; sent += chunk.length) yield chunk.subarray(0, size - sent);
      };
      const stdin = Readable.from(chunks());
      const { errors } = await readManifests(['-'], { stdin });
      const source = await inFolder(async (folder) => {
        const file = join(folder, 'sparse');
        await writeFile(file, '');
        await truncate(file, size);
        return await readSource(file).then(
          () => 'read',
          (error: unknown) => (error as Error).message.replace(file, 'FILE'),
        );
      });
      return [errors[0]?.message, source];
    },
  },
  yamlNestingLevels: {
    counted: false,
    within: 'read',
    beyond: 'nested more than 500 levels deep',
    // Text with `[[` would be reported as a template.
    send: (size) => documentError(nested(size + 1).replaceAll('[', '[ ')),
  },
  aliasedNodes: {
    counted: false,
    within: 'read',
    beyond: 'document contains excessive aliasing',
    step: 20_000,
    // 98.9 % of the nodes are aliases of a list that has 1,000 nodes.
    send(size) {
      const aliases = Math.floor((size * 0.989) / 1000);
      const other = Math.floor(size * 0.011) - 1000;
      return documentError(`[[${'0,'.repeat(other)}], &a [${'0,'.repeat(999)}], ${'*a,'.repeat(aliases)}]`);
    },
  },
  playgroundCharacters: {
    counted: false,
    within: undefined,
    beyond: 'the manifests have 262145 characters, but the limit is 262144: use portcullis check -f',
    send: (size) => evaluateManifests('\n'.repeat(size), 'latest').errors[0]?.message,
  },
  fragmentCharacters: {
    counted: false,
    within: 'it is damaged or incomplete',
    beyond: 'it is too long',
    send: async (size) => {
      const state = (await decodeState('#v1.'.padEnd(size, 'A'))) as { readonly problem: string };
      return /it is (?:damaged or incomplete|too long)/.exec(state.problem)?.[0];
    },
  },
};

/** Length of the member `"oldObject":null,`, which the worker keeps. */
const NULL_LENGTH = '"oldObject":null,'.length;

/** Evaluates pods whose violations have details of the given size. Returns true if the evaluation keeps all details. */
function keepsAllDetails(size: number): boolean {
  const policy = { level: 'baseline', version: 'latest' } as const;
  const evaluate = (volumes: readonly string[]) => {
    const pods = volumes.map((name, index) => ({
      metadata: { name: `pod-${String(index).padStart(6, '0')}`, namespace: 'shop' },
      spec: { containers: [], volumes: [{ name, hostPath: { path: '/' } }] },
    }));
    const { workloads, limit } = finishSteps(
      evaluateStepwise({
        ...{ namespace: { metadata: { name: 'shop' } }, current: policy, planned: policy, isSelected: false },
        ...{ pods, templates: [], exemptions: { runtimeClass: () => false }, sccMode: 'off' },
        detailCharacters: LIMITS.evaluationCharacters,
        complete: (pod) => pod,
        exists: () => false,
        mayUse: () => true,
      }),
    );
    const violations = workloads.flatMap((workload) => workload.violations);
    assert.equal(
      limit === undefined,
      violations.every(({ detail }) => detail !== ''),
    );
    return violations;
  };
  const base = evaluate(['']).reduce((sum, { detail, fields }) => sum + detail.length + fields.join('').length, 0);
  const names: string[] = [];
  for (let left = size; left > 0;) {
    const cost = left < 1000 ? left : Math.min(500, left - base);
    names.push('v'.repeat(cost - base));
    left -= cost;
  }
  return evaluate(names).every(({ detail }) => detail !== '');
}
