import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdir, mkdtemp, readFile, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { Agent, createServer, get, type Server } from 'node:https';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, test, type TestContext } from 'node:test';
import type { TLSSocket } from 'node:tls';
import type { KeyPair } from '../../src/tls/certificate-pair.ts';
import { readKeyPair, watchKeyPair, type KeyPairFiles } from '../../src/tls/files.ts';
import { protocolSettings } from '../../src/tls/protocol.ts';
import { createAuthority, createServing } from '../../src/tls/issue.ts';

const DAY_MS = 24 * 60 * 60 * 1000;
const NOW = new Date();
const NAMES = { dnsNames: ['localhost'], ipAddresses: ['127.0.0.1'] };
const AUTHORITY = createAuthority({ now: NOW, days: 3 });

const read = (file: string): Promise<string> => readFile(file, 'utf8');

function newPair(now = NOW): KeyPair {
  return createServing(AUTHORITY, NAMES, { now, days: 1 });
}

interface Watched {
  readonly folder: string;
  readonly files: KeyPairFiles;
  write(pair: Partial<KeyPair>): Promise<void>;
}

async function files(t: TestContext): Promise<Watched> {
  const folder = await mkdtemp(join(tmpdir(), 'portcullis-'));
  t.after(() => rm(folder, { recursive: true }));
  const [certFile, keyFile] = [join(folder, 'tls.crt'), join(folder, 'tls.key')];
  return {
    folder,
    files: { certFile, keyFile, read },
    async write({ cert, key }) {
      if (cert !== undefined) await writeFile(certFile, cert);
      if (key !== undefined) await writeFile(keyFile, key);
    },
  };
}

/** Follows the files every 5 ms; `next()` is the next thing that it tells. */
function follow(t: TestContext, given: KeyPairFiles & { current: KeyPair; now?: () => Date }) {
  const told: (KeyPair | Error)[] = [];
  let wake = (): void => undefined;
  const tell = (value: KeyPair | Error): void => {
    told.push(value);
    wake();
  };
  const stop = watchKeyPair({ now: () => NOW, ...given, intervalMs: 5, onReload: tell, onError: tell });
  t.after(stop);
  return {
    told,
    stop,
    async next(): Promise<KeyPair | Error> {
      while (told.length === 0) await new Promise<void>((resolve) => (wake = resolve));
      return told.shift() ?? assert.fail();
    },
  };
}

function messageOf(told: KeyPair | Error): string {
  assert.ok(told instanceof Error);
  return told.message;
}

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

describe('readKeyPair', () => {
  const good = newPair();
  const cases: readonly { name: string; pair: Partial<KeyPair>; now?: Date; message: RegExp }[] = [
    {
      name: 'no certificate file',
      pair: { key: good.key },
      message: /^ENOENT: no such file or directory, open '.*tls\.crt'$/,
    },
    { name: 'no certificate', pair: { ...good, cert: 'x' }, message: /^\S+tls\.crt contains no PEM certificate$/ },
    {
      name: 'no key',
      pair: { ...good, key: good.cert },
      message: /^\S+tls\.key contains no unencrypted PEM private key$/,
    },
    {
      name: 'the key of another certificate',
      pair: { ...good, key: newPair().key },
      message: /^the key in \S+tls\.key does not match the certificate in \S+tls\.crt$/,
    },
    {
      name: 'expired',
      pair: good,
      now: new Date(NOW.getTime() + 2 * DAY_MS),
      message: /^the certificate in \S+tls\.crt expired at \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/,
    },
    {
      name: 'not yet valid',
      pair: good,
      now: new Date(NOW.getTime() - DAY_MS),
      message: /^the certificate in \S+tls\.crt is not valid before \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/,
    },
    {
      name: 'a broken chain',
      pair: { ...good, cert: `${good.cert}-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n` },
      message: /^\S+tls\.crt cannot be served: .+$/,
    },
  ];
  for (const { name, pair, now = NOW, message } of cases) {
    test(`rejects: ${name}`, async (t) => {
      const watched = await files(t);
      await watched.write(pair);
      await assert.rejects(readKeyPair(watched.files, now), { message });
    });
  }

  test('reads a certificate with its chain', async (t) => {
    const watched = await files(t);
    const pair = { ...good, cert: good.cert + AUTHORITY.cert };
    await watched.write(pair);
    assert.deepEqual(await readKeyPair(watched.files, NOW), pair);
  });
});

