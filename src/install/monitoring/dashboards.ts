/** The Grafana dashboards. NAMESPACE in expressions stands for the namespace of the installation. */
import type { OptionalFeature } from '../../api/names.ts';

type Query = readonly [expr: string, legend: string];
type Panel = readonly [title: string, unit: string, ...queries: readonly Query[]];

interface Dashboard {
  /** File name without its extension, and the UID. */
  readonly name: string;
  readonly title: string;
  /** The dashboard exists only in installations with this feature. */
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
export function buildDashboard({ name, title, hasClusters = false, rows }: Dashboard) {
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
