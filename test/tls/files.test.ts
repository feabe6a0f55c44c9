import assert from 'node:assert/strict';
import { createPrivateKey, X509Certificate } from 'node:crypto';
import { copyFile, mkdtemp, readdir, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, test, type TestContext } from 'node:test';
import { type KeyPair, keyPairProblem } from '../../src/tls/certificate-pair.ts';
import { type CertificateFolderOptions, type Certificates, ensureCertificates } from '../../src/tls/files.ts';
import { createAuthority, createServing } from '../../src/tls/issue.ts';

const DAY_MS = 24 * 60 * 60 * 1000;

/**
 * Creates a folder for a test. The removal of the folder is retried, because a stopped watcher may still be reading a
 * file.
 */
async function createFolder(t: TestContext): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'portcullis-'));
  t.after(() => rm(folder, { recursive: true, force: true, maxRetries: 5 }));
  return folder;
}

const NAMES = { dnsNames: ['localhost', 'portcullis.portcullis.svc'], ipAddresses: ['127.0.0.1', '::1'] };
const START = new Date('2026-11-20T12:00:00Z');
const ADMIN = { username: 'admin', groups: ['system:masters', 'ops, "and" more'] };

type FolderOptions = CertificateFolderOptions & { at(days: number): CertificateFolderOptions };

async function createOptions(t: TestContext): Promise<FolderOptions> {
  const folder = await createFolder(t);
  const base = {
    folder: join(folder, 'certs'),
    ...NAMES,
    clients: new Map([['admin', ADMIN]]),
    now: () => START,
  };
  return { ...base, at: (days) => ({ ...base, now: () => new Date(START.getTime() + days * DAY_MS) }) };
}

/** Returns the names of the key pairs that differ. */
function renewedPairs(before: Certificates, after: Certificates): string[] {
  const pairs: [string, string | undefined, string | undefined][] = [
    ['authority', before.authority.cert, after.authority.cert],
    ['serving', before.serving.cert, after.serving.cert],
    ['admin', before.clients.get('admin')?.cert, after.clients.get('admin')?.cert],
  ];
  return pairs.filter(([, old, now]) => old !== now).map(([name]) => name);
}

