import { findCluster } from '../../cluster/cluster-source.ts';
import { UserError } from '../../kube/user-error.ts';
import { defineCommand, EXIT } from '../command.ts';
import { gatherRollout, rolloutOptions } from '../inventory/rollout.ts';
import { nonEmpty, option } from '../options.ts';
import { bundlePage } from '../output/bundle.ts';
import { renderPage } from '../output/html.ts';
import { outputOption, printData } from '../output/print.ts';
import { computeReport } from '../report/report-data.ts';

const DETAILS = `
Writes one self-contained HTML file: the state of the enforcement rollout, the denied workloads
of each namespace and level with their fixes, the use and the grants of SCCs (SecurityContextConstraints),
and the exemptions. The file contains names from the cluster, and can be printed.

The report is computed from the current state of the cluster, or from manifests as if they were all
objects of a cluster. The command changes nothing. Permissions to read all namespaces are required.

Examples:
  portcullis report > report.html
  portcullis report -f deploy/ > report.html
  portcullis report -o json
`;

/** Reports the state of a cluster as a page. */
export const command = defineCommand({
  details: DETAILS,
  options: {
    ...rolloutOptions,
    namespace: option('NAME', nonEmpty, undefined, {
      short: 'n',
      help: 'Namespace for manifests that do not set one',
    }),
    output: outputOption(['html', 'json']),
  },
  async run(options, _operands, io) {
    const { output, filename, 'installation-namespace': namespace } = options;
    if (output === 'html' && io.stdout.isTTY === true) {
      throw new UserError('the output is an HTML page: write it to a file with > report.html, or set -o json');
    }
    const date = new Date();
    const facts = await gatherRollout(options, io, date);
    const target = filename.length > 0 ? undefined : await findCluster({ ...options, env: io.env });
    const source = target?.server ?? filename.join(', ');
    const isFromFile = options.config !== undefined;
    const data = await computeReport({ facts, date, source, namespace, isFromFile }, io);
    if (output === 'json') io.stdout.write(printData('json', data));
    else io.stdout.write(renderPage(await bundlePage('report'), { title: 'Portcullis report', data }));
    return EXIT.passed;
  },
});
