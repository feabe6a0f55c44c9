/** Certificate files: creation and renewal in a folder, reading, reloading. */
import assert from 'node:assert/strict';
import { createPrivateKey, X509Certificate } from 'node:crypto';
import { once } from 'node:events';
import { mkdir, mkdtemp, readdir, readFile, rename, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { Agent, createServer, get, type Server } from 'node:https';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, test, type TestContext } from 'node:test';
import type { TLSSocket } from 'node:tls';
import type { KeyPair } from '../../src/tls/certificate-pair.ts';
import {
  ensureCertificates,
  readKeyPair,
  watchKeyPair,
  type CertificateFolderOptions,
  type Certificates,
  type KeyPairFiles,
} from '../../src/tls/files.ts';
import { createAuthority, createServing } from '../../src/tls/issue.ts';
import { protocolSettings } from '../../src/tls/protocol.ts';

const DAY_MS = 24 * 60 * 60 * 1000;

/** Creates a folder for the time of a test. The removal retries because a stopped watcher may still read a file. */
async function createFolder(t: TestContext): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'portcullis-'));
  t.after(() => rm(folder, { recursive: true, force: true, maxRetries: 5 }));
  return folder;
}

const START = new Date('2026-11-20T12:00:00Z');
const ADMIN = { username: 'admin', groups: ['system:masters', 'ops, "and" more'] };

type FolderOptions = CertificateFolderOptions & { at(days: number): CertificateFolderOptions };

async function createOptions(t: TestContext): Promise<FolderOptions> {
  const folder = await createFolder(t);
  const base = {
    folder: join(folder, 'certs'),
    dnsNames: ['localhost', 'portcullis.portcullis.svc'],
    ipAddresses: ['127.0.0.1', '::1'],
    clients: new Map([['admin', ADMIN]]),
    now: () => START,
  };
  return { ...base, at: (days) => ({ ...base, now: () => new Date(START.getTime() + days * DAY_MS) }) };
}

/** Returns the names of the pairs that differ. */
function renewedPairs(before: Certificates, after: Certificates): string[] {
  const pairs: [string, string | undefined, string | undefined][] = [
    ['authority', before.authority.cert, after.authority.cert],
    ['serving', before.serving.cert, after.serving.cert],
    ['admin', before.clients.get('admin')?.cert, after.clients.get('admin')?.cert],
  ];
  return pairs.filter(([, old, now]) => old !== now).map(([name]) => name);
}

test('creates valid certificates', async (t) => {
  const { authority, serving, clients } = await ensureCertificates(await createOptions(t));
  const [ca, server, client] = [authority, serving, clients.get('admin')].map((pair) => {
    assert.ok(pair);
    const cert = new X509Certificate(pair.cert);
    assert.ok(cert.checkPrivateKey(createPrivateKey(pair.key)));
    return cert;
  });
  assert.ok(ca && server && client);
  assert.equal(ca.ca, true);
  for (const cert of [server, client]) {
    assert.equal(cert.ca, false);
    assert.ok(cert.checkIssued(ca) && cert.verify(ca.publicKey));
  }
  assert.equal(
    server.subjectAltName,
    'DNS:localhost, DNS:portcullis.portcullis.svc, IP Address:127.0.0.1, IP Address:0:0:0:0:0:0:0:1',
  );
  assert.deepEqual(server.keyUsage, ['1.3.6.1.5.5.7.3.1']);
  assert.deepEqual(client.keyUsage, ['1.3.6.1.5.5.7.3.2']);
  assert.deepEqual({ ...client.toLegacyObject().subject }, { O: ADMIN.groups, CN: 'admin' });
  assert.equal(server.validFromDate.toISOString(), '2026-11-20T11:00:00.000Z');
  assert.equal(server.validToDate.toISOString(), '2027-11-20T12:00:00.000Z');
  assert.notEqual(server.serialNumber, client.serialNumber);
});

