/**
 * Tests that API servers receive responses to their reviews while unknown clients exhaust the connections of a replica.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo, connect as connectTcp, type Server, type Socket } from 'node:net';
import { suite, test, type TestContext } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { connect, createSecureContext, type SecureContext } from 'node:tls';
import { allow } from '../../src/kube/admission.ts';
import { buildProbes } from '../../src/server/probes.ts';
import type { Webhook } from '../../src/server/webhook.ts';
import { startAdmissionServer, type TestServer } from '../support/admission-server.ts';
import { eventually } from '../support/eventually.ts';
import { podReview } from '../support/reviews.ts';

/** The connection limit of a replica, and a lower limit that requires fewer handshakes. */
const REPLICA_LIMIT = 1000;
const LIMIT = 100;
const API_SERVER = '127.0.0.1';
const [STRANGER = '', ...OTHER_STRANGERS] = Array.from({ length: 5 }, (_, index) => `127.0.0.${index + 2}`);
/** The first byte of a request. */
const ONE_BYTE = 'P';

const BODY = JSON.stringify(podReview({}));
const formatRequest = (path: string, body = BODY): string =>
  `POST ${path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`;
const REVIEW = formatRequest('/allow');

async function startServer(t: TestContext, maxConnections = LIMIT): Promise<TestServer> {
  const end = Promise.withResolvers<undefined>();
  const waiting: Webhook = { path: '/wait', decide: () => end.promise.then(() => allow()) };
  const webhooks = [{ path: '/allow', decide: () => allow() }, waiting];
  const server = await startAdmissionServer(webhooks, { maxConnections });
  t.after(async () => {
    end.resolve(undefined);
    server.app.server.closeAllConnections();
    await server.stop();
  });
  return server;
}

/** Using one context for many handshakes saves time. */
const contexts = new Map<string, SecureContext>();
function trust(ca: string): SecureContext {
  const context = contexts.get(ca) ?? createSecureContext({ ca });
  contexts.set(ca, context);
  return context;
}

/** Opens a connection. Rejects if the server closes it before the handshake is complete. */
function open({ port, ca }: TestServer, localAddress: string): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const tcp = connectTcp({ host: '127.0.0.1', port, localAddress });
    const socket = connect({ socket: tcp, host: '127.0.0.1', secureContext: trust(ca) }, () => resolve(socket));
    socket.once('close', () => reject(new Error('closed in the handshake')));
    for (const each of [tcp, socket]) each.on('error', () => socket.destroy());
  });
}

/** Sends a request. Resolves to the status of its response, `kept` or `closed` for the connection, and the decision. */
function send(socket: Socket, request: string): Promise<string> {
  return new Promise((resolve) => {
    if (socket.destroyed) resolve('closed before the request');
    socket.once('data', (data: Buffer) => {
      const [, status, connection, allowed] =
        /^HTTP\/1.1 (\d+) [^]*?\r\nconnection: ([\w-]+)[^]*?(?:"allowed":(\w+)|$)/i.exec(data.toString()) ?? [];
      resolve([status, connection === 'close' ? 'closed' : 'kept', allowed].filter(Boolean).join(' '));
    });
    socket.once('close', () => resolve('closed without a response'));
    socket.write(request);
  });
}

/** Opens connections and sends the same bytes on each. */
async function openMany(server: TestServer, address: string, count: number, sent: string): Promise<readonly Socket[]> {
  const sockets: Socket[] = [];
  for (let tried = 0; tried < count; tried += 50) {
    const length = Math.min(50, count - tried);
    const opened = await Promise.allSettled(Array.from({ length }, () => open(server, address)));
    // The server may already have closed some of the connections.
    const batch = opened.flatMap((result) => (result.status === 'fulfilled' ? [result.value] : []));
    for (const socket of batch) socket.write(sent);
    sockets.push(...batch);
  }
  return sockets;
}

