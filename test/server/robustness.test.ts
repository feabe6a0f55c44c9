/**
 * Tests malformed, slow, concurrent and abandoned requests over sockets, including their effects on responses, memory
 * and other clients.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { Agent } from 'node:https';
import { connect as connectTcp, type Socket } from 'node:net';
import { after, before, suite, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { connect as connectTls } from 'node:tls';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { drain } from '../../src/cli/serve/serve.ts';
import { createParser, startParseWorker } from '../../src/cluster/parser.ts';
import { allow, type Decision } from '../../src/kube/admission.ts';
import { createPodSecurity, DEFAULT_CONFIGURATION } from '../../src/policy/psa/index.ts';
import { createDisclosure } from '../../src/server/disclosure.ts';
import { createEvaluations } from '../../src/server/evaluations.ts';
import { createPodSecurityReviewer } from '../../src/server/pod-security.ts';
import { createWaitingRoom } from '../../src/server/waiting-room.ts';
import type { Webhook } from '../../src/server/webhook.ts';
import { createMetrics, type Metrics } from '../../src/telemetry/metrics.ts';
import { startAdmissionServer, type TestServer } from '../support/admission-server.ts';
import { post, sendRaw } from '../support/https.ts';
import { podReview } from '../support/reviews.ts';

/** Reviews do not wait for missing namespaces. */
const NO_ROOM = 0;
const JSON_TYPE = 'application/json';
const PATH = '/validate/pods';
const LEVELS = ['privileged', 'baseline', 'restricted'] as const;

/** Starts the Pod Security webhook for the namespaces `privileged`, `baseline` and `restricted`, and other webhooks. */
async function startPodSecurity(
  others: readonly Webhook[] = [],
): Promise<TestServer & { readonly psaMetrics: Metrics }> {
  const psaMetrics = createMetrics({ version: '0.0.0' });
  const podSecurity = createPodSecurity(DEFAULT_CONFIGURATION);
  const server = await startAdmissionServer([
    {
      path: PATH,
      ...createPodSecurityReviewer({
        podSecurity: () => podSecurity,
        metrics: psaMetrics.podSecurity,
        waitingRoom: createWaitingRoom(NO_ROOM),
        evaluate: createEvaluations(() => performance.now()),
        discloses: createDisclosure(true),
      }),
    },
    ...others,
  ]);
  for (const level of LEVELS) putNamespace(server, level, level);
  return { ...server, psaMetrics };
}

function putNamespace({ store }: Pick<TestServer, 'store'>, name: string, enforce: string): void {
  store.put('Namespace', { metadata: { name, labels: { 'pod-security.kubernetes.io/enforce': enforce } } });
}

const PRIVILEGED_POD = { containers: [{ name: 'c', image: 'i', securityContext: { privileged: true } }] };
const COMPLIANT_POD = { containers: [] };
/** Builds a review in the restricted namespace with changed request fields. */
function restrictedReview(change: object): string {
  const review = podReview({ namespace: 'restricted', spec: COMPLIANT_POD });
  return JSON.stringify({ ...review, request: { ...review.request, ...change } });
}

const REVIEW = JSON.stringify(podReview({ namespace: 'restricted', spec: COMPLIANT_POD }));

interface ReviewResponse {
  readonly uid: string;
  readonly allowed: boolean;
  readonly status?: { readonly message: string };
}

function parseResponse(body: string): ReviewResponse {
  return (JSON.parse(body) as { readonly response: ReviewResponse }).response;
}

async function assertServing(server: TestServer): Promise<void> {
  const startMs = performance.now();
  const reply = await post(server, PATH, REVIEW, JSON_TYPE);
  assert.deepEqual([reply.status, parseResponse(reply.body).allowed], [200, true]);
  // Incomplete requests time out after 32 seconds. Other clients must be served earlier.
  assert.ok(performance.now() - startMs < 25_000, 'the request was delayed');
}

