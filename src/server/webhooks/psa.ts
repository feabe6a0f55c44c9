import { waitFor, type Store } from '../../cluster/store.ts';
import type { AdmissionRequest, Decision } from '../../kube/admission.ts';
import {
  policyVersionLabel,
  requestLabels,
  type PodSecurityCount,
  type RequestLabels,
} from '../../policy/psa/metrics.ts';
import type { PodSecurity } from '../../policy/psa/configuration.ts';
import {
  DEFAULT_LIMITS,
  reviewPodSecurity,
  type PodReviewLimits,
  type PodSecurityReview,
} from '../../policy/psa/review.ts';
import { newestVersion } from '../../policy/pss/evaluate.ts';
import type { Version } from '../../policy/pss/policy.ts';
import { modeLabelWarning, type SccSettings } from '../../policy/scc/mode.ts';
import type { Cell } from '../../telemetry/counters.ts';
import type { Metrics } from '../../telemetry/metrics.ts';
import type { PreviewEnforcement } from '../enforcement-preview.ts';
import { remainingMs, type WaitingRoom } from '../waiting-room.ts';
import {
  ANNOTATIONS_CHANGED,
  LABELS_CHANGED,
  relevantUpdate,
  rule,
  WRITES,
  type Webhook,
  type WebhookContext,
  type WebhookRegistration,
} from '../webhook.ts';

const COMMON = {
  path: '/psa/validate',
  configuration: { kind: 'ValidatingWebhookConfiguration', name: 'psa.portcullis.dev' },
  feature: 'psa',
  timeoutSeconds: 5,
  isNamespaced: true,
} as const;

/** Enforces. Pod Security Admission evaluates the labels of namespaces, and the spec and annotations of pods. */
export const PSA: WebhookRegistration = {
  ...COMMON,
  name: 'psa.portcullis.dev',
  rules: [rule(WRITES, '', ['namespaces', 'pods', 'pods/ephemeralcontainers'], { scope: '*' })],
  matchConditions: [
    relevantUpdate(
      `(request.resource.resource == 'namespaces' ? ${LABELS_CHANGED} : object.spec != oldObject.spec || ${ANNOTATIONS_CHANGED})`,
    ),
  ],
  failure: 'tiered',
};

/** Warns and audits only; as upstream, a separate webhook that never blocks a request. */
export const PSA_ADVISORY: WebhookRegistration = {
  ...COMMON,
  name: 'advise.psa.portcullis.dev',
  rules: [
    rule(WRITES, '', ['podtemplates', 'replicationcontrollers']),
    rule(WRITES, 'apps', ['daemonsets', 'deployments', 'replicasets', 'statefulsets']),
    rule(WRITES, 'batch', ['cronjobs', 'jobs']),
  ],
  failure: 'Ignore',
};

interface PsaWebhookOptions {
  /** Returns the configuration in force. */
  podSecurity(): PodSecurity;
  readonly metrics: Metrics['podSecurity'];
  readonly waitingRoom: WaitingRoom;
  /** Validates the SCC mode label of namespaces; absent: such labels have no meaning. */
  readonly scc?: Pick<SccSettings, 'mode' | 'exemptNamespaces'>;
  /** Warns about pods that planned enforcement will deny; absent: none is planned. */
  readonly preview?: PreviewEnforcement | undefined;
  /** Evaluates as that Kubernetes version; absent: the newest known rules. */
  readonly emulationVersion?: Version;
  readonly limits?: PodReviewLimits;
}

