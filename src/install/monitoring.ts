import type { V1ConfigMap } from '@kubernetes/client-node';
import { DEFAULT_ROLLOUT } from '../policy/rollout/settings.ts';
import { INSTALLATION } from '../kube/well-known.ts';
import {
  namespacedMetadata,
  SELECTOR_LABELS,
  type ManifestSettings,
  type ManifestOf,
  type CustomManifest,
  type Manifest,
} from './settings.ts';

/** `critical` needs action at once, `warning` in working hours, `info` at some time. */
type Severity = 'critical' | 'warning' | 'info';

interface Alert {
  readonly name: string;
  /** PromQL expression. */
  readonly expr: string;
  readonly for: string;
  readonly severity: Severity;
  readonly summary: string;
}

/** Label matcher for the metrics of API servers about webhooks. */
const WEBHOOKS = String.raw`name=~"(.+[.])?(psa|scc)[.]portcullis[.]dev"`;

/** The alerts, by decreasing urgency. The runbook has a section for each alert. */
export function buildAlerts(namespace: string): readonly Alert[] {
  const labels = `namespace="${namespace}"`;
  const job = `job="${INSTALLATION.name}",${labels}`;
  return [
    {
      name: 'PortcullisDown',
      expr: `absent(up{${job}} == 1)`,
      for: '2m',
      severity: 'critical',
      summary: 'No replica responds. Pods can be created only in namespaces that fail open.',
    },
    {
      name: 'PortcullisCallsFail',
      expr: `sum by (name) (increase(apiserver_admission_webhook_rejection_count{${WEBHOOKS},error_type=~"calling_webhook_error|apiserver_internal_error"}[5m])) > 0`,
      for: '2m',
      severity: 'critical',
      summary: 'API servers deny requests because calls to webhook {{ $labels.name }} fail.',
    },
    {
      name: 'PortcullisCertificateNotTrusted',
      expr: `min by (pod) (portcullis_serving_certificate_trusted{${labels}}) == 0`,
      for: '5m',
      severity: 'critical',
      summary: 'The caBundle of the webhooks does not match the serving certificate of {{ $labels.pod }}.',
    },
    {
      name: 'PortcullisCertificateExpires',
      expr: `min by (pod) (portcullis_serving_certificate_expiry_timestamp_seconds{${labels}}) - time() < 2 * 86400`,
      for: '15m',
      severity: 'critical',
      summary: 'The serving certificate of {{ $labels.pod }} expires in less than two days and was not renewed.',
    },
    {
      name: 'PortcullisFailsOpen',
      expr: `sum by (name) (increase(apiserver_admission_webhook_fail_open_count{${WEBHOOKS}}[5m])) > 0`,
      for: '0m',
      severity: 'warning',
      summary: 'Requests were admitted without a review because calls to webhook {{ $labels.name }} failed.',
    },
    {
      name: 'PortcullisErrors',
      expr: `sum by (webhook, code) (rate(portcullis_webhook_requests_total{${labels},code=~"5.."}[5m])) > 0`,
      for: '5m',
      severity: 'warning',
      summary: 'Webhook {{ $labels.webhook }} responds with HTTP {{ $labels.code }}.',
    },
    {
      name: 'PortcullisSlow',
      expr: `histogram_quantile(0.99, sum by (le, webhook) (rate(portcullis_webhook_request_duration_seconds_bucket{${labels}}[5m]))) > 1`,
      for: '5m',
      severity: 'warning',
      summary: 'The 99th percentile of the duration of reviews at {{ $labels.webhook }} exceeds one second.',
    },
    {
      name: 'PortcullisReplicasMissing',
      expr: `sum(up{${job}}) < 2`,
      for: '10m',
      severity: 'warning',
      summary: 'Fewer than two replicas run.',
    },
    {
      name: 'PortcullisNoLeader',
      expr: `max(leader_election_master_status{${labels},name="${INSTALLATION.name}"}) < 1`,
      for: '5m',
      severity: 'warning',
      summary: 'There is no leader. Certificates are not renewed, and new namespaces get no ranges.',
    },
    {
      name: 'PortcullisStale',
      expr: `max by (pod, kind) (portcullis_cluster_last_event_age_seconds{${labels}}) > 180`,
      for: '5m',
      severity: 'warning',
      summary: 'The watch of {{ $labels.kind }} in {{ $labels.pod }} is stale. Decisions use the last known state.',
    },
    {
      name: 'PortcullisConfigurationRejected',
      expr: `min by (pod) (portcullis_config_last_reload_successful{${labels}}) == 0`,
      for: '5m',
      severity: 'warning',
      summary: '{{ $labels.pod }} rejected its configuration file and uses the last valid one.',
    },
    {
      name: 'PortcullisControllerErrors',
      expr: `sum by (controller) (increase(portcullis_controller_reconcile_errors_total{${labels}}[15m])) > 5`,
      for: '15m',
      severity: 'warning',
      summary: 'The controller {{ $labels.controller }} fails repeatedly.',
    },
    {
      name: 'PortcullisSccBroken',
      expr: `max by (scc) (portcullis_scc_broken{${labels}}) == 1`,
      for: '15m',
      severity: 'info',
      summary: 'The SCC {{ $labels.scc }} is invalid in every namespace.',
    },
    ...rolloutAlerts(labels),
  ];
}

