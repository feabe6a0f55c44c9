export interface Panel {
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