/** Creates the webhook that decides as the Pod Security Admission of an API server, from the store alone. */
export function createPsaWebhook(options: PsaWebhookOptions): Webhook {
  const { emulationVersion, limits = DEFAULT_LIMITS, waitingRoom, scc, preview } = options;
  const record = createRecorder(options.metrics);
  const fixed = emulationVersion === undefined ? { limits } : { limits, emulationVersion };

  const review = (request: AdmissionRequest, { store, now, deadlineMs }: WebhookContext): Review => {
    let missing: string | undefined;
    const { decision, counts } = reviewPodSecurity({
      ...fixed,
      request,
      podSecurity: options.podSecurity(),
      findNamespace(name) {
        const namespace = store.get('Namespace', name);
        // A request without a namespace does not wait for one.
        if (!namespace && name !== '') missing = name;
        return namespace;
      },
      listPods: (namespace) => store.list('Pod', namespace),
      now,
      ...(deadlineMs === undefined ? {} : { deadlineMs }),
    });
    return { decision, counts, missing };
  };
  const previewWarning = (request: AdmissionRequest, decision: Decision, store: Store): string | undefined => {
    if (!preview || !decision.allowed) return undefined;
    const { exemptions } = options.podSecurity();
    return preview(request, { store, exemptions, warnings: decision.warnings ?? [] });
  };
  const conclude = (request: AdmissionRequest, { decision, counts }: Review, store: Store): Decision => {
    record(request, counts);
    const warning = (scc && modeLabelWarning(request, scc)) ?? previewWarning(request, decision, store);
    return warning === undefined ? decision : { ...decision, warnings: [...(decision.warnings ?? []), warning] };
  };

  return {
    path: COMMON.path,
    decide(request, context) {
      const { store } = context;
      const first = review(request, context);
      const name = first.missing;
      if (name === undefined) return conclude(request, first, store);
      const leave = waitingRoom.enter(context.bodyBytes ?? 0);
      if (!leave) return conclude(request, first, store);
      return waitForNamespace(name, context, waitingRoom)
        .then((isFound) => conclude(request, isFound ? review(request, context) : first, store))
        .finally(leave);
    },
  };
}

interface Review extends PodSecurityReview {
  /** The namespace that the store lacks. */
  readonly missing: string | undefined;
}

/** Waits for a namespace that was created a moment ago: the API server has it, the store does not. */
async function waitForNamespace(name: string, context: WebhookContext, waitingRoom: WaitingRoom): Promise<boolean> {
  const { store, signal } = context;
  const find = (): true | undefined => (store.get('Namespace', name) ? true : undefined);
  const found = await waitFor(store, { kind: 'Namespace', name }, find, { timeoutMs: remainingMs(context), signal });
  await waitingRoom.turn();
  return found === true;
}

// Metrics

const OPERATIONS = ['create', 'update'] as const;

/** The subresources of Kubernetes. Clients may send others; all of them share one series, since a series is never removed. */
const SUBRESOURCES: ReadonlySet<string> = new Set([
  '',
  'attach',
  'binding',
  'ephemeralcontainers',
  'eviction',
  'exec',
  'log',
  'portforward',
  'proxy',
  'resize',
  'scale',
  'status',
]);

type Counts = readonly PodSecurityCount[];

/** Creates the recorder of evaluations. As upstream, some series exist from the start with the value 0. */
function createRecorder(metrics: Metrics['podSecurity']): (request: AdmissionRequest, counts: Counts) => void {
  for (const request_operation of OPERATIONS) {
    const pod = { request_operation, resource: 'pod', subresource: '' };
    const privileged = { decision: 'allow', policy_level: 'privileged', policy_version: 'latest', mode: 'enforce' };
    metrics.evaluations.cell({ ...privileged, ...pod });
    metrics.exemptions.cell(pod);
    metrics.exemptions.cell({ ...pod, resource: 'controller' });
  }
  // Compliant pods of a namespace share their counts, so that the series are looked up once for each kind of request.
  const known = new WeakMap<Counts, Map<string, readonly Cell[]>>();
  return (request, counts) => {
    const labels = boundedLabels(request);
    const key = `${labels.request_operation} ${labels.resource} ${labels.subresource}`;
    let byRequest = known.get(counts);
    if (!byRequest) known.set(counts, (byRequest = new Map<string, readonly Cell[]>()));
    let cells = byRequest.get(key);
    if (!cells) byRequest.set(key, (cells = counts.map((count) => findCell(metrics, labels, count))));
    for (const cell of cells) cell.count++;
  };
}

function boundedLabels(request: AdmissionRequest): RequestLabels {
  const labels = requestLabels(request);
  return SUBRESOURCES.has(labels.subresource) ? labels : { ...labels, subresource: 'other' };
}

function findCell(metrics: Metrics['podSecurity'], labels: RequestLabels, count: PodSecurityCount): Cell {
  switch (count.metric) {
    case 'exemptions':
      return metrics.exemptions.cell(labels);
    case 'errors':
      return metrics.errors.cell({ fatal: String(count.fatal), ...labels });
    case 'evaluations':
      return metrics.evaluations.cell({
        decision: count.decision,
        policy_level: count.policy.level,
        policy_version: policyVersionLabel(count.policy, newestVersion),
        mode: count.mode,
        ...labels,
      });
  }
}
