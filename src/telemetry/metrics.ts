import { Registry, collectDefaultMetrics, Gauge } from 'prom-client';
import { createRolloutMetrics, type RolloutMetrics } from './rollout.ts';
import { createCertificateMetrics, type CertificateMetrics } from './certificates.ts';
import { createClusterMetrics, type ClusterMetrics } from './cluster.ts';
import { createTally, createTimings, type Tally, type Timing } from './hot.ts';
import { createWorkQueueMetrics, type WorkQueueMetrics } from './work-queue.ts';

/** What a metric is, apart from its values. */
export interface MetricDescription {
  readonly name: string;
  /** `counter`, `gauge`, `histogram` or `summary`. */
  readonly type: string;
  readonly labels: readonly string[];
  readonly help: string;
}

/** Describes the metrics of a registry, in the order in which they were made. */
async function describeMetrics(registry: Registry): Promise<readonly MetricDescription[]> {
  const metrics = await registry.getMetricsAsJSON();
  return metrics.map(({ name, help, type }) => {
    // The types of the package hide the labels, and have numbers for what it has words for.
    const { labelNames = [] } = registry.getSingleMetric(name) as unknown as { labelNames?: readonly string[] };
    return { name, type: String(type), labels: labelNames, help };
  });
}

/** All metrics of this program; one registry, made once and handed down. */
export interface Metrics {
  /** The Prometheus text format, and its content type. */
  readonly expose: () => Promise<string>;
  readonly contentType: string;
  readonly describe: () => Promise<readonly MetricDescription[]>;
  /** @see https://github.com/kubernetes/pod-security-admission/blob/v0.36.0/metrics/metrics.go */
  readonly podSecurity: {
    readonly evaluations: Tally<
      'decision' | 'policy_level' | 'policy_version' | 'mode' | 'request_operation' | 'resource' | 'subresource'
    >;
    readonly exemptions: Tally<'request_operation' | 'resource' | 'subresource'>;
    readonly errors: Tally<'fatal' | 'request_operation' | 'resource' | 'subresource'>;
  };
  readonly webhook: {
    readonly requests: Tally<'webhook' | 'code'>;
    /** By the path of the webhook. */
    readonly duration: (webhook: string) => Timing;
    readonly inFlight: Gauge;
  };
  readonly scc: {
    readonly decisions: Tally<SccLabel>;
    /** Of the second look at pods, after all changes. */
    readonly validations: Tally<SccLabel>;
    readonly accessReviews: Tally<'result'>;
    readonly broken: Gauge<'scc'>;
    readonly missing: Gauge<'scc'>;
  };
  readonly workQueue: WorkQueueMetrics;
  readonly cluster: ClusterMetrics;
  readonly reconcileErrors: Tally<'controller'>;
  /**
   * 1 for each lease by which this process leads, 0 for the others.
   * @see https://github.com/kubernetes/kubernetes/blob/v1.36.0/staging/src/k8s.io/component-base/metrics/prometheus/clientgo/leaderelection/metrics.go
   */
  readonly leading: Gauge<'name'>;
  readonly config: { readonly lastReloadSuccessful: Gauge; readonly lastReloadSuccess: Gauge };
  readonly certificates: CertificateMetrics;
  readonly rollout: RolloutMetrics;
}

const SCC_LABELS = ['operation', 'mode', 'decision', 'scc', 'subject_type'] as const;
type SccLabel = (typeof SCC_LABELS)[number];

/** Seconds; an in-process decision takes well under a millisecond, and the API server waits ten seconds at most. */
const DURATION_BUCKETS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];