function openConnections({ app }: TestServer): Promise<number> {
  return new Promise((resolve, reject) => {
    app.server.getConnections((error, count) => (error ? reject(error) : resolve(count)));
  });
}

async function waitForDisconnect(server: TestServer): Promise<void> {
  for (let tries = 0; tries < 200 && (await openConnections(server)) > 0; tries++) await sleep(10);
  assert.equal(await openConnections(server), 0);
}

function head(length: number, more = ''): string {
  return `POST ${PATH} HTTP/1.1\r\nHost: x\r\nContent-Type: ${JSON_TYPE}\r\nContent-Length: ${length}\r\n${more}\r\n`;
}

function ready(socket: Socket, event: 'connect' | 'secureConnect'): Promise<Socket> {
  return new Promise((resolve, reject) => {
    socket.once(event, () => {
      socket.off('error', reject);
      socket.on('error', () => socket.destroy());
      resolve(socket);
    });
    socket.once('error', reject);
  });
}

const openTcp = ({ port }: TestServer): Promise<Socket> => ready(connectTcp(port, '127.0.0.1'), 'connect');
const openTls = ({ port, ca }: TestServer): Promise<Socket> =>
  ready(connectTls({ host: '127.0.0.1', port, ca }), 'secureConnect');

suite('concurrent clients', () => {
  let server: TestServer;
  before(async () => {
    server = await startPodSecurity();
  });
  after(() => server.stop());

  test('get the uid and the decision of their review in each response', async () => {
    const agent = new Agent({ keepAlive: true });
    const send = async (client: number, index: number): Promise<void> => {
      const namespace = LEVELS[(client + index) % 3] ?? '';
      const isPrivileged = (client * 7 + index) % 2 === 0;
      const [uid, name] = [`uid-${client}-${index}`, `pod-${client}-${index}`];
      const spec = isPrivileged ? PRIVILEGED_POD : COMPLIANT_POD;
      const { body } = await post(
        server,
        PATH,
        JSON.stringify(podReview({ uid, name, namespace, spec })),
        JSON_TYPE,
        agent,
      );
      const verdict = parseResponse(body);
      const isAllowed = !isPrivileged || namespace === 'privileged';
      assert.deepEqual([verdict.uid, verdict.allowed], [uid, isAllowed]);
      const denial = `pods "${name}" is forbidden: violates PodSecurity "${namespace}:latest": `;
      assert.equal(verdict.status?.message.slice(0, denial.length), isAllowed ? undefined : denial);
    };
    await Promise.all(
      Array.from({ length: 16 }, async (_, client) => {
        for (let index = 0; index < 60; index++) await send(client, index);
      }),
    );
    agent.destroy();
  });
});

interface Framing {
  readonly name: string;
  readonly request: string;
  /** The expected status of each response. */
  readonly statuses: readonly number[];
}

const chunk = (text: string): string => `${text.length.toString(16)}\r\n${text}\r\n`;
const CLOSE = 'Connection: close\r\n';
const CHUNKED = `POST ${PATH} HTTP/1.1\r\nHost: x\r\nContent-Type: ${JSON_TYPE}\r\nTransfer-Encoding: chunked\r\n${CLOSE}`;
const WHOLE = head(REVIEW.length) + REVIEW;

const FRAMINGS: readonly Framing[] = [
  { name: 'a body in one chunk', request: `${CHUNKED}\r\n${chunk(REVIEW)}0\r\n\r\n`, statuses: [411] },
  {
    name: 'request smuggling with two lengths',
    request: `${CHUNKED}Content-Length: ${REVIEW.length}\r\n\r\n0\r\n\r\n${WHOLE}`,
    statuses: [400],
  },
  { name: 'a negative length', request: head(-1) + REVIEW, statuses: [400] },
  {
    name: 'Expect: 100-continue',
    request: head(REVIEW.length, `${CLOSE}Expect: 100-continue\r\n`) + REVIEW,
    statuses: [100, 200],
  },
  { name: 'CONNECT', request: 'CONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\n', statuses: [] },
];

