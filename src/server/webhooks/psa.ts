import type { AdmissionRequest, Decision } from '../../kube/admission.ts';
import { policyVersionLabel, requestLabels, type RequestLabels } from '../../policy/psa/metric-labels.ts';
import {
  type PodSecurityCount,
  DEFAULT_LIMITS,
  type PodReviewLimits,
  type PodSecurityReview,
} from '../../policy/psa/types.ts';
import { newestVersion } from '../../policy/pss/evaluate.ts';
import type { Cell } from '../../telemetry/hot.ts';
import type { Metrics } from '../../telemetry/metrics.ts';
import { type Store, waitFor } from '../../cluster/store.ts';
import type { PodSecurity } from '../../policy/psa/pod-security.ts';
import { reviewPodSecurity } from '../../policy/psa/review.ts';
import { type SccSettings, warnOfModeLabel } from '../../policy/scc/mode.ts';
import type { Version } from '../../policy/pss/policy.ts';
import { createForesight, type RolloutInForce } from '../foresight.ts';
import { remainingMs, type WaitingRoom } from '../waiting-room.ts';
import type { Webhook, WebhookContext } from '../webhook.ts';

const OPERATIONS = ['create', 'update'] as const;

/** Those of Kubernetes. Whoever reaches this server may send any other name, and a series lives for ever: they are one. */
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
const OTHER = 'other';

type Counts = readonly PodSecurityCount[];

/** Records what reviews count; the series that upstream shows from the start begin at 0. */
function createPodSecurityRecorder(
  metrics: Metrics['podSecurity'],
): (request: AdmissionRequest, counts: Counts) => void {
  for (const request_operation of OPERATIONS) {
    const pod = { request_operation, resource: 'pod', subresource: '' };
    metrics.evaluations.cell({
      decision: 'allow',
      policy_level: 'privileged',
      policy_version: 'latest',
      mode: 'enforce',
      ...pod,
    });
    metrics.exemptions.cell(pod);
    metrics.exemptions.cell({ ...pod, resource: 'controller' });
  }
  // Pods that pass share the counts of their namespace: what these mean for a kind of request is found out once.
  const known = new WeakMap<Counts, Map<string, readonly Cell[]>>();
  return (request, counts) => {
    const labels = labelsOf(request);
    const key = `${labels.request_operation} ${labels.resource} ${labels.subresource}`;
    let byRequest = known.get(counts);
    if (!byRequest) known.set(counts, (byRequest = new Map<string, readonly Cell[]>()));
    let cells = byRequest.get(key);
    if (!cells) byRequest.set(key, (cells = counts.map((count) => cellOf(metrics, labels, count))));
    for (const cell of cells) cell.count++;
  };
}

/** A bounded set of values, whatever is asked. */
function labelsOf(request: AdmissionRequest): RequestLabels {
  const labels = requestLabels(request);
  return SUBRESOURCES.has(labels.subresource) ? labels : { ...labels, subresource: OTHER };
}

function cellOf(metrics: Metrics['podSecurity'], labels: RequestLabels, count: PodSecurityCount): Cell {
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

interface PsaWebhookOptions {
  /** The configuration in force now; it may be another for the next request. */
  podSecurity(): PodSecurity;
  readonly metrics: Metrics['podSecurity'];
  readonly waitingRoom: WaitingRoom;
  /** How SCCs work: namespaces say their mode by a label, too. Absent, such labels mean nothing. */
  readonly scc?: Pick<SccSettings, 'mode' | 'exemptNamespaces'>;
  /** Whoever creates what enforcement will refuse is told once enforcement is to come. Absent, it never comes. */
  readonly rollout?: RolloutInForce;
  /** Judge as that Kubernetes version would; absent, the newest rules known hold. */
  readonly emulationVersion?: Version;
  readonly limits?: PodReviewLimits;
}

/** Makes the webhook that answers as the Pod Security Admission of an API server does, from the store alone. */
export function createPsaWebhook(options: PsaWebhookOptions): Webhook {
  const { emulationVersion, limits = DEFAULT_LIMITS, waitingRoom, scc } = options;
  const record = createPodSecurityRecorder(options.metrics);
  const warnOfEnforcement = options.rollout && createForesight(options.rollout);
  const fixed = emulationVersion === undefined ? { limits } : { limits, emulationVersion };

  /** Reviews, and tells which namespace it would have needed and did not find. */
  const review = (request: AdmissionRequest, { store, now, deadlineMs }: WebhookContext): Reviewed => {
    let missing: string | undefined;
    const { decision, counts } = reviewPodSecurity({
      ...fixed,
      request,
      podSecurity: options.podSecurity(),
      findNamespace(name) {
        const namespace = store.get('Namespace', name);
        // A request without a namespace waits for none: there will never be one of that name.
        if (!namespace && name !== '') missing = name;
        return namespace;
      },
      listPods: (namespace) => store.list('Pod', namespace),
      now,
      ...(deadlineMs === undefined ? {} : { deadlineMs }),
    });
    return { decision, counts, missing };
  };
  const foresightOn = (request: AdmissionRequest, decision: Decision, store: Store): string | undefined => {
    if (!warnOfEnforcement || !decision.allowed) return undefined;
    const { exemptions } = options.podSecurity();
    return warnOfEnforcement(request, { store, exemptions, told: decision.warnings ?? [] });
  };
  const conclude = (request: AdmissionRequest, { decision, counts }: Reviewed, store: Store): Decision => {
    record(request, counts);
    const warning = (scc && warnOfModeLabel(request, scc)) ?? foresightOn(request, decision, store);
    return warning === undefined ? decision : { ...decision, warnings: [...(decision.warnings ?? []), warning] };
  };

  return {
    path: '/psa/validate',
    decide(request, context) {
      const { store } = context;
      const first = review(request, context);
      const name = first.missing;
      if (name === undefined) return conclude(request, first, store);
      const leave = waitingRoom.enter(context.bodyBytes ?? 0);
      if (!leave) return conclude(request, first, store);
      return waitForNamespace(name, context, waitingRoom)
        .then((found) => conclude(request, found ? review(request, context) : first, store))
        .finally(leave);
    },
  };
}

interface Reviewed extends PodSecurityReview {
  readonly missing: string | undefined;
}

/** A namespace that the API server knows and the store does not was created a moment ago. */
async function waitForNamespace(name: string, context: WebhookContext, waitingRoom: WaitingRoom): Promise<boolean> {
  const { store, signal } = context;
  const find = (): true | undefined => (store.get('Namespace', name) ? true : undefined);
  const found = await waitFor(store, { kind: 'Namespace', name }, find, { timeoutMs: remainingMs(context), signal });
  await waitingRoom.turn();
  return found === true;
}
