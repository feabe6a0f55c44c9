import type { V1ConfigMap } from '@kubernetes/client-node';
import { DEFAULT_ROLLOUT } from '../policy/rollout/settings.ts';
import { INSTALLATION } from '../kube/well-known.ts';
import {
  metadataIn,
  SELECTOR_LABELS,
  type ManifestSettings,
  type ManifestOf,
  type CustomManifest,
  type Manifest,
} from './settings.ts';

/** Somebody has to look: at once, in working hours, or some day. */
type Severity = 'critical' | 'warning' | 'info';

interface Alert {
  readonly name: string;
  /** In PromQL. */
  readonly expr: string;
  readonly for: string;
  readonly severity: Severity;
  /** One line. */
  readonly summary: string;
}

/** Of the names that API servers count webhooks by. */
const OUR_WEBHOOKS = String.raw`name=~"(.+[.])?(psa|scc)[.]portcullis[.]dev"`;

/** What people are woken for, most urgent first. Each has a part of its name in the runbook. */
export function alertsOf(namespace: string): readonly Alert[] {
  const ours = `namespace="${namespace}"`;
  const job = `job="${INSTALLATION.name}",${ours}`;
  return [
    {
      name: 'PortcullisDown',
      expr: `absent(up{${job}} == 1)`,
      for: '2m',
      severity: 'critical',
      summary: 'No replica answers: pods cannot be created but in namespaces that fail open.',
    },
    {
      name: 'PortcullisCallsFail',
      expr: `sum by (name) (increase(apiserver_admission_webhook_rejection_count{${OUR_WEBHOOKS},error_type=~"calling_webhook_error|apiserver_internal_error"}[5m])) > 0`,
      for: '2m',
      severity: 'critical',
      summary: 'API servers refuse requests because webhook {{ $labels.name }} cannot be called.',
    },
    {
      name: 'PortcullisCertificateNotTrusted',
      expr: `min by (pod) (portcullis_serving_certificate_trusted{${ours}}) == 0`,
      for: '5m',
      severity: 'critical',
      summary: 'The certificate of {{ $labels.pod }} does not fit what API servers trust.',
    },
    {
      name: 'PortcullisCertificateExpires',
      expr: `min by (pod) (portcullis_serving_certificate_expiry_timestamp_seconds{${ours}}) - time() < 2 * 86400`,
      for: '15m',
      severity: 'critical',
      summary: 'The certificate of {{ $labels.pod }} expires in less than two days and has not been renewed.',
    },
    {
      name: 'PortcullisFailsOpen',
      expr: `sum by (name) (increase(apiserver_admission_webhook_fail_open_count{${OUR_WEBHOOKS}}[5m])) > 0`,
      for: '0m',
      severity: 'warning',
      summary: 'Requests were let through because webhook {{ $labels.name }} could not be called.',
    },
    {
      name: 'PortcullisErrors',
      expr: `sum by (webhook, code) (rate(portcullis_webhook_requests_total{${ours},code=~"5.."}[5m])) > 0`,
      for: '5m',
      severity: 'warning',
      summary: 'Reviews at {{ $labels.webhook }} are answered {{ $labels.code }}.',
    },
    {
      name: 'PortcullisSlow',
      expr: `histogram_quantile(0.99, sum by (le, webhook) (rate(portcullis_webhook_request_duration_seconds_bucket{${ours}}[5m]))) > 1`,
      for: '5m',
      severity: 'warning',
      summary: 'One review in a hundred at {{ $labels.webhook }} takes more than a second.',
    },
    {
      name: 'PortcullisReplicasMissing',
      expr: `sum(up{${job}}) < 2`,
      for: '10m',
      severity: 'warning',
      summary: 'A single replica is left.',
    },
    {
      name: 'PortcullisNoLeader',
      expr: `max(leader_election_master_status{${ours},name="${INSTALLATION.name}"}) < 1`,
      for: '5m',
      severity: 'warning',
      summary: 'No replica leads: certificates are not renewed, new namespaces get no ranges.',
    },
    {
      name: 'PortcullisStale',
      expr: `max by (pod, kind) (portcullis_cluster_last_event_age_seconds{${ours}}) > 180`,
      for: '5m',
      severity: 'warning',
      summary: '{{ $labels.pod }} decides from what it last knew of {{ $labels.kind }}.',
    },
    {
      name: 'PortcullisConfigurationRejected',
      expr: `min by (pod) (portcullis_config_last_reload_successful{${ours}}) == 0`,
      for: '5m',
      severity: 'warning',
      summary: 'The configuration file of {{ $labels.pod }} is wrong; the last right one is in force.',
    },
    {
      name: 'PortcullisControllerErrors',
      expr: `sum by (controller) (increase(portcullis_controller_reconcile_errors_total{${ours}}[15m])) > 5`,
      for: '15m',
      severity: 'warning',
      summary: 'The controller {{ $labels.controller }} fails again and again.',
    },
    {
      name: 'PortcullisSccBroken',
      expr: `max by (scc) (portcullis_scc_broken{${ours}}) == 1`,
      for: '15m',
      severity: 'info',
      summary: 'The SCC {{ $labels.scc }} works in no namespace.',
    },
    ...rolloutAlertsOf(ours),
  ];
}

