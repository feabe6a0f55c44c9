import { webhookConfigurations } from '../../../install/index.ts';
import { isOurs } from '../../installation.ts';
import type { Check, Facts, Remark } from '../facts.ts';

/** False if there is neither a Deployment nor a webhook configuration: nothing else is worth to be looked at. */
export function isInstalled({ configurations, deployment, settings }: Facts): boolean {
  const names = new Set(webhookConfigurations(settings).map(({ metadata: { name } }) => name));
  const isRegistered = configurations.some((one) => isOurs(one) || names.has(one.name));
  return isRegistered || !('value' in deployment) || deployment.value !== undefined;
}

/** True for the cluster that `serve` brings along: it has webhooks, and what serves them needs nothing else in it. */
export function isServedFromWithin({ server, deployment, leases, certificate }: Facts): boolean {
  return (
    'value' in server &&
    server.value.version.endsWith('+portcullis-dev') &&
    'value' in deployment &&
    deployment.value === undefined &&
    'value' in leases &&
    leases.value.length === 0 &&
    'value' in certificate &&
    certificate.value.chain === undefined
  );
}

/** There is something to look at. */
export const installed: Check = {
  name: 'installation',
  judge(facts) {
    const { namespace } = facts;
    if (isInstalled(facts)) return isServedFromWithin(facts) ? [FROM_WITHIN] : [];
    return [
      {
        severity: 'problem',
        where: `namespace ${namespace}`,
        what: 'Portcullis is not installed: there is no webhook configuration and no Deployment of it',
        fix: 'portcullis install --help',
      },
    ];
  },
};

const FROM_WITHIN: Remark = {
  severity: 'info',
  where: 'API server',
  what: 'is the development cluster of portcullis serve, which needs no Deployment, certificates, Lease or rights in it',
};