test('writes keys that only the owner may read, and no other files', async (t) => {
  const options = await createOptions(t);
  await ensureCertificates(options);
  const names = (await readdir(options.folder)).sort();
  assert.deepEqual(names, ['admin.crt', 'admin.key', 'ca.crt', 'ca.key', 'tls.crt', 'tls.key']);
  const modes = await Promise.all(names.map(async (name) => (await stat(join(options.folder, name))).mode & 0o777));
  assert.deepEqual(
    modes.filter((_mode, index) => names[index]?.endsWith('.key')),
    [0o600, 0o600, 0o600],
  );
});

describe('renewal', () => {
  const cases: readonly {
    name: string;
    change?: (folder: string) => Promise<void>;
    options?: Partial<CertificateFolderOptions>;
    days?: number;
    expected: string[];
  }[] = [
    { name: 'certificates are valid', days: 300, expected: [] },
    { name: 'fewer names', options: { dnsNames: ['localhost'], ipAddresses: [] }, expected: [] },
    { name: 'one month before expiration', days: 336, expected: ['serving', 'admin'] },
    { name: 'expired', days: 4000, expected: ['authority', 'serving', 'admin'] },
    { name: 'not yet valid', days: -1, expected: ['authority', 'serving', 'admin'] },
    {
      name: 'another DNS name',
      options: { dnsNames: ['localhost', 'example.com'] },
      expected: ['serving'],
    },
    { name: 'another IP address', options: { ipAddresses: ['127.0.0.1', '10.0.0.1'] }, expected: ['serving'] },
    {
      name: 'another user',
      options: { clients: new Map([['admin', { username: 'admin', groups: [] }]]) },
      expected: ['admin'],
    },
    {
      name: 'invalid certificate',
      change: (folder) => writeFile(join(folder, 'tls.crt'), 'damaged'),
      expected: ['serving'],
    },
    {
      name: 'invalid key',
      change: (folder) => writeFile(join(folder, 'admin.key'), ''),
      expected: ['admin'],
    },
    {
      name: 'missing file',
      change: (folder) => rm(join(folder, 'tls.key')),
      expected: ['serving'],
    },
    {
      name: 'mismatched key and certificate',
      change: async (folder) => writeFile(join(folder, 'tls.key'), await readFile(join(folder, 'admin.key'))),
      expected: ['serving'],
    },
    {
      name: 'missing key of the authority',
      change: (folder) => rm(join(folder, 'ca.key')),
      expected: ['authority', 'serving', 'admin'],
    },
    {
      name: 'signed by another authority',
      change: async (folder) => {
        const validity = { now: START, days: 365 };
        const names = { dnsNames: ['localhost', 'portcullis.portcullis.svc'], ipAddresses: ['127.0.0.1', '::1'] };
        const pair = createServing(createAuthority(validity), names, validity);
        await writeFile(join(folder, 'tls.crt'), pair.cert);
        await writeFile(join(folder, 'tls.key'), pair.key);
      },
      expected: ['serving'],
    },
  ];
  for (const { name, change, options: changed, days = 0, expected } of cases) {
    test(name, async (t) => {
      const options = await createOptions(t);
      const before = await ensureCertificates(options);
      await change?.(options.folder);
      const after = await ensureCertificates({ ...options.at(days), ...changed });
      assert.deepEqual(renewedPairs(before, after), expected);
      assert.deepEqual(renewedPairs(after, await ensureCertificates({ ...options.at(days), ...changed })), []);
    });
  }
});

test('encodes times after 2049', () => {
  const authority = createAuthority({ now: new Date('2049-06-01T00:00:00Z'), days: 365 });
  assert.equal(new X509Certificate(authority.cert).validToDate.toISOString(), '2050-06-01T00:00:00.000Z');
});

test('rejects an invalid IP address', async (t) => {
  const options = await createOptions(t);
  await assert.rejects(ensureCertificates({ ...options, ipAddresses: ['localhost'] }), {
    name: 'RangeError',
    message: 'not an IP address: localhost',
  });
});

test('creates parent folders', async (t) => {
  const { folder, ...rest } = await createOptions(t);
  await ensureCertificates({ ...rest, folder: join(folder, 'a', 'b') });
  assert.ok((await stat(join(folder, 'a', 'b', 'ca.crt'))).isFile());
});

