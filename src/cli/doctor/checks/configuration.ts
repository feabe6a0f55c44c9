import { parseConfiguration } from '../../../config/configuration.ts';
import { UserError } from '../../../config/files.ts';
import { serveOptions } from '../../serve/options.ts';
import { given, type Check, type Remark } from '../facts.ts';

/** The configuration that the replicas mount can be read. */
export const configuration: Check = {
  name: 'configuration',
  judge: ({ configuration: fact, namespace, settings, deployment }) =>
    given(fact, 'configuration', (file) => {
      if (!file) return [];
      const { source: where, text } = file;
      const fix = `kubectl -n ${namespace} edit ${where.split(' ')[0]?.replace('/', ' ') ?? ''}`;
      const ready = ('value' in deployment ? deployment.value : undefined)?.status?.readyReplicas ?? 0;
      const runElsewhere = settings.webhooks !== 'service' && ready === 0;
      const problem = text === undefined ? 'is not there' : problemOf(where, text);
      const remark: Remark =
        problem === undefined
          ? { severity: 'ok', where, what: 'can be read' }
          : { ...(runElsewhere ? UNREAD : READ), where, what: problem, fix };
      return [remark];
    }),
};

const READ = {
  severity: 'problem',
  why: 'replicas that run keep the last good one, new ones do not start',
} as const;

/** Only pods mount the ConfigMap. */
const UNREAD = {
  severity: 'info',
  why: 'only replicas of the Deployment read it, and none is ready; those that run as processes read the file of their --config',
} as const;

function problemOf(file: string, text: string): string | undefined {
  try {
    parseConfiguration({ file, text }, Object.keys(serveOptions));
    return undefined;
  } catch (error) {
    if (error instanceof UserError) return error.message;
    throw error;
  }
}
