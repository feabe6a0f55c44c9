/**
 * Tests the admission server over TLS, including responses, failures, the log, connections, client certificates and
 * probes.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { Agent } from 'node:https';
import type { AddressInfo } from 'node:net';
import { after, before, suite, test, type TestContext } from 'node:test';
import { connect, type TLSSocket } from 'node:tls';
import { pino } from 'pino';
import { createServedCertificate, type ServedCertificate } from '../../src/cli/serve/certificates.ts';
import { createParser } from '../../src/cluster/parser.ts';
import { createStore } from '../../src/cluster/store.ts';
import { allow, type Decision, deny } from '../../src/kube/admission.ts';
import { LIMITS } from '../../src/kube/limits.ts';
import { forbidden } from '../../src/kube/status.ts';
import { buildProbes } from '../../src/server/probes.ts';
import { type AdmissionServer, createServer } from '../../src/server/server.ts';
import type { Webhook, WebhookContext } from '../../src/server/webhook.ts';
import { createMetrics } from '../../src/telemetry/metrics.ts';
import type { KeyPair } from '../../src/tls/certificate-pair.ts';
import { createAuthority, issueClient, createServing } from '../../src/tls/issue.ts';
import { protocolSettings } from '../../src/tls/protocol.ts';
import { NAMES, startAdmissionServer, type TestServer } from '../support/admission-server.ts';
import { createRecorder, type Recorder } from '../support/controllers.ts';
import { post, sendRaw } from '../support/https.ts';
import { podReview } from '../support/reviews.ts';

const UID = podReview({}).request.uid;
const BODY = JSON.stringify(podReview({}));
const JSON_TYPE = 'application/json';

/** Starts a server for the duration of a test, with one webhook at `/x`. */
async function start(t: TestContext, decide: Webhook['decide']): Promise<TestServer> {
  const server = await startAdmissionServer([{ path: '/x', decide }]);
  t.after(() => server.stop());
  return server;
}

const send = (server: TestServer, agent?: Agent) => post(server, '/x', BODY, JSON_TYPE, agent);

const RESPONSES: readonly { readonly name: string; readonly decision: Decision; readonly response: object }[] = [
  { name: 'allowed', decision: allow(), response: { uid: UID, allowed: true } },
  {
    name: 'allowed with warnings and audit annotations',
    decision: allow({ warnings: ['careful'], auditAnnotations: { 'enforce-policy': 'baseline:latest' } }),
    response: {
      uid: UID,
      allowed: true,
      auditAnnotations: { 'enforce-policy': 'baseline:latest' },
      warnings: ['careful'],
    },
  },
  {
    name: 'allowed with an empty list of warnings',
    decision: allow({ warnings: [] }),
    response: { uid: UID, allowed: true },
  },
  {
    name: 'denied',
    decision: deny(forbidden({ group: '', resource: 'pods' }, 'web', 'because')),
    response: {
      uid: UID,
      allowed: false,
      status: {
        metadata: {},
        status: 'Failure',
        message: 'pods "web" is forbidden: because',
        reason: 'Forbidden',
        details: { name: 'web', kind: 'pods' },
        code: 403,
      },
    },
  },
  {
    name: 'allowed without a patch, because the object is unchanged',
    decision: allow({ object: structuredClone(podReview({}).request.object) }),
    response: { uid: UID, allowed: true },
  },
];

