import { readException } from '../../cluster/exceptions.ts';
import { objectPath, RESOURCES } from '../../kube/resources.ts';
import { printable, quote } from '../../kube/text.ts';
import { UserError } from '../../kube/user-error.ts';
import { findShadow } from '../../policy/psa/exceptions.ts';
import { clusterOptions, dryRunOption, dryRunSuffix, ignoreApiError, withCluster } from '../cluster.ts';
import { defineCommand, EXIT, PROGRAM } from '../command.ts';
import { namespaceName, option, UsageError } from '../options.ts';
import { printData } from '../output/print.ts';

const DETAILS = `
Prints the spec of a PodSecurityException and approves it. The approval applies only to this spec. If the spec
has changed in the meantime, the API server denies the approval. The approval requires the approve verb on
podsecurityexceptions. Unless the settings permit it, users cannot approve exceptions that they created or
changed. --dry-run=client only prints the spec.

Examples:
  portcullis exception approve gateway -n shop
  portcullis exception approve gateway -n shop --dry-run=server
`;

export const command = defineCommand({
  operands: '<name>',
  details: DETAILS,
  options: {
    namespace: option('NAME', namespaceName, undefined, { short: 'n', help: 'Namespace of the exception' }),
    ...dryRunOption,
    ...clusterOptions,
  },
  async run(values, [name = ''], io) {
    const { namespace, 'dry-run': dryRun } = values;
    if (namespace === undefined) throw new UsageError('--namespace is required');
    return await withCluster(values, io, async (client) => {
      const object = await client.get(RESOURCES.PodSecurityException, name, namespace);
      const exception = object && readException(object);
      if (exception === undefined) {
        throw new UserError(`podsecurityexceptions ${quote(name)} not found in namespace ${quote(namespace)}`);
      }
      const { authors, spec, specHash } = exception;
      io.stdout.write(printData('yaml', { authors, spec }));
      if (dryRun !== 'client') {
        await client.send({
          method: 'PATCH',
          path: `${objectPath('PodSecurityException', name, namespace)}/status`,
          query: { fieldManager: PROGRAM, ...(dryRun === 'server' ? { dryRun: 'All' } : {}) },
          contentType: 'application/merge-patch+json',
          // The webhook sets the user and the time, even if another user has already approved the spec.
          body: { status: { approval: { specHash, by: null, at: null } } },
        });
      }
      io.stdout.write(`podsecurityexception/${printable(name)} approved${dryRunSuffix(dryRun)}\n`);
      // Approvers need no permission to read the namespace.
      const scope = await client.get(RESOURCES.Namespace, namespace).catch(ignoreApiError);
      const shadow = findShadow(exception, scope?.metadata?.labels ?? {});
      if (shadow !== undefined) io.stderr.write(`warning: ${printable(shadow)}\n`);
      return EXIT.passed;
    });
  },
});
