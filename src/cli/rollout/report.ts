import { findCluster } from '../../cluster/cluster-source.ts';
import { UserError } from '../../kube/user-error.ts';
import { defineCommand, EXIT } from '../command.ts';
import { gatherRollout, rolloutOptions } from '../inventory/rollout.ts';
import { sccReviewOptions } from '../inventory/settings.ts';
import { nonEmpty, option } from '../options.ts';
import { bundlePage } from '../output/bundle.ts';
import { renderPage } from '../output/html.ts';
import { outputOption, printData } from '../output/print.ts';
import { compareReports, readReport } from '../report/comparison.ts';
import { computeReport } from '../report/report-data.ts';

const DETAILS = `
Writes a self-contained HTML file with the state of the enforcement rollout, the denied workloads of each
namespace and level with their fixes, the use and the grants of SCCs (SecurityContextConstraints), the
exceptions and the exemptions. Users can filter, sort and print the page, and export it as CSV and JSON. It
contains names from the cluster.

With --compare, the report lists the violations that are new or fixed since an earlier report.

The command computes the report from the current state of the cluster, or from manifests that it treats as a
complete cluster. The command changes nothing. It requires permissions to read all namespaces.

Examples:
  portcullis report > report.html
  portcullis report -f deploy/ > report.html
  portcullis report -o json > monday.json
  portcullis report --compare monday.json > report.html
`;

export const command = defineCommand({
  details: DETAILS,
  options: {
    ...rolloutOptions,
    namespace: sccReviewOptions.namespace,
    compare: option('FILE', nonEmpty, undefined, { help: 'Earlier report to compare with, which -o json wrote' }),
    output: outputOption(['html', 'json']),
  },
  async run(options, _operands, io) {
    const { output, filename, 'installation-namespace': namespace } = options;
    if (output === 'html' && io.stdout.isTTY === true) {
      throw new UserError('the output is an HTML page: write it to a file with > report.html, or set -o json');
    }
    const before = options.compare === undefined ? undefined : await readReport(options.compare);
    const date = new Date();
    const facts = await gatherRollout(options, io, date);
    const target = filename.length > 0 ? undefined : await findCluster({ ...options, env: io.env });
    const source = target?.server ?? filename.join(', ');
    const isFromFile = options.config !== undefined;
    const report = await computeReport({ facts, date, source, namespace, isFromFile }, io);
    const data = { ...report, comparison: before && compareReports(before, report) };
    if (output === 'json') io.stdout.write(printData('json', data));
    else io.stdout.write(renderPage(await bundlePage('report'), { title: 'Portcullis report', data }));
    return EXIT.passed;
  },
});
