import type { V1ConfigMap } from '@kubernetes/client-node';
import { INSTALLATION, OPTIONAL_FEATURES } from '../api/names.ts';
import alerts from './monitoring/alerts.json' with { type: 'json' };
import { buildDashboard, DASHBOARDS } from './monitoring/dashboards.ts';
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

/** Returns a ConfigMap with the dashboards of the installed features. Grafana's sidecar selects it by label. */
function dashboardConfigMap(settings: ManifestSettings): ManifestOf<V1ConfigMap> {
  const { labels, ...metadata } = namespacedMetadata(settings.namespace, 'portcullis-dashboard');
  const dashboards = DASHBOARDS.filter(({ feature }) => feature === undefined || settings.features[feature]);
  const files = dashboards.map((dashboard) => {
    const text = `${JSON.stringify(buildDashboard(dashboard), undefined, 2)}\n`;
    return [`${dashboard.name}.json`, replaceNamespace(text, settings)] as const;
  });
  return {
    apiVersion: 'v1',
    kind: 'ConfigMap',
    metadata: { ...metadata, labels: { ...labels, grafana_dashboard: '1' } },
    data: Object.fromEntries(files),
  };
}

/**
 * Metrics of the leader that are recorded for each cluster, with the labels that remain. Series of different clusters
 * have different `cluster` labels, which each Prometheus adds as an external label.
 */
const RECORDED: Readonly<Record<string, readonly string[]>> = {
  psa_rollout_workloads: ['verdict'],
  psa_rollout_namespaces: ['state'],
  psa_rollout_violating_namespaces: ['class'],
  psa_rollout_enforcement_mode: ['mode'],
  psa_rollout_enforcing: [],
  psa_rollout_last_evaluation_timestamp_seconds: [],
};

/** Recording rules for dashboards and queries about many clusters. */
export const RECORDING_RULES = Object.entries(RECORDED).map(([metric, labels]) => {
  const kept = ['cluster', ...labels];
  return {
    record: `${kept.join('_')}:${metric}:max`,
    expr: `max by (${kept.join(', ')}) (${metric}{namespace="NAMESPACE"})`,
  };
});

/**
 * Returns the recording rules, and the alerts of the installed features, for the Prometheus operator. Alerts are sorted
 * by urgency. Each refers to its section in the runbook, by path in the released files and, if set, by URL. Severity
 * `critical` requires immediate action, `warning` requires action during working hours, and `info` requires no urgent
 * action. Rollout alerts are never critical, because enforcement waits and reports the reason.
 */
function prometheusRule(settings: ManifestSettings): CustomManifest {
  const alertsOf = (installed: string | undefined) =>
    alerts.flatMap(({ feature, ...rule }) => {
      if (feature !== installed) return [];
      const section = rule.alert.toLowerCase();
      const link = settings.runbook === '' ? {} : { runbook_url: `${settings.runbook}#${section}` };
      const annotations = { ...rule.annotations, runbook: `${RUNBOOK}#${section}`, ...link };
      return [{ ...rule, expr: replaceNamespace(rule.expr, settings), annotations }];
    });
  const { name } = INSTALLATION;
  const records = RECORDING_RULES.map((rule) => ({ ...rule, expr: replaceNamespace(rule.expr, settings) }));
  return {
    apiVersion: 'monitoring.coreos.com/v1',
    kind: 'PrometheusRule',
    metadata: namespacedMetadata(settings.namespace, name),
    spec: {
      groups: [
        { name, rules: alertsOf(undefined) },
        { name: `${name}-clusters`, rules: records },
        ...OPTIONAL_FEATURES.filter((feature) => settings.features[feature]).map((feature) => {
          return { name: `${name}-${feature}`, rules: alertsOf(feature) };
        }),
      ],
    },
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