suite('responses contain the decision:', () => {
  for (const { name, decision, response } of RESPONSES) {
    for (const [manner, decide] of [
      ['synchronous', (): Decision => decision],
      ['asynchronous', (): Promise<Decision> => Promise.resolve(decision)],
    ] as const) {
      test(`${name}, ${manner}`, async (t) => {
        const server = await start(t, decide);
        const reply = await send(server);
        assert.equal(reply.status, 200);
        assert.match(reply.headers['content-type'] ?? '', /^application\/json/);
        assert.deepEqual(JSON.parse(reply.body), {
          kind: 'AdmissionReview',
          apiVersion: 'admission.k8s.io/v1',
          response,
        });
      });
    }
  }

  test('a changed object is returned as a JSON patch', async (t) => {
    const changed = structuredClone(podReview({}).request.object) as { metadata: Record<string, unknown> };
    changed.metadata.annotations = { 'a/b': 'c' };
    const server = await start(t, () => allow({ object: changed }));
    const reply = await send(server);
    const { response } = JSON.parse(reply.body) as { response: { patchType: string; patch: string } };
    assert.equal(response.patchType, 'JSONPatch');
    assert.deepEqual(JSON.parse(Buffer.from(response.patch, 'base64').toString()), [
      { op: 'add', path: '/metadata/annotations', value: { 'a/b': 'c' } },
    ]);
  });
});

suite('failures are handled:', () => {
  const failing: readonly Webhook[] = [
    {
      path: '/throws',
      decide: () => {
        throw new Error('a bug with SECRET in it');
      },
    },
    { path: '/rejects', decide: () => Promise.reject(new Error('a bug')) },
  ];
  for (const { path } of failing) {
    test(`an exception is logged with the UID of the review and leads to HTTP 500: ${path}`, async (t) => {
      const server = await startAdmissionServer(failing);
      t.after(() => server.stop());
      const reply = await post(server, path, BODY, JSON_TYPE);
      assert.deepEqual([reply.status, reply.body], [500, 'internal server error\n']);
      const line = server.log.find((entry) => entry.msg === 'review failed');
      assert.equal(line?.uid, UID);
      assert.equal(line.level, 50);
      assert.match(
        await server.metrics.expose(),
        new RegExp(`portcullis_webhook_requests_total\\{webhook="${path}",code="500"\\} 1`),
      );
      assert.match(await server.metrics.expose(), /portcullis_webhook_requests_in_flight 0/);
    });
  }

  test('reviews lead to HTTP 503 until the store is synced', async (t) => {
    const server = await start(t, () => allow());
    const unsynced = createServer({
      webhooks: [{ path: '/x', decide: () => allow() }],
      store: createStore(),
      parser: createParser(),
      metrics: server.metrics,
      logger: pino({ level: 'silent' }),
      now: () => 0,
      tls: createServing(server.authority, NAMES, { now: new Date(), days: 1 }),
    });
    const reply = await unsynced.app.inject({
      method: 'POST',
      url: '/x',
      payload: BODY,
      headers: { 'content-type': JSON_TYPE },
    });
    assert.deepEqual(
      [reply.statusCode, reply.body],
      [503, 'the replica has not read the cluster completely yet; try again\n'],
    );
    await unsynced.app.close();
  });
});

suite('the context of a webhook contains the deadline with', () => {
  const cases: readonly (readonly [query: string, timeoutMs: number | undefined])[] = [
    ['?timeout=5s', 3500],
    ['?timeout=15s', 12_500],
    ['?timeout=1m0.5s', 26_000],
    ['?timeout=250ms', 125],
    ['', undefined],
    ['?timeout=soon', undefined],
    ['?timeout=-5s', undefined],
    ['?timeout=5', undefined],
    ['?timeout=0s', undefined],
    ['?timeout=5s&timeout=6s', undefined],
  ];
  const seen: WebhookContext[] = [];
  let server: TestServer;
  before(async () => {
    server = await startAdmissionServer([
      {
        path: '/x',
        decide(_request, context) {
          seen.push(context);
          return allow();
        },
      },
    ]);
  });
  after(() => server.stop());
  for (const [query, timeoutMs] of cases) {
    test(query === '' ? 'no query' : query, async () => {
      const earliest = performance.now();
      assert.equal((await post(server, `/x${query}`, BODY, JSON_TYPE)).status, 200);
      const deadlineMs = seen.at(-1)?.deadlineMs;
      if (timeoutMs === undefined) assert.equal(deadlineMs, undefined);
      else
        assert.ok(
          deadlineMs !== undefined && deadlineMs >= earliest + timeoutMs && deadlineMs <= performance.now() + timeoutMs,
        );
    });
  }
});