suite('unusual or malformed HTTP framing does not affect other requests:', () => {
  let server: TestServer;
  before(async () => {
    server = await startPodSecurity();
  });
  after(() => server.stop());

  for (const { name, request, statuses } of FRAMINGS) {
    test(name, async () => {
      const received = await sendRaw(server, request);
      assert.deepEqual(
        [...received.matchAll(/^HTTP\/1\.1 (\d+) /gm)].map(([, status]) => Number(status)),
        statuses,
      );
      await assertServing(server);
    });
  }
});

interface AbandonedRequest {
  readonly name: string;
  readonly clients: number;
  readonly open: (server: TestServer) => Promise<Socket>;
  /** The only bytes that the client sends. */
  readonly sent?: string | Buffer;
  readonly leave: (socket: Socket) => unknown;
}

const LONG_NAME = JSON.stringify(
  podReview({ name: 'x'.repeat(1 << 20), namespace: 'restricted', spec: PRIVILEGED_POD }),
);

const ABANDONED: readonly AbandonedRequest[] = [
  { name: 'idle TCP connections', clients: 300, open: openTcp, leave: (socket) => socket.destroy() },
  {
    name: 'incomplete TLS handshakes',
    clients: 200,
    open: openTcp,
    sent: Buffer.from([0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3]),
    leave: (socket) => socket.resetAndDestroy(),
  },
  { name: 'HTTP without TLS', clients: 200, open: openTcp, sent: WHOLE, leave: (socket) => socket.destroy() },
  { name: 'idle TLS connections', clients: 150, open: openTls, leave: (socket) => socket.end() },
  {
    name: 'incomplete headers',
    clients: 100,
    open: openTls,
    sent: WHOLE.slice(0, 60),
    leave: (socket) => socket.destroy(),
  },
  {
    name: 'incomplete bodies',
    clients: 100,
    open: openTls,
    sent: WHOLE.slice(0, -9),
    leave: (socket) => socket.destroy(),
  },
  {
    name: 'incomplete bodies of several MiB',
    clients: 8,
    open: openTls,
    sent: head(7 << 20) + ' '.repeat(6 << 20),
    leave: (socket) => socket.destroy(),
  },
  {
    name: 'clients that do not read the response',
    clients: 20,
    open: async (server) => (await openTls(server)).pause(),
    sent: head(LONG_NAME.length) + LONG_NAME,
    leave: (socket) => socket.destroy(),
  },
];

suite('other clients are served despite', () => {
  let server: TestServer;
  before(async () => {
    server = await startPodSecurity();
  });
  after(() => server.stop());

  for (const { name, clients, open, sent, leave } of ABANDONED) {
    test(name, async () => {
      const sockets = await Promise.all(Array.from({ length: clients }, () => open(server)));
      if (sent !== undefined) for (const socket of sockets) socket.write(sent);
      await sleep(50);
      await assertServing(server);
      for (const socket of sockets) leave(socket);
      await waitForDisconnect(server);
      await assertServing(server);
    });
  }

  test('and no error is logged', () => {
    assert.deepEqual(
      server.log.filter(({ level }) => Number(level) >= 50),
      [],
    );
  });
});