/** Sends a review as an API server on a new connection. */
async function reviewOnNewConnection(server: TestServer): Promise<string> {
  try {
    const socket = await open(server, API_SERVER);
    const result = await send(socket, REVIEW);
    socket.destroy();
    return result;
  } catch (error) {
    return String(error);
  }
}

const ANSWERED = '200 kept true';

interface Attack {
  readonly name: string;
  /** Number of connections that each unknown client opens, and the bytes that it sends. */
  readonly strangers: readonly (readonly [address: string, connections: number, sent: string])[];
  readonly limit?: number;
  /** Expected state of an idle connection of the API server afterwards. */
  readonly idle?: string;
}

const DISPLACED = 'closed before the request';

const ATTACKS: readonly Attack[] = [
  { name: 'one byte on each', strangers: [[STRANGER, REPLICA_LIMIT, ONE_BYTE]], limit: REPLICA_LIMIT },
  {
    name: 'one byte on each, from five addresses',
    strangers: [STRANGER, ...OTHER_STRANGERS].map((address) => [address, LIMIT / 4, ONE_BYTE] as const),
  },
  { name: 'one byte on each, from the address of the API server', strangers: [[API_SERVER, LIMIT, ONE_BYTE]] },
  { name: 'unfinished bodies', strangers: [[STRANGER, LIMIT, REVIEW.slice(0, -1)]] },
  {
    name: 'unfinished bodies, from five addresses',
    strangers: [STRANGER, ...OTHER_STRANGERS].map((address) => [address, LIMIT / 4, REVIEW.slice(0, -1)] as const),
  },
  { name: 'valid reviews', strangers: [[STRANGER, LIMIT, REVIEW]] },
  { name: 'valid reviews that wait', strangers: [[STRANGER, LIMIT, formatRequest('/wait')]], idle: DISPLACED },
  {
    name: 'valid reviews, followed by more connections with one byte on each',
    strangers: [
      [STRANGER, LIMIT, REVIEW],
      [STRANGER, LIMIT / 4, ONE_BYTE],
    ],
  },
];

suite('API servers are served despite unauthenticated connections:', () => {
  for (const { name, strangers, limit = LIMIT, idle = ANSWERED } of ATTACKS) {
    test(`${limit} connections with ${name}`, async (t) => {
      const server = await startServer(t, limit);
      const early = await open(server, API_SERVER);
      assert.equal(await send(early, REVIEW), ANSWERED);
      const active = await open(server, API_SERVER);
      active.write(formatRequest('/wait'));
      for (const [address, connections, sent] of strangers) await openMany(server, address, connections, sent);
      // While the unknown clients stay connected, the API server uses 20 concurrent connections.
      const late = await Promise.all(Array.from({ length: 20 }, () => open(server, API_SERVER)));
      const results = await Promise.all(late.map((socket) => send(socket, REVIEW)));
      assert.deepEqual([...new Set(results)], [ANSWERED]);
      assert.equal(await send(early, REVIEW), idle);
      assert.equal(active.readyState, 'open');
    });
  }

  for (const [name, addresses, first] of [
    ['one address', [STRANGER], ONE_BYTE],
    ['four addresses', OTHER_STRANGERS, ONE_BYTE],
    ['four addresses after valid reviews', OTHER_STRANGERS, REVIEW],
  ] as const) {
    test(`connections that are opened continuously from ${name}`, async (t) => {
      const limit = 48;
      const server = await startServer(t, limit);
      const early = await open(server, API_SERVER);
      assert.equal(await send(early, REVIEW), ANSWERED);
      for (const address of addresses) await openMany(server, address, limit / addresses.length, first);
      let isDone = false;
      let opened = 0;
      const attacks = addresses.map(async (address) => {
        while (!isDone) opened += (await openMany(server, address, 8 / addresses.length, ONE_BYTE)).length;
      });
      const results: string[] = [];
      while (opened < limit * 2) results.push(await reviewOnNewConnection(server));
      isDone = true;
      await Promise.all(attacks);
      t.diagnostic(`${results.length} reviews, while unknown clients opened ${opened} connections`);
      assert.deepEqual([...new Set(results)], [ANSWERED]);
      assert.equal(await send(early, REVIEW), ANSWERED);
    });
  }
});

