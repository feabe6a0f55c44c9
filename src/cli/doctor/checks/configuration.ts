import { UserError, type Source } from '../../../config/files.ts';
import { parseInstalledSettings } from '../../installation.ts';
import { evaluateFact, factValue, ok, type Check } from '../facts.ts';

/** The configuration file of the replicas is valid. */
export const configuration: Check = {
  name: 'configuration',
  evaluate: ({ configuration: fact, namespace, settings, deployment }) =>
    evaluateFact(fact, 'configuration', (file) => {
      if (!file) return [];
      const { source, text } = file;
      const message = text === undefined ? 'does not exist' : validate({ file: source, text }, namespace);
      if (message === undefined) return [ok(source, 'is valid')];
      const ready = factValue(deployment)?.status?.readyReplicas ?? 0;
      const isUnused = settings.webhooks !== 'service' && ready === 0;
      const fix = `kubectl -n ${namespace} edit ${source.split(' ')[0]?.replace('/', ' ') ?? ''}`;
      return [{ ...(isUnused ? UNUSED : USED), object: source, message, fix }];
    }),
};

const USED = {
  severity: 'problem',
  impact: 'running replicas keep the last valid configuration, new replicas do not start',
} as const;

/** Only pods mount the ConfigMap. */
const UNUSED = {
  severity: 'info',
  impact: 'no replica of the Deployment is ready; replicas outside of the cluster read the file of their --config',
} as const;

function validate(source: Source, namespace: string): string | undefined {
  try {
    parseInstalledSettings(source, namespace);
    return undefined;
  } catch (error) {
    if (error instanceof UserError) return error.message;
    throw error;
  }
}
