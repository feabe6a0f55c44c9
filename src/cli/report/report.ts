import { findCluster } from '../../cluster/cluster-source.ts';
import { printCount } from '../../kube/text.ts';
import { formatTimestamp } from '../../kube/units.ts';
import { UserError } from '../../kube/user-error.ts';
import type { FleetData } from '../../web/fleet-data.ts';
import { fleetToCsv } from '../../web/fleet-view.ts';
import {
  type DeniedWorkload,
  REPORT_API_VERSION,
  type ReportComparison,
  type ReportData,
} from '../../web/report-data.ts';
import { type ClusterOutcome, clustersOptions, gatherClusters, printClusters, selectContexts } from '../clusters.ts';
import { defineCommand, EXIT, type Io } from '../command.ts';
import { gatherRollout, rolloutOptions, type RolloutValues } from '../inventory/rollout.ts';
import { sccReviewOptions } from '../inventory/settings.ts';
import { flag, nonEmpty, oneOf, option, type Values } from '../options.ts';
import { bundlePage } from '../output/bundle.ts';
import { renderPage } from '../output/html.ts';
import { outputOption, outputStyle, printable, printData, printTable, type Style } from '../output/print.ts';
import { createFleet, type Fleet } from './fleet.ts';
import { COUNT_COLUMNS, countCells } from './namespaces.ts';
import { computeReport } from './report-data.ts';
import { listReports, readReport, readReports, REPORT_LIST } from './saved-report.ts';
import { printStandard } from './standards.ts';

const DETAILS = `
Writes a self-contained HTML file with the state of the enforcement rollout, the denied workloads of each
namespace and level with their fixes, the use and the grants of SCCs (SecurityContextConstraints), the
exceptions and the exemptions. Users can filter, sort and print the page, and export it as CSV and JSON. It
contains names from the cluster.

With --compare, the report lists the violations that are new or fixed since an earlier report.

The command computes the report from the current state of the cluster, or from manifests that it treats as a
complete cluster. The command changes nothing. It requires permissions to read all namespaces.

With --fleet, the command joins reports of many clusters that -o json has written. It reads only the given files,
or the .json files in a directory. The page links to a cluster's own report if an .html file with the same name
exists. -o csv and -o table print one row for each cluster.

With several --context flags, a pattern, or --all-contexts, the command computes the reports of these clusters and
joins them in the same way. -o json prints a list of the reports, which --fleet reads. If a cluster cannot be read,
its row contains the error, and the exit code is 2.

With --reference, the joined report also lists the differences from one cluster: settings, levels, exemptions,
grants, exceptions, and the checks that only the other clusters violate.

With --standard, the command prints a table with the controls of the CIS Kubernetes Benchmark or the Kubernetes
Hardening Guide of NSA and CISA: the level that contains each control, the number of namespaces that enforce it, and
the number of workloads that violate it. -o json lists these namespaces and workloads.

Examples:
  portcullis report > report.html
  portcullis report -f deploy/ > report.html
  portcullis report -o json > monday.json
  portcullis report --compare monday.json > report.html
  portcullis report --standard cis -o csv > cis.csv
  portcullis report --fleet reports/ > fleet.html
  portcullis report --context 'prod-*' --reference prod-1 -o table
`;

const options = {
  ...rolloutOptions,
  ...clustersOptions,
  namespace: sccReviewOptions.namespace,
  compare: option('FILE', nonEmpty, undefined, {
    help: 'Earlier report to compare with, in the format of -o json',
  }),
  fleet: flag({
    help: 'Combine the reports of many clusters that -o json has written',
    conflicts: ['compare', 'config', 'context', 'all-contexts', 'kubeconfig', 'scc-mode'],
  }),
  reference: option('NAME', nonEmpty, undefined, {
    help: 'With --fleet or several contexts, compare the other clusters with the cluster that has this name or context',
  }),
  standard: option('STANDARD', oneOf(['cis', 'nsa'] as const), undefined, {
    help: 'Print the controls of the CIS benchmark or the NSA and CISA guide',
    conflicts: ['compare', 'fleet', 'all-contexts'],
  }),
  output: outputOption(['html', 'json', 'csv', 'table']),
};

export const command = defineCommand({
  details: DETAILS,
  options,
  async run(options, _operands, io) {
    const { output, filename, compare, reference, standard, fleet: isFleet } = options;
    if (output === 'html' && standard === undefined && io.stdout.isTTY === true) {
      throw new UserError('the output is an HTML page: write it to a file with > report.html, or set -o json');
    }
    if (isFleet) return await reportFiles(filename, options, io);
    if (options.namespace !== undefined && filename.length === 0) {
      throw new UserError('-n applies only to manifests: a report contains the complete cluster');
    }
    const contexts = await selectContexts(options, io);
    if (standard !== undefined) {
      if (contexts) throw new UserError('--standard prints the controls of one cluster: select one context');
      const report = await reportCluster({ ...options, context: options.context[0] }, io);
      io.text.write(printStandard(report, standard, { output, style: outputStyle(io) }));
      return EXIT.passed;
    }
    if (contexts) return await reportClusters(contexts, options, io);
    if (output === 'csv')
      throw new UserError('-o csv requires --fleet or several contexts; the page of one cluster exports CSV');
    if (output === 'table') throw new UserError('-o table requires --fleet or several contexts');
    if (reference !== undefined) throw new UserError('--reference requires --fleet or several contexts');
    const before = compare === undefined ? undefined : await readReport(compare);
    const report = await reportCluster({ ...options, context: options.context[0] }, io);
    const data = { ...report, comparison: before && compareReports(before, report) };
    if (output === 'json') io.stdout.write(printData('json', data));
    else io.stdout.write(renderPage(await bundlePage('report'), { title: 'Portcullis report', data }));
    return EXIT.passed;
  },
});

