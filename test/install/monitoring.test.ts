/** Alerts and panels ask for what there is, and somebody says what to do. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { suite, test } from 'node:test';
import { defaultSettings, buildManifests, type Manifest } from '../../src/install/index.ts';
import { buildAlerts, dashboardPanels } from '../../src/install/monitoring.ts';
import { createMetrics } from '../../src/telemetry/metrics.ts';

/** Metrics of Prometheus and of API servers. */
const OF_OTHERS = [
  'up',
  'apiserver_admission_webhook_fail_open_count',
  'apiserver_admission_webhook_rejection_count',
  'process_resident_memory_bytes',
  'process_cpu_seconds_total',
];

const described = await createMetrics({ version: '0.0.0' }).describe();
const known = new Set([...OF_OTHERS, ...described.map(({ name }) => name)]);

/** The metrics that an expression asks for: what stands before a selector. */
function metricsIn(expression: string): readonly string[] {
  return [...expression.matchAll(/([a-z_:][a-z0-9_:]*)\{/g)].map(([, name = '']) => name.replace(/_bucket$/, ''));
}

const alerts = buildAlerts('portcullis');

suite('expressions ask for metrics that there are', () => {
  const expressions: readonly (readonly [string, string])[] = [
    ...alerts.map(({ name, expr }) => [name, expr] as const),
    ...dashboardPanels('portcullis').flatMap(({ title, queries }) => queries.map(([expr]) => [title, expr] as const)),
  ];
  for (const [name, expression] of expressions) {
    test(name, () => {
      const metrics = metricsIn(expression);
      assert.notEqual(metrics.length, 0, expression);
      assert.deepEqual(
        metrics.filter((one) => !known.has(one)),
        [],
      );
    });
  }
});

test('the runbook says what to do about each alert', () => {
  const runbook = readFileSync(join(import.meta.dirname, '../../docs/runbook.md'), 'utf8');
  const headings = new Set([...runbook.matchAll(/^#+ (.+)$/gm)].map(([, heading]) => heading));
  assert.deepEqual(
    alerts.map(({ name }) => name).filter((name) => !headings.has(name)),
    [],
  );
});

test('each alert names its part of the runbook', () => {
  const manifests = buildManifests({ ...defaultSettings('0.0.0'), monitoring: 'prometheus-operator' });
  const rule = manifests.find(({ kind }) => kind === 'PrometheusRule') as Manifest & {
    readonly spec: { readonly groups: readonly { readonly rules: readonly { readonly annotations: object }[] }[] };
  };
  const urls = rule.spec.groups.flatMap(({ rules }) =>
    rules.map(({ annotations }) => (annotations as { runbook_url: string }).runbook_url),
  );
  assert.deepEqual(
    urls,
    alerts.map(({ name }) => `https://portcullis.dev/docs/runbook.md#${name.toLowerCase()}`),
  );
});
