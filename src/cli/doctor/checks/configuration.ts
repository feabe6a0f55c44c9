import { parseConfiguration } from '../../../config/configuration.ts';
import { UserError } from '../../../config/files.ts';
import { serveOptions } from '../../serve/options.ts';
import { evaluateFact, factValue, ok, type Check } from '../facts.ts';

/** The configuration file of the replicas is valid. */
export const configuration: Check = {
  name: 'configuration',
  evaluate: ({ configuration: fact, namespace, settings, deployment }) =>
    evaluateFact(fact, 'configuration', (file) => {
      if (!file) return [];
      const { source, text } = file;
      const message = text === undefined ? 'does not exist' : validate(source, text);
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

function validate(file: string, text: string): string | undefined {
  try {
    parseConfiguration({ file, text }, Object.keys(serveOptions));
    return undefined;
  } catch (error) {
    if (error instanceof UserError) return error.message;
    throw error;
  }
}