suite('memory', () => {
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as () => void;
  const usedBytes = async (): Promise<number> => {
    // Node frees buffers only after the objects that reference them.
    for (let times = 0; times < 3; times++) {
      collect();
      await sleep(5);
    }
    const { heapUsed, external } = process.memoryUsage();
    return heapUsed + external;
  };
  const LENGTH = 100_000;
  const ROUNDS = 200;
  /** Returns a string that is unique to the round. */
  const unique = (round: number): string => `${round}`.padEnd(LENGTH, 'x');
  const BODIES: readonly { readonly name: string; readonly body: (round: number) => string }[] = [
    { name: 'invalid JSON', body: (round) => `{"${unique(round)}":` },
    { name: 'invalid requests', body: (round) => restrictedReview({ uid: [unique(round)] }) },
    { name: 'unknown subresources', body: (round) => restrictedReview({ requestSubResource: unique(round) }) },
    {
      name: 'unknown resources',
      body: (round) => restrictedReview({ resource: { group: unique(round), resource: 'r' } }),
    },
    { name: 'unknown kinds', body: (round) => restrictedReview({ object: { kind: unique(round) } }) },
    { name: 'missing namespaces', body: (round) => restrictedReview({ namespace: `ns${unique(round)}` }) },
    { name: 'timeouts of any length', body: () => REVIEW },
  ];

  for (const { name, body } of BODIES) {
    test(`does not grow because of ${name}`, async (t) => {
      const server = await startPodSecurity();
      t.after(() => server.stop());
      const agent = new Agent({ keepAlive: true });
      const send = async (round: number): Promise<void> => {
        const query = name.startsWith('timeouts') ? `?timeout=${unique(round)}` : '';
        await post(server, PATH + query, body(round), JSON_TYPE, agent);
        server.log.length = 0;
      };
      for (let round = 0; round < 20; round++) await send(round);
      const before = await usedBytes();
      for (let round = 20; round < 20 + ROUNDS; round++) await send(round);
      const growth = (await usedBytes()) - before;
      assert.ok(growth < (ROUNDS * LENGTH) / 4, `${Math.round(growth / 1024)} KiB more`);
      assert.ok((await server.psaMetrics.expose()).length < 50_000);
      agent.destroy();
    });
  }
});

test('unknown subresources are counted as other in metrics', async (t) => {
  const server = await startPodSecurity();
  t.after(() => server.stop());
  for (const requestSubResource of ['', 'ephemeralcontainers', 'resize', 'new', 'newer']) {
    await post(server, PATH, restrictedReview({ requestSubResource }), JSON_TYPE);
  }
  const lines = (await server.psaMetrics.expose())
    .split('\n')
    .filter((line) => line.includes('policy_level="restricted"'));
  assert.deepEqual(
    lines.map((line) => line.replace(/^.*subresource="(\w*)".* (\d+)$/, '$1 $2')),
    [' 1', 'ephemeralcontainers 1', 'resize 1', 'other 2'],
  );
});

suite('drain()', () => {
  interface OpenConnection {
    readonly name: string;
    readonly open: (server: TestServer) => Promise<Socket>;
    readonly sent?: string;
    readonly received: RegExp;
  }
  const cases: readonly OpenConnection[] = [
    { name: 'an idle TCP connection', open: openTcp, received: /^$/ },
    { name: 'an idle TLS connection', open: openTls, received: /^$/ },
    {
      name: 'a pending review',
      open: openTls,
      sent: WHOLE,
      received: /^HTTP\/1\.1 200 OK\r\n[^]*connection: close[^]*"allowed":true/i,
    },
  ];
  const decide = async (): Promise<Decision> => {
    await sleep(150);
    return allow();
  };

  for (const { name, open, sent, received } of cases) {
    test(`completes although there is ${name}`, async () => {
      const server = await startAdmissionServer([{ path: PATH, decide }]);
      const socket = await open(server);
      let text = '';
      socket.on('data', (data: Buffer) => (text += data.toString()));
      const closed = new Promise((resolve) => socket.once('close', resolve));
      if (sent !== undefined) socket.write(sent);
      await sleep(50);
      const startMs = performance.now();
      await drain(server, 0);
      // Node closes connections without a handshake after 10 s, and idle connections later.
      assert.ok(performance.now() - startMs < 9000, 'the connection is not closed');
      await closed;
      assert.match(text, received);
    });
  }

  test('completes only after the response to a client that is in its TLS handshake', async () => {
    const server = await startAdmissionServer([{ path: PATH, decide }]);
    const socket = await openTcp(server);
    const ended = drain(server, 0);
    await sleep(100);
    const secure = await ready(connectTls({ socket, ca: server.ca, host: '127.0.0.1' }), 'secureConnect');
    secure.write(WHOLE);
    let text = '';
    secure.on('data', (data: Buffer) => (text += data.toString()));
    await ended;
    await sleep(20);
    assert.match(text, /^HTTP\/1\.1 200 OK\r\n[^]*connection: close[^]*"allowed":true/i);
  });
});

