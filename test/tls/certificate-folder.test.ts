import assert from 'node:assert/strict';
import { createPrivateKey, X509Certificate } from 'node:crypto';
import { chmod, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, test, type TestContext } from 'node:test';
import { ensureCertificates, type CertificateFolderOptions, type Certificates } from '../../src/tls/files.ts';
import { createAuthority, createServing } from '../../src/tls/issue.ts';

const DAY_MS = 24 * 60 * 60 * 1000;
const START = new Date('2026-11-20T12:00:00Z');
const ADMIN = { username: 'admin', groups: ['system:masters', 'ops, "and" more'] };

async function options(
  t: TestContext,
): Promise<CertificateFolderOptions & { at(days: number): CertificateFolderOptions }> {
  const folder = await mkdtemp(join(tmpdir(), 'portcullis-'));
  t.after(() => rm(folder, { recursive: true }));
  const base = {
    folder: join(folder, 'certs'),
    dnsNames: ['localhost', 'portcullis.portcullis.svc'],
    ipAddresses: ['127.0.0.1', '::1'],
    clients: new Map([['admin', ADMIN]]),
    now: () => START,
  };
  return { ...base, at: (days) => ({ ...base, now: () => new Date(START.getTime() + days * DAY_MS) }) };
}

/** Which of the pairs are other ones than before. */
function renewed(before: Certificates, after: Certificates): string[] {
  const pairs: [string, string | undefined, string | undefined][] = [
    ['authority', before.authority.cert, after.authority.cert],
    ['serving', before.serving.cert, after.serving.cert],
    ['admin', before.clients.get('admin')?.cert, after.clients.get('admin')?.cert],
  ];
  return pairs.filter(([, old, now]) => old !== now).map(([name]) => name);
}

test('what is made can be used', async (t) => {
  const { authority, serving, clients } = await ensureCertificates(await options(t));
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

test('keys are for their owner, and nothing else is left in the folder', async (t) => {
  const given = await options(t);
  await ensureCertificates(given);
  const names = (await readdir(given.folder)).sort();
  assert.deepEqual(names, ['admin.crt', 'admin.key', 'ca.crt', 'ca.key', 'tls.crt', 'tls.key']);
  const modes = await Promise.all(names.map(async (name) => (await stat(join(given.folder, name))).mode & 0o777));
  assert.deepEqual(
    modes.filter((_mode, index) => names[index]?.endsWith('.key')),
    [0o600, 0o600, 0o600],
  );
});

describe('pairs are renewed', () => {
  const cases: readonly {
    name: string;
    change?: (folder: string) => Promise<void>;
    options?: Partial<CertificateFolderOptions>;
    days?: number;
    expected: string[];
  }[] = [
    { name: 'not while they are good', days: 300, expected: [] },
    { name: 'not for fewer names', options: { dnsNames: ['localhost'], ipAddresses: [] }, expected: [] },
    { name: 'a month before they expire', days: 336, expected: ['serving', 'admin'] },
    { name: 'when they have expired', days: 4000, expected: ['authority', 'serving', 'admin'] },
    { name: 'when they are not valid yet', days: -1, expected: ['authority', 'serving', 'admin'] },
    {
      name: 'for another DNS name',
      options: { dnsNames: ['localhost', 'example.com'] },
      expected: ['serving'],
    },
    { name: 'for another address', options: { ipAddresses: ['127.0.0.1', '10.0.0.1'] }, expected: ['serving'] },
    {
      name: 'for another user',
      options: { clients: new Map([['admin', { username: 'admin', groups: [] }]]) },
      expected: ['admin'],
    },
    {
      name: 'when the certificate is damaged',
      change: (folder) => writeFile(join(folder, 'tls.crt'), 'damaged'),
      expected: ['serving'],
    },
    {
      name: 'when the key is damaged',
      change: (folder) => writeFile(join(folder, 'admin.key'), ''),
      expected: ['admin'],
    },
    {
      name: 'when a file is missing',
      change: (folder) => rm(join(folder, 'tls.key')),
      expected: ['serving'],
    },
    {
      name: 'when key and certificate do not belong together',
      change: async (folder) => writeFile(join(folder, 'tls.key'), await readFile(join(folder, 'admin.key'))),
      expected: ['serving'],
    },
    {
      name: 'with the authority',
      change: (folder) => rm(join(folder, 'ca.key')),
      expected: ['authority', 'serving', 'admin'],
    },
    {
      name: 'when another authority signed them',
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
  for (const { name, change, options: other, days = 0, expected } of cases) {
    test(name, async (t) => {
      const given = await options(t);
      const before = await ensureCertificates(given);
      await change?.(given.folder);
      const after = await ensureCertificates({ ...given.at(days), ...other });
      assert.deepEqual(renewed(before, after), expected);
      assert.deepEqual(renewed(after, await ensureCertificates({ ...given.at(days), ...other })), []);
    });
  }
});

test('a time beyond 2049 is written in full', () => {
  const authority = createAuthority({ now: new Date('2049-06-01T00:00:00Z'), days: 365 });
  assert.equal(new X509Certificate(authority.cert).validToDate.toISOString(), '2050-06-01T00:00:00.000Z');
});

test('an address that is none is refused', async (t) => {
  const given = await options(t);
  await assert.rejects(ensureCertificates({ ...given, ipAddresses: ['localhost'] }), {
    name: 'RangeError',
    message: 'not an IP address: localhost',
  });
});

test('a folder that cannot be written is an error', async (t) => {
  const given = await options(t);
  await writeFile(given.folder, 'a file');
  await chmod(given.folder, 0o400);
  await assert.rejects(ensureCertificates(given), { code: 'EEXIST' });
});

test('a folder within folders that do not exist yet', async (t) => {
  const { folder, ...rest } = await options(t);
  await ensureCertificates({ ...rest, folder: join(folder, 'a', 'b') });
  assert.ok((await stat(join(folder, 'a', 'b', 'ca.crt'))).isFile());
});

test('a folder that cannot be made', { timeout: 10_000 }, async (t) => {
  const given = await options(t);
  await assert.rejects(ensureCertificates({ ...given, folder: '/proc/portcullis/certs' }), /^Error: ENOENT: .*mkdir/);
  await writeFile(given.folder, '');
  await assert.rejects(ensureCertificates(given), /^Error: EEXIST: /);
  await assert.rejects(ensureCertificates({ ...given, folder: join(given.folder, 'x') }), /^Error: ENOTDIR: /);
});