/** Twice as long as evaluations are apart where nobody says otherwise. */
const OLD_SECONDS = (2 * DEFAULT_ROLLOUT.evaluationIntervalMs) / 1000;

/** Nobody is woken for these: enforcement waits, and says why. */
function rolloutAlertsOf(ours: string): readonly Alert[] {
  const evaluated = `max(psa_rollout_last_evaluation_timestamp_seconds{${ours}})`;
  const isUnderWay = (reason: string): string => `max(psa_rollout_progressing{${ours},reason="${reason}"}) == 1`;
  return [
    {
      name: 'PodSecurityViolation',
      expr: `sum by (policy_level) (increase(pod_security_evaluations_total{${ours},decision="deny",mode="audit",resource="pod"}[1d])) > 0`,
      for: '0m',
      severity: 'info',
      summary: 'Pods were created that violate {{ $labels.policy_level }}, to which their namespaces are audited.',
    },
    {
      name: 'PodSecurityUserSCC',
      expr: `max(psa_rollout_namespaces{${ours},category="userSCC"}) > 0`,
      for: '24h',
      severity: 'info',
      summary: 'In {{ $value }} namespaces pods run by SCCs of users, which enforcement would refuse.',
    },
    {
      name: 'PodSecurityEvaluationOld',
      expr: `${evaluated} > 0 and time() - ${evaluated} > ${OLD_SECONDS}`,
      for: '1h',
      severity: 'warning',
      summary: 'What enforcement would break was last judged in all namespaces long ago.',
    },
    {
      name: 'PodSecurityLabelingStuck',
      expr: isUnderWay('LabelingNamespaces'),
      for: '1h',
      severity: 'warning',
      summary: 'Enforcement is decided, and waits for namespaces that get no labels.',
    },
    {
      name: 'PodSecurityEvaluationPending',
      expr: isUnderWay('EvaluationPending'),
      for: '24h',
      severity: 'warning',
      summary: 'Enforcement is wanted, and waits for an evaluation that judges all namespaces.',
    },
  ];
}

interface Panel {
  readonly title: string;
  /** As Grafana names units. */
  readonly unit: string;
  readonly queries: readonly (readonly [expr: string, legend: string])[];
}

/** What the dashboard shows, line by line. */
export function panelsOf(namespace: string): readonly Panel[] {
  const ours = `namespace="${namespace}"`;
  const rateOf = (metric: string, by: string): string => `sum by (${by}) (rate(${metric}{${ours}}[5m]))`;
  const slowest = (share: number): string =>
    `histogram_quantile(${share}, ${rateOf('portcullis_webhook_request_duration_seconds_bucket', 'le, webhook')})`;
  return [
    {
      title: 'Reviews',
      unit: 'reqps',
      queries: [[rateOf('portcullis_webhook_requests_total', 'webhook, code'), '{{webhook}} {{code}}']],
    },
    {
      title: 'Time to answer',
      unit: 's',
      queries: [
        [slowest(0.5), 'p50 {{webhook}}'],
        [slowest(0.99), 'p99 {{webhook}}'],
      ],
    },
    {
      title: 'Pod Security: evaluations',
      unit: 'reqps',
      queries: [
        [
          rateOf('pod_security_evaluations_total', 'decision, mode, policy_level'),
          '{{decision}} {{mode}} {{policy_level}}',
        ],
      ],
    },
    {
      title: 'SCC: decisions',
      unit: 'reqps',
      queries: [[rateOf('portcullis_scc_decisions_total', 'decision, mode, scc'), '{{decision}} {{mode}} {{scc}}']],
    },
    {
      title: 'Replicas',
      unit: 'short',
      queries: [
        [`sum(up{job="portcullis",${ours}})`, 'up'],
        [`sum(leader_election_master_status{${ours}})`, 'leading'],
        [`sum(portcullis_serving_certificate_trusted{${ours}})`, 'trusted'],
      ],
    },
    {
      title: 'Certificates: time left',
      unit: 's',
      queries: [
        [`min(portcullis_serving_certificate_expiry_timestamp_seconds{${ours}}) - time()`, 'serving certificate'],
        [
          `min by (fingerprint) (portcullis_ca_expiry_timestamp_seconds{${ours}}) - time()`,
          'authority {{fingerprint}}',
        ],
      ],
    },
    {
      title: 'Time since the cluster was last heard of',
      unit: 's',
      queries: [[`max by (kind) (portcullis_cluster_last_event_age_seconds{${ours}})`, '{{kind}}']],
    },
    {
      title: 'Requests to the API server',
      unit: 'reqps',
      queries: [[rateOf('rest_client_requests_total', 'method, code'), '{{method}} {{code}}']],
    },
    {
      title: 'Work queues',
      unit: 'short',
      queries: [[`sum by (name) (workqueue_depth{${ours}})`, '{{name}}']],
    },
    {
      title: 'Controllers: errors',
      unit: 'reqps',
      queries: [[rateOf('portcullis_controller_reconcile_errors_total', 'controller'), '{{controller}}']],
    },
    {
      title: 'Memory',
      unit: 'bytes',
      queries: [[`process_resident_memory_bytes{${ours}}`, '{{pod}}']],
    },
    {
      title: 'CPU',
      unit: 'percentunit',
      queries: [[`rate(process_cpu_seconds_total{${ours}}[5m])`, '{{pod}}']],
    },
  ];
}

