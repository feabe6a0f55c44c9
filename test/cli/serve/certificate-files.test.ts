/** Files of certificates and of authorities: what is wrong with them is said, and nobody waits for a pipe. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync } from 'node:fs';
import { rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, suite, test } from 'node:test';
import {
  certificateFiles,
  loadCertificate,
  clientAuthentication,
  followClientAuthorities,
  loadClientAuthorities,
} from '../../../src/cli/commands/serve.ts';
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

suite('files of certificates', () => {
  const cases: readonly {
    readonly name: string;
    readonly given: Readonly<Record<string, string>>;
    readonly message: string | RegExp;
  }[] = [
    {
      name: 'half of a pair',
      given: { 'tls-cert-file': 'x' },
      message: '--tls-cert-file and --tls-private-key-file go together: give both, or neither',
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
      name: 'no authorities of clients',
      given: { 'client-ca-file': '/nowhere/ca.crt' },
      message: 'cannot read /nowhere/ca.crt: there is no such file',
    },
    {
      name: 'authorities in a pipe',
      given: { 'client-ca-file': pipe },
      message: `cannot read ${pipe}: it is not a regular file`,
    },
    {
      name: 'authorities that are none',
      given: { 'client-ca-file': import.meta.filename },
      message: `${import.meta.filename} contains no PEM certificate`,
    },
    {
      name: 'names of clients who need show no certificate',
      given: { 'client-allowed-names': 'api' },
      message: '--client-allowed-names needs --client-ca-file: without it nobody shows a client certificate',
    },
    {
      name: 'a name that is none',
      given: { 'tls-extra-names': 'localhost,no name' },
      message:
        /^invalid argument "localhost,no name" for "--tls-extra-names" flag: "no name" is neither a DNS name nor an address: /,
    },
  ];
  for (const { name, given, message } of cases) {
    test(name, async () => {
      const load = async (): Promise<void> => {
        const values = valuesOf(given);
        const files = certificateFiles(values);
        if (files) await loadCertificate(files);
        await loadClientAuthorities(values);
      };
      await assert.rejects(load, { name: 'UserError', message });
    });
  }

  test('nobody is asked for a client certificate if there are no authorities', async () => {
    const values = valuesOf({});
    assert.equal(await loadClientAuthorities(values), undefined);
    assert.equal(clientAuthentication(values), undefined);
  });

  test('authorities of clients are followed', async () => {
    const file = join(folder, 'clients.crt');
    await writeFile(file, authority.cert);
    const initial = await loadClientAuthorities(valuesOf({ 'client-ca-file': file }));
    assert.ok(initial);
    const { logger, log } = createRecorder();
    const told: string[] = [];
    const stopping = new AbortController();
    const onChange = (authorities: string): void => void told.push(authorities);
    followClientAuthorities({ initial, logger, signal: stopping.signal, onChange });
    await writeFile(file, 'nonsense');
    await eventually(() => assert.ok(log.length > 0));
    assert.equal(log[0]?.['msg'], 'authorities of clients not loaded, the last good ones stay');
    assert.equal(log[0]['reason'], `${file} contains no PEM certificate`);
    const other = createAuthority({ now: new Date(), days: 1 }).cert;
    await writeFile(file, other);
    await eventually(() => assert.ok(told.length > 0));
    assert.deepEqual(told, [other]);
    stopping.abort();
  });
});
