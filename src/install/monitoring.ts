import type { V1ConfigMap } from '@kubernetes/client-node';
import { INSTALLATION } from '../api/names.ts';
import alerts from './monitoring/alerts.json' with { type: 'json' };
import dashboard from './monitoring/dashboard.json' with { type: 'json' };
import {
  type CustomManifest,
  type Manifest,
  type ManifestOf,
  type ManifestSettings,
  namespacedMetadata,
  SELECTOR_LABELS,
} from './settings.ts';

/** Path of the runbook in the repository and in the npm package. */
const RUNBOOK = 'docs/how-to/runbook.md';

/** Replaces the namespace placeholder in alert and dashboard expressions. */
function replaceNamespace(text: string, { namespace }: ManifestSettings): string {
  return text.replaceAll('NAMESPACE', namespace);
}

/** Returns a ConfigMap with the dashboard. Grafana's sidecar selects it by label. */
function dashboardConfigMap(settings: ManifestSettings): ManifestOf<V1ConfigMap> {
  const { labels, ...metadata } = namespacedMetadata(settings.namespace, 'portcullis-dashboard');
  return {
    apiVersion: 'v1',
    kind: 'ConfigMap',
    metadata: { ...metadata, labels: { ...labels, grafana_dashboard: '1' } },
    data: { 'portcullis.json': replaceNamespace(`${JSON.stringify(dashboard, undefined, 2)}\n`, settings) },
  };
}

/**
 * Returns the alerts for the Prometheus operator, most urgent first. Each refers to its section in the runbook, by path
 * in the released files and, if set, by URL. Severity `critical` requires immediate action, `warning` requires action
 * during working hours, and `info` requires no urgent action. Rollout alerts are never critical, because enforcement
 * waits and reports the reason.
 */
function prometheusRule(settings: ManifestSettings): CustomManifest {
  const rules = alerts.map((rule) => {
    const section = rule.alert.toLowerCase();
    const link = settings.runbook === '' ? {} : { runbook_url: `${settings.runbook}#${section}` };
    const annotations = { ...rule.annotations, runbook: `${RUNBOOK}#${section}`, ...link };
    return { ...rule, expr: replaceNamespace(rule.expr, settings), annotations };
  });
  return {
    apiVersion: 'monitoring.coreos.com/v1',
    kind: 'PrometheusRule',
    metadata: namespacedMetadata(settings.namespace, INSTALLATION.name),
    spec: { groups: [{ name: INSTALLATION.name, rules }] },
  };
}

/** Returns the replicas' scrape configuration for the Prometheus operator. */
function serviceMonitor({ namespace }: ManifestSettings): CustomManifest {
  return {
    apiVersion: 'monitoring.coreos.com/v1',
    kind: 'ServiceMonitor',
    metadata: namespacedMetadata(namespace, INSTALLATION.name),
    spec: {
      selector: { matchLabels: SELECTOR_LABELS },
      endpoints: [{ port: 'metrics', path: '/metrics', interval: '30s' }],
    },
  };
}

/** Returns the monitoring objects for clusters that run the Prometheus operator and Grafana. */
export function monitoringObjects(settings: ManifestSettings): readonly Manifest[] {
  // The ServiceMonitor selects the Service.
  const monitors = settings.hasPods ? [serviceMonitor(settings)] : [];
  return [...monitors, prometheusRule(settings), dashboardConfigMap(settings)];
}
