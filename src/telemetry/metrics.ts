/** Defines all metrics. Metrics that come from upstream keep their names and help texts. */
import { collectDefaultMetrics, Counter, Gauge, Registry } from 'prom-client';
import { createCounterCells, createTimings } from './counters.ts';
import { exceededCounts } from './limits.ts';

/** Description of a metric for the documentation. */
export interface MetricDescription {
  readonly name: string;
  /** `counter`, `gauge`, `histogram` or `summary`. */
  readonly type: string;
  readonly labels: readonly string[];
  readonly help: string;
}

/** Returns functions that create metrics in a registry. */
function createFactory(registry: Registry) {
  const registers = [registry];
  return {
    gauge: <L extends string = never>(name: string, help: string, ...labelNames: readonly L[]) =>
      new Gauge({ name, help, labelNames, registers }),
    /** Creates a gauge that has one label and whose values are read on each scrape. */
    scrapedGauge(name: string, help: string, label: string, read: () => Iterable<readonly [string, number]>): void {
      new Gauge({
        name,
        help,
        labelNames: [label],
        registers,
        collect() {
          this.reset();
          for (const [value, measured] of read()) this.set({ [label]: value }, measured);
        },
      });
    },
    tally: <L extends string = never>(name: string, help: string, ...labelNames: readonly L[]) =>
      createCounterCells({ name, help, labelNames, registers }),
    timings: (name: string, help: string, label: string, buckets: readonly number[]) =>
      createTimings({ name, help, labelNames: [label], registers }, buckets),
  };
}

type Factory = ReturnType<typeof createFactory>;

/** All metrics in one registry. The object is created once and passed to the components. */
export type Metrics = ReturnType<typeof createMetrics>;

/** Creates the metrics, including process metrics. */
export function createMetrics(build: { readonly version: string }) {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  const create = createFactory(registry);
  create
    .gauge('portcullis_build_info', 'Always 1. The version is in the label.', 'version', 'node_version')
    .set({ version: build.version, node_version: process.version }, 1);
  createLimitMetric(registry);
  return {
    /** Returns the metrics in Prometheus text format. */
    expose: () => registry.metrics(),
    contentType: registry.contentType,
    /** Describes all metrics in registration order. */
    describe: () => describeMetrics(registry),
    podSecurity: createPodSecurityMetrics(create),
    webhook: createWebhookMetrics(create),
    scc: createSccMetrics(create),
    workQueue: createWorkQueueMetrics(create),
    cluster: createClusterMetrics(create),
    reconcileErrors: create.tally(
      'portcullis_controller_reconcile_errors_total',
      'Failed reconciliations by controller, excluding conflicts.',
      'controller',
    ),
    /** @see https://github.com/kubernetes/kubernetes/blob/v1.36.0/staging/src/k8s.io/component-base/metrics/prometheus/clientgo/leaderelection/metrics.go */
    leading: create.gauge(
      'leader_election_master_status',
      "[ALPHA] Gauge of if the reporting system is master of the relevant lease, 0 indicates backup, 1 indicates master. 'name' is the string used to identify the lease. Please make sure to group by name.",
      'name',
    ),
    unreviewedPods: create.gauge(
      'portcullis_unreviewed_pods',
      'Pods that were admitted without a review and violate the policy. Only the leader counts them.',
    ),
    config: {
      lastReloadSuccessful: create.gauge(
        'portcullis_config_last_reload_successful',
        '1 if the most recently read settings are valid, 0 if the previous settings stay in force.',
      ),
    },
    certificates: createCertificateMetrics(create),
    rollout: createRolloutMetrics(create),
    olm: {
      hardening: create.tally(
        'portcullis_olm_hardening_total',
        'Reviewed Operator Lifecycle Manager pods by profile and result: hardened, reported (in report mode), compliant, conflict (less strict values were kept) or legacy.',
        'profile',
        'result',
      ),
    },
    kubelet: createKubeletMetrics(create),
  };
}

async function describeMetrics(registry: Registry): Promise<readonly MetricDescription[]> {
  const metrics = await registry.getMetricsAsJSON();
  return metrics.map(({ name, help, type }) => {
    // prom-client's type declarations lack the labels, and declare `type` as a number.
    const { labelNames = [] } = registry.getSingleMetric(name) as unknown as { labelNames?: readonly string[] };
    return { name, type: String(type), labels: labelNames, help };
  });
}

