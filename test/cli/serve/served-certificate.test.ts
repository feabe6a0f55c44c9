import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { serverNames, createServedCertificate, trustCheck } from '../../../src/cli/serve/certificates.ts';
import { createStore } from '../../../src/cluster/store.ts';
import { draft } from '../../../src/kube/types.ts';
import type { WebhookConfiguration } from '../../../src/kube/webhooks.ts';
import { protocolSettings } from '../../../src/tls/protocol.ts';
import { createAuthority, createServing } from '../../../src/tls/issue.ts';
import { configuration, SERVICE, START } from '../../support/certificates.ts';
import { createRecorder } from '../../support/controllers.ts';

const DAY_MS = 24 * 60 * 60 * 1000;
const validity = { now: START, days: 7 };
const authority = createAuthority(validity);
const other = createAuthority(validity);
const names = serverNames(SERVICE, ['x.example', '10.0.0.1', 'localhost']);
const pair = createServing(authority, names, validity);

function changed(
  change: (configuration: ReturnType<typeof draft<WebhookConfiguration>>) => void,
  caBundle?: string,
): WebhookConfiguration {
  const made = draft(configuration('psa.portcullis.dev', ['psa.portcullis.dev'], caBundle));
  change(made);
  return made;
}
const bundle = btoa(authority.cert);
const keep = (): void => undefined;
/** A configuration whose second webhook only advises, and has lost its bundle. */
const withoutAdvice = (policies: readonly ('Fail' | 'Ignore')[]): WebhookConfiguration => {
  const made = draft(configuration('psa.portcullis.dev', ['psa.portcullis.dev', 'advise.psa.portcullis.dev'], bundle));
  made.webhooks?.forEach((webhook, index) => (webhook.failurePolicy = policies[index] ?? 'Fail'));
  delete made.webhooks?.[1]?.clientConfig.caBundle;
  return made;
};
const byUrl = (url: string) =>
  changed(({ webhooks = [] }) => {
    for (const webhook of webhooks) webhook.clientConfig = { url, caBundle: bundle };
  });

