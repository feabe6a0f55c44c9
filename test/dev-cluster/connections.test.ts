/** Tests connections of clients that do not complete the TLS handshake. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect } from 'node:net';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { startEmptyCluster } from '../support/dev-cluster.ts';

test('the cluster can stop while connections are in the TLS handshake', { timeout: 10_000 }, async () => {
  const cluster = await startEmptyCluster();
  const sockets = ['', '\x16\x03\x01\x02'].map((bytes) => {
    const socket = connect(cluster.port, '127.0.0.1').on('error', () => undefined);
    if (bytes !== '') socket.write(bytes, 'latin1');
    return socket;
  });
  await Promise.all(sockets.map((socket) => once(socket, 'connect')));
  await sleep(50);
  const startMs = performance.now();
  await cluster.stop();
  assert.ok(performance.now() - startMs < 5000);
  for (const socket of sockets) socket.destroy();
});