test('rejects if the folder cannot be created', { timeout: 10_000 }, async (t) => {
  const options = await createOptions(t);
  await assert.rejects(ensureCertificates({ ...options, folder: '/proc/portcullis/certs' }), /^Error: ENOENT: .*mkdir/);
  await writeFile(options.folder, '');
  await assert.rejects(ensureCertificates(options), /^Error: EEXIST: /);
  await assert.rejects(ensureCertificates({ ...options, folder: join(options.folder, 'x') }), /^Error: ENOTDIR: /);
});

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

async function createFiles(t: TestContext): Promise<Watched> {
  const folder = await createFolder(t);
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

/** Checks the files every 5 ms. `next()` resolves to the next reported pair or error. */
function watch(t: TestContext, given: KeyPairFiles & { current: KeyPair; now?: () => Date }) {
  const reported: (KeyPair | Error)[] = [];
  let wake = (): void => undefined;
  const report = (value: KeyPair | Error): void => {
    reported.push(value);
    wake();
  };
  const stop = watchKeyPair({ now: () => NOW, ...given, intervalMs: 5, onReload: report, onError: report });
  t.after(stop);
  return {
    reported,
    stop,
    async next(): Promise<KeyPair | Error> {
      while (reported.length === 0) await new Promise<void>((resolve) => (wake = resolve));
      return reported.shift() ?? assert.fail();
    },
  };
}

function getMessage(value: KeyPair | Error): string {
  assert.ok(value instanceof Error);
  return value.message;
}

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

describe('readKeyPair', () => {
  const valid = newPair();
  const cases: readonly { name: string; pair: Partial<KeyPair>; now?: Date; message: RegExp }[] = [
    {
      name: 'missing certificate file',
      pair: { key: valid.key },
      message: /^ENOENT: no such file or directory, open '.*tls\.crt'$/,
    },
    { name: 'no certificate', pair: { ...valid, cert: 'x' }, message: /^\S+tls\.crt contains no PEM certificate$/ },
    {
      name: 'no key',
      pair: { ...valid, key: valid.cert },
      message: /^\S+tls\.key contains no unencrypted PEM private key$/,
    },
    {
      name: 'the key of another certificate',
      pair: { ...valid, key: newPair().key },
      message: /^the key in \S+tls\.key does not match the certificate in \S+tls\.crt$/,
    },
    {
      name: 'expired',
      pair: valid,
      now: new Date(NOW.getTime() + 2 * DAY_MS),
      message: /^the certificate in \S+tls\.crt expired at \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/,
    },
    {
      name: 'not yet valid',
      pair: valid,
      now: new Date(NOW.getTime() - DAY_MS),
      message: /^the certificate in \S+tls\.crt is not valid before \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/,
    },
    {
      name: 'a broken chain',
      pair: { ...valid, cert: `${valid.cert}-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n` },
      message: /^\S+tls\.crt cannot be served: .+$/,
    },
  ];
  for (const { name, pair, now = NOW, message } of cases) {
    test(`rejects: ${name}`, async (t) => {
      const watched = await createFiles(t);
      await watched.write(pair);
      await assert.rejects(readKeyPair(watched.files, now), { message });
    });
  }

  test('reads a certificate with its chain', async (t) => {
    const watched = await createFiles(t);
    const pair = { ...valid, cert: valid.cert + AUTHORITY.cert };
    await watched.write(pair);
    assert.deepEqual(await readKeyPair(watched.files, NOW), pair);
  });
});

describe('watchKeyPair', () => {
  test('reports a new pair once', async (t) => {
    const watched = await createFiles(t);
    const [first, second] = [newPair(), newPair()];
    await watched.write(first);
    const watcher = watch(t, { ...watched.files, current: first });
    await pause(30);
    assert.deepEqual(watcher.reported, []);
    await watched.write(second);
    assert.deepEqual(await watcher.next(), second);
    await pause(30);
    assert.deepEqual(watcher.reported, []);
  });

  test('reports an error once and keeps the last valid pair', async (t) => {
    const watched = await createFiles(t);
    const [first, second] = [newPair(), newPair()];
    await watched.write(first);
    const watcher = watch(t, { ...watched.files, current: first });
    await watched.write({ key: second.key });
    assert.match(
      getMessage(await watcher.next()),
      /^the key in \S+tls\.key does not match the certificate in \S+tls\.crt$/,
    );
    await pause(30);
    assert.deepEqual(watcher.reported, []);
    await rm(watched.files.certFile);
    assert.match(getMessage(await watcher.next()), /^ENOENT: no such file or directory/);
    await watched.write(second);
    assert.deepEqual(await watcher.next(), second);
  });

  test('reports a certificate when it becomes valid', async (t) => {
    const watched = await createFiles(t);
    const [first, later] = [newPair(), newPair(new Date(NOW.getTime() + 2 * DAY_MS))];
    let now = NOW;
    await watched.write(later);
    const watcher = watch(t, { ...watched.files, current: first, now: () => now });
    assert.match(getMessage(await watcher.next()), /is not valid before/);
    now = new Date(NOW.getTime() + 2 * DAY_MS);
    assert.deepEqual(await watcher.next(), later);
  });

  test('follows a replaced symbolic link of the folder', async (t) => {
    const { folder } = await createFiles(t);
    const [first, second] = [newPair(), newPair()];
    for (const [name, pair] of Object.entries({ one: first, two: second })) {
      await mkdir(join(folder, name));
      await writeFile(join(folder, name, 'tls.crt'), pair.cert);
      await writeFile(join(folder, name, 'tls.key'), pair.key);
    }
    await symlink('one', join(folder, 'data'));
    const paths = { certFile: join(folder, 'data/tls.crt'), keyFile: join(folder, 'data/tls.key'), read };
    const watcher = watch(t, { ...paths, current: first });
    await symlink('two', join(folder, 'data.new'));
    await rename(join(folder, 'data.new'), join(folder, 'data'));
    assert.deepEqual(await watcher.next(), second);
  });

  test('reports nothing after stop()', async (t) => {
    const watched = await createFiles(t);
    const first = newPair();
    await watched.write(first);
    const watcher = watch(t, { ...watched.files, current: first });
    watcher.stop();
    await watched.write(newPair());
    await pause(30);
    assert.deepEqual(watcher.reported, []);
  });
});

describe('server', () => {
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

  /** Sends a request. Returns the certificate of the server and the local port of the connection. */
  async function send(port: number, agent: Agent): Promise<{ cert: string; localPort: number | undefined }> {
    const request = get({ port, host: '127.0.0.1', agent });
    const [response] = (await once(request, 'response')) as [AsyncIterable<Buffer>];
    const socket = request.socket as TLSSocket;
    const result = { cert: socket.getPeerX509Certificate()?.toString() ?? '', localPort: socket.localPort };
    for await (const chunk of response) assert.equal(chunk.toString(), 'ok');
    return result;
  }

  test('rotates its certificate without dropping a connection', async (t) => {
    const watched = await createFiles(t);
    const [first, second] = [newPair(), newPair()];
    await watched.write(first);
    const { server, port } = await listen(t, first);
    const [kept, fresh] = [1, 2].map(() => new Agent({ keepAlive: true, ca: AUTHORITY.cert }));
    assert.ok(kept && fresh);
    t.after(() => [kept, fresh].forEach((agent) => agent.destroy()));
    const before = await send(port, kept);
    assert.equal(before.cert, first.cert);

    const watcher = watch(t, { ...watched.files, current: first });
    await watched.write(second);
    // The watcher reports an error if it reads between the writes of the two files.
    let reported = await watcher.next();
    while (reported instanceof Error) reported = await watcher.next();
    watcher.stop();
    server.setSecureContext({ ...reported, ...protocolSettings() });

    assert.equal((await send(port, kept)).localPort, before.localPort);
    assert.equal((await send(port, fresh)).cert, second.cert);
  });
});
