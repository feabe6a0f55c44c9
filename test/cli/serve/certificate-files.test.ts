/** Certificate files: errors are reported, and special files are not opened. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync } from 'node:fs';
import { rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, suite, test } from 'node:test';
import { readCertificateFiles, watchCertificateFiles } from '../../../src/cli/serve/certificates.ts';
import { serveOptions, type ServeValues } from '../../../src/cli/serve/options.ts';
import { resolveValues } from '../../../src/cli/options.ts';
import { createAuthority } from '../../../src/tls/issue.ts';
import { createRecorder } from '../../support/controllers.ts';
import { eventually } from '../../support/eventually.ts';

const folder = mkdtempSync(join(tmpdir(), 'portcullis-files-'));
after(() => rm(folder, { recursive: true }));
const pipe = join(folder, 'pipe');
execFileSync('mkfifo', [pipe]);
const authority = createAuthority({ now: new Date(), days: 1 });

function valuesOf(given: Readonly<Record<string, string>>): ServeValues {
  return resolveValues(serveOptions, {
    typed: new Map(Object.entries(given).map(([name, text]) => [name, [text]])),
    env: {},
  });
}

suite('certificate files', () => {
  const cases: readonly {
    readonly name: string;
    readonly given: Readonly<Record<string, string>>;
    readonly message: string | RegExp;
  }[] = [
    {
      name: 'a certificate without its key',
      given: { 'tls-cert-file': 'x' },
      message: '--tls-cert-file and --tls-private-key-file must be used together',
    },
    {
      name: 'a pipe',
      given: { 'tls-cert-file': pipe, 'tls-private-key-file': pipe },
      message: `cannot read ${pipe}: it is not a regular file`,
    },
    {
      name: 'a folder',
      given: { 'tls-cert-file': folder, 'tls-private-key-file': folder },
      message: `cannot read ${folder}: it is a folder`,
    },
    {
      name: 'a missing client CA file',
      given: { 'client-ca-file': '/nowhere/ca.crt' },
      message: 'cannot read /nowhere/ca.crt: there is no such file',
    },
    {
      name: 'client CAs in a pipe',
      given: { 'client-ca-file': pipe },
      message: `cannot read ${pipe}: it is not a regular file`,
    },
    {
      name: 'client CAs without a certificate',
      given: { 'client-ca-file': import.meta.filename },
      message: `${import.meta.filename} contains no PEM certificate`,
    },
    {
      name: 'allowed names without client CAs',
      given: { 'client-allowed-names': 'api' },
      message: '--client-allowed-names requires --client-ca-file',
    },
    {
      name: 'an invalid name',
      given: { 'tls-extra-names': 'localhost,no name' },
      message:
        /^invalid argument "localhost,no name" for "--tls-extra-names" flag: "no name" is not a DNS name or an address: /,
    },
  ];
  for (const { name, given, message } of cases) {
    test(name, async () => {
      const load = async (): Promise<void> => {
        await readCertificateFiles(valuesOf(given));
      };
      await assert.rejects(load, { name: 'UserError', message });
    });
  }

  test('client CAs are reloaded', async () => {
    const file = join(folder, 'clients.crt');
    await writeFile(file, authority.cert);
    const files = await readCertificateFiles(valuesOf({ 'client-ca-file': file }));
    const { logger, log } = createRecorder();
    const loaded: string[] = [];
    const stopping = new AbortController();
    const unused = (): void => assert.fail('there is no serving certificate');
    const certificate = { use: unused, trustClients: (authorities: string) => void loaded.push(authorities) };
    watchCertificateFiles(files, { certificate, logger, signal: stopping.signal, onServingCertificate: unused });
    await writeFile(file, 'nonsense');
    await eventually(() => assert.ok(log.length > 0));
    assert.equal(log[0]?.['msg'], 'cannot load the client CAs; keeping the previous ones');
    assert.equal(log[0]['reason'], `${file} contains no PEM certificate`);
    const other = createAuthority({ now: new Date(), days: 1 }).cert;
    await writeFile(file, other);
    await eventually(() => assert.ok(loaded.length > 0));
    assert.deepEqual(loaded, [other]);
    stopping.abort();
  });
});
