import { parseConfiguration } from '../../../config/configuration.ts';
import { UserError } from '../../../config/user-error.ts';
import { serveOptions } from '../../serve/options.ts';
import { given, type Check, type Remark } from '../types.ts';

/** The configuration that the replicas mount can be read. */
export const configuration: Check = {
  name: 'configuration',
  judge: ({ configuration: fact, namespace }) =>
    given(fact, 'configuration', (file) => {
      if (!file) return [];
      const { source: where, text } = file;
      const fix = `kubectl -n ${namespace} edit ${where.split(' ')[0]?.replace('/', ' ') ?? ''}`;
      const why = 'replicas that run keep the last good one, new ones do not start';
      const problem = text === undefined ? 'is not there' : problemOf(where, text);
      const remark: Remark =
        problem === undefined
          ? { severity: 'ok', where, what: 'can be read' }
          : { severity: 'problem', where, what: problem, why, fix };
      return [remark];
    }),
};

function problemOf(file: string, text: string): string | undefined {
  try {
    parseConfiguration({ file, text }, Object.keys(serveOptions));
    return undefined;
  } catch (error) {
    if (error instanceof UserError) return error.message;
    throw error;
  }
}