suite('the log', () => {
  test('contains one line for each review, without the content of the object', async (t) => {
    const server = await start(t, () => deny(forbidden({ group: '', resource: 'pods' }, 'web', 'no')));
    const review = podReview({ spec: { containers: [{ name: 'c', env: [{ name: 'PASSWORD', value: 'hunter2' }] }] } });
    await post(server, '/x', JSON.stringify(review), JSON_TYPE);
    assert.equal(server.log.length, 1);
    const { time, durationMs, ...line } = server.log[0] ?? {};
    assert.equal(typeof time, 'number');
    assert.equal(typeof durationMs, 'number');
    assert.deepEqual(line, {
      level: 30,
      logger: 'webhook',
      webhook: '/x',
      uid: UID,
      operation: 'CREATE',
      kind: 'Pod',
      namespace: 'shop',
      name: 'web',
      user: 'alice',
      decision: 'deny',
      reason: 'pods "web" is forbidden: no',
      msg: 'reviewed',
    });
    assert.doesNotMatch(JSON.stringify(server.log), /hunter2|PASSWORD/);
  });
});

const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736';
const SPAN = '00f067aa0ba902b7';
const TRACES: readonly (readonly [traceparent: string, traceId: string | undefined])[] = [
  [`00-${TRACE}-${SPAN}-01`, TRACE],
  [`cc-${TRACE}-${SPAN}-00-later`, TRACE],
  [`00-${TRACE}-${SPAN}-01-more`, undefined],
  [`ff-${TRACE}-${SPAN}-01`, undefined],
  [`00-${'0'.repeat(32)}-${SPAN}-01`, undefined],
  [`00-${TRACE}-${'0'.repeat(16)}-01`, undefined],
  [`00-${TRACE.toUpperCase()}-${SPAN}-01`, undefined],
  [`00-${TRACE}\t-${SPAN}-01`, undefined],
  ['', undefined],
];

test('the log line contains the trace ID of a valid traceparent header', async (t) => {
  const server = await start(t, () => deny(forbidden({ group: '', resource: 'pods' }, 'web', 'no')));
  for (const [traceparent] of TRACES) await post({ ...server, headers: { traceparent } }, '/x', BODY, JSON_TYPE);
  assert.deepEqual(
    server.log.map(({ traceId }) => traceId),
    TRACES.map(([, traceId]) => traceId),
  );
});

test('long messages are truncated in responses and log lines', async () => {
  const long = 'x'.repeat(LIMITS.messageCharacters + 1);
  const truncated = `${'x'.repeat(LIMITS.messageCharacters)}…`;
  const status = { ...forbidden({ group: '', resource: 'pods' }, 'web', 'no'), message: long };
  const server = await startAdmissionServer([
    { path: '/deny', decide: () => deny(status) },
    {
      path: '/allow',
      decide: () => allow({ auditAnnotations: { a: 'short', b: long, c: long }, warnings: ['w', long] }),
    },
  ]);
  const getResponse = async (path: string): Promise<{ readonly status?: object }> => {
    const { body } = await post(server, path, BODY, JSON_TYPE);
    return (JSON.parse(body) as { readonly response: object }).response;
  };
  const denied = await getResponse('/deny');
  const allowed = await getResponse('/allow');
  await server.stop();
  assert.deepEqual(denied.status, { ...status, message: truncated });
  assert.equal(server.log[0]?.['reason'], `${'x'.repeat(LIMITS.loggedCharacters)}…`);
  assert.deepEqual(allowed, {
    uid: UID,
    allowed: true,
    auditAnnotations: { a: 'short', b: `${'x'.repeat(LIMITS.messageCharacters - 5)}…`, c: '…' },
    warnings: ['w', truncated],
  });
});

