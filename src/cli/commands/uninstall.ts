import { UserError } from '../../config/user-error.ts';
import { defineCommand, EXIT } from '../command.ts';
import { confirm } from '../installation/confirm.ts';
import { withCluster } from '../installation/connect.ts';
import { clusterOptions, namespaceOption } from '../installation/options.ts';
import { flag, option } from '../options.ts';
import { printable } from '../report/text.ts';
import { uninstall } from '../uninstall/uninstall.ts';
import { durationMs } from '../values.ts';

const DETAILS = `
Removes the webhook configurations first, waits until API servers have forgotten them, and only then
removes the rest: Deployment, Service, rights, Leases, Secret, and the namespace if nobody keeps anything
else in it. Only what has the label app.kubernetes.io/part-of=portcullis is removed, and the Secret and
the Leases that the replicas write. What is gone already is no error: it can be repeated.

What stays, unless it is asked for: SCCs, their definitions, the rights to use them, and the labels and
annotations of namespaces. Running pods are not touched.

What was installed with Helm is removed with 'helm uninstall', and what a tool keeps installed (Argo CD,
Flux) where that tool is told to; else it comes back.

Examples:
  portcullis uninstall --dry-run
  portcullis uninstall
  portcullis uninstall --yes --purge-sccs --purge-namespaces

Exit codes:
  0  done
  1  something could not be removed
  2  wrong usage, not confirmed, or the cluster cannot be reached
`;

/** Takes an installation out of a cluster, in an order that stops nobody from working. */
export const uninstallCommand = defineCommand({
  name: 'uninstall',
  summary: 'Remove Portcullis from a cluster, webhooks first',
  details: DETAILS,
  options: {
    ...clusterOptions,
    ...namespaceOption,
    'dry-run': flag({ help: 'Let the API server say what it would do, and change nothing' }),
    yes: flag({ short: 'y', help: 'Do not ask' }),
    wait: option('DURATION', durationMs, 5000, {
      help: 'How long API servers get to notice that the webhooks are gone',
      shown: '5s',
    }),
    'purge-sccs': flag({ help: 'Remove all SCCs, too, the definitions of Portcullis, and the rights to use SCCs' }),
    'purge-namespaces': flag({ help: 'Take the labels and annotations of Portcullis off all namespaces, too' }),
  },
  async run(options, _operands, io) {
    const { namespace, 'dry-run': dryRun } = options;
    const purge = [
      ...(options['purge-sccs'] ? (['sccs'] as const) : []),
      ...(options['purge-namespaces'] ? (['namespaces'] as const) : []),
    ];
    return await withCluster(options, io, async (connection) => {
      if (!dryRun && !options.yes) {
        const isSure = await confirm(printQuestion(connection.server, purge), io);
        if (!isSure) throw new UserError('nothing was removed: the answer was not "yes"; --yes goes on without asking');
      }
      const { signal } = io;
      const tell = (line: string): void => void io.stdout.write(`${printable(line)}\n`);
      const failures = await uninstall(connection, {
        where: { namespace, signal },
        now: new Date(),
        removal: { dryRun, signal, tell },
        waitMs: options.wait,
        purge,
      });
      return failures === 0 ? EXIT.passed : EXIT.violations;
    });
  },
});

function printQuestion(server: string, purge: readonly ('sccs' | 'namespaces')[]): string {
  const more = {
    sccs: 'all SecurityContextConstraints',
    namespaces: 'the labels and annotations of Portcullis on all namespaces',
  };
  return `This removes ${['Portcullis', ...purge.map((one) => more[one])].join(', and ')} from ${server}.`;
}