suite('the limit of connections', () => {
  test('is reported by the readiness check, by metrics and in one log line', async (t) => {
    const server = await startServer(t);
    assert.equal(server.connections.saturation(), undefined);
    await openMany(server, STRANGER, LIMIT / 2, ONE_BYTE);
    assert.equal(server.connections.saturation(), undefined);
    const sockets = await openMany(server, STRANGER, 3, ONE_BYTE);
    assert.equal(
      server.connections.saturation(),
      'at the limit: 50 of 100 connections are open, 50 of them without a valid review',
    );
    const socket = sockets.at(-1);
    assert.ok(socket);
    assert.equal(await send(socket, REVIEW.slice(1)), ANSWERED);
    const text = await server.metrics.expose();
    assert.deepEqual(text.match(/^portcullis_webhook_connections.*/gm), [
      'portcullis_webhook_connections{state="new"} 49',
      'portcullis_webhook_connections{state="idle"} 1',
      'portcullis_webhook_connections{state="busy"} 0',
      'portcullis_webhook_connections_displaced_total{state="new"} 3',
    ]);
    const lines = server.log.filter(({ logger }) => logger === 'connections');
    assert.deepEqual(
      lines.map(({ level, msg, remoteAddress, state, open: count, limit }) => [
        level,
        msg,
        remoteAddress,
        state,
        count,
        limit,
      ]),
      [[40, 'connection limit reached', STRANGER, 'new', 51, LIMIT]],
    );
  });
});

suite('before the first valid review,', () => {
  for (const [name, request, result] of [
    ['a malformed review', formatRequest('/allow', '{'), '400 closed'],
    ['a request for another path', formatRequest('/nothing'), '404 closed'],
    ['a request for a malformed path', formatRequest('/%'), '400 closed'],
    ['a request for the list of paths', 'GET / HTTP/1.1\r\nHost: x\r\n\r\n', '200 closed'],
  ] as const) {
    test(`the connection closes after the response to ${name}`, async (t) => {
      const server = await startServer(t);
      const socket = await open(server, STRANGER);
      assert.equal(await send(socket, request), result);
      const proven = await open(server, STRANGER);
      assert.equal(await send(proven, REVIEW), ANSWERED);
      assert.equal(await send(proven, request), result.replace('closed', 'kept'));
      assert.equal(await send(proven, REVIEW), ANSWERED);
    });
  }

  for (const [name, sent] of [
    ['no data', ''],
    ['only a part of the header', REVIEW.slice(0, 20)],
  ] as const) {
    test(`the connection closes after 15 seconds if the client has sent ${name}`, async (t) => {
      const server = await startServer(t);
      assert.equal(server.app.server.headersTimeout, 15_000);
      server.app.server.headersTimeout = 1500;
      const [proven, waiting, unfinished, socket] = await Promise.all(
        Array.from({ length: 4 }, () => open(server, STRANGER)),
      );
      assert.ok(proven && waiting && unfinished && socket);
      assert.equal(await send(proven, REVIEW), ANSWERED);
      waiting.write(formatRequest('/wait'));
      const answered = send(unfinished, REVIEW.slice(0, -1));
      socket.write(sent);
      socket.resume();
      await once(socket, 'close');
      assert.deepEqual([proven.readyState, waiting.readyState], ['open', 'open']);
      unfinished.write(REVIEW.slice(-1));
      assert.equal(await answered, ANSWERED);
    });
  }
});

test('a connection that sends its first review is not displaced by connections without a request', async (t) => {
  const server = await startServer(t);
  const socket = await open(server, API_SERVER);
  const result = send(socket, REVIEW.slice(0, -1));
  await sleep(50);
  for (const address of OTHER_STRANGERS) {
    await Promise.all(Array.from({ length: LIMIT }, async () => (await open(server, address)).write(ONE_BYTE)));
  }
  socket.write(REVIEW.slice(-1));
  assert.equal(await result, ANSWERED);
});