interface RejectedBody {
  readonly name: string;
  readonly body: string | Buffer;
  readonly contentType?: string | undefined;
  readonly text: string | RegExp;
}

const buildReview = (change: Record<string, unknown>): string => JSON.stringify({ ...podReview({}), ...change });
const buildRequest = (change: Record<string, unknown>): string =>
  JSON.stringify({ ...podReview({}), request: { ...podReview({}).request, ...change } });

const REJECTED: readonly RejectedBody[] = [
  { name: 'a request without a body', body: '', text: 'request body is empty\n' },
  {
    name: 'a request without a body and without a content type',
    body: '',
    contentType: undefined,
    text: 'request body is empty\n',
  },
  {
    name: 'a form',
    body: 'a=b',
    contentType: 'application/x-www-form-urlencoded',
    text: 'unable to process a request with a non-json content type\n',
  },
  {
    name: 'a request without a content type',
    body: '{}',
    contentType: undefined,
    text: 'unable to process a request with a non-json content type\n',
  },
  {
    name: 'truncated JSON',
    body: '{"apiVersion":"admission.k8s.io/v1"',
    text: /^unable to decode the request: Expected ',' or '}' after property value in JSON at position 35/,
  },
  {
    name: 'invalid UTF-8',
    body: Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d]),
    text: 'unable to decode the request: the body is not valid UTF-8\n',
  },
  {
    name: 'a list',
    body: '[]',
    text: 'unable to decode the request: the body must be a JSON object of kind AdmissionReview\n',
  },
  {
    name: 'v1beta1',
    body: buildReview({ apiVersion: 'admission.k8s.io/v1beta1' }),
    text: 'unable to decode the request: apiVersion: must be "admission.k8s.io/v1"; set admissionReviewVersions: ["v1"] in the webhook\n',
  },
  {
    name: 'a review of another kind',
    body: buildReview({ kind: 'Pod' }),
    text: 'unexpected AdmissionReview kind: admission.k8s.io/v1, Kind=Pod\n',
  },
  {
    name: 'a review whose kind is not a string',
    body: buildReview({ kind: 7 }),
    text: 'unexpected AdmissionReview kind: kind must be a string\n',
  },
  {
    name: 'a review without a request',
    body: buildReview({ request: undefined }),
    text: "unable to decode the request: must have required property 'request'\n",
  },
  {
    name: 'a review without a uid',
    body: buildRequest({ uid: undefined }),
    text: "unable to decode the request: request: must have required property 'uid'\n",
  },
  {
    name: 'a review with a long uid',
    body: buildRequest({ uid: 'x'.repeat(1025) }),
    text: 'unable to decode the request: request.uid: must NOT have more than 1024 characters\n',
  },
  {
    name: 'a review with a long kind',
    body: buildReview({ kind: 'x'.repeat(5000) }),
    text: /^unexpected AdmissionReview kind: admission\.k8s\.io\/v1, Kind=x{900,1000}…\n$/,
  },
  {
    name: 'a review with an unknown operation',
    body: buildRequest({ operation: 'PATCH' }),
    text: 'unable to decode the request: request.operation: must be one of "CREATE", "UPDATE", "DELETE", "CONNECT"\n',
  },
  {
    name: 'a review with groups that are a string',
    body: buildRequest({ userInfo: { username: 'alice', groups: 'admins' } }),
    text: 'unable to decode the request: request.userInfo.groups: must be array\n',
  },
];

