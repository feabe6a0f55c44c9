import { objectPath, RESOURCES } from '../../kube/resources.ts';
import { printable, quote } from '../../kube/text.ts';
import { UserError } from '../../kube/user-error.ts';
import { findShadow, type PreparedException } from '../../policy/psa/index.ts';
import { readException } from '../../views/exceptions.ts';
import { clusterOptions, dryRunOption, dryRunSuffix, ignoreApiError, withCluster } from '../cluster.ts';
import { defineCommand, EXIT, type Io, PROGRAM } from '../command.ts';
import { confirm } from '../confirm.ts';
import { namespaceName, option, UsageError } from '../options.ts';
import { printData } from '../output/print.ts';
import { addFlags, getClusterFlags, printCommand } from '../output/shell.ts';

const DETAILS = `
Prints the spec of a PodSecurityException and its hash, asks for confirmation, and approves exactly this spec.
If the spec has changed in the meantime, the API server denies the approval. The approval requires the approve
verb on podsecurityexceptions. Unless the settings permit it, users cannot approve exceptions that they created
or changed.

In scripts, pass the hash of the reviewed spec with --spec-hash. "portcullis exception list -o json" prints the
hashes. --dry-run=client only prints the spec.

Examples:
  portcullis exception approve gateway -n shop
  portcullis exception approve gateway -n shop --dry-run=server
  portcullis exception approve gateway -n shop --spec-hash=9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
`;

/** Accepts a hash in hexadecimal digits, as `exception list -o json` prints it. */
function sha256(value: string): string {
  if (/^[0-9a-f]{64}$/.test(value)) return value;
  throw new UserError('must be a hash from portcullis exception list -o json');
}

export const command = defineCommand({
  operands: '<name>',
  details: DETAILS,
  options: {
    namespace: option('NAME', namespaceName, undefined, { short: 'n', help: 'Namespace of the exception' }),
    'spec-hash': option('HASH', sha256, undefined, {
      help: 'Approve without confirmation if the spec has this hash',
    }),
    ...dryRunOption,
    ...clusterOptions,
  },
  async run(values, [name = ''], io) {
    const { namespace, 'dry-run': dryRun, 'spec-hash': expected } = values;
    if (namespace === undefined) throw new UsageError('--namespace is required');
    const clusterFlags = getClusterFlags(values);
    return await withCluster(values, io, async (client) => {
      const object = await client.get(RESOURCES.PodSecurityException, name, namespace);
      const exception = object && readException(object);
      if (exception === undefined) {
        throw new UserError(`podsecurityexceptions ${quote(name)} not found in namespace ${quote(namespace)}`);
      }
      const { authors, spec, specHash } = exception;
      io.stdout.write(printData('yaml', { authors, spec, specHash }));
      if (expected !== undefined && expected !== specHash) {
        throw new UserError(
          `the spec has the hash ${specHash}, not ${expected}: review the current spec before you approve it`,
        );
      }
      if (dryRun === 'none' && expected === undefined) await confirmSpec(exception, clusterFlags, io);
      if (dryRun !== 'client') {
        await client.send({
          method: 'PATCH',
          path: `${objectPath('PodSecurityException', name, namespace)}/status`,
          query: { fieldManager: PROGRAM, ...(dryRun === 'server' ? { dryRun: 'All' } : {}) },
          contentType: 'application/merge-patch+json',
          // The webhook replaces the user and the time, even if another user has already approved the spec.
          body: { status: { approval: { specHash, by: null, at: null } } },
        });
      }
      io.stdout.write(`podsecurityexception/${printable(name)} approved${dryRunSuffix(dryRun)}\n`);
      // Errors are ignored, because approvers may lack permission to read the namespace.
      const scope = await client.get(RESOURCES.Namespace, namespace).catch(ignoreApiError);
      const shadow = findShadow(exception, scope?.metadata?.labels ?? {});
      // The text ends with a command.
      if (shadow !== undefined) io.stderr.write(`warning: ${printable(addFlags(shadow, clusterFlags))}\n`);
      return EXIT.passed;
    });
  },
});

/**
 * Asks the user to confirm the printed spec.
 * @throws {UserError} unless the user confirms the spec on a terminal
 */
async function confirmSpec(
  { name, namespace, spec, specHash }: PreparedException,
  clusterFlags: readonly string[],
  io: Io,
): Promise<void> {
  if (io.stdin.isTTY !== true) {
    const args = ['exception', 'approve', name, '-n', namespace, `--spec-hash=${specHash}`];
    const approval = printCommand({ program: PROGRAM, args }, clusterFlags);
    throw new UserError(`not approved, because stdin is not a terminal. If the spec above is acceptable: ${approval}`);
  }
  // The checks are repeated, because a long spec may have scrolled out of view.
  const checks = [...new Set(spec.allow.map(({ check }) => check))].join(', ');
  const question = `This approves the spec above: exceptions from ${checks} for service account ${spec.serviceAccountName} in namespace ${namespace} until ${spec.expiresAt}.`;
  if (await confirm(printable(question), io)) return;
  throw new UserError('not approved: the response was not "yes"');
}