suite('whether API servers take what is served', () => {
  const cases: readonly {
    readonly name: string;
    readonly configurations: readonly WebhookConfiguration[];
    readonly now?: Date;
    readonly problem?: string;
    /** What is told of webhooks that do not count, as long as all is well with the others. */
    readonly told?: readonly string[];
  }[] = [
    { name: 'there are no configurations', configurations: [] },
    { name: 'they do', configurations: [changed(keep, bundle)] },
    {
      name: 'the bundle is still empty',
      configurations: [changed(keep)],
      problem: 'psa.portcullis.dev: caBundle is still empty',
    },
    {
      name: 'cert-manager has not filled it in yet',
      configurations: [
        changed(({ metadata }) => {
          if (metadata) metadata.annotations = { 'cert-manager.io/inject-ca-from': 'portcullis/portcullis' };
        }),
      ],
      problem: 'psa.portcullis.dev: caBundle is still empty',
    },
    {
      name: 'nobody fills it in: whom API servers trust anyway is not known here',
      configurations: [
        changed(({ metadata }) => {
          if (metadata) metadata.annotations = {};
        }),
      ],
    },
    {
      name: 'another authority',
      configurations: [changed(keep, btoa(other.cert))],
      problem: 'psa.portcullis.dev: the serving certificate is not signed by a valid authority in caBundle',
    },
    {
      name: 'several do not',
      configurations: [changed(keep), configuration('scc.portcullis.dev', ['one', 'two'])],
      problem: 'psa.portcullis.dev: caBundle is still empty (and 2 more)',
    },
    {
      name: 'one does not that holds nobody up',
      configurations: [withoutAdvice(['Fail', 'Ignore'])],
      told: ['advise.psa.portcullis.dev in psa.portcullis.dev: caBundle is still empty'],
    },
    {
      name: 'one does not, and none of them holds anybody up',
      configurations: [withoutAdvice(['Ignore', 'Ignore'])],
      problem: 'advise.psa.portcullis.dev: caBundle is still empty',
    },
    {
      name: 'a copy under another name does not',
      configurations: [changed(keep, bundle), configuration('copy-of-psa', ['psa.portcullis.dev'])],
      told: ['psa.portcullis.dev in copy-of-psa: caBundle is still empty'],
    },
    {
      name: 'one of the other kind does not that has the name of ours',
      configurations: [changed(keep, bundle), configuration('zz.scc.portcullis.dev', ['a.example'], btoa(other.cert))],
      told: [
        'a.example in zz.scc.portcullis.dev: the serving certificate is not signed by a valid authority in caBundle',
      ],
    },
    {
      name: 'of others',
      configurations: [
        changed(({ metadata }) => {
          if (metadata) metadata.labels = {};
        }),
      ],
    },
    {
      name: 'of another service',
      configurations: [
        changed(({ webhooks = [] }) => {
          for (const { clientConfig } of webhooks) clientConfig.service = { namespace: 'other', name: SERVICE.name };
        }),
      ],
    },
    { name: 'by a URL', configurations: [byUrl('https://127.0.0.1:8443/psa/validate'), byUrl('https://[::1]/')] },
    {
      name: 'by a URL with another name',
      configurations: [byUrl('https://y.example/')],
      problem: 'psa.portcullis.dev: the serving certificate is not valid for y.example',
    },
    {
      name: 'expired',
      configurations: [changed(keep, bundle)],
      now: new Date(START.getTime() + 8 * DAY_MS),
      problem: 'psa.portcullis.dev: the serving certificate expired at 2026-01-08T00:00:00Z',
    },
  ];
  for (const { name, configurations, now = START, problem, told = [] } of cases) {
    test(name, async () => {
      const store = createStore();
      for (const one of configurations) store.put('ValidatingWebhookConfiguration', one);
      const { metrics, logger, log } = createRecorder();
      const served = { current: () => pair, isTemporary: () => false, use: keep };
      const check = trustCheck({ store, served, service: SERVICE, logger, metrics, date: () => now });
      assert.equal(check.check(), problem);
      const { values } = await metrics.certificates.trusted.get();
      assert.equal(values[0]?.value, problem === undefined ? 1 : 0);
      const distrusting = await metrics.certificates.distrusting.get();
      assert.equal(distrusting.values[0]?.value, told.length);
      store.put('ValidatingWebhookConfiguration', configuration('of-others', []));
      check.check();
      assert.deepEqual(
        log.map(({ msg, webhooks }) => [msg, webhooks]),
        told.length === 0 ? [] : [['webhooks that do not affect readiness do not trust the serving certificate', told]],
      );
    });
  }

  test('is looked at again when configurations or the certificate change, and as time goes by', async () => {
    const store = createStore();
    const { metrics, logger } = createRecorder();
    const options = { pair, state: 'temporary', protocol: protocolSettings(), clientAuthorities: undefined } as const;
    const served = createServedCertificate({ ...options, logger, metrics });
    let now = START;
    const check = trustCheck({ store, served, service: SERVICE, logger, metrics, date: () => now });
    const put = (caBundle: string): void =>
      store.put('ValidatingWebhookConfiguration', configuration('psa.portcullis.dev', ['a'], caBundle));
    assert.equal(check.check(), undefined);
    put(btoa(other.cert));
    assert.match(check.check() ?? '', /not signed/);
    served.use(createServing(other, names, validity));
    assert.equal(served.isTemporary(), false);
    assert.equal(check.check(), undefined);
    now = new Date(START.getTime() + 8 * DAY_MS);
    assert.match(check.check() ?? '', /expired/);
    const { values } = await metrics.certificates.authorityExpiry.get();
    assert.deepEqual(
      values.map(({ value }) => value),
      [START.getTime() / 1000 + 7 * 24 * 60 * 60],
    );
  });
});