/** Twice the default interval between evaluations. */
const MAX_EVALUATION_AGE_SECONDS = (2 * DEFAULT_ROLLOUT.evaluationIntervalMs) / 1000;

/** None of these is critical: enforcement waits and reports the reason. */
function rolloutAlerts(labels: string): readonly Alert[] {
  const evaluated = `max(psa_rollout_last_evaluation_timestamp_seconds{${labels}})`;
  const progressing = (reason: string): string => `max(psa_rollout_progressing{${labels},reason="${reason}"}) == 1`;
  return [
    {
      name: 'PodSecurityViolation',
      expr: `sum by (policy_level) (increase(pod_security_evaluations_total{${labels},decision="deny",mode="audit",resource="pod"}[1d])) > 0`,
      for: '0m',
      severity: 'info',
      summary: 'Pods that violate the audit level {{ $labels.policy_level }} of their namespaces were created.',
    },
    {
      name: 'PodSecurityUserSCC',
      expr: `max(psa_rollout_namespaces{${labels},category="userSCC"}) > 0`,
      for: '24h',
      severity: 'info',
      summary:
        "In {{ $value }} namespaces, pods that enforcement would deny were admitted only because of their creators' permissions.",
    },
    {
      name: 'PodSecurityEvaluationOld',
      expr: `${evaluated} > 0 and time() - ${evaluated} > ${MAX_EVALUATION_AGE_SECONDS}`,
      for: '1h',
      severity: 'warning',
      summary: 'The last complete evaluation of all namespaces is too old.',
    },
    {
      name: 'PodSecurityLabelingStuck',
      expr: progressing('LabelingNamespaces'),
      for: '1h',
      severity: 'warning',
      summary: 'Enforcement waits for namespaces without labels.',
    },
    {
      name: 'PodSecurityEvaluationPending',
      expr: progressing('EvaluationPending'),
      for: '24h',
      severity: 'warning',
      summary: 'Enforcement waits for a complete evaluation of all namespaces.',
    },
  ];
}

interface Panel {
  readonly title: string;
  /** Unit id of Grafana. */
  readonly unit: string;
  readonly queries: readonly (readonly [expr: string, legend: string])[];
}