test('ensureCertificates creates valid certificates', async (t) => {
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

test('certificates can contain every form of IPv6 address', () => {
  const validity = { now: START, days: 1 };
  const ipAddresses = ['::ffff:127.0.0.1', '2001:db8::192.0.2.33', '::2:3:4:5:6:7:8'];
  const { cert } = createServing(createAuthority(validity), { dnsNames: [], ipAddresses }, validity);
  const { subjectAltName = '' } = new X509Certificate(cert);
  assert.deepEqual(subjectAltName.split(', '), [
    'IP Address:0:0:0:0:0:FFFF:7F00:1',
    'IP Address:2001:DB8:0:0:0:0:C000:221',
    'IP Address:0:2:3:4:5:6:7:8',
  ]);
});

test('ensureCertificates writes private keys that only the owner can read, and no other files', async (t) => {
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

describe('ensureCertificates renews exactly the certificates that need it if', () => {
  const admin = (groups: readonly string[]) => new Map([['admin', { username: 'admin', groups }]]);
  const writeTo = (name: string, text: string) => (folder: string) => writeFile(join(folder, name), text);
  interface Change {
    readonly days?: number;
    readonly options?: Partial<CertificateFolderOptions>;
    change?(folder: string): Promise<void>;
  }
  const cases: readonly (readonly [name: string, given: Change, ...renewed: readonly string[]])[] = [
    ['all are valid', { days: 300 }],
    ['fewer names are required', { options: { dnsNames: ['localhost'], ipAddresses: [] } }],
    ['they expire in one month', { days: 336 }, 'serving', 'admin'],
    ['they have expired', { days: 4000 }, 'authority', 'serving', 'admin'],
    ['they are not yet valid', { days: -1 }, 'authority', 'serving', 'admin'],
    ['another DNS name is required', { options: { dnsNames: ['localhost', 'example.com'] } }, 'serving'],
    ['another IP address is required', { options: { ipAddresses: ['127.0.0.1', '10.0.0.1'] } }, 'serving'],
    ['another user is required', { options: { clients: admin([]) } }, 'admin'],
    ['a certificate is damaged', { change: writeTo('tls.crt', 'damaged') }, 'serving'],
    ['a key is damaged', { change: writeTo('admin.key', '') }, 'admin'],
    ['a file is missing', { change: (folder) => rm(join(folder, 'tls.key')) }, 'serving'],
    [
      'a key does not match its certificate',
      { change: (folder) => copyFile(join(folder, 'admin.key'), join(folder, 'tls.key')) },
      'serving',
    ],
    [
      'the key of the CA is missing',
      { change: (folder) => rm(join(folder, 'ca.key')) },
      'authority',
      'serving',
      'admin',
    ],
    [
      'another CA has signed one',
      {
        async change(folder) {
          const validity = { now: START, days: 365 };
          const pair = createServing(createAuthority(validity), NAMES, validity);
          await writeTo('tls.crt', pair.cert)(folder);
          await writeTo('tls.key', pair.key)(folder);
        },
      },
      'serving',
    ],
  ];
  for (const [name, { change, options: changed, days = 0 }, ...expected] of cases) {
    test(`${name}: ${expected.join(', ') || 'none'}`, async (t) => {
      const options = await createOptions(t);
      const before = await ensureCertificates(options);
      await change?.(options.folder);
      const after = await ensureCertificates({ ...options.at(days), ...changed });
      assert.deepEqual(renewedPairs(before, after), expected);
      assert.deepEqual(renewedPairs(after, await ensureCertificates({ ...options.at(days), ...changed })), []);
    });
  }
});

test('certificates can be valid until after 2049', () => {
  const authority = createAuthority({ now: new Date('2049-06-01T00:00:00Z'), days: 365 });
  assert.equal(new X509Certificate(authority.cert).validToDate.toISOString(), '2050-06-01T00:00:00.000Z');
});

test('ensureCertificates creates parent directories', async (t) => {
  const { folder, ...rest } = await createOptions(t);
  await ensureCertificates({ ...rest, folder: join(folder, 'a', 'b') });
  assert.ok((await stat(join(folder, 'a', 'b', 'ca.crt'))).isFile());
});

test('ensureCertificates rejects if the directory cannot be created', { timeout: 10_000 }, async (t) => {
  const options = await createOptions(t);
  await assert.rejects(ensureCertificates({ ...options, folder: '/proc/portcullis/certs' }), /^Error: ENOENT: .*mkdir/);
  await writeFile(options.folder, '');
  await assert.rejects(ensureCertificates(options), /^Error: EEXIST: /);
  await assert.rejects(ensureCertificates({ ...options, folder: join(options.folder, 'x') }), /^Error: ENOTDIR: /);
});

describe('keyPairProblem returns the problem of', () => {
  const authority = createAuthority({ now: START, days: 3 });
  const newPair = (): KeyPair => createServing(authority, NAMES, { now: START, days: 1 });
  const pair = newPair();
  const broken = `${pair.cert}-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n`;
  const cases: readonly (readonly [
    name: string,
    pair: Partial<KeyPair>,
    problem: string | undefined,
    days?: number,
  ])[] = [
    ['a certificate with its chain, which is valid', { cert: pair.cert + authority.cert }, undefined],
    ['a missing certificate', { cert: 'x' }, 'a.crt contains no PEM certificate'],
    ['a missing key', { key: pair.cert }, 'a.key contains no unencrypted PEM private key'],
    [
      'the key of another certificate',
      { key: newPair().key },
      'the key in a.key does not match the certificate in a.crt',
    ],
    ['an expired certificate', {}, 'the certificate in a.crt expired at 2026-11-21T12:00:00Z', 2],
    [
      'a certificate that is not yet valid',
      {},
      'the certificate in a.crt is not valid before 2026-11-20T11:00:00Z',
      -1,
    ],
    ['a certificate with a broken chain', { cert: broken }, 'a.crt cannot be served: error:'],
  ];
  for (const [name, changed, problem, days = 0] of cases) {
    test(name, () => {
      const now = new Date(START.getTime() + days * DAY_MS);
      const found = keyPairProblem({ ...pair, ...changed }, { cert: 'a.crt', key: 'a.key' }, now);
      assert.equal(found?.replace(/(?<=error:).*/, ''), problem);
    });
  }
});
