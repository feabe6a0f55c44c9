import type { MetricDescription } from '../../src/telemetry/metrics.ts';
import { METRIC_NOTES } from './metric-notes.ts';
import { cell, code, printMarkdownTable } from './markdown.ts';

const HEAD = `# Metrics

Made by \`npm run docs\` from what the program registers. They are at \`/metrics\` of the [port for probes](reference.md#endpoints), in the text format of
Prometheus. Counters and histograms appear with their first event. What begins with \`[ALPHA]\` is named and explained as Kubernetes does it.
`;

/** Those of the runtime differ by platform, and are explained by it. */
const OF_THE_RUNTIME = /^(?:process|nodejs)_/;

const RUNTIME_ROW = [
  '`process_*`, `nodejs_*`',
  '',
  '',
  'The process: CPU, memory, open files, event loop, garbage collection',
];

/** The reference of all metrics. */
export function printMetricReference(metrics: readonly MetricDescription[]): string {
  const ours = metrics.filter(({ name }) => !OF_THE_RUNTIME.test(name));
  const unknown = Object.keys(METRIC_NOTES).filter((name) => !ours.some((metric) => metric.name === name));
  if (unknown.length > 0) throw new Error(`metric-notes.ts explains what there is not: ${unknown.join(', ')}`);
  const rows = ours.map((metric) => [
    code(metric.name),
    metric.type,
    metric.labels.map(code).join(', '),
    `${cell(metric.help)}${noteOn(metric)}`,
  ]);
  return [HEAD, printMarkdownTable(['name', 'type', 'labels', 'what'], [...rows, RUNTIME_ROW])].join('\n');
}

function noteOn({ name, help }: MetricDescription): string {
  const note = METRIC_NOTES[name];
  return note === undefined ? '' : `${/[.!?]$/.test(help) ? '' : '.'} ${note}`;
}
