import { readResults, type ChartResult, type LevelResult, type SccResult } from '../../test/charts/results.ts';
import { code, formatMarkdownTable } from './markdown.ts';

/** Formats a count as `all`, `2 of 3` or `none`. */
function formatCount(allowed: number, workloads: number): string {
  return allowed === workloads ? 'all' : allowed === 0 ? 'none' : `${allowed} of ${workloads}`;
}

/** Formats the result for a level. Omits the checks that another column already lists. */
function formatLevel({ allowed, checks }: LevelResult, workloads: number, listed: LevelResult['checks'] = {}): string {
  const names = Object.keys(checks).filter((name) => listed[name] === undefined);
  return `${formatCount(allowed, workloads)}${names.length === 0 ? '' : `: ${names.map(code).join(', ')}`}`;
}

function formatScc({ sccs, grants }: SccResult, workloads: number): string {
  const allowed = Object.values(sccs).reduce((sum, count) => sum + count, 0);
  const others = Object.keys(sccs).filter((name) => name !== 'restricted-v2');
  const granted = others.length === 0 ? '' : ` (with ${others.map(code).join(', ')})`;
  const missing = grants === '' ? '' : `; grant ${grants.split(' ').map(code).join(', ')}`;
  return `${formatCount(allowed, workloads)}${granted}${missing}`;
}

function formatRow([name, result]: readonly [string, ChartResult]): readonly string[] {
  const { version, home, workloads, baseline, restricted, scc } = result;
  return [
    home === '' ? name : `[${name}](${home})`,
    version,
    String(workloads),
    formatLevel(baseline, workloads),
    formatLevel(restricted, workloads, baseline.checks),
    formatScc(scc, workloads),
  ];
}

/** Returns the number of charts whose workloads all run. */
function countComplete(charts: readonly ChartResult[], allowed: (chart: ChartResult) => number): string {
  return String(charts.filter((chart) => allowed(chart) === chart.workloads).length);
}

function formatSummary(charts: readonly ChartResult[]): string {
  return formatMarkdownTable(
    ['', 'charts whose workloads all run'],
    [
      ['`baseline`', countComplete(charts, ({ baseline }) => baseline.allowed)],
      ['`restricted`', countComplete(charts, ({ restricted }) => restricted.allowed)],
      ['`restricted-v2`', countComplete(charts, ({ scc }) => scc.sccs['restricted-v2'] ?? 0)],
      ['all charts', String(charts.length)],
    ],
  );
}

/** Returns a sentence about the comparison with OpenShift's API server. */
function formatOpenShift(charts: readonly ChartResult[]): string {
  const compared = charts.filter(({ openshift }) => openshift !== undefined);
  const workloads = compared.reduce((sum, chart) => sum + chart.workloads, 0);
  const versions = [...new Set(compared.map(({ openshift }) => openshift))].join('; ');
  return `OpenShift's API server (${versions}) makes the same decision with SCC admission about all ${workloads} workloads of ${compared.length} charts. It selects the same SCC and sets the same security contexts, or denies the pod for the same reasons.`;
}

/** Formats the results of charts as a page. */
export function formatChartReference(): string {
  const { cluster, date, charts } = readResults();
  const entries = Object.entries(charts);
  const values = entries.filter(([, chart]) => Object.keys(chart.values).length > 0);
  return `# Charts

This page lists which workloads of ${entries.length} popular Helm charts run at each level and with SCC admission, with the default values of each chart. [Fixing charts and manifests](../how-to/chart-authors.md) describes how to change a chart. \`npm run docs\` generates this page from the results of \`npm test -- charts\`.

The verdicts come from dry-run creations of the workloads' pods in a cluster (${cluster}, ${date}) with two replicas. \`portcullis check\`, \`portcullis check --platform=openshift\`, \`portcullis rollout plan\` and \`portcullis scc plan\` have the same verdict for every workload.

${formatOpenShift(entries.map(([, chart]) => chart))}

- A workload is an object of a built-in kind. Pods that an operator creates from its custom resources are not included.
- If some workloads do not run, the cell lists the [checks](pod-security.md#levels-by-field) that they fail. The \`restricted\` column omits the checks in the \`baseline\` column.
- With SCC admission, the chart is rendered as in a cluster that serves SCCs, so it may adapt its security contexts. Grants and SCCs in the chart are taken into account. Without a grant, pods use \`restricted-v2\`, or \`restricted-v3\` with \`hostUsers: false\`. If no usable SCC admits a workload, the cell lists the least permissive SCC to grant.
- The tests do not verify that an image works with the user that an SCC sets.

${formatSummary(entries.map(([, chart]) => chart))}
${formatMarkdownTable(
  ['chart', 'version', 'workloads', '`baseline`', '`restricted`', 'SCC admission'],
  entries.map(formatRow),
)}
Charts that require values are rendered with the following values:

${formatMarkdownTable(
  ['chart', 'values'],
  values.map(([name, chart]) => [
    name,
    Object.entries(chart.values)
      .map(([path, value]) => code(`${path}=${value}`))
      .join(', '),
  ]),
)}`;
}
