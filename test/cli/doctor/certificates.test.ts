import assert from 'node:assert/strict';
import { test } from 'node:test';
import { certificates } from '../../../src/cli/doctor/checks/certificates.ts';
import type { Facts } from '../../../src/cli/doctor/facts.ts';
import { configurationOf } from '../../../src/cli/installation.ts';
import { configuration } from '../../support/certificates.ts';
import { HEALTHY, registered, SERVING } from '../../support/doctor.ts';

/** A configuration with our label but another name, which nobody has given a bundle. */
function copyOf(name: string, failurePolicy: 'Fail' | 'Ignore'): Facts['configurations'][number] {
  const { webhooks = [], ...rest } = configuration(name, [`${failurePolicy.toLowerCase()}.psa.portcullis.dev`]);
  const object = { ...rest, webhooks: webhooks.map((webhook) => ({ ...webhook, failurePolicy })) };
  return configurationOf('ValidatingWebhookConfiguration', object);
}

test('a copy that calls by a URL, and that nobody has told whom to trust', () => {
  const { webhooks, ...copy } = copyOf('copy-of-psa', 'Fail');
  const clientConfig = { url: 'https://portcullis.portcullis.svc:8443/psa/validate' };
  const configurations = [...registered(), { ...copy, webhooks: webhooks.map((one) => ({ ...one, clientConfig })) }];
  const atUrls = new Map([
    ['https://portcullis.portcullis.svc:8443', { value: { source: 'what answers there', chain: SERVING } }],
  ]);
  const remarks = certificates.judge({ ...HEALTHY, configurations, atUrls });
  assert.deepEqual(
    remarks.filter(({ severity }) => severity !== 'ok').map(({ severity, what }) => [severity, what]),
    [
      [
        'problem',
        'does not trust what is served, in ValidatingWebhookConfiguration copy-of-psa, which is not one of the installation',
      ],
    ],
  );
});

test('copies of our configurations that trust nobody', () => {
  const configurations = [...registered(), copyOf('copy-of-psa', 'Fail'), copyOf('other-copy', 'Ignore')];
  assert.deepEqual(
    certificates.judge({ ...HEALTHY, configurations }).filter(({ severity }) => severity !== 'ok'),
    [
      {
        severity: 'problem',
        where: 'fail.psa.portcullis.dev',
        what: 'does not trust what is served, in ValidatingWebhookConfiguration copy-of-psa, which is not one of the installation',
        why: 'nobody keeps its caBundle right: API servers refuse what they should ask it about',
        fix: 'kubectl delete validatingwebhookconfiguration copy-of-psa',
      },
      {
        severity: 'warning',
        where: 'ignore.psa.portcullis.dev',
        what: 'does not trust what is served, in ValidatingWebhookConfiguration other-copy, which is not one of the installation',
        why: 'nobody keeps its caBundle right: API servers let through what they should ask it about',
        fix: 'kubectl delete validatingwebhookconfiguration other-copy',
      },
    ],
  );
});