/** Makes the metrics, those of the process included. */
export function createMetrics(build: { readonly version: string }): Metrics {
  const registry = new Registry();
  const registers = [registry];
  collectDefaultMetrics({ register: registry });
  new Gauge({
    name: 'portcullis_build_info',
    help: 'Always 1; the version is in the label.',
    labelNames: ['version', 'node_version'],
    registers,
  }).set({ version: build.version, node_version: process.version }, 1);

  return {
    expose: () => registry.metrics(),
    contentType: registry.contentType,
    describe: () => describeMetrics(registry),
    podSecurity: {
      evaluations: createTally({
        name: 'pod_security_evaluations_total',
        help: '[ALPHA] Number of policy evaluations that occurred, not counting ignored or exempt requests.',
        labelNames: [
          'decision',
          'policy_level',
          'policy_version',
          'mode',
          'request_operation',
          'resource',
          'subresource',
        ],
        registers,
      }),
      exemptions: createTally({
        name: 'pod_security_exemptions_total',
        help: '[ALPHA] Number of exempt requests, not counting ignored or out of scope requests.',
        labelNames: ['request_operation', 'resource', 'subresource'],
        registers,
      }),
      errors: createTally({
        name: 'pod_security_errors_total',
        help: '[ALPHA] Number of errors preventing normal evaluation. Non-fatal errors may result in the latest restricted profile being used for evaluation.',
        labelNames: ['fatal', 'request_operation', 'resource', 'subresource'],
        registers,
      }),
    },
    webhook: {
      requests: createTally({
        name: 'portcullis_webhook_requests_total',
        help: 'Admission reviews answered, by webhook path and HTTP status code.',
        labelNames: ['webhook', 'code'],
        registers,
      }),
      duration: createTimings(
        {
          name: 'portcullis_webhook_request_duration_seconds',
          help: 'Time from the parsed review to its answer.',
          labelNames: ['webhook'],
          registers,
        },
        DURATION_BUCKETS,
      ),
      inFlight: new Gauge({
        name: 'portcullis_webhook_requests_in_flight',
        help: 'Admission reviews that wait for their answer.',
        registers,
      }),
    },
    scc: {
      decisions: createTally({
        name: 'portcullis_scc_decisions_total',
        help: 'Decisions about the SCC of pods that are created, updated or entered; mode report: told, not enforced.',
        labelNames: SCC_LABELS,
        registers,
      }),
      validations: createTally({
        name: 'portcullis_scc_validations_total',
        help: 'Decisions whether pods, after all changes, still fit an SCC.',
        labelNames: SCC_LABELS,
        registers,
      }),
      accessReviews: createTally({
        name: 'portcullis_access_reviews_total',
        help: 'SubjectAccessReviews sent, with --authorization=sar; an error counts as a no.',
        labelNames: ['result'],
        registers,
      }),
      broken: new Gauge({
        name: 'portcullis_scc_broken',
        help: '1 for each SCC that works in no namespace; decisions do without it.',
        labelNames: ['scc'],
        registers,
      }),
      missing: new Gauge({
        name: 'portcullis_scc_missing',
        help: '1 for each standard SCC that is not there.',
        labelNames: ['scc'],
        registers,
      }),
    },
    workQueue: createWorkQueueMetrics(registers),
    cluster: createClusterMetrics(registers),
    reconcileErrors: createTally({
      name: 'portcullis_controller_reconcile_errors_total',
      help: 'Reconciles that failed, conflicts not counted, by controller.',
      labelNames: ['controller'],
      registers,
    }),
    leading: new Gauge({
      name: 'leader_election_master_status',
      help: "[ALPHA] Gauge of if the reporting system is master of the relevant lease, 0 indicates backup, 1 indicates master. 'name' is the string used to identify the lease. Please make sure to group by name.",
      labelNames: ['name'],
      registers,
    }),
    config: {
      lastReloadSuccessful: new Gauge({
        name: 'portcullis_config_last_reload_successful',
        help: '1 if the configuration file, when last read, was valid; 0 if the last valid one stays in force.',
        registers,
      }),
      lastReloadSuccess: new Gauge({
        name: 'portcullis_config_last_reload_success_timestamp_seconds',
        help: 'When a valid configuration was last taken into force, in Unix seconds.',
        registers,
      }),
    },
    certificates: createCertificateMetrics(registers),
    rollout: createRolloutMetrics(registers),
  };
}
