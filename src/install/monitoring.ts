import type { V1ConfigMap } from '@kubernetes/client-node';
import { INSTALLATION, OPTIONAL_FEATURES, type OptionalFeature } from '../api/names.ts';
import alerts from './alerts.json' with { type: 'json' };
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
 * Metrics of the leader that are recorded for each cluster, with the labels to keep. Series of different clusters have
 * different `cluster` labels, which each Prometheus server adds as an external label.
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
 * by urgency. Each alert refers to its section in the runbook, by path in the released files and, if set, by URL.
 * Severity `critical` requires immediate action, `warning` requires action during working hours, and `info` requires no
 * urgent action. Rollout alerts are never critical, because enforcement waits and reports the reason.
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
  // The ServiceMonitor selects the Service, which exists only if the replicas have pods.
  const monitors = settings.hasPods ? [serviceMonitor(settings)] : [];
  return [...monitors, prometheusRule(settings), dashboardConfigMap(settings)];
}

// Grafana dashboards. NAMESPACE in expressions represents the installation namespace.

type Query = readonly [expr: string, legend: string];
type Panel = readonly [title: string, unit: string, ...queries: readonly Query[]];

interface Dashboard {
  /** File name without its extension, which is also the UID. */
  readonly name: string;
  readonly title: string;
  /** Feature that an installation needs for the dashboard. If absent, the dashboard is always installed. */
  readonly feature?: OptionalFeature;
  /** True if the dashboard has a `cluster` variable, whose value `$cluster` is a regular expression. */
  readonly hasClusters?: boolean;
  readonly rows: Readonly<Record<string, readonly Panel[]>>;
}

export const DASHBOARDS: readonly Dashboard[] = [
  {
    name: 'portcullis',
    title: 'Portcullis',
    rows: {
      Reviews: [
        [
          'Reviews',
          'reqps',
          [
            'sum by (webhook, code) (rate(portcullis_webhook_requests_total{namespace="NAMESPACE"}[5m]))',
            '{{webhook}} {{code}}',
          ],
        ],
        ['Review duration', 's', duration('0.5', 'p50'), duration('0.99', 'p99')],
        [
          'Pod Security: evaluations',
          'reqps',
          [
            'sum by (decision, mode, policy_level) (rate(pod_security_evaluations_total{namespace="NAMESPACE"}[5m]))',
            '{{decision}} {{mode}} {{policy_level}}',
          ],
        ],
        [
          'Time since the last watch event',
          's',
          ['max by (kind) (portcullis_cluster_last_event_age_seconds{namespace="NAMESPACE"})', '{{kind}}'],
        ],
      ],
      Rollout: [
        [
          'Rollout: workloads',
          'short',
          ['max by (verdict) (psa_rollout_workloads{namespace="NAMESPACE"})', '{{verdict}}'],
        ],
        [
          'Rollout: namespaces',
          'short',
          ['max by (state) (psa_rollout_namespaces{namespace="NAMESPACE"})', '{{state}}'],
        ],
        [
          'Rollout: violating namespaces by class',
          'short',
          ['max by (class) (psa_rollout_violating_namespaces{namespace="NAMESPACE"})', '{{class}}'],
        ],
        [
          'Rollout: enforcement',
          'short',
          ['max(psa_rollout_enforcing{namespace="NAMESPACE"})', 'enforcing'],
          ['max by (reason) (psa_rollout_progressing{namespace="NAMESPACE"})', 'progressing: {{reason}}'],
        ],
      ],
      Replicas: [
        [
          'Replicas',
          'short',
          ['sum(up{job="portcullis",namespace="NAMESPACE"})', 'up'],
          ['sum(leader_election_master_status{namespace="NAMESPACE"})', 'leader'],
          ['sum(portcullis_serving_certificate_trusted{namespace="NAMESPACE"})', 'trusted'],
        ],
        [
          'Certificates: remaining validity',
          's',
          [
            'min(portcullis_serving_certificate_expiry_timestamp_seconds{namespace="NAMESPACE"}) - time()',
            'serving certificate',
          ],
          [
            'min by (fingerprint) (portcullis_ca_expiry_timestamp_seconds{namespace="NAMESPACE"}) - time()',
            'authority {{fingerprint}}',
          ],
        ],
        [
          'Requests to the API server',
          'reqps',
          [
            'sum by (method, code) (rate(rest_client_requests_total{namespace="NAMESPACE"}[5m]))',
            '{{method}} {{code}}',
          ],
        ],
        ['Work queues', 'short', ['sum by (name) (workqueue_depth{namespace="NAMESPACE"})', '{{name}}']],
        [
          'Controllers: errors',
          'reqps',
          [
            'sum by (controller) (rate(portcullis_controller_reconcile_errors_total{namespace="NAMESPACE"}[5m]))',
            '{{controller}}',
          ],
        ],
        ['Memory', 'bytes', ['process_resident_memory_bytes{namespace="NAMESPACE"}', '{{pod}}']],
        ['CPU', 'percentunit', ['rate(process_cpu_seconds_total{namespace="NAMESPACE"}[5m])', '{{pod}}']],
      ],
    },
  },
  {
    name: 'portcullis-clusters',
    title: 'Portcullis: clusters',
    hasClusters: true,
    rows: {
      'All selected clusters': [
        [
          'Violating namespaces by class',
          'short',
          ['sum by (class) (cluster_class:psa_rollout_violating_namespaces:max{cluster=~"$cluster"})', '{{class}}'],
        ],
        [
          'Namespaces by state',
          'short',
          ['sum by (state) (cluster_state:psa_rollout_namespaces:max{cluster=~"$cluster"})', '{{state}}'],
        ],
        [
          'Clusters by mode',
          'short',
          ['sum by (mode) (cluster_mode:psa_rollout_enforcement_mode:max{cluster=~"$cluster"})', '{{mode}}'],
        ],
        [
          'Clusters that enforce',
          'short',
          ['sum(cluster:psa_rollout_enforcing:max{cluster=~"$cluster"})', 'enforcing'],
          ['count(cluster:psa_rollout_enforcing:max{cluster=~"$cluster"})', 'all clusters'],
        ],
      ],
      'Each cluster': [
        ['Workloads that enforcement would deny', 'short', workloads('wouldBeDenied')],
        ['Workloads that are denied now', 'short', workloads('deniedNow')],
        ['Workloads to restart', 'short', workloads('restart')],
        [
          'Namespaces that could not be evaluated',
          'short',
          ['cluster_state:psa_rollout_namespaces:max{cluster=~"$cluster",state="inconclusive"}', '{{cluster}}'],
        ],
        [
          'Time since the last complete evaluation',
          's',
          [
            'time() - (cluster:psa_rollout_last_evaluation_timestamp_seconds:max{cluster=~"$cluster"} > 0)',
            '{{cluster}}',
          ],
        ],
      ],
    },
  },
  {
    name: 'portcullis-scc',
    title: 'Portcullis: SCCs',
    feature: 'scc',
    rows: {
      SCCs: [
        [
          'SCC: decisions',
          'reqps',
          [
            'sum by (decision, mode, scc) (rate(portcullis_scc_decisions_total{namespace="NAMESPACE"}[5m]))',
            '{{decision}} {{mode}} {{scc}}',
          ],
        ],
        [
          'SCC: broken and missing',
          'short',
          ['max by (scc) (portcullis_scc_broken{namespace="NAMESPACE"})', 'broken: {{scc}}'],
          ['max by (scc) (portcullis_scc_missing{namespace="NAMESPACE"})', 'missing: {{scc}}'],
        ],
      ],
    },
  },
];