/** Creates the counter of the inputs that exceed each limit. It reads the counts of the process on each scrape. */
function createLimitMetric(registry: Registry): void {
  const before = new Map(exceededCounts());
  new Counter({
    name: 'portcullis_limits_exceeded_total',
    help: 'Inputs that exceeded a limit, by limit.',
    labelNames: ['limit'],
    registers: [registry],
    collect() {
      this.reset();
      for (const [limit, count] of exceededCounts()) this.inc({ limit }, count - (before.get(limit) ?? 0));
    },
  });
}

/** @see https://github.com/kubernetes/pod-security-admission/blob/v0.36.0/metrics/metrics.go */
function createPodSecurityMetrics({ gauge, tally }: Factory) {
  const request = ['request_operation', 'resource', 'subresource'] as const;
  return {
    evaluations: tally(
      'pod_security_evaluations_total',
      '[ALPHA] Number of policy evaluations that occurred, not counting ignored or exempt requests.',
      ...(['decision', 'policy_level', 'policy_version', 'mode', ...request] as const),
    ),
    exemptions: tally(
      'pod_security_exemptions_total',
      '[ALPHA] Number of exempt requests, not counting ignored or out of scope requests.',
      ...request,
    ),
    exemptionUses: tally(
      'portcullis_exemption_uses_total',
      'Pods that were admitted without evaluation, by exemption kind (namespace, user, runtimeClass) and name, or because of a PodSecurityException (exception).',
      'exemption',
      'name',
    ),
    exceptionExpiry: gauge(
      'portcullis_exception_expiry_timestamp_seconds',
      'Unix time at which each active PodSecurityException expires, by namespace and name. Only the leader reports it.',
      'exception',
    ),
    errors: tally(
      'pod_security_errors_total',
      '[ALPHA] Number of errors preventing normal evaluation. Non-fatal errors may result in the latest restricted profile being used for evaluation.',
      ...(['fatal', ...request] as const),
    ),
  };
}

// Webhooks

/** Histogram buckets in seconds. A decision takes well under a millisecond, and API servers wait at most 30 seconds. */
const DURATION_BUCKETS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];

/** Returns the number of open connections by state. */
type ConnectionCounts = () => Iterable<readonly [state: string, count: number]>;

function createWebhookMetrics({ gauge, scrapedGauge, tally, timings }: Factory) {
  let readConnections: ConnectionCounts = () => [];
  scrapedGauge(
    'portcullis_webhook_connections',
    'Open connections to the review port by state: new (no valid review yet), idle, busy.',
    'state',
    () => readConnections(),
  );
  return {
    requests: tally(
      'portcullis_webhook_requests_total',
      'Answered admission reviews by webhook path and HTTP status code.',
      'webhook',
      'code',
    ),
    duration: timings(
      'portcullis_webhook_request_duration_seconds',
      'Time from the parsed review to its response.',
      'webhook',
      DURATION_BUCKETS,
    ),
    inFlight: gauge('portcullis_webhook_requests_in_flight', 'Admission reviews that are waiting for a decision.'),
    connections: (read: ConnectionCounts): void => void (readConnections = read),
    displacedConnections: tally(
      'portcullis_webhook_connections_displaced_total',
      'Connections to the review port that were closed to accept new ones, by state: new (no valid review yet), idle, busy.',
      'state',
    ),
  };
}

// SCC

const SCC_LABELS = ['operation', 'mode', 'decision', 'scc', 'subject_type'] as const;

function createSccMetrics({ gauge, tally }: Factory) {
  return {
    decisions: tally(
      'portcullis_scc_decisions_total',
      'SCC decisions for creating, updating and connecting to pods. In report mode, they are not enforced.',
      ...SCC_LABELS,
    ),
    validations: tally(
      'portcullis_scc_validations_total',
      'SCC validations of pods after all mutations.',
      ...SCC_LABELS,
    ),
    accessReviews: tally(
      'portcullis_access_reviews_total',
      'SubjectAccessReviews that replicas send if spec.scc.authorization is sar. An error denies access.',
      'result',
    ),
    broken: gauge(
      'portcullis_scc_broken',
      '1 for each SCC that is skipped because it is invalid in every namespace.',
      'scc',
    ),
    missing: gauge('portcullis_scc_missing', '1 for each standard SCC that does not exist.', 'scc'),
  };
}

// Work queues

/** State of a work queue. */
interface WorkQueueState {
  /** Number of waiting keys. */
  readonly depth: number;
  /** For each key that is being processed, the time in seconds since it was taken from the queue. */
  readonly runningSeconds: readonly number[];
}

/** Histogram buckets in seconds, which are powers of ten starting at 10 ns. */
const QUEUE_BUCKETS = Array.from({ length: 12 }, (_, index) => Number(`1e${index - 8}`));

