import assert from 'node:assert/strict';
import { test } from 'node:test';
import { certificates } from '../../../src/cli/doctor/checks/certificates.ts';
import type { Facts } from '../../../src/cli/doctor/types.ts';
import { configurationOf } from '../../../src/cli/installation/own-webhooks.ts';
import { configuration } from '../../support/certificates.ts';
import { HEALTHY, registered } from '../../support/doctor.ts';

/** A configuration with our label but another name, which nobody has given a bundle. */
function copyOf(name: string, failurePolicy: 'Fail' | 'Ignore'): Facts['configurations'][number] {
  const { webhooks = [], ...rest } = configuration(name, [`${failurePolicy.toLowerCase()}.psa.portcullis.dev`]);
  const object = { ...rest, webhooks: webhooks.map((webhook) => ({ ...webhook, failurePolicy })) };
  return configurationOf('ValidatingWebhookConfiguration', object);
}

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