function duration(quantile: string, legend: string): Query {
  const rate = 'rate(portcullis_webhook_request_duration_seconds_bucket{namespace="NAMESPACE"}[5m])';
  return [`histogram_quantile(${quantile}, sum by (le, webhook) (${rate}))`, `${legend} {{webhook}}`];
}

function workloads(verdict: string): Query {
  return [`cluster_verdict:psa_rollout_workloads:max{cluster=~"$cluster",verdict="${verdict}"}`, '{{cluster}}'];
}

const DATASOURCE = { type: 'prometheus', uid: '${datasource}' } as const;

/** Returns the JSON model of a dashboard, with two panels in each line of a row. */
function buildDashboard({ name, title, hasClusters = false, rows }: Dashboard) {
  let y = 0;
  const panels = Object.entries(rows).flatMap(([row, members]) => {
    const top = y;
    y += 1 + 8 * Math.ceil(members.length / 2);
    return [
      { type: 'row', title: row, collapsed: false, gridPos: { w: 24, h: 1, x: 0, y: top }, panels: [] },
      ...members.map((panel, index) => {
        return buildPanel(panel, { x: 12 * (index % 2), y: top + 1 + 8 * Math.floor(index / 2) });
      }),
    ];
  });
  const clusters = {
    name: 'cluster',
    type: 'query',
    datasource: DATASOURCE,
    refresh: 2,
    sort: 1,
    query: 'label_values(cluster:psa_rollout_enforcing:max, cluster)',
    multi: true,
    includeAll: true,
    allValue: '.*',
    current: { text: 'All', value: '$__all' },
  };
  return {
    uid: name,
    title,
    tags: ['kubernetes', 'security'],
    schemaVersion: 39,
    refresh: '30s',
    time: { from: 'now-6h', to: 'now' },
    templating: {
      list: [{ name: 'datasource', type: 'datasource', query: 'prometheus' }, ...(hasClusters ? [clusters] : [])],
    },
    panels: panels.map((panel, index) => ({ id: index + 1, ...panel })),
  };
}

function buildPanel([title, unit, ...queries]: Panel, position: { readonly x: number; readonly y: number }) {
  return {
    type: 'timeseries',
    title,
    datasource: DATASOURCE,
    gridPos: { w: 12, h: 8, ...position },
    fieldConfig: { defaults: { unit, min: 0 }, overrides: [] },
    targets: queries.map(([expr, legendFormat], index) => {
      return { refId: String.fromCharCode(65 + index), datasource: DATASOURCE, expr, legendFormat };
    }),
  };
}
