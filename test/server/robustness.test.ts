/** What clients may do to a server by accident or on purpose, over real sockets: it answers others, rightly, and keeps nothing. */
import assert from 'node:assert/strict';
import { connect as connectTcp, type Socket } from 'node:net';
import { after, before, suite, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { connect as connectTls } from 'node:tls';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { Agent } from 'node:https';
import { drain } from '../../src/cli/commands/serve.ts';
import { allow, type Decision } from '../../src/kube/admission.ts';
import { DEFAULT_CONFIGURATION } from '../../src/policy/psa/configuration.ts';
import { createPodSecurity } from '../../src/policy/psa/configuration.ts';
import { createMetrics, type Metrics } from '../../src/telemetry/metrics.ts';
import { createPsaWebhook } from '../../src/server/webhooks/psa.ts';
import { createWaitingRoom } from '../../src/server/waiting-room.ts';
import { startAdmissionServer, type TestServer } from '../support/admission-server.ts';
import { post, sendRaw } from '../support/https.ts';
import { podReview } from '../support/reviews.ts';

/** Namespaces that are missing are not waited for. */
const NO_ROOM = { reviews: 0, bytes: 0 };
const JSON_TYPE = 'application/json';
const PATH = '/psa/validate';
const LEVELS = ['privileged', 'baseline', 'restricted'] as const;

/** A server that judges by the labels of the namespaces `privileged`, `baseline` and `restricted`. */
async function startPodSecurity(): Promise<TestServer & { readonly counted: Metrics }> {
  const counted = createMetrics({ version: '0.0.0' });
  const podSecurity = createPodSecurity(DEFAULT_CONFIGURATION);
  const server = await startAdmissionServer([
    createPsaWebhook({
      podSecurity: () => podSecurity,
      metrics: counted.podSecurity,
      waitingRoom: createWaitingRoom(NO_ROOM),
    }),
  ]);
  for (const level of LEVELS) putNamespace(server, level, level);
  return { ...server, counted };
}

function putNamespace({ store }: Pick<TestServer, 'store'>, name: string, enforce: string): void {
  store.put('Namespace', { metadata: { name, labels: { 'pod-security.kubernetes.io/enforce': enforce } } });
}

const PRIVILEGED_POD = { containers: [{ name: 'c', image: 'i', securityContext: { privileged: true } }] };
/** Without containers there is nothing that could offend. */
const HARMLESS_POD = { containers: [] };
const REVIEW = JSON.stringify(podReview({ namespace: 'restricted', spec: HARMLESS_POD }));

interface Verdict {
  readonly uid: string;
  readonly allowed: boolean;
  readonly status?: { readonly message: string };
}

function verdictOf(body: string): Verdict {
  return (JSON.parse(body) as { readonly response: Verdict }).response;
}

async function assertAnswers(server: TestServer): Promise<void> {
  const startMs = performance.now();
  const answer = await post(server, PATH, REVIEW, JSON_TYPE);
  assert.deepEqual([answer.status, verdictOf(answer.body).allowed], [200, true]);
  // Not how fast it is, which depends on the machine: that nobody waits for those who do not come, who get 32 seconds.
  assert.ok(performance.now() - startMs < 25_000, 'others have to wait');
}

function openConnections({ app }: TestServer): Promise<number> {
  return new Promise((resolve, reject) => {
    app.server.getConnections((error, count) => (error ? reject(error) : resolve(count)));
  });
}

async function untilAlone(server: TestServer): Promise<void> {
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

suite('many at once', () => {
  let server: TestServer;
  before(async () => {
    server = await startPodSecurity();
  });
  after(() => server.stop());

  test('each answer has the uid and the verdict of its own review', async () => {
    const agent = new Agent({ keepAlive: true });
    const ask = async (client: number, index: number): Promise<void> => {
      const namespace = LEVELS[(client + index) % 3] ?? '';
      const isPrivileged = (client * 7 + index) % 2 === 0;
      const [uid, name] = [`uid-${client}-${index}`, `pod-${client}-${index}`];
      const spec = isPrivileged ? PRIVILEGED_POD : HARMLESS_POD;
      const { body } = await post(
        server,
        PATH,
        JSON.stringify(podReview({ uid, name, namespace, spec })),
        JSON_TYPE,
        agent,
      );
      const verdict = verdictOf(body);
      const isAllowed = !isPrivileged || namespace === 'privileged';
      assert.deepEqual([verdict.uid, verdict.allowed], [uid, isAllowed]);
      const refusal = `pods "${name}" is forbidden: violates PodSecurity "${namespace}:latest": `;
      assert.equal(verdict.status?.message.slice(0, refusal.length), isAllowed ? undefined : refusal);
    };
    await Promise.all(
      Array.from({ length: 16 }, async (_, client) => {
        for (let index = 0; index < 60; index++) await ask(client, index);
      }),
    );
    agent.destroy();
  });

  test('a namespace that is relabelled, deleted and made again counts as it is at that moment', async () => {
    const agent = new Agent({ keepAlive: true });
    const load = Array.from({ length: 100 }, () => post(server, PATH, REVIEW, JSON_TYPE, agent));
    const body = JSON.stringify(podReview({ namespace: 'changing', spec: PRIVILEGED_POD }));
    const outcomes = new Set<string>();
    for (let round = 0; round < 60; round++) {
      const level = [...LEVELS, undefined][round % 4];
      if (level === undefined) server.store.remove('Namespace', 'changing');
      else putNamespace(server, 'changing', level);
      const verdict = verdictOf((await post(server, PATH, body, JSON_TYPE, agent)).body);
      outcomes.add(`${level}: ${verdict.allowed || verdict.status?.message.replace(/: priv.*$/, '')}`);
    }
    assert.deepEqual(
      [...outcomes],
      [
        'privileged: true',
        'baseline: pods "web" is forbidden: violates PodSecurity "baseline:latest"',
        'restricted: pods "web" is forbidden: violates PodSecurity "restricted:latest"',
        'undefined: Internal error occurred: failed to lookup namespace "changing"',
      ],
    );
    for (const { body: answer } of await Promise.all(load)) assert.equal(verdictOf(answer).allowed, true);
    agent.destroy();
  });

  test('requests sent without waiting are answered in their order', async () => {
    const requests = Array.from({ length: 50 }, (_, index) => {
      const body = JSON.stringify(
        podReview({ uid: `uid-${index}`, namespace: LEVELS[index % 3] ?? '', spec: PRIVILEGED_POD }),
      );
      return head(body.length, index === 49 ? CLOSE : '') + body;
    });
    const [answers] = await sendRaw(server, requests.join(''));
    assert.deepEqual(
      [...answers.matchAll(/"uid":"(uid-\d+)","allowed":(\w+)/g)].map(([, uid, allowed]) => `${uid} ${allowed}`),
      requests.map((_, index) => `uid-${index} ${index % 3 === 0}`),
    );
  });
});

interface Framing {
  readonly name: string;
  readonly request: string;
  /** The status of each answer. */
  readonly answers: readonly number[];
}

const chunk = (text: string, extension = ''): string => `${text.length.toString(16)}${extension}\r\n${text}\r\n`;
const CLOSE = 'Connection: close\r\n';
const CHUNKED = `POST ${PATH} HTTP/1.1\r\nHost: x\r\nContent-Type: ${JSON_TYPE}\r\nTransfer-Encoding: chunked\r\n${CLOSE}`;
const WHOLE = head(REVIEW.length) + REVIEW;

const FRAMINGS: readonly Framing[] = [
  { name: 'one chunk', request: `${CHUNKED}\r\n${chunk(REVIEW)}0\r\n\r\n`, answers: [200] },
  {
    name: 'a chunk for each byte',
    request: `${CHUNKED}\r\n${Array.from(REVIEW, (byte) => chunk(byte)).join('')}0\r\n\r\n`,
    answers: [200],
  },
  {
    name: 'chunks with extensions and a trailer',
    request: `${CHUNKED}Trailer: x\r\n\r\n${chunk(REVIEW, ';a=b')}0\r\nx: y\r\n\r\n`,
    answers: [200],
  },
  { name: 'a chunk without a size', request: `${CHUNKED}\r\nsize\r\n${REVIEW}\r\n0\r\n\r\n`, answers: [400] },
  { name: 'a chunk larger than memory', request: `${CHUNKED}\r\n${'f'.repeat(20)}\r\n{`, answers: [400] },
  {
    name: 'chunks of more than 7 MiB',
    request: `${CHUNKED}\r\n${chunk(' '.repeat((7 << 20) + 1))}0\r\n\r\n`,
    answers: [413],
  },
  {
    name: 'a request hidden behind two lengths',
    request: `${CHUNKED}Content-Length: ${REVIEW.length}\r\n\r\n0\r\n\r\n${WHOLE}`,
    answers: [400],
  },
  { name: 'two lengths', request: head(REVIEW.length, 'Content-Length: 5\r\n') + REVIEW, answers: [400] },
  { name: 'a negative length', request: head(-1) + REVIEW, answers: [400] },
  { name: 'a length that is no number', request: head(NaN) + REVIEW, answers: [400] },
  { name: 'more than 7 MiB announced', request: head((7 << 20) + 1), answers: [413] },
  { name: 'a body that goes on', request: `${WHOLE}{}`, answers: [400] },
  {
    name: 'a client that asks before it sends',
    request: head(REVIEW.length, `${CLOSE}Expect: 100-continue\r\n`) + REVIEW,
    answers: [100, 200],
  },
  {
    name: 'an expectation that is none',
    request: head(REVIEW.length, `${CLOSE}Expect: tea\r\n`) + REVIEW,
    answers: [417],
  },
  {
    name: 'an upgrade',
    request: head(REVIEW.length, 'Connection: Upgrade, close\r\nUpgrade: websocket\r\n') + REVIEW,
    answers: [200],
  },
  { name: 'HTTP/2 without asking', request: 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', answers: [400] },
  { name: 'a tunnel', request: 'CONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\n', answers: [] },
  { name: 'headers of more than 1 MiB', request: head(0, `X: ${'x'.repeat(1 << 20)}\r\n`), answers: [431] },
  { name: 'very many headers', request: head(0, 'X: x\r\n'.repeat(5000)), answers: [431] },
  { name: 'a header with a null', request: head(0, 'X: \0\r\n'), answers: [400] },
];

suite('how a request is framed', () => {
  let server: TestServer;
  before(async () => {
    server = await startPodSecurity();
  });
  after(() => server.stop());

  for (const { name, request, answers } of FRAMINGS) {
    test(name, async () => {
      const [received] = await sendRaw(server, request);
      assert.deepEqual(
        [...received.matchAll(/^HTTP\/1\.1 (\d+) /gm)].map(([, status]) => Number(status)),
        answers,
      );
      await assertAnswers(server);
    });
  }
});

interface Nuisance {
  readonly name: string;
  readonly clients: number;
  readonly open: (server: TestServer) => Promise<Socket>;
  /** What is sent, and then nothing more. */
  readonly sent?: string | Buffer;
  readonly leave: (socket: Socket) => unknown;
}

const LONG_NAME = JSON.stringify(
  podReview({ name: 'x'.repeat(1 << 20), namespace: 'restricted', spec: PRIVILEGED_POD }),
);

const NUISANCES: readonly Nuisance[] = [
  { name: 'connections without a word', clients: 300, open: openTcp, leave: (socket) => socket.destroy() },
  {
    name: 'handshakes that are not finished',
    clients: 200,
    open: openTcp,
    sent: Buffer.from([0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3]),
    leave: (socket) => socket.resetAndDestroy(),
  },
  { name: 'HTTP without TLS', clients: 200, open: openTcp, sent: WHOLE, leave: (socket) => socket.destroy() },
  { name: 'secure connections without a word', clients: 150, open: openTls, leave: (socket) => socket.end() },
  { name: 'half a head', clients: 100, open: openTls, sent: WHOLE.slice(0, 60), leave: (socket) => socket.destroy() },
  { name: 'half a body', clients: 100, open: openTls, sent: WHOLE.slice(0, -9), leave: (socket) => socket.destroy() },
  {
    name: 'megabytes of a body that never ends',
    clients: 8,
    open: openTls,
    sent: head(7 << 20) + ' '.repeat(6 << 20),
    leave: (socket) => socket.destroy(),
  },
  {
    name: 'answers that nobody reads',
    clients: 20,
    open: async (server) => (await openTls(server)).pause(),
    sent: head(LONG_NAME.length) + LONG_NAME,
    leave: (socket) => socket.destroy(),
  },
];

suite('clients that leave', () => {
  let server: TestServer;
  before(async () => {
    server = await startPodSecurity();
  });
  after(() => server.stop());

  for (const { name, clients, open, sent, leave } of NUISANCES) {
    test(name, async () => {
      const sockets = await Promise.all(Array.from({ length: clients }, () => open(server)));
      if (sent !== undefined) for (const socket of sockets) socket.write(sent);
      await sleep(50);
      await assertAnswers(server);
      for (const socket of sockets) leave(socket);
      await untilAlone(server);
      await assertAnswers(server);
    });
  }

  test('nothing of this is an error of ours', () => {
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
    // Buffers go after the objects that held them.
    for (let times = 0; times < 3; times++) {
      collect();
      await sleep(5);
    }
    const { heapUsed, external } = process.memoryUsage();
    return heapUsed + external;
  };
  const LENGTH = 100_000;
  const ROUNDS = 200;
  /** A text that no other round has. */
  const text = (round: number): string => `${round}`.padEnd(LENGTH, 'x');
  const reviewWith = (change: object): string => {
    const review = podReview({ namespace: 'restricted', spec: HARMLESS_POD });
    return JSON.stringify({ ...review, request: { ...review.request, ...change } });
  };
  const BODIES: readonly { readonly name: string; readonly body: (round: number) => string }[] = [
    { name: 'no reviews', body: (round) => `{"${text(round)}":` },
    { name: 'wrong envelopes', body: (round) => reviewWith({ uid: [text(round)] }) },
    { name: 'subresources that nobody knows', body: (round) => reviewWith({ requestSubResource: text(round) }) },
    {
      name: 'resources that nobody knows',
      body: (round) => reviewWith({ resource: { group: text(round), resource: 'r' } }),
    },
    { name: 'kinds that nobody knows', body: (round) => reviewWith({ object: { kind: text(round) } }) },
    { name: 'namespaces that do not exist', body: (round) => reviewWith({ namespace: `ns${text(round)}` }) },
    { name: 'patience of any length', body: () => REVIEW },
  ];

  for (const { name, body } of BODIES) {
    test(`nothing is kept of ${name}`, async (t) => {
      const server = await startPodSecurity();
      t.after(() => server.stop());
      const agent = new Agent({ keepAlive: true });
      const send = async (round: number): Promise<void> => {
        const patience = name.startsWith('patience') ? `?timeout=${text(round)}` : '';
        await post(server, PATH + patience, body(round), JSON_TYPE, agent);
        // The server of the test keeps what it logs.
        server.log.length = 0;
      };
      for (let round = 0; round < 20; round++) await send(round);
      const atFirst = await usedBytes();
      for (let round = 20; round < 20 + ROUNDS; round++) await send(round);
      const growth = (await usedBytes()) - atFirst;
      assert.ok(growth < (ROUNDS * LENGTH) / 4, `${Math.round(growth / 1024)} KiB more`);
      assert.ok((await server.counted.expose()).length < 50_000);
      agent.destroy();
    });
  }
});

test('a subresource that Kubernetes does not have is counted as another', async (t) => {
  const server = await startPodSecurity();
  t.after(() => server.stop());
  for (const requestSubResource of ['', 'ephemeralcontainers', 'resize', 'new', 'newer']) {
    const review = podReview({ namespace: 'restricted', spec: HARMLESS_POD });
    await post(
      server,
      PATH,
      JSON.stringify({ ...review, request: { ...review.request, requestSubResource } }),
      JSON_TYPE,
    );
  }
  const lines = (await server.counted.expose())
    .split('\n')
    .filter((line) => line.includes('policy_level="restricted"'));
  assert.deepEqual(
    lines.map((line) => line.replace(/^.*subresource="(\w*)".* (\d+)$/, '$1 $2')),
    [' 1', 'ephemeralcontainers 1', 'resize 1', 'other 2'],
  );
});

suite('the end', () => {
  interface Ending {
    readonly name: string;
    readonly open: (server: TestServer) => Promise<Socket>;
    readonly sent?: string;
    /** What comes back before the connection closes. */
    readonly received: RegExp;
  }
  const ENDINGS: readonly Ending[] = [
    { name: 'a connection without a word', open: openTcp, received: /^$/ },
    { name: 'a secure connection without a word', open: openTls, received: /^$/ },
    {
      name: 'a review under way',
      open: openTls,
      sent: WHOLE,
      received: /^HTTP\/1\.1 200 OK\r\n[^]*connection: close[^]*"allowed":true/i,
    },
  ];
  /** An answer that takes a while. */
  const decide = async (): Promise<Decision> => {
    await sleep(150);
    return allow();
  };

  for (const { name, open, sent, received } of ENDINGS) {
    test(`is soon, with ${name}`, async () => {
      const server = await startAdmissionServer([{ path: PATH, decide }]);
      const socket = await open(server);
      let text = '';
      socket.on('data', (data: Buffer) => (text += data.toString()));
      const closed = new Promise((resolve) => socket.once('close', resolve));
      if (sent !== undefined) socket.write(sent);
      await sleep(50);
      const startMs = performance.now();
      await drain(server, 0);
      assert.ok(performance.now() - startMs < 2000);
      await closed;
      assert.match(text, received);
    });
  }

  test('comes after the answer to a client that is still connecting', async () => {
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