describe('watchKeyPair', () => {
  test('tells of a new pair once, and of no other', async (t) => {
    const watched = await files(t);
    const [first, second] = [newPair(), newPair()];
    await watched.write(first);
    const watch = follow(t, { ...watched.files, current: first });
    await pause(30);
    assert.deepEqual(watch.told, []);
    await watched.write(second);
    assert.deepEqual(await watch.next(), second);
    await pause(30);
    assert.deepEqual(watch.told, []);
  });

  test('keeps the last good pair and tells why, once', async (t) => {
    const watched = await files(t);
    const [first, second] = [newPair(), newPair()];
    await watched.write(first);
    const watch = follow(t, { ...watched.files, current: first });
    await watched.write({ key: second.key });
    assert.match(
      messageOf(await watch.next()),
      /^the key in \S+tls\.key does not match the certificate in \S+tls\.crt$/,
    );
    await pause(30);
    assert.deepEqual(watch.told, []);
    await rm(watched.files.certFile);
    assert.match(messageOf(await watch.next()), /^ENOENT: no such file or directory/);
    await watched.write(second);
    assert.deepEqual(await watch.next(), second);
  });

  test('takes a certificate from the moment on in which it is valid', async (t) => {
    const watched = await files(t);
    const [first, later] = [newPair(), newPair(new Date(NOW.getTime() + 2 * DAY_MS))];
    let now = NOW;
    await watched.write(later);
    const watch = follow(t, { ...watched.files, current: first, now: () => now });
    assert.match(messageOf(await watch.next()), /is not valid before/);
    now = new Date(NOW.getTime() + 2 * DAY_MS);
    assert.deepEqual(await watch.next(), later);
  });

  test('follows a link that is swapped above the files', async (t) => {
    const { folder } = await files(t);
    const [first, second] = [newPair(), newPair()];
    for (const [name, pair] of Object.entries({ one: first, two: second })) {
      await mkdir(join(folder, name));
      await writeFile(join(folder, name, 'tls.crt'), pair.cert);
      await writeFile(join(folder, name, 'tls.key'), pair.key);
    }
    await symlink('one', join(folder, 'data'));
    const paths = { certFile: join(folder, 'data/tls.crt'), keyFile: join(folder, 'data/tls.key'), read };
    const watch = follow(t, { ...paths, current: first });
    await symlink('two', join(folder, 'data.new'));
    await rename(join(folder, 'data.new'), join(folder, 'data'));
    assert.deepEqual(await watch.next(), second);
  });

  test('is silent once stopped', async (t) => {
    const watched = await files(t);
    const first = newPair();
    await watched.write(first);
    const watch = follow(t, { ...watched.files, current: first });
    watch.stop();
    await watched.write(newPair());
    await pause(30);
    assert.deepEqual(watch.told, []);
  });
});

describe('a server', () => {
  async function listen(t: TestContext, pair: KeyPair): Promise<{ server: Server; port: number }> {
    const server = createServer({ ...pair, ...protocolSettings() }, (_request, response) => response.end('ok'));
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    t.after(() => {
      server.closeAllConnections();
      server.close();
    });
    return { server, port: (server.address() as AddressInfo).port };
  }

  /** Asks over a connection of the agent; returns the certificate that was shown on it and its local port. */
  async function ask(port: number, agent: Agent): Promise<{ cert: string; connection: number | undefined }> {
    const request = get({ port, host: '127.0.0.1', agent });
    const [response] = (await once(request, 'response')) as [AsyncIterable<Buffer>];
    const socket = request.socket as TLSSocket;
    const result = { cert: socket.getPeerX509Certificate()?.toString() ?? '', connection: socket.localPort };
    for await (const chunk of response) assert.equal(chunk.toString(), 'ok');
    return result;
  }

  test('rotates its certificate without dropping a connection', async (t) => {
    const watched = await files(t);
    const [first, second] = [newPair(), newPair()];
    await watched.write(first);
    const { server, port } = await listen(t, first);
    const [kept, fresh] = [1, 2].map(() => new Agent({ keepAlive: true, ca: AUTHORITY.cert }));
    assert.ok(kept && fresh);
    t.after(() => [kept, fresh].forEach((agent) => agent.destroy()));
    const before = await ask(port, kept);
    assert.equal(before.cert, first.cert);

    const reloaded = new Promise<void>((resolve) => {
      const stop = watchKeyPair({
        ...watched.files,
        current: first,
        now: () => NOW,
        intervalMs: 5,
        onReload(pair) {
          server.setSecureContext({ ...pair, ...protocolSettings() });
          resolve();
        },
        onError: (error) => assert.fail(error),
      });
      t.after(stop);
    });
    await watched.write(second);
    await reloaded;

    assert.equal((await ask(port, kept)).connection, before.connection);
    assert.equal((await ask(port, fresh)).cert, second.cert);
  });
});