/** Unusual bodies that are valid reviews. */
const ACCEPTED: readonly { readonly name: string; readonly body: string | Buffer; readonly contentType?: string }[] = [
  { name: 'a content type with a charset', body: buildRequest({}), contentType: 'application/json; charset=utf-8' },
  { name: 'a review without apiVersion and kind', body: buildReview({ apiVersion: undefined, kind: undefined }) },
  {
    name: 'a review with __proto__ in a map',
    body: buildRequest({}).replace('"labels":{', '"labels":{"__proto__":"x","constructor":"y",'),
  },
  {
    name: 'a review with __proto__ at the top level',
    body: buildRequest({}).replace('{', '{"__proto__":{"polluted":true},'),
  },
  { name: 'a review with duplicate keys', body: buildRequest({}).replace('{', '{"kind":"AdmissionReview",') },
  {
    name: 'a review of an object of an unknown kind',
    body: buildRequest({ kind: { group: 'x.example.com', version: 'v1', kind: 'Y' } }),
  },
  { name: 'a review of objects of the wrong type', body: buildRequest({ object: 'a string', oldObject: [1] }) },
  {
    name: 'a review of an object with 50,000 levels',
    body: buildRequest({ object: 'DEEP' }).replace('"DEEP"', `${'['.repeat(5e4)}${']'.repeat(5e4)}`),
  },
  {
    name: 'a review with 700,000 objects',
    body: buildRequest({ object: { spec: { nodeSelector: Array(700_000).fill({}) } } }),
  },
  { name: 'a review of almost 24 MiB', body: buildRequest({ object: { a: 'x'.repeat(24 * 1024 * 1024 - 2000) } }) },
  { name: 'a review with a lone surrogate', body: buildRequest({ name: '\\ud800' }).replace('\\\\ud800', '\\ud800') },
];

suite('bodies are accepted or rejected:', () => {
  let server: TestServer;
  before(async () => {
    server = await startAdmissionServer([{ path: '/allow', decide: () => allow() }]);
  });
  after(() => server.stop());

  for (const { name, body, text, ...rest } of REJECTED) {
    test(`${name} is rejected`, async () => {
      const contentType = 'contentType' in rest ? rest.contentType : JSON_TYPE;
      const response = await post(server, '/allow', body, contentType);
      assert.equal(response.status, 400);
      if (typeof text === 'string') assert.equal(response.body, text);
      else assert.match(response.body, text);
      assert.equal(response.headers['content-type'], 'text/plain; charset=utf-8');
    });
  }

  for (const { name, body, contentType } of ACCEPTED) {
    test(`${name} is accepted`, async () => {
      const response = await post(server, '/allow', body, contentType ?? JSON_TYPE);
      assert.equal(response.status, 200, response.body.slice(0, 300));
      assert.deepEqual(JSON.parse(response.body), {
        kind: 'AdmissionReview',
        apiVersion: 'admission.k8s.io/v1',
        response: { uid: podReview({}).request.uid, allowed: true },
      });
      assert.equal(({} as Record<string, unknown>).polluted, undefined);
    });
  }

  test('another method is rejected with 404 and the list of paths', async () => {
    const response = await sendRaw(
      server,
      'PUT /allow HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 0\r\n\r\n',
    );
    assert.match(response, /^HTTP\/1\.1 404 /);
    assert.match(response, /no webhook at PUT \/allow; POST an AdmissionReview to \/allow\n$/);
  });

  test('another path is rejected with 404, regardless of the content type', async () => {
    for (const contentType of [JSON_TYPE, 'text/plain', 'nonsense', undefined]) {
      const response = await post(server, '/nothing', 'a=b', contentType);
      assert.deepEqual(
        [response.status, response.body],
        [404, 'no webhook at POST /nothing; POST an AdmissionReview to /allow\n'],
      );
    }
  });

  test('a malformed path is rejected with 400', async () => {
    const response = await post(server, '/%', buildRequest({}), JSON_TYPE);
    assert.deepEqual(
      [response.status, response.headers['content-type'], response.body],
      [400, 'text/plain; charset=utf-8', "'/%' is not a valid url component\n"],
    );
  });

  const counted = [
    {
      name: 'a form',
      body: 'a=b',
      contentType: 'text/plain',
      code: '400',
      reason: /^unable to process a request with a non-json content type$/,
    },
    {
      name: 'a body that is too large',
      body: Buffer.alloc(24 * 1024 * 1024 + 1, 0x20),
      contentType: JSON_TYPE,
      code: '413',
      reason: /^request entity is too large/,
    },
    {
      name: 'a body that is not JSON',
      body: '{',
      contentType: JSON_TYPE,
      code: '400',
      reason: /^unable to decode the request/,
    },
  ] as const;
  for (const { name, body, contentType, code, reason } of counted) {
    test(`a rejected body is counted and logged: ${name}`, async () => {
      const cell = server.metrics.webhook.requests.cell({ webhook: '/allow', code });
      const { count } = cell;
      await post(server, '/allow', body, contentType);
      assert.equal(cell.count, count + 1);
      const { msg, webhook, remoteAddress, ...line } = server.log.at(-1) ?? {};
      assert.deepEqual([msg, webhook, remoteAddress], ['malformed review', '/allow', '127.0.0.1']);
      assert.match(String(line['reason']), reason);
    });
  }

  test('only the first of several requests in one write is processed', async () => {
    const cell = server.metrics.webhook.requests.cell({ webhook: '/allow', code: '400' });
    const { count } = cell;
    const request = 'POST /allow HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\nContent-Length: 1\r\n\r\nx';
    await sendRaw(server, request.repeat(3));
    assert.equal(cell.count, count + 1);
  });

  test('requests for unknown paths create no metric series', async () => {
    await post(server, '/nothing', 'a=b', 'text/plain');
    assert.doesNotMatch(await server.metrics.expose(), /"[^"]*nothing"/);
  });
});