suite('connections', () => {
  const dial = (server: TestServer): Promise<TLSSocket> =>
    new Promise((resolve, reject) => {
      const socket = connect({ host: '127.0.0.1', port: server.port, ca: server.ca }, () => resolve(socket));
      socket.once('error', reject);
    });
  const exchange = (socket: TLSSocket, header = ''): Promise<string> =>
    new Promise((resolve, reject) => {
      socket.once('data', (chunk: Buffer) => resolve(chunk.toString()));
      socket.once('close', () => reject(new Error('closed')));
      socket.write(
        `POST /x HTTP/1.1\r\nHost: x\r\n${header}Content-Type: application/json\r\nContent-Length: ${Buffer.byteLength(BODY)}\r\n\r\n${BODY}`,
      );
    });

  test('stay open, but close after the next response while the server drains', async (t) => {
    const server = await start(t, () => allow());
    const socket = await dial(server);
    assert.match(await exchange(socket), /connection: keep-alive/i);
    assert.match(await exchange(socket), /connection: keep-alive/i);
    server.connections.drain();
    assert.match(await exchange(socket), /connection: close/i);
    const late = await dial(server);
    assert.match(await exchange(late), /^HTTP\/1\.1 200 OK/);
  });

  test('close after the response if the client requires it', async (t) => {
    const server = await start(t, () => allow({ warnings: ['é'] }));
    const socket = await dial(server);
    await exchange(socket);
    assert.equal(
      await exchange(socket, 'Connection: close\r\n'),
      `HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 152\r\nconnection: close\r\n\r\n{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","response":{"uid":"${UID}","allowed":true,"warnings":["é"]}}`,
    );
    await once(socket, 'close');
  });

  test('close after the next response when the serving certificate changes', async (t) => {
    const server = await start(t, () => allow());
    const socket = await dial(server);
    const before = socket.getPeerX509Certificate()?.serialNumber;
    await exchange(socket);
    const renewed = createServing(server.authority, NAMES, { now: new Date(), days: 2 });
    server.useCertificate(renewed);
    assert.match(await exchange(socket), /^HTTP\/1\.1 200 OK[^]*connection: close/i);
    const next = await dial(server);
    assert.notEqual(next.getPeerX509Certificate()?.serialNumber, before);
    assert.match(await exchange(next), /connection: keep-alive/i);
    next.destroy();
  });

  test('lose no response when drain() is called under load', async (t) => {
    const server = await start(t, () => new Promise((resolve) => setTimeout(() => resolve(allow()), 5)));
    const agent = new Agent({ keepAlive: true, maxSockets: 20 });
    const calls = Array.from({ length: 100 }, () => send(server, agent));
    await new Promise((resolve) => setTimeout(resolve, 60));
    server.connections.drain();
    const statuses = (await Promise.all(calls)).map((reply) => reply.status);
    agent.destroy();
    assert.deepEqual(new Set(statuses), new Set([200]));
  });
});