const DATASOURCE = { type: 'prometheus', uid: '${datasource}' } as const;
const COLUMNS = 2;
/** Grafana's grid is 24 wide. */
const SIZE = { w: 24 / COLUMNS, h: 8 } as const;

/** A dashboard that Grafana's sidecar finds by its label. */
function dashboard({ namespace }: ManifestSettings): ManifestOf<V1ConfigMap> {
  const { labels, ...metadata } = metadataIn(namespace, 'portcullis-dashboard');
  return {
    apiVersion: 'v1',
    kind: 'ConfigMap',
    metadata: { ...metadata, labels: { ...labels, grafana_dashboard: '1' } },
    data: { 'portcullis.json': `${JSON.stringify(dashboardOf(namespace), undefined, 2)}\n` },
  };
}

/** @see https://grafana.com/docs/grafana/latest/dashboards/build-dashboards/view-dashboard-json-model/ */
function dashboardOf(namespace: string) {
  return {
    uid: 'portcullis',
    title: 'Portcullis',
    tags: ['kubernetes', 'security'],
    schemaVersion: 39,
    refresh: '30s',
    time: { from: 'now-6h', to: 'now' },
    templating: { list: [{ name: 'datasource', type: 'datasource', query: 'prometheus' }] },
    panels: panelsOf(namespace).map(panelAt),
  };
}

function panelAt({ title, unit, queries }: Panel, index: number) {
  return {
    id: index + 1,
    type: 'timeseries',
    title,
    datasource: DATASOURCE,
    gridPos: { ...SIZE, x: (index % COLUMNS) * SIZE.w, y: Math.floor(index / COLUMNS) * SIZE.h },
    fieldConfig: { defaults: { unit, min: 0 }, overrides: [] },
    targets: queries.map(([expr, legendFormat], number) => ({
      refId: String.fromCharCode('A'.charCodeAt(0) + number),
      datasource: DATASOURCE,
      expr,
      legendFormat,
    })),
  };
}

/** The alerts for the Prometheus operator, each with the address of what to do. */
function prometheusRule({ namespace, runbook }: ManifestSettings): CustomManifest {
  return {
    apiVersion: 'monitoring.coreos.com/v1',
    kind: 'PrometheusRule',
    metadata: metadataIn(namespace, INSTALLATION.name),
    spec: { groups: [{ name: INSTALLATION.name, rules: alertsOf(namespace).map((alert) => ruleOf(alert, runbook)) }] },
  };
}

function ruleOf({ name, expr, for: duration, severity, summary }: Alert, runbook: string) {
  return {
    alert: name,
    expr,
    for: duration,
    labels: { severity },
    annotations: { summary, runbook_url: `${runbook}#${name.toLowerCase()}` },
  };
}

/** Has the Prometheus operator read the metrics of every replica. */
function serviceMonitor({ namespace }: ManifestSettings): CustomManifest {
  return {
    apiVersion: 'monitoring.coreos.com/v1',
    kind: 'ServiceMonitor',
    metadata: metadataIn(namespace, INSTALLATION.name),
    spec: {
      selector: { matchLabels: SELECTOR_LABELS },
      endpoints: [{ port: 'metrics', path: '/metrics', interval: '30s' }],
    },
  };
}

/** What a cluster with the Prometheus operator and Grafana watches the replicas by. */
export function monitoringObjects(settings: ManifestSettings): readonly Manifest[] {
  return [serviceMonitor(settings), prometheusRule(settings), dashboard(settings)];
}