/** The panels of the dashboard, row by row. */
export function dashboardPanels(namespace: string): readonly Panel[] {
  const labels = `namespace="${namespace}"`;
  const rate = (metric: string, by: string): string => `sum by (${by}) (rate(${metric}{${labels}}[5m]))`;
  const quantile = (share: number): string =>
    `histogram_quantile(${share}, ${rate('portcullis_webhook_request_duration_seconds_bucket', 'le, webhook')})`;
  return [
    {
      title: 'Reviews',
      unit: 'reqps',
      queries: [[rate('portcullis_webhook_requests_total', 'webhook, code'), '{{webhook}} {{code}}']],
    },
    {
      title: 'Review duration',
      unit: 's',
      queries: [
        [quantile(0.5), 'p50 {{webhook}}'],
        [quantile(0.99), 'p99 {{webhook}}'],
      ],
    },
    {
      title: 'Pod Security: evaluations',
      unit: 'reqps',
      queries: [
        [
          rate('pod_security_evaluations_total', 'decision, mode, policy_level'),
          '{{decision}} {{mode}} {{policy_level}}',
        ],
      ],
    },
    {
      title: 'SCC: decisions',
      unit: 'reqps',
      queries: [[rate('portcullis_scc_decisions_total', 'decision, mode, scc'), '{{decision}} {{mode}} {{scc}}']],
    },
    {
      title: 'Replicas',
      unit: 'short',
      queries: [
        [`sum(up{job="portcullis",${labels}})`, 'up'],
        [`sum(leader_election_master_status{${labels}})`, 'leader'],
        [`sum(portcullis_serving_certificate_trusted{${labels}})`, 'trusted'],
      ],
    },
    {
      title: 'Certificates: remaining validity',
      unit: 's',
      queries: [
        [`min(portcullis_serving_certificate_expiry_timestamp_seconds{${labels}}) - time()`, 'serving certificate'],
        [
          `min by (fingerprint) (portcullis_ca_expiry_timestamp_seconds{${labels}}) - time()`,
          'authority {{fingerprint}}',
        ],
      ],
    },
    {
      title: 'Time since the last watch event',
      unit: 's',
      queries: [[`max by (kind) (portcullis_cluster_last_event_age_seconds{${labels}})`, '{{kind}}']],
    },
    {
      title: 'Requests to the API server',
      unit: 'reqps',
      queries: [[rate('rest_client_requests_total', 'method, code'), '{{method}} {{code}}']],
    },
    {
      title: 'Work queues',
      unit: 'short',
      queries: [[`sum by (name) (workqueue_depth{${labels}})`, '{{name}}']],
    },
    {
      title: 'Controllers: errors',
      unit: 'reqps',
      queries: [[rate('portcullis_controller_reconcile_errors_total', 'controller'), '{{controller}}']],
    },
    {
      title: 'Memory',
      unit: 'bytes',
      queries: [[`process_resident_memory_bytes{${labels}}`, '{{pod}}']],
    },
    {
      title: 'CPU',
      unit: 'percentunit',
      queries: [[`rate(process_cpu_seconds_total{${labels}}[5m])`, '{{pod}}']],
    },
  ];
}

const DATASOURCE = { type: 'prometheus', uid: '${datasource}' } as const;
const COLUMNS = 2;
/** Grafana's grid is 24 wide. */
const SIZE = { w: 24 / COLUMNS, h: 8 } as const;

/** The name of the ConfigMap with the dashboard. */
export const DASHBOARD = 'portcullis-dashboard';

/** A ConfigMap with the dashboard. The sidecar of Grafana selects it by its label. */
function dashboard({ namespace }: ManifestSettings): ManifestOf<V1ConfigMap> {
  const { labels, ...metadata } = namespacedMetadata(namespace, DASHBOARD);
  return {
    apiVersion: 'v1',
    kind: 'ConfigMap',
    metadata: { ...metadata, labels: { ...labels, grafana_dashboard: '1' } },
    data: { 'portcullis.json': `${JSON.stringify(dashboardModel(namespace), undefined, 2)}\n` },
  };
}

/** @see https://grafana.com/docs/grafana/latest/dashboards/build-dashboards/view-dashboard-json-model/ */
function dashboardModel(namespace: string) {
  return {
    uid: 'portcullis',
    title: 'Portcullis',
    tags: ['kubernetes', 'security'],
    schemaVersion: 39,
    refresh: '30s',
    time: { from: 'now-6h', to: 'now' },
    templating: { list: [{ name: 'datasource', type: 'datasource', query: 'prometheus' }] },
    panels: dashboardPanels(namespace).map(panelModel),
  };
}

function panelModel({ title, unit, queries }: Panel, index: number) {
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

/** The alerts for the Prometheus operator, each with the URL of its section in the runbook. */
function prometheusRule({ namespace, runbook }: ManifestSettings): CustomManifest {
  return {
    apiVersion: 'monitoring.coreos.com/v1',
    kind: 'PrometheusRule',
    metadata: namespacedMetadata(namespace, INSTALLATION.name),
    spec: {
      groups: [{ name: INSTALLATION.name, rules: buildAlerts(namespace).map((alert) => alertRule(alert, runbook)) }],
    },
  };
}

function alertRule({ name, expr, for: duration, severity, summary }: Alert, runbook: string) {
  return {
    alert: name,
    expr,
    for: duration,
    labels: { severity },
    annotations: { summary, runbook_url: `${runbook}#${name.toLowerCase()}` },
  };
}

/** The scrape configuration of the replicas for the Prometheus operator. */
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

/** The monitoring of a cluster with the Prometheus operator and Grafana. */
export function monitoringObjects(settings: ManifestSettings): readonly Manifest[] {
  return [serviceMonitor(settings), prometheusRule(settings), dashboard(settings)];
}
