/** How the cluster parts from clients that do not play along. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, get, type ServerResponse } from 'node:http';
import { connect, type AddressInfo } from 'node:net';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import type { WatchEvent } from '../../../src/dev-cluster/core.ts';
import { streamEvents } from '../../../src/dev-cluster/http/watch-stream.ts';
import { startEmptyCluster } from '../../support/dev-cluster.ts';
import { resource } from '../admission/support.ts';

test('a connection without a handshake does not keep the cluster from ending', { timeout: 10_000 }, async () => {
  const cluster = await startEmptyCluster();
  const sockets = ['', '\x16\x03\x01\x02'].map((said) => {
    const socket = connect(cluster.port, '127.0.0.1').on('error', () => undefined);
    if (said !== '') socket.write(said, 'latin1');
    return socket;
  });
  await Promise.all(sockets.map((socket) => once(socket, 'connect')));
  await sleep(50);
  const startMs = performance.now();
  await cluster.stop();
  assert.ok(performance.now() - startMs < 5000);
  for (const socket of sockets) socket.destroy();
});

test('a watch that is read slowly leaves nothing behind', { timeout: 20_000 }, async () => {
  const EVENTS = 60;
  const info = resource('configmaps');
  const data = { text: 'x'.repeat(200_000) };
  async function* events(): AsyncGenerator<WatchEvent> {
    for (let index = 0; index < EVENTS; index++) {
      await Promise.resolve();
      yield { type: 'ADDED', object: { metadata: { name: `m${index}`, namespace: 'a' }, data } };
    }
  }
  const listeners: number[] = [];
  const count = (response: ServerResponse): number => response.listenerCount('close') + response.listenerCount('drain');
  const server = createServer((_request, response) => {
    const before = count(response);
    const options = { includeObject: 'Metadata' as const, now: new Date(), clock: () => new Date() };
    const watch = { kind: 'watch' as const, info, events: events() };
    void streamEvents(response, watch, 'plain', options).then(() => listeners.push(count(response) - before));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const [response] = (await once(get({ host: '127.0.0.1', port }), 'response')) as [NodeJS.ReadableStream];
  let length = 0;
  for await (const chunk of response) {
    length += Buffer.byteLength(chunk);
    await sleep(1);
  }
  server.close();
  assert.ok(length > EVENTS * 200_000);
  assert.deepEqual(listeners, [0]);
});