suite('client certificates are accepted or rejected:', () => {
  const now = new Date();
  const validity = { now, days: 1 };
  const servingAuthority = createAuthority(validity);
  const clientAuthority = createAuthority(validity);
  const otherAuthority = createAuthority(validity);
  /** Issues a client certificate. */
  const client = (username: string, authority = clientAuthority, period = validity): KeyPair =>
    issueClient(authority, { username, groups: [] }, period);
  const EXPIRED = { now: new Date(now.getTime() - 10 * 24 * 60 * 60 * 1000), days: 1 };

  let recorder: Recorder;
  let served: ServedCertificate;
  let server: AdmissionServer;
  let port = 0;

  const send = (pair?: KeyPair, { path = '/validate/pods', agent }: { path?: string; agent?: Agent } = {}) =>
    post({ port, ca: servingAuthority.cert, ...pair }, path, BODY, JSON_TYPE, agent);

  before(async () => {
    recorder = createRecorder();
    served = createServedCertificate({
      pair: createServing(servingAuthority, NAMES, validity),
      isTemporary: false,
      protocol: protocolSettings(),
      clientAuthorities: clientAuthority.cert,
      ...recorder,
    });
    const store = createStore();
    store.markSynced();
    server = createServer({
      webhooks: [{ path: '/validate/pods', decide: () => allow() }],
      store,
      parser: createParser(),
      ...recorder,
      now: () => performance.now(),
      tls: served.tls(),
      clientNames: ['api', 'front'],
    });
    served.attach(server);
    await server.app.listen({ host: '127.0.0.1', port: 0 });
    port = (server.app.server.address() as AddressInfo).port;
  });
  after(() => server.app.close());

  const UNKNOWN_AUTHORITY = 'the client certificate is not accepted: it is signed by an unknown authority\n';
  const cases: readonly {
    readonly name: string;
    readonly pair?: KeyPair;
    readonly status: number;
    readonly body?: string;
  }[] = [
    { name: 'an allowed common name', pair: client('api'), status: 200 },
    { name: 'another allowed common name', pair: client('front'), status: 200 },
    { name: 'a client without a certificate', status: 401, body: 'a client certificate is required\n' },
    {
      name: 'a certificate with another common name',
      pair: client('eve'),
      status: 403,
      body: 'client "eve" is not allowed to send reviews\n',
    },
    {
      name: 'a certificate from another CA',
      pair: client('api', otherAuthority),
      status: 401,
      body: UNKNOWN_AUTHORITY,
    },
    {
      name: 'an expired certificate',
      pair: client('api', clientAuthority, EXPIRED),
      status: 401,
      body: 'the client certificate is not accepted: it has expired\n',
    },
    {
      name: 'a serving certificate',
      pair: createServing(clientAuthority, NAMES, validity),
      status: 401,
      body: 'the client certificate is not accepted: it does not allow client authentication\n',
    },
    { name: 'a self-signed certificate', pair: createAuthority(validity), status: 401 },
  ];
  for (const { name, pair, status, body } of cases) {
    test(name, async () => {
      const reply = await send(pair);
      assert.equal(reply.status, status);
      if (body !== undefined) assert.equal(reply.body, body);
    });
  }

  test('the list of paths requires no certificate', async () => {
    const text = 'GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n';
    assert.match(await sendRaw({ port, ca: servingAuthority.cert }, text), /^HTTP\/1\.1 200 /);
  });

  test('a rejection is counted and logged, and closes the connection', async () => {
    const agent = new Agent({ keepAlive: true });
    assert.equal((await send(client('eve'), { agent })).headers.connection, 'close');
    agent.destroy();
    const line = recorder.log.filter(({ msg }) => msg === 'client rejected').at(-1);
    assert.deepEqual(
      [line?.['webhook'], line?.['reason'], line?.['remoteAddress']],
      ['/validate/pods', 'client "eve" is not allowed to send reviews', '127.0.0.1'],
    );
    assert.match(
      await recorder.metrics.expose(),
      /portcullis_webhook_requests_total\{webhook="\/validate\/pods",code="403"\} \d/,
    );
  });

  test('a new client CA applies to new connections', async () => {
    const agent = new Agent({ keepAlive: true });
    const api = client('api');
    assert.equal((await send(api, { agent })).status, 200);
    served.trustClients(otherAuthority.cert);
    const last = await send(api, { agent });
    assert.deepEqual([last.status, last.headers.connection], [200, 'close']);
    assert.equal((await send(api, { agent })).status, 401);
    assert.equal((await send(client('api', otherAuthority))).status, 200);
    served.use(createServing(servingAuthority, NAMES, validity));
    assert.equal((await send(client('api', otherAuthority))).status, 200);
    assert.equal((await send(client('api'))).body, UNKNOWN_AUTHORITY);
    agent.destroy();
  });
});

