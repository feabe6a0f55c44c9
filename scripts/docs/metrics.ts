import type { MetricDescription } from '../../src/telemetry/metrics.ts';
import { cell, code, formatMarkdownTable } from './markdown.ts';
import { METRIC_NOTES } from './metric-notes.ts';

const HEAD = `# Metrics

Each replica serves these metrics in the Prometheus text format at \`/metrics\` of its [probe port](endpoints.md). Counters and
histograms appear with their first event. A counter has at most 1,000 series. An additional series, whose labels are all \`other\`, counts the rest. Metrics whose description begins with \`[ALPHA]\` have the names and descriptions of Kubernetes. \`npm run docs\` generates this page.
`;

/** Metrics of the runtime. They differ between platforms. */
const RUNTIME_METRICS = /^(?:process|nodejs)_/;

const RUNTIME_ROW = [
  '`process_*`, `nodejs_*`',
  '',
  '',
  'CPU, memory, open files, event loop and garbage collection of the process',
];

export function formatMetricReference(metrics: readonly MetricDescription[]): string {
  const documented = metrics.filter(({ name }) => !RUNTIME_METRICS.test(name));
  const unknown = Object.keys(METRIC_NOTES).filter((name) => !documented.some((metric) => metric.name === name));
  if (unknown.length > 0) throw new Error(`metric-notes.ts contains unknown metrics: ${unknown.join(', ')}`);
  const rows = documented.map((metric) => [
    code(metric.name),
    metric.type,
    metric.labels.map(code).join(', '),
    `${cell(metric.help)}${formatNote(metric)}`,
  ]);
  return [HEAD, formatMarkdownTable(['name', 'type', 'labels', 'description'], [...rows, RUNTIME_ROW])].join('\n');
}

function formatNote({ name, help }: MetricDescription): string {
  const note = METRIC_NOTES[name];
  return note === undefined ? '' : `${/[.!?]$/.test(help) ? '' : '.'} ${note}`;
}
