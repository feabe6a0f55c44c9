import { isPartOfPortcullis } from '../../../kube/webhooks.ts';
import { webhookConfigurations } from '../../../install/index.ts';
import { factValue, info, problem, type Check, type Facts } from '../facts.ts';

/** False if there is neither a Deployment nor a webhook configuration. */
export function isInstalled({ configurations, deployment, settings }: Facts): boolean {
  const names = new Set(webhookConfigurations(settings).map(({ metadata: { name } }) => name));
  const isRegistered = configurations.some((one) => isPartOfPortcullis(one) || names.has(one.name));
  return isRegistered || !('value' in deployment) || deployment.value !== undefined;
}

/** True for the development cluster of `serve`, which has webhooks but no replicas. */
export function isDevCluster({ server, deployment, leases, certificate }: Facts): boolean {
  return (
    factValue(server)?.version.endsWith('+portcullis-dev') === true &&
    'value' in deployment &&
    deployment.value === undefined &&
    factValue(leases)?.length === 0 &&
    'value' in certificate &&
    certificate.value.chain === undefined
  );
}

/** Portcullis is installed. */
export const installation: Check = {
  name: 'installation',
  evaluate(facts) {
    if (!isInstalled(facts)) {
      const message = 'Portcullis is not installed: there is no webhook configuration and no Deployment';
      return [problem(`namespace ${facts.namespace}`, message, { fix: 'portcullis install --help' })];
    }
    const message =
      'is the development cluster of portcullis serve, without a Deployment, certificates, Lease or roles';
    return isDevCluster(facts) ? [info('API server', message)] : [];
  },
};
