import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync } from 'node:fs';
import { rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, suite, test } from 'node:test';
import type { WebhookConfiguration } from '../../src/api/webhooks.ts';
import { resolveValues } from '../../src/cli/options.ts';
import { serveOptions, type ServeValues } from '../../src/cli/serve-options.ts';
import {
  createServedCertificate,
  readCertificateFiles,
  serverNames,
  trustCheck,
  watchCertificateFiles,
} from '../../src/cli/serve/certificates.ts';
import { createStore } from '../../src/cluster/store.ts';
import { draft } from '../../src/kube/types.ts';
import { createAuthority, createServing } from '../../src/tls/issue.ts';
import { protocolSettings } from '../../src/tls/protocol.ts';
import { configuration, SERVICE, START_DATE } from '../support/certificates.ts';
import { createRecorder } from '../support/controllers.ts';
import { eventually } from '../support/eventually.ts';

const folder = mkdtempSync(join(tmpdir(), 'portcullis-files-'));
after(() => rm(folder, { recursive: true }));
const pipe = join(folder, 'pipe');
execFileSync('mkfifo', [pipe]);
const authority = createAuthority({ now: new Date(), days: 1 });

function getValues(given: Readonly<Record<string, string>>): ServeValues {
  return resolveValues(serveOptions, {
    typed: new Map(Object.entries(given).map(([name, text]) => [name, [text]])),
    env: {},
  });
}

suite('the certificate files of serve', () => {
  const cases: readonly Readonly<Record<string, string>>[] = [
    { 'tls-cert-file': pipe, 'tls-private-key-file': pipe },
    { 'client-ca-file': pipe },
  ];
  for (const given of cases) {
    test(`are rejected if they include a pipe: ${Object.keys(given).join(', ')}`, async () => {
      const message = `cannot read ${pipe}: it is not a regular file`;
      await assert.rejects(readCertificateFiles(getValues(given)), { name: 'UserError', message });
    });
  }

  test('are reloaded when the client CA file changes', async () => {
    const file = join(folder, 'clients.crt');
    await writeFile(file, authority.cert);
    const files = await readCertificateFiles(getValues({ 'client-ca-file': file }));
    const { logger, log } = createRecorder();
    const loaded: string[] = [];
    const stopping = new AbortController();
    const unused = (): void => assert.fail('there is no serving certificate');
    const certificate = { use: unused, trustClients: (authorities: string) => void loaded.push(authorities) };
    watchCertificateFiles(files, { certificate, logger, signal: stopping.signal });
    await writeFile(file, 'nonsense');
    await eventually(() => assert.ok(log.length > 0));
    assert.equal(log[0]?.['msg'], 'failed to load the client CAs, keeping the previous ones');
    assert.equal(log[0]['reason'], `${file} contains no PEM certificate`);
    const other = createAuthority({ now: new Date(), days: 1 }).cert;
    await writeFile(file, other);
    await eventually(() => assert.ok(loaded.length > 0));
    assert.deepEqual(loaded, [other]);
    stopping.abort();
  });
});

const DAY_MS = 24 * 60 * 60 * 1000;
const validity = { now: START_DATE, days: 7 };
const signer = createAuthority(validity);
const other = createAuthority(validity);
const names = serverNames(SERVICE, ['x.example', '10.0.0.1', 'localhost']);
const pair = createServing(signer, names, validity);

function changed(
  change: (configuration: ReturnType<typeof draft<WebhookConfiguration>>) => void,
  caBundle?: string,
): WebhookConfiguration {
  const made = draft(configuration('portcullis.dev', ['validate.pods.portcullis.dev'], caBundle));
  change(made);
  return made;
}
const bundle = btoa(signer.cert);
const keep = (): void => undefined;
/** Returns a configuration whose second webhook is advisory and has no caBundle. */
const withoutAdvice = (policies: readonly ('Fail' | 'Ignore')[]): WebhookConfiguration => {
  const made = draft(
    configuration('portcullis.dev', ['validate.pods.portcullis.dev', 'workloads.portcullis.dev'], bundle),
  );
  made.webhooks?.forEach((webhook, index) => (webhook.failurePolicy = policies[index] ?? 'Fail'));
  delete made.webhooks?.[1]?.clientConfig.caBundle;
  return made;
};
const calling = (clientConfig: { url: string; caBundle: string } | { service: { namespace: string; name: string } }) =>
  changed(({ webhooks = [] }) => {
    for (const webhook of webhooks) webhook.clientConfig = clientConfig;
  });
const byUrl = (url: string) => calling({ url, caBundle: bundle });