/**
 * Creates the work queue metrics that other Kubernetes controllers also have.
 * @see https://github.com/kubernetes/kubernetes/blob/v1.36.0/staging/src/k8s.io/component-base/metrics/prometheus/workqueue/metrics.go
 */
function createWorkQueueMetrics({ scrapedGauge, tally, timings }: Factory) {
  const queues = new Map<string, () => WorkQueueState>();
  const stateGauge = (name: string, help: string, read: (state: WorkQueueState) => number): void =>
    scrapedGauge(`workqueue_${name}`, help, 'name', () => [...queues].map(([queue, state]) => [queue, read(state())]));
  stateGauge('depth', '[ALPHA] Current depth of workqueue', ({ depth }) => depth);
  stateGauge(
    'unfinished_work_seconds',
    "[ALPHA] How many seconds of work has done that is in progress and hasn't been observed by work_duration. Large values indicate stuck threads. One can deduce the number of stuck threads by observing the rate at which this increases.",
    ({ runningSeconds }) => runningSeconds.reduce((sum, seconds) => sum + seconds, 0),
  );
  stateGauge(
    'longest_running_processor_seconds',
    '[ALPHA] How many seconds has the longest running processor for workqueue been running.',
    ({ runningSeconds }) => runningSeconds.reduce((longest, seconds) => Math.max(longest, seconds), 0),
  );
  return {
    adds: tally('workqueue_adds_total', '[ALPHA] Total number of adds handled by workqueue', 'name'),
    retries: tally('workqueue_retries_total', '[ALPHA] Total number of retries handled by workqueue', 'name'),
    queueDuration: timings(
      'workqueue_queue_duration_seconds',
      '[ALPHA] How long in seconds an item stays in workqueue before being requested.',
      'name',
      QUEUE_BUCKETS,
    ),
    workDuration: timings(
      'workqueue_work_duration_seconds',
      '[ALPHA] How long in seconds processing an item from workqueue takes.',
      'name',
      QUEUE_BUCKETS,
    ),
    /** Starts reading the state of a queue on each scrape. The returned function stops it. */
    follow(name: string, state: () => WorkQueueState): () => void {
      queues.set(name, state);
      return () => {
        if (queues.get(name) === state) queues.delete(name);
      };
    },
  };
}

// Cluster

type EventAges = () => ReadonlyMap<string, number>;

/** Creates the metrics for the connection to the API server. */
function createClusterMetrics({ gauge, scrapedGauge, tally }: Factory) {
  let agesMs: EventAges = () => new Map();
  scrapedGauge(
    'portcullis_cluster_last_event_age_seconds',
    'Time since the last event or bookmark of each watched kind. API servers send at least one every minute.',
    'kind',
    () => [...agesMs()].map(([kind, ageMs]) => [kind, ageMs / 1000]),
  );
  let reduced: ReadonlyMap<string, number> = new Map();
  scrapedGauge(
    'portcullis_cluster_reduced_objects',
    'Stored objects of each kind that exceed a limit or were read while the memory was full. Policies deny such pods, and roles, bindings and exceptions grant less.',
    'kind',
    () => reduced,
  );
  return {
    /** @see https://github.com/kubernetes/kubernetes/blob/v1.36.0/staging/src/k8s.io/component-base/metrics/prometheus/restclient/metrics.go */
    requests: tally(
      'rest_client_requests_total',
      'Requests to the API server, by HTTP status code, method and host.',
      'code',
      'method',
      'host',
    ),
    version: gauge(
      'portcullis_kubernetes_version_info',
      'A constant 1, labeled by the version of the API server (empty while it is unknown) and the version of the Pod Security Standards that latest resolves to.',
      'server',
      'evaluated',
    ),
    /**
     * Sets the function that returns the time in milliseconds since the last event of each kind. It is called on each
     * scrape.
     */
    follow(read: EventAges): void {
      agesMs = read;
    },
    /** Sets the map of the numbers of reduced objects by kind, which is read on each scrape. */
    followReduced(counts: ReadonlyMap<string, number>): void {
      reduced = counts;
    },
  };
}

// Certificates