interface ProbeCase {
  readonly path: string;
  readonly draining?: true;
  readonly status: number;
  readonly body: string;
}

const PROBES: readonly ProbeCase[] = [
  { path: '/livez', status: 200, body: 'ok' },
  { path: '/healthz', status: 200, body: 'ok' },
  { path: '/livez?verbose', status: 200, body: '[+]ping ok\nlivez check passed\n' },
  { path: '/readyz', status: 200, body: 'ok' },
  { path: '/readyz?verbose', status: 200, body: '[+]ping ok\n[+]shutdown ok\nreadyz check passed\n' },
  { path: '/readyz/shutdown', status: 200, body: 'ok' },
  {
    path: '/readyz',
    draining: true,
    status: 500,
    body: '[+]ping ok\n[-]shutdown failed: the server drains\nreadyz check failed\n',
  },
  { path: '/readyz/shutdown', draining: true, status: 500, body: 'shutdown failed: the server drains\n' },
  { path: '/readyz/ping', draining: true, status: 200, body: 'ok' },
  { path: '/readyz?exclude=shutdown', draining: true, status: 200, body: 'ok' },
  {
    path: '/readyz?verbose&exclude=shutdown&exclude=bogus',
    draining: true,
    status: 200,
    body: '[+]ping ok\n[+]shutdown excluded: ok\nwarn: some health checks cannot be excluded: no matches for "bogus"\nreadyz check passed\n',
  },
  { path: '/livez', draining: true, status: 200, body: 'ok' },
  { path: '/readyz/bogus', status: 404, body: '404 page not found\n' },
  { path: `/readyz?exclude=${'x'.repeat(300)}`, status: 414, body: 'the URL is longer than 256 characters\n' },
  { path: '/', status: 200, body: '/livez\n/readyz\n/healthz\n/metrics\n' },
];

suite('the server for probes responds to', () => {
  for (const { path, draining, status, body } of PROBES) {
    test(`${path}${draining ? ' while draining' : ''}`, async () => {
      const ping = { name: 'ping', check: () => undefined };
      const shutdown = { name: 'shutdown', check: () => (draining ? 'the server drains' : undefined) };
      const app = buildProbes({
        livez: [ping],
        readyz: [ping, shutdown],
        metrics: createMetrics({ version: '1.2.3' }),
      });
      const reply = await app.inject(path);
      assert.deepEqual([reply.statusCode, reply.body], [status, body]);
      assert.equal(reply.headers['content-type'], 'text/plain; charset=utf-8');
    });
  }

  for (const method of ['GET', 'POST', 'PUT', 'DELETE'] as const) {
    test(`${method} with a body that it does not read, and then closes the connection`, async () => {
      const app = buildProbes({ livez: [], readyz: [], metrics: createMetrics({ version: '1.2.3' }) });
      for (const type of ['application/json', 'text/plain', 'x/y', undefined]) {
        const headers = type === undefined ? {} : { 'content-type': type };
        const reply = await app.inject({ method, url: '/none', headers, payload: '{"broken' });
        const { connection } = reply.headers;
        assert.deepEqual([reply.statusCode, reply.body, connection], [404, '404 page not found\n', 'close'], type);
      }
    });
  }

  test('/metrics in the Prometheus text format, including metrics of the process and the build', async () => {
    const app = buildProbes({ livez: [], readyz: [], metrics: createMetrics({ version: '1.2.3' }) });
    const reply = await app.inject('/metrics');
    assert.equal(reply.headers['content-type'], 'text/plain; version=0.0.4; charset=utf-8');
    assert.match(reply.body, /^portcullis_build_info\{version="1\.2\.3",node_version="v24\.[\d.]+"\} 1$/m);
    assert.match(reply.body, /^process_cpu_seconds_total [\d.e-]+$/m);
    assert.match(reply.body, /^# HELP pod_security_evaluations_total \[ALPHA\] /m);
  });
});
