import { webhookConfigurations } from '../../../install/index.ts';
import { isPartOfPortcullis } from '../../../kube/webhooks.ts';
import { type Check, type CheckResult, evaluateFact, type Facts, factValue, info, problem } from '../facts.ts';
import { applyManifests, instruction } from '../fix.ts';

const HOW_TO_INSTALL = instruction('install Portcullis, see portcullis install --help');

/** False if neither a Deployment nor a webhook configuration exists. */
export function isInstalled({ configurations, deployment, settings }: Facts): boolean {
  const names = new Set(webhookConfigurations(settings).map(({ metadata: { name } }) => name));
  const isRegistered = configurations.some((one) => isPartOfPortcullis(one) || names.has(one.name));
  return isRegistered || !('value' in deployment) || deployment.value !== undefined;
}

/** True for the development cluster of `serve`, which has webhooks but no replicas. */
export function isDevCluster({ server, deployment, certificate }: Facts): boolean {
  return (
    factValue(server)?.version.endsWith('+portcullis-dev') === true &&
    'value' in deployment &&
    deployment.value === undefined &&
    'value' in certificate &&
    certificate.value.chain === undefined
  );
}

/** Checks that Portcullis is installed with the CRDs of its features and the policy for its service account. */
export const installation: Check = {
  name: 'installation',
  evaluate(facts) {
    if (!isInstalled(facts)) {
      const message = 'Portcullis is not installed. There is neither a webhook configuration nor a Deployment';
      return [problem(`namespace ${facts.namespace}`, message, { fix: HOW_TO_INSTALL })];
    }
    const message = 'is the development cluster of portcullis serve, without a Deployment, certificates or roles';
    return isDevCluster(facts) ? [info('API server', message)] : checkObjects(facts);
  },
};

function checkObjects(facts: Facts): readonly CheckResult[] {
  return evaluateFact(facts.missingObjects, 'objects of the installation', (missing) =>
    missing.map(({ kind, metadata }) => {
      const isDefinition = kind === 'CustomResourceDefinition';
      return problem(`${kind} ${metadata.name}`, isDefinition ? 'does not exist' : 'does not exist or was changed', {
        impact: isDefinition
          ? 'the features that need it do not work, and enforcement may not take effect'
          : 'a stolen token of the service account can write more objects',
        fix: applyManifests(facts),
      });
    }),
  );
}