suite('the serving-certificate check reports untrusted webhooks:', () => {
  const setMetadata = (metadata: object) =>
    changed((configuration) => {
      configuration.metadata = { ...configuration.metadata, ...metadata };
    });
  const trusted = changed(keep, bundle);
  const EMPTY = 'validate.pods.portcullis.dev: caBundle is still empty';
  const UNSIGNED = 'the serving certificate is not signed by a valid CA in caBundle';
  const expired = new Date(START_DATE.getTime() + 8 * DAY_MS);
  const AUTOMATIC = { annotations: { 'cert-manager.io/inject-ca-from': 'portcullis/portcullis' } };

  /** The expected problem, and the logged webhook that does not affect readiness. */
  interface Expected {
    readonly problem?: string;
    readonly logged?: string;
  }
  const cases: readonly (readonly [name: string, webhooks: WebhookConfiguration[], expected: Expected, now?: Date])[] =
    [
      ['no configuration', [], {}],
      ['a trusted configuration', [trusted], {}],
      ['an empty caBundle', [changed(keep)], { problem: EMPTY }],
      ['an empty caBundle that cert-manager has not filled yet', [setMetadata(AUTOMATIC)], { problem: EMPTY }],
      [
        'an empty caBundle without CA injection, because API servers may use their system roots',
        [setMetadata({ annotations: {} })],
        {},
      ],
      [
        'the caBundle of another CA',
        [changed(keep, btoa(other.cert))],
        { problem: `validate.pods.portcullis.dev: ${UNSIGNED}` },
      ],
      [
        'several untrusted webhooks',
        [configuration('portcullis.dev', ['validate.pods.portcullis.dev', 'one', 'two'])],
        { problem: `${EMPTY} (and 2 more)` },
      ],
      [
        'an untrusted webhook that fails open, among webhooks that fail closed',
        [withoutAdvice(['Fail', 'Ignore'])],
        { logged: 'workloads.portcullis.dev in portcullis.dev: caBundle is still empty' },
      ],
      [
        'an untrusted webhook among webhooks that fail open',
        [withoutAdvice(['Ignore', 'Ignore'])],
        { problem: 'workloads.portcullis.dev: caBundle is still empty' },
      ],
      [
        'an untrusted copy under another name',
        [trusted, configuration('copy-of-portcullis', ['validate.pods.portcullis.dev'])],
        { logged: 'validate.pods.portcullis.dev in copy-of-portcullis: caBundle is still empty' },
      ],
      [
        'an untrusted configuration of the other kind with an installed name',
        [trusted, configuration('zz.portcullis.dev', ['a.example'], btoa(other.cert))],
        { logged: `a.example in zz.portcullis.dev: ${UNSIGNED}` },
      ],
      ['a configuration without the Portcullis label', [setMetadata({ labels: {} })], {}],
      ['another Service', [calling({ service: { namespace: 'other', name: SERVICE.name } })], {}],
      ['a trusted URL', [byUrl('https://127.0.0.1:8443/validate/pods'), byUrl('https://[::1]/')], {}],
      [
        'a URL with another name',
        [byUrl('https://y.example/')],
        { problem: 'validate.pods.portcullis.dev: the serving certificate is not valid for y.example' },
      ],
      [
        'an expired certificate',
        [trusted],
        { problem: 'validate.pods.portcullis.dev: the serving certificate expired at 2026-01-08T00:00:00Z' },
        expired,
      ],
    ];
  for (const [name, configurations, { problem, logged }, now = START_DATE] of cases) {
    test(`${name}: ${problem ? 'not ready' : logged ? 'ready, with a log line' : 'ready'}`, async () => {
      const store = createStore();
      for (const one of configurations) store.put('ValidatingWebhookConfiguration', one);
      const { metrics, logger, log } = createRecorder();
      const served = { current: () => pair, isTemporary: () => false, use: keep };
      const check = trustCheck({ store, served, service: SERVICE, logger, metrics, date: () => now });
      assert.equal(check.check(), problem);
      const { values } = await metrics.certificates.trusted.get();
      assert.equal(values[0]?.value, problem === undefined ? 1 : 0);
      const distrusting = await metrics.certificates.distrusting.get();
      assert.equal(distrusting.values[0]?.value, logged === undefined ? 0 : 1);
      store.put('ValidatingWebhookConfiguration', configuration('of-others', []));
      check.check();
      const message = 'webhooks that do not affect readiness do not trust the serving certificate';
      assert.deepEqual(
        log.map(({ msg, webhooks }) => [msg, webhooks]),
        logged === undefined ? [] : [[message, [logged]]],
      );
    });
  }

  test('the check is repeated after changes and over time', async () => {
    const store = createStore();
    const { metrics, logger } = createRecorder();
    const options = { pair, isTemporary: true, protocol: protocolSettings(), clientAuthorities: undefined } as const;
    const served = createServedCertificate({ ...options, logger, metrics });
    let now = START_DATE;
    const check = trustCheck({ store, served, service: SERVICE, logger, metrics, date: () => now });
    const put = (caBundle: string): void =>
      store.put('ValidatingWebhookConfiguration', configuration('portcullis.dev', ['a'], caBundle));
    assert.equal(check.check(), undefined);
    put(btoa(other.cert));
    assert.match(check.check() ?? '', /not signed/);
    served.use(createServing(other, names, validity));
    assert.equal(served.isTemporary(), false);
    assert.equal(check.check(), undefined);
    now = new Date(START_DATE.getTime() + 8 * DAY_MS);
    assert.match(check.check() ?? '', /expired/);
    const { values } = await metrics.certificates.authorityExpiry.get();
    assert.deepEqual(
      values.map(({ value }) => value),
      [START_DATE.getTime() / 1000 + 7 * 24 * 60 * 60],
    );
  });
});
