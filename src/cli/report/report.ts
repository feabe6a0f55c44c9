import { findCluster } from '../../cluster/cluster-source.ts';
import { formatTimestamp } from '../../kube/units.ts';
import { UserError } from '../../kube/user-error.ts';
import { fleetToCsv } from '../../web/fleet-view.ts';
import type { DeniedWorkload, ReportComparison, ReportData } from '../../web/report-data.ts';
import { defineCommand, EXIT, type Io } from '../command.ts';
import { gatherRollout, rolloutOptions } from '../inventory/rollout.ts';
import { sccReviewOptions } from '../inventory/settings.ts';
import { flag, nonEmpty, option } from '../options.ts';
import { bundlePage } from '../output/bundle.ts';
import { renderPage } from '../output/html.ts';
import { outputOption, printData } from '../output/print.ts';
import { joinReports } from './fleet.ts';
import { computeReport } from './report-data.ts';
import { listReports, readReport } from './saved-report.ts';

const DETAILS = `
Writes a self-contained HTML file with the state of the enforcement rollout, the denied workloads of each
namespace and level with their fixes, the use and the grants of SCCs (SecurityContextConstraints), the
exceptions and the exemptions. Users can filter, sort and print the page, and export it as CSV and JSON. It
contains names from the cluster.

With --compare, the report lists the violations that are new or fixed since an earlier report.

The command computes the report from the current state of the cluster, or from manifests that it treats as a
complete cluster. The command changes nothing. It requires permissions to read all namespaces.

With --fleet, the command joins reports of many clusters that -o json wrote. It reads only these files, or the
.json files of a directory. The page links to a cluster's own report if an .html file with the same name exists.
-o csv writes one row for each cluster.

Examples:
  portcullis report > report.html
  portcullis report -f deploy/ > report.html
  portcullis report -o json > monday.json
  portcullis report --compare monday.json > report.html
  portcullis report --fleet reports/ > fleet.html
`;

export const command = defineCommand({
  details: DETAILS,
  options: {
    ...rolloutOptions,
    namespace: sccReviewOptions.namespace,
    compare: option('FILE', nonEmpty, undefined, { help: 'Earlier report to compare with, written with -o json' }),
    fleet: flag({
      help: 'Join the reports of many clusters, written with -o json',
      conflicts: ['compare', 'config', 'context', 'kubeconfig', 'scc-mode'],
    }),
    output: outputOption(['html', 'json', 'csv']),
  },
  async run(options, _operands, io) {
    const { output, filename, 'installation-namespace': namespace } = options;
    if (output === 'html' && io.stdout.isTTY === true) {
      throw new UserError('the output is an HTML page: write it to a file with > report.html, or set -o json');
    }
    const date = new Date();
    if (options.fleet) return await reportFleet(filename, output, { io, date });
    if (output === 'csv') throw new UserError('-o csv requires --fleet; the page of one cluster exports CSV');
    const before = options.compare === undefined ? undefined : await readReport(options.compare);
    const facts = await gatherRollout(options, io, date);
    const target = filename.length > 0 ? undefined : await findCluster({ ...options, env: io.env });
    const source = target?.server ?? filename.join(', ');
    const isFromFile = options.config !== undefined;
    const report = await computeReport({ facts, date, source, context: target?.context, namespace, isFromFile }, io);
    const data = { ...report, comparison: before && compareReports(before, report) };
    if (output === 'json') io.stdout.write(printData('json', data));
    else io.stdout.write(renderPage(await bundlePage('report'), { title: 'Portcullis report', data }));
    return EXIT.passed;
  },
});

/** Number of denied workloads that a page lists, which keeps it below 5 MB. JSON contains all of them. */
const MAX_LISTED = 50_000;

async function reportFleet(
  paths: readonly string[],
  output: 'html' | 'json' | 'csv',
  { io, date }: { readonly io: Io; readonly date: Date },
): Promise<number> {
  if (paths.length === 0) throw new UserError('--fleet requires the files or the directories of reports');
  const maxWorkloads = output === 'html' ? MAX_LISTED : Infinity;
  const time = formatTimestamp(date.getTime());
  const data = await joinReports(await listReports(paths), { time, maxWorkloads });
  for (const note of data.notes) io.stderr.write(`warning: ${note}\n`);
  if (output === 'json') io.stdout.write(printData('json', data));
  else if (output === 'csv') io.stdout.write(fleetToCsv(data.clusters, data.checks));
  else io.stdout.write(renderPage(await bundlePage('fleet'), { title: 'Portcullis fleet report', data }));
  return EXIT.passed;
}

type ComparedReport = Pick<ReportData, 'source' | 'time' | 'namespaces'>;

/** Compares the violations of denied workloads. Namespaces whose evaluation failed in either report are skipped. */
function compareReports(before: ComparedReport, after: ComparedReport): ReportComparison {
  const inconclusive = [before, after].flatMap(({ namespaces }) =>
    namespaces.filter(({ verdict }) => verdict === 'inconclusive').map(({ name }) => name),
  );
  const skipped = new Set(inconclusive);
  const [old, current] = [listViolations(before, skipped), listViolations(after, skipped)];
  const added = [...current].filter(([key]) => !old.has(key));
  return {
    source: before.source,
    time: before.time,
    added: groupByWorkload(added),
    fixed: groupByWorkload([...old].filter(([key]) => !current.has(key))),
    unchanged: current.size - added.length,
    skipped: [...skipped].sort(),
  };
}

type Violation = Omit<DeniedWorkload, 'checks'> & { readonly namespace: string; readonly check: string };

/** Returns the violations of denied workloads by namespace, kind, name and check. */
function listViolations({ namespaces }: ComparedReport, skipped: ReadonlySet<string>): ReadonlyMap<string, Violation> {
  return new Map(
    namespaces
      .filter(({ name }) => !skipped.has(name))
      .flatMap(({ name: namespace, workloads }) =>
        workloads
          .filter(({ verdict }) => verdict !== 'restart')
          .flatMap(({ kind, name, violations }) => violations.map(({ check }) => ({ namespace, kind, name, check }))),
      )
      .map((value) => [Object.values(value).join('/'), value]),
  );
}

function groupByWorkload(violations: readonly (readonly [key: string, Violation])[]): ReportComparison['added'] {
  const groups = Map.groupBy(violations, ([, { namespace, kind, name }]) => [namespace, kind, name].join('/'));
  return [...groups.values()].flatMap((group) =>
    group.slice(0, 1).map(([, { namespace, kind, name }]) => {
      return { namespace, kind, name, checks: group.map(([, { check }]) => check) };
    }),
  );
}