async function reportCluster(options: RolloutValues, io: Io): Promise<ReportData> {
  const { filename, config, 'installation-namespace': namespace } = options;
  const date = new Date();
  const facts = await gatherRollout(options, io, date);
  const target = filename.length > 0 ? undefined : await findCluster({ ...options, env: io.env });
  const source = target?.server ?? filename.join(', ');
  const isFromFile = config !== undefined;
  const input = { facts, date, source, files: filename, context: target?.context, namespace, isFromFile };
  return await computeReport(input, io);
}

/** Number of denied workloads that a page lists, which keeps it below 5 MB. JSON contains all of them. */
const MAX_LISTED = 50_000;

type FleetValues = Pick<Values<typeof options>, 'output' | 'reference'>;

function startFleet({ output, reference }: FleetValues, reports: number): Fleet {
  const time = formatTimestamp(Date.now());
  return createFleet({ time, reports, reference, maxWorkloads: output === 'html' ? MAX_LISTED : Infinity });
}

async function reportFiles(paths: readonly string[], values: FleetValues, io: Io): Promise<number> {
  if (paths.length === 0) throw new UserError('--fleet requires report files or directories');
  const files = await listReports(paths);
  const fleet = startFleet(values, files.length);
  for (const file of files) {
    const reports = await readReports(file);
    for (const report of reports) {
      const { context = report.cluster.name } = report.cluster;
      fleet.add(report, reports.length === 1 ? { origin: file, file } : { origin: `${file}: ${context}` });
    }
  }
  await writeFleet(fleet.finish(), values, io);
  return EXIT.passed;
}

async function reportClusters(contexts: readonly string[], values: Values<typeof options>, io: Io): Promise<number> {
  const { output, compare, reference } = values;
  if (compare !== undefined) throw new UserError('--compare compares the reports of one cluster: select one context');
  if (output === 'json' && reference !== undefined) {
    throw new UserError('-o json saves the reports without a comparison: join them with --fleet and --reference');
  }
  const fleet = startFleet(values, contexts.length);
  const outcomes = await gatherClusters({ contexts, values, io }, async (own, ownIo) => {
    const report = await reportCluster(own, ownIo);
    // Excludes a report that is completed only after the time limit.
    ownIo.signal.throwIfAborted();
    if (output === 'json') return report;
    fleet.add(report, { origin: own.context ?? '' });
    return undefined;
  });
  const failed = outcomes.flatMap(({ cluster, error }) => (error === undefined ? [] : [{ cluster, error }]));
  for (const report of failed) fleet.add(report, { origin: report.cluster.context ?? '' });
  if (output === 'json') {
    for (const { cluster, error } of failed)
      io.stderr.write(`error: ${printable(`cluster ${cluster.name ?? cluster.context}: ${error}`)}\n`);
    writeReports(outcomes, io);
  } else await writeFleet(fleet.finish(), values, io);
  return failed.length === 0 ? EXIT.passed : EXIT.usage;
}

/**
 * Prints a list of reports one at a time, because a string with all reports may exceed the maximum string length of
 * Node.
 */
function writeReports(outcomes: readonly ClusterOutcome<ReportData | undefined>[], { stdout }: Io): void {
  stdout.write(`{\n  "apiVersion": "${REPORT_API_VERSION}",\n  "kind": "${REPORT_LIST}",\n  "items": [\n`);
  for (const [index, { cluster, error, result }] of outcomes.entries()) {
    stdout.write(`${index === 0 ? '' : ',\n'}${printData('json', result ?? { cluster, error }).trimEnd()}`);
  }
  stdout.write('\n  ]\n}\n');
}

async function writeFleet(data: FleetData, { output }: FleetValues, io: Io): Promise<void> {
  for (const note of data.notes) io.stderr.write(`warning: ${printable(note)}\n`);
  for (const { name, error } of output === 'table' ? [] : data.unread) {
    io.stderr.write(`error: ${printable(`cluster ${name}: ${error}`)}\n`);
  }
  if (output === 'json') io.stdout.write(printData('json', data));
  else if (output === 'csv') io.stdout.write(fleetToCsv(data.clusters, data));
  else if (output === 'table') io.text.write(printFleet(data, outputStyle(io)));
  else io.stdout.write(renderPage(await bundlePage('fleet'), { title: 'Portcullis fleet report', data }));
}

function printFleet({ clusters, unread, reference, differences = [] }: FleetData, style: Style): string {
  const rows = clusters.map((cluster) => {
    const { name, state, default: level, namespaces, notEvaluated, next } = cluster;
    const counts = countCells(namespaces, notEvaluated.length, (verdict) => cluster.workloads[verdict]);
    return { cluster: { name }, result: { row: [state, level, ...counts], message: next } };
  });
  const failed = unread.map(({ name, error }) => ({ cluster: { name }, error }));
  const table = printClusters([...rows, ...failed], { columns: ['STATE', 'DEFAULT', ...COUNT_COLUMNS], style });
  if (reference === undefined) return table;
  const header = ['KIND', 'NAME', reference.toUpperCase(), 'VALUE', 'CLUSTERS'];
  const lines = differences.map(({ clusters: names, ...one }) => [
    ...[one.kind, one.name, one.reference, one.value],
    names.join(', '),
  ]);
  const title = `${printCount(differences.length, 'difference')} from ${reference}`;
  return `${table}\n${style('bold', printable(title))}\n${lines.length === 0 ? '' : printTable([header, ...lines])}`;
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