suite('kubelets are served despite unauthenticated connections to the probe port', () => {
  const PROBE = 'GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n';
  /** The connection limit of the port. One address can use half of the limit. */
  const PROBES_LIMIT = 50;

  for (const [name, addresses] of [
    ['one address', [STRANGER]],
    ['the address of the kubelet', [API_SERVER]],
    ['four addresses', OTHER_STRANGERS],
  ] as const) {
    test(`from ${name}`, async (t) => {
      const metrics = { expose: () => Promise.resolve(''), contentType: 'text/plain' };
      const app = buildProbes({ livez: [], readyz: [], metrics });
      t.after(() => app.close());
      await app.listen({ host: '127.0.0.1', port: 0 });
      const { port } = app.server.address() as AddressInfo;
      const openProbe = async (localAddress: string): Promise<Socket> => {
        const socket = connectTcp({ host: '127.0.0.1', port, localAddress }).on('error', () => socket.destroy());
        t.after(() => socket.destroy());
        await once(socket, 'connect');
        return socket;
      };
      for (let round = 0; round < 10; round++) {
        for (const address of addresses) {
          const sockets = await Promise.all(Array.from({ length: PROBES_LIMIT }, () => openProbe(address)));
          for (const socket of sockets) socket.write(ONE_BYTE);
        }
        assert.equal(await send(await openProbe(API_SERVER), PROBE), '200 kept');
      }
      const count = await new Promise<number>((resolve) => app.server.getConnections((_error, open) => resolve(open)));
      assert.ok(count <= PROBES_LIMIT, `${count} open connections`);
    });
  }
});

test('a connection closes if it sends a second request before the response to the first', async (t) => {
  const server = await startServer(t);
  const socket = await open(server, STRANGER);
  const result = send(socket, formatRequest('/wait').repeat(100));
  assert.equal(await result, 'closed without a response');
  assert.match(await server.metrics.expose(), /^portcullis_webhook_requests_in_flight 1$/m);
  const [{ msg, reason } = {}] = server.log;
  assert.deepEqual(
    [msg, reason],
    ['malformed review', 'the request arrived before the response to the previous request'],
  );
});

suite('thousands of requests that arrive at once on a connection are not processed', () => {
  const REQUESTS = 'GET / HTTP/1.1\r\nHost: x\r\n\r\n'.repeat(5000);

  /** Waits until the client's connection is closed. Returns the number of requests that the server created. */
  const countRequests = async (server: Server, connection: Socket): Promise<number> => {
    let count = 0;
    server.on('request', () => count++);
    connection.write(REQUESTS);
    connection.resume();
    // The unread requests may reset the connection.
    await new Promise((resolve) => connection.once('close', resolve));
    return count;
  };

  test('by the server for admission reviews', async (t) => {
    const server = await startServer(t);
    assert.equal(await countRequests(server.app.server, await open(server, STRANGER)), 2);
  });

  test('by the server for probes', async (t) => {
    const metrics = { expose: () => Promise.resolve(''), contentType: 'text/plain' };
    const app = buildProbes({ livez: [], readyz: [], metrics });
    t.after(() => app.close());
    await app.listen({ host: '127.0.0.1', port: 0 });
    const { port } = app.server.address() as AddressInfo;
    const connection = connectTcp({ host: '127.0.0.1', port }).on('error', () => undefined);
    assert.equal(await countRequests(app.server, connection), 2);
  });
});

test('a new connection is accepted after another one has closed', async (t) => {
  const server = await startServer(t);
  for (let round = 0; round < 3; round++) {
    const sockets = await openMany(server, STRANGER, LIMIT / 2, round === 1 ? REVIEW : ONE_BYTE);
    for (const socket of sockets) socket.destroy();
    await eventually(async () => {
      const text = await server.metrics.expose();
      assert.deepEqual(text.match(/(?<=^portcullis_webhook_connections\{.*\} )\d+/gm), ['0', '0', '0']);
    });
  }
  assert.equal(server.connections.saturation(), undefined);
});
