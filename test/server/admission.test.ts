import assert from 'node:assert/strict';
import { Agent } from 'node:https';
import { connect, type TLSSocket } from 'node:tls';
import { after, before, suite, test } from 'node:test';
import { pino } from 'pino';
import { createStore } from '../../src/cluster/store.ts';
import { allow, deny, type Decision } from '../../src/kube/admission.ts';
import { forbidden } from '../../src/kube/status.ts';
import { createServing } from '../../src/tls/issue.ts';
import { createServer } from '../../src/server/server.ts';
import type { Webhook, WebhookContext } from '../../src/server/webhook.ts';
import { NAMES, startAdmissionServer, type TestServer } from '../support/admission-server.ts';
import { post } from '../support/https.ts';
import { podReview } from '../support/reviews.ts';

const UID = podReview({}).request.uid;
const BODY = JSON.stringify(podReview({}));
const JSON_TYPE = 'application/json';

const ANSWERS: readonly { readonly name: string; readonly decision: Decision; readonly response: object }[] = [
  { name: 'allowed', decision: allow(), response: { uid: UID, allowed: true } },
  {
    name: 'allowed with remarks',
    decision: allow({ warnings: ['careful'], auditAnnotations: { 'enforce-policy': 'baseline:latest' } }),
    response: {
      uid: UID,
      allowed: true,
      auditAnnotations: { 'enforce-policy': 'baseline:latest' },
      warnings: ['careful'],
    },
  },
  { name: 'no warnings are not sent', decision: allow({ warnings: [] }), response: { uid: UID, allowed: true } },
  {
    name: 'refused',
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
    name: 'unchanged: no patch',
    decision: allow({ object: structuredClone(podReview({}).request.object) }),
    response: { uid: UID, allowed: true },
  },
];

suite('what becomes of a decision', () => {
  for (const { name, decision, response } of ANSWERS) {
    for (const [manner, decide] of [
      ['at once', (): Decision => decision],
      ['later', (): Promise<Decision> => Promise.resolve(decision)],
    ] as const) {
      test(`${name}, decided ${manner}`, async (t) => {
        const server = await startAdmissionServer([{ path: '/x', decide }]);
        t.after(() => server.stop());
        const answer = await post(server, '/x', BODY, JSON_TYPE);
        assert.equal(answer.status, 200);
        assert.match(answer.headers['content-type'] ?? '', /^application\/json/);
        assert.deepEqual(JSON.parse(answer.body), {
          kind: 'AdmissionReview',
          apiVersion: 'admission.k8s.io/v1',
          response,
        });
      });
    }
  }

  test('a changed object is answered as a JSON patch', async (t) => {
    const changed = structuredClone(podReview({}).request.object) as { metadata: Record<string, unknown> };
    changed.metadata.annotations = { 'a/b': 'c' };
    const server = await startAdmissionServer([{ path: '/x', decide: () => allow({ object: changed }) }]);
    t.after(() => server.stop());
    const answer = await post(server, '/x', BODY, JSON_TYPE);
    const { response } = JSON.parse(answer.body) as { response: { patchType: string; patch: string } };
    assert.equal(response.patchType, 'JSONPatch');
    assert.deepEqual(JSON.parse(Buffer.from(response.patch, 'base64').toString()), [
      { op: 'add', path: '/metadata/annotations', value: { 'a/b': 'c' } },
    ]);
  });
});