function createCertificateMetrics({ gauge }: Factory) {
  return {
    servingExpiry: gauge(
      'portcullis_serving_certificate_expiry_timestamp_seconds',
      'Unix time at which the serving certificate expires.',
    ),
    authorityExpiry: gauge(
      'portcullis_ca_expiry_timestamp_seconds',
      'Unix time at which each CA in the caBundle of the webhook configurations expires, by the first digits of its SHA-256 digest.',
      'fingerprint',
    ),
    trusted: gauge(
      'portcullis_serving_certificate_trusted',
      '1 if the serving certificate chains to the caBundle of each fail-closed webhook of the installation. While it is 0, the replica is not ready.',
    ),
    distrusting: gauge(
      'portcullis_serving_certificate_distrusting_webhooks',
      'Webhooks that do not trust the serving certificate but do not affect readiness: fail-open webhooks of the installation, and webhooks in other configurations that have the Portcullis label.',
    ),
  };
}

// Minimum kubelet version

function createKubeletMetrics({ gauge, tally }: Factory) {
  return {
    authorizations: tally(
      'portcullis_kubelet_authorizations_total',
      'Authorization webhook decisions (NoOpinion or Deny) by cause. Reviews with cause not-synced get a 503 response.',
      'decision',
      'cause',
    ),
    nodes: gauge(
      'portcullis_kubelet_nodes',
      'Nodes by kubelet state (sufficient, outdated, unknown, exempt). The metric exists only if there is a minimum kubelet version.',
      'state',
    ),
    minimum: gauge(
      'portcullis_kubelet_minimum_info',
      'A constant 1, labeled by the requested minimum kubelet version, the minimum in force and the rendered minimum. An empty label means no minimum.',
      'requested',
      'in_force',
      'rendered',
    ),
    waiting: gauge(
      'portcullis_kubelet_minimum_waiting',
      'Nodes that block a higher minimum kubelet version (for="nodes"), and pools that a lower minimum waits for (for="pools").',
      'for',
    ),
  };
}

// Rollout

function createRolloutMetrics(create: Factory) {
  const { gauge, tally } = create;
  return {
    readiness: createReadinessMetrics(create),
    syncer: {
      namespaces: gauge(
        'psa_syncer_namespaces',
        "Managed namespaces by the level that their service accounts' SCCs require.",
        'level',
      ),
      unlabeledManaged: gauge('psa_syncer_unlabeled_managed', 'Managed namespaces without an enforce label.'),
      errors: tally('psa_syncer_sync_errors_total', 'Failed label writes, excluding conflicts.'),
      conflicts: tally(
        'psa_syncer_conflicts_total',
        'Label writes that conflicted with another writer and are retried.',
      ),
    },
  };
}

function createReadinessMetrics({ gauge, tally }: Factory) {
  return {
    lastEvaluation: gauge(
      'psa_rollout_last_evaluation_timestamp_seconds',
      'Unix time at which the last evaluation of all namespaces ended, or 0 if none has ended yet.',
    ),
    evaluationDuration: gauge(
      'psa_rollout_evaluation_duration_seconds',
      'Duration of the last evaluation of all namespaces, including pauses.',
    ),
    evaluationErrors: tally('psa_rollout_evaluation_errors_total', 'Evaluations that failed for some namespaces.'),
    namespaces: gauge(
      'psa_rollout_namespaces',
      'Namespaces by state: enforcement would deny workloads (violating), the current level denies workloads (deniedNow), running pods need a restart (restart), none of these (clean), or not evaluated (inconclusive).',
      'state',
    ),
    violatingNamespaces: gauge(
      'psa_rollout_violating_namespaces',
      'Namespaces with workloads that enforcement would deny, by class, and namespaces whose evaluation failed (inconclusive). A namespace can be in both userSCC and customer.',
      'class',
    ),
    workloads: gauge(
      'psa_rollout_workloads',
      'Workloads in all namespaces by verdict: already denied (deniedNow), denied once the planned level is enforced (wouldBeDenied), or with running pods that must be restarted (restart).',
      'verdict',
    ),
    violatingWorkloads: gauge(
      'psa_rollout_violating_workloads',
      'The workloads in psa_rollout_workloads by namespace, for the 100 namespaces that contain the most of these workloads.',
      'namespace',
      'verdict',
    ),
    enforcementMode: gauge('psa_rollout_enforcement_mode', '1 for the decided mode, 0 for all other modes.', 'mode'),
    enforcing: gauge(
      'psa_rollout_enforcing',
      '1 while the restricted level is enforced in namespaces without a label.',
    ),
    progressing: gauge(
      'psa_rollout_progressing',
      '1 for the reason of the Progressing condition. Absent if no change is in progress.',
      'reason',
    ),
    /** @see https://github.com/openshift/cluster-version-operator/blob/main/pkg/cvo/metrics.go */
    operatorConditions: gauge(
      'cluster_operator_conditions',
      'Rollout conditions: 1 if true, 0 otherwise.',
      'name',
      'condition',
      'reason',
    ),
  };
}