/** Returns a review whose pod has 1.4 MB of `<`, which are escaped as by API servers. Updates contain the pod twice. */
function largeReview(operation: 'CREATE' | 'UPDATE', container: object = {}): string {
  const containers = [{ name: 'c', image: 'i', args: ['<'.repeat(1_400_000)], ...container }];
  const { request, ...review } = podReview({ namespace: 'baseline', operation, spec: { containers } });
  const oldSpec = { containers: [{ ...containers[0], image: 'old' }] };
  const oldObject = operation === 'UPDATE' ? { apiVersion: 'v1', kind: 'Pod', spec: oldSpec } : null;
  return JSON.stringify({ ...review, request: { ...request, oldObject } }).replaceAll('<', '\\u003c');
}

suite('large reviews', () => {
  const blocked = { started: Promise.withResolvers<undefined>(), end: Promise.withResolvers<undefined>() };
  let server: TestServer;
  before(async () => {
    const slow = {
      path: '/slow',
      async decide(): Promise<Decision> {
        await sleep(50);
        return allow();
      },
    };
    const block = {
      path: '/blocked',
      async decide(): Promise<Decision> {
        blocked.started.resolve(undefined);
        await blocked.end.promise;
        return allow();
      },
    };
    server = await startPodSecurity([slow, block, { path: '/allow', decide: () => allow() }]);
  });
  after(() => server.stop());

  for (const operation of ['CREATE', 'UPDATE'] as const) {
    test(`of a pod with 1.4 MB of < are decided at ${operation}`, async () => {
      const legal = await post(server, PATH, largeReview(operation), JSON_TYPE);
      assert.deepEqual([legal.status, parseResponse(legal.body).allowed], [200, true]);
      const securityContext = { privileged: true };
      const violating = await post(server, PATH, largeReview(operation, { securityContext }), JSON_TYPE);
      assert.equal(
        parseResponse(violating.body).status?.message,
        'pods "web" is forbidden: violates PodSecurity "baseline:latest": privileged (container "c" must not set securityContext.privileged=true)',
      );
    });
  }

  test('do not delay small reviews even if there are many at the same time', async () => {
    const body = largeReview('UPDATE');
    const all = Array.from({ length: 6 }, () => post(server, '/slow?timeout=30s', body, JSON_TYPE));
    let isDone = false;
    const done = Promise.all(all).then((responses) => {
      isDone = true;
      return responses;
    });
    let small = 0;
    for (; !isDone; small++) assert.equal((await post(server, '/allow', REVIEW, JSON_TYPE)).status, 200);
    assert.ok((await done).every(({ status }) => status === 200));
    assert.ok(small > 0);
  });

  test('are denied if they are not parsed before their timeout', async () => {
    let nowMs = 0;
    const parser = createParser(startParseWorker);
    const release = Promise.withResolvers<undefined>();
    const late = await startAdmissionServer([{ path: '/allow', decide: () => allow() }], {
      // Whenever the server reads the clock, the longest timeout has passed.
      now: () => (nowMs += 30_000),
      parser: {
        async reduceReview(...review) {
          await release.promise;
          return await parser.reduceReview(...review);
        },
      },
    });
    const body = largeReview('CREATE');
    const { status, body: text } = await post(late, '/allow?timeout=30s', body, JSON_TYPE);
    const message = 'too many concurrent large reviews, so the review was not evaluated within its timeout; try again';
    assert.deepEqual([status, parseResponse(text).allowed], [200, false]);
    assert.deepEqual(parseResponse(text).status, {
      metadata: {},
      status: 'Failure',
      message,
      reason: 'TooManyRequests',
      details: { retryAfterSeconds: 1 },
      code: 429,
    });
    const { msg, webhook, reason, uid } = late.log.find((line) => line['msg'] === 'review not evaluated') ?? {};
    assert.deepEqual(
      [msg, webhook, reason, uid],
      ['review not evaluated', '/allow', message, podReview({}).request.uid],
    );
    release.resolve(undefined);
    await late.stop();
    await parser.close();
  });

  test('that wait do not delay other reviews', async () => {
    const body = largeReview('CREATE');
    const first = post(server, '/blocked', body, JSON_TYPE);
    await blocked.started.promise;
    const later = await post(server, '/allow?timeout=3s', body, JSON_TYPE);
    assert.equal(parseResponse(later.body).allowed, true);
    blocked.end.resolve(undefined);
    assert.equal((await first).status, 200);
  });

  test('use no memory until their declared bodies arrive', async () => {
    const holders = await Promise.all(Array.from({ length: 10 }, () => openTls(server)));
    for (const holder of holders) holder.write(`${head(23 << 20)}{`);
    assert.equal((await post(server, '/allow?timeout=10s', largeReview('UPDATE'), JSON_TYPE)).status, 200);
    for (const holder of holders) holder.destroy();
    await waitForDisconnect(server);
  });

  test('with unfinished bodies are read one at a time above the memory limit, and rejected if they do not arrive', async () => {
    const holders = await Promise.all(Array.from({ length: 4 }, () => openTls(server)));
    const responses = holders.map((holder) => once(holder, 'data'));
    for (const holder of holders) holder.write(head(23 << 20) + ' '.repeat(22 << 20));
    const complete = await post(server, '/allow?timeout=30s', largeReview('UPDATE'), JSON_TYPE);
    assert.equal(parseResponse(complete.body).allowed, true, 'a body that waits is not rejected');
    const [response] = (await Promise.race(responses)) as [Buffer];
    assert.match(
      response.toString(),
      /^HTTP\/1\.1 503 [^]*\r\n\r\nthe memory for reviews is exhausted, and the body did not arrive in time; try again\n$/,
    );
    for (const holder of holders) holder.destroy();
    await waitForDisconnect(server);
  });
});