suite('when there is no decision', () => {
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
    test(`a bug is HTTP 500, logged with the uid of the review: ${path}`, async (t) => {
      const server = await startAdmissionServer(failing);
      t.after(() => server.stop());
      const answer = await post(server, path, BODY, JSON_TYPE);
      assert.deepEqual([answer.status, answer.body], [500, 'internal server error\n']);
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

  test('before the first complete reading of the cluster: HTTP 503', async (t) => {
    const server = await startAdmissionServer([{ path: '/x', decide: () => allow() }]);
    t.after(() => server.stop());
    const cold = createServer({
      webhooks: [{ path: '/x', decide: () => allow() }],
      store: createStore(),
      metrics: server.metrics,
      logger: pino({ level: 'silent' }),
      now: () => 0,
      tls: createServing(server.authority, NAMES, { now: new Date(), days: 1 }),
    });
    const answer = await cold.app.inject({
      method: 'POST',
      url: '/x',
      payload: BODY,
      headers: { 'content-type': JSON_TYPE },
    });
    assert.deepEqual(
      [answer.statusCode, answer.body],
      [503, 'the replica has not read the cluster completely yet; try again\n'],
    );
    await cold.app.close();
  });
});

suite('what a webhook is told', () => {
  const DEADLINES: readonly { readonly query: string; readonly patienceMs: number | undefined }[] = [
    { query: '?timeout=5s', patienceMs: 5000 },
    { query: '?timeout=1m0.5s', patienceMs: 60_500 },
    { query: '?timeout=250ms', patienceMs: 250 },
    { query: '', patienceMs: undefined },
    { query: '?timeout=soon', patienceMs: undefined },
    { query: '?timeout=-5s', patienceMs: undefined },
    { query: '?timeout=5', patienceMs: undefined },
    { query: '?timeout=0s', patienceMs: undefined },
    { query: '?timeout=5s&timeout=6s', patienceMs: undefined },
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
  for (const { query, patienceMs } of DEADLINES) {
    test(`deadline of ${query === '' ? 'no query' : query}`, async () => {
      const earliest = performance.now();
      assert.equal((await post(server, `/x${query}`, BODY, JSON_TYPE)).status, 200);
      const deadlineMs = seen.at(-1)?.deadlineMs;
      if (patienceMs === undefined) assert.equal(deadlineMs, undefined);
      else
        assert.ok(
          deadlineMs !== undefined &&
            deadlineMs >= earliest + patienceMs &&
            deadlineMs <= performance.now() + patienceMs,
        );
    });
  }
});

suite('the log', () => {
  test('one line per review, and never what is in the object', async (t) => {
    const server = await startAdmissionServer([
      { path: '/x', decide: () => deny(forbidden({ group: '', resource: 'pods' }, 'web', 'no')) },
    ]);
    t.after(() => server.stop());
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

suite('connections', () => {
  const dial = (server: TestServer): Promise<TLSSocket> =>
    new Promise((resolve, reject) => {
      const socket = connect({ host: '127.0.0.1', port: server.port, ca: server.ca }, () => resolve(socket));
      socket.once('error', reject);
    });
  const exchange = (socket: TLSSocket): Promise<string> =>
    new Promise((resolve, reject) => {
      socket.once('data', (chunk: Buffer) => resolve(chunk.toString()));
      socket.once('close', () => reject(new Error('closed')));
      socket.write(
        `POST /x HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: ${Buffer.byteLength(BODY)}\r\n\r\n${BODY}`,
      );
    });

  test('are kept, and told to close with their next answer while the server drains', async (t) => {
    const server = await startAdmissionServer([{ path: '/x', decide: () => allow() }]);
    t.after(() => server.stop());
    const socket = await dial(server);
    assert.match(await exchange(socket), /connection: keep-alive/i);
    assert.match(await exchange(socket), /connection: keep-alive/i);
    server.connections.drain();
    assert.match(await exchange(socket), /connection: close/i);
    const late = await dial(server);
    assert.match(await exchange(late), /^HTTP\/1\.1 200 OK/);
  });

  test('outlive a new certificate by one answer, and new ones get it', async (t) => {
    const server = await startAdmissionServer([{ path: '/x', decide: () => allow() }]);
    t.after(() => server.stop());
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

  test('under load, closing the server loses no answer', async (t) => {
    const server = await startAdmissionServer([
      { path: '/x', decide: () => new Promise((resolve) => setTimeout(() => resolve(allow()), 5)) },
    ]);
    t.after(() => server.stop());
    const agent = new Agent({ keepAlive: true, maxSockets: 20 });
    const calls = Array.from({ length: 100 }, () => post(server, '/x', BODY, JSON_TYPE, agent));
    await new Promise((resolve) => setTimeout(resolve, 60));
    server.connections.drain();
    const statuses = (await Promise.all(calls)).map((answer) => answer.status);
    agent.destroy();
    assert.deepEqual(new Set(statuses), new Set([200]));
  });
});
