import { memoize, type Store } from '../cluster/store.ts';
import type { AdmissionRequest, Decision } from '../kube/admission.ts';
import { defined } from '../kube/defined.ts';
import { type Namespace, objectMember } from '../kube/types.ts';
import type { WorkloadResource } from '../policy/pod/index.ts';
import {
  DEFAULT_LIMITS,
  type ExceptionSettings,
  findExemption,
  isLevelEnforced,
  type PodSecurity,
  type PodSecurityCount,
  type PodSecurityInput,
  type PodSecurityReview,
  reviewNamespace,
  reviewPodSecurity,
} from '../policy/psa/index.ts';
import { compareVersions, newestVersion, type Policy } from '../policy/pss/index.ts';
import { withWarnLevel } from '../policy/rollout/index.ts';
import { modeLabelWarning, type SccSettings } from '../policy/scc/index.ts';
import type { CounterSeries } from '../telemetry/counters.ts';
import type { Metrics } from '../telemetry/metrics.ts';
import { activeExceptions } from '../views/exceptions.ts';
import type { Discloses } from './disclosure.ts';
import type { PreviewEnforcement, PreviewLabels } from './enforcement-preview.ts';
import type { Evaluations } from './evaluations.ts';
import type { WaitingRoom } from './waiting-room.ts';
import type { Webhook, WebhookContext } from './webhook.ts';
import type { AdmittedWorkload, WorkloadAdmission } from './webhooks/workloads.ts';

interface PodSecurityOptions {
  /** Returns the effective configuration. */
  podSecurity(): PodSecurity;
  /** Returns the settings for PodSecurityExceptions. If absent, exceptions do not apply. */
  exceptions?(): ExceptionSettings;
  /** Returns the resources in other API groups that are reviewed as workloads. */
  readonly workloadResources?: (() => readonly WorkloadResource[]) | undefined;
  readonly metrics: Metrics['podSecurity'];
  readonly waitingRoom: WaitingRoom;
  /** Runs the evaluations of existing pods in a namespace. */
  readonly evaluate: Evaluations;
  readonly discloses: Discloses;
  /** Returns the settings for validating SCC mode labels. If absent, the labels are not validated. */
  scc?(): Pick<SccSettings, 'mode' | 'exemptNamespaces'>;
  /** Defaults workload templates where SCCs or pod defaults apply. Absent if they apply to no namespace. */
  readonly workloads?: WorkloadAdmission;
  /** Warns about pods that planned enforcement will deny. Absent if no enforcement is planned. */
  readonly preview?: PreviewEnforcement | undefined;
  /** Warns about namespace edits that a controller will revert. Absent if there is no such controller. */
  readonly previewLabels?: PreviewLabels | undefined;
}

const NO_RESOURCES: readonly WorkloadResource[] = [];

/**
 * Creates the reviewer of pods, namespaces and workloads that makes the same decisions as an API server's Pod Security Admission, using only the store.
 */
export function createPodSecurityReviewer(options: PodSecurityOptions): Required<Pick<Webhook, 'enforces' | 'decide'>> {
  const { exceptions, waitingRoom, workloads } = options;
  const conclude = createConclusion(options);
  const review = async (request: AdmissionRequest, context: WebhookContext): Promise<Review> => {
    const { store, now, deadlineMs } = context;
    let missing: string | undefined;
    let needsPods = false;
    const resources = options.workloadResources?.() ?? NO_RESOURCES;
    const workload = isWorkload(request) ? workloads?.admit(request, resources, store) : undefined;
    const input: PodSecurityInput = {
      limits: DEFAULT_LIMITS,
      request,
      workload: workload?.object,
      podSecurity: options.podSecurity(),
      workloadResources: resources,
      emulationVersion: store.emulationVersion,
      findNamespace(name) {
        const namespace = store.get('Namespace', name);
        // A request without a namespace has no namespace to wait for.
        if (!namespace && name !== '') missing = name;
        return namespace && getWarned(namespace);
      },
      findExceptions: exceptions && ((name) => activeExceptions(store, exceptions(), name, Date.now())),
      listPods(namespace) {
        if (!options.discloses(request, store, 'Namespace')) return [];
        if (store.synced('Pod')) return store.list('Pod', namespace);
        needsPods = true;
        return undefined;
      },
      now,
      ...defined({ deadlineMs }),
    };
    const reviewed: PodSecurityReview = isNamespace(request)
      ? { decision: await options.evaluate(reviewNamespace(input), context), counts: [] }
      : reviewPodSecurity(input);
    const awaited = workload?.isPending === true ? request.namespace : missing;
    return { ...reviewed, workload, awaited, needsPods };
  };
  const isReady = (namespace: Namespace): boolean => workloads === undefined || workloads.isReady(namespace);

  return {
    enforces: (request, store) => enforces(request, store, options.podSecurity()),
    async decide(request, context) {
      let reviewed = await review(request, context);
      const { needsPods, awaited } = reviewed;
      if (needsPods) await waitingRoom.waitForPods(context);
      else if (awaited !== undefined)
        await waitingRoom.wait(awaited, context, isWorkload(request) ? isReady : isPresent);
      if (needsPods || awaited !== undefined) reviewed = await review(request, context);
      return conclude(request, reviewed, context.store);
    },
  };
}

/** Returns the function that records a review and adds its warnings. */
function createConclusion({ metrics, podSecurity, scc, preview, previewLabels }: PodSecurityOptions) {
  const record = createRecorder(metrics);
  const recordUse = createUseRecorder(metrics);
  return (request: AdmissionRequest, { decision, counts, workload }: Review, store: Store): Decision => {
    record(request, counts);
    const { exempt, exception } = decision.auditAnnotations ?? {};
    if (exempt !== undefined) recordUse(request, exempt, exemptName(request, exempt));
    for (const name of exception?.split(', ') ?? [])
      recordUse(request, 'exception', `${request.namespace ?? ''}/${name}`);
    const added = [
      ...(workload?.warnings ?? []),
      scc && modeLabelWarning(request, scc()),
      decision.allowed ? previewLabels?.(request, store) : undefined,
      preview?.(request, decision, { store, exemptions: podSecurity().exemptions, workload }),
    ].filter((warning) => warning !== undefined);
    return added.length === 0 ? decision : { ...decision, warnings: [...(decision.warnings ?? []), ...added] };
  };
}

const getWarned = memoize(withWarnLevel);

const isPresent = (): boolean => true;

interface Review extends PodSecurityReview {
  /** Absent for pods and namespaces, and where SCCs do not apply. */
  readonly workload: AdmittedWorkload | undefined;
  /** The namespace that the store lacks or that does not have ranges yet. */
  readonly awaited: string | undefined;
  /** True if the decision depends on pods that the store does not contain yet. */
  readonly needsPods: boolean;
}

/**
 * True if the webhook may deny the request. It denies pods only if a level other than privileged is enforced, and
 * denies invalid levels on every namespace.
 */
function enforces(request: AdmissionRequest, store: Store, podSecurity: PodSecurity): boolean {
  const { group, resource } = request.resource;
  if (group || !RESOURCES.has(resource)) return false;
  if (isNamespace(request)) return true;
  const namespace = store.get('Namespace', request.namespace ?? '');
  if (namespace) return isLevelEnforced(request, namespace, podSecurity);
  return findExemption(request, podSecurity.exemptions) === undefined;
}

function isNamespace({ resource: { group, resource } }: AdmissionRequest): boolean {
  return !group && resource === 'namespaces';
}

/** True for a write to an object with a pod template. */
function isWorkload({ operation, resource, requestSubResource }: AdmissionRequest): boolean {
  const isOther = !resource.group && RESOURCES.has(resource.resource);
  return (operation === 'CREATE' || operation === 'UPDATE') && !requestSubResource && !isOther;
}

// Metrics

const OPERATIONS = ['create', 'update'] as const;

const RESOURCES: ReadonlyMap<string, string> = new Map([
  ['pods', 'pod'],
  ['namespaces', 'namespace'],
]);

/**
 * Subresources in Kubernetes. Clients may send other names, which share one series because series are never removed.
 */
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

/** Creates the recorder for evaluations. As in upstream, some series exist from the start with the value 0. */
function createRecorder(metrics: Metrics['podSecurity']): (request: AdmissionRequest, counts: Counts) => void {
  for (const request_operation of OPERATIONS) {
    const pod = { request_operation, resource: 'pod', subresource: '' };
    const privileged = { decision: 'allow', policy_level: 'privileged', policy_version: 'latest', mode: 'enforce' };
    metrics.evaluations.cell({ ...privileged, ...pod });
    metrics.exemptions.cell(pod);
    metrics.exemptions.cell({ ...pod, resource: 'controller' });
  }
  // Compliant pods in a namespace have the same `counts` object, so its series are looked up once for each type of
  // request.
  const known = new WeakMap<Counts, Map<string, readonly CounterSeries[]>>();
  return (request, counts) => {
    const labels = requestLabels(request);
    const key = `${labels.request_operation} ${labels.resource} ${labels.subresource}`;
    let byRequest = known.get(counts);
    if (!byRequest) known.set(counts, (byRequest = new Map<string, readonly CounterSeries[]>()));
    let cells = byRequest.get(key);
    if (!cells) byRequest.set(key, (cells = counts.map((count) => findCell(metrics, labels, count))));
    for (const cell of cells) cell.count++;
  };
}

/** Creates the recorder that counts pods admitted because of an exemption or exception. */
function createUseRecorder({ exemptionUses }: Metrics['podSecurity']) {
  return ({ resource, dryRun }: AdmissionRequest, exemption: string, name: string): void => {
    if (resource.group || resource.resource !== 'pods' || dryRun === true) return;
    exemptionUses.cell({ exemption, name }).count++;
  };
}

function exemptName({ namespace, userInfo, object }: AdmissionRequest, exemption: string): string {
  if (exemption === 'namespace') return namespace ?? '';
  if (exemption === 'user') return userInfo.username ?? '';
  const { runtimeClassName } = objectMember(object, 'spec');
  return typeof runtimeClassName === 'string' ? runtimeClassName : '';
}

type RequestLabels = ReturnType<typeof requestLabels>;

/** @see https://github.com/kubernetes/pod-security-admission/blob/v0.37.0/metrics/metrics.go */
function requestLabels({ operation, resource, requestSubResource }: AdmissionRequest) {
  const subresource = requestSubResource ?? '';
  return {
    request_operation: operation.toLowerCase(),
    resource: (!resource.group ? RESOURCES.get(resource.resource) : undefined) ?? 'controller',
    subresource: SUBRESOURCES.has(subresource) ? subresource : 'other',
  };
}

function findCell(metrics: Metrics['podSecurity'], labels: RequestLabels, count: PodSecurityCount): CounterSeries {
  switch (count.metric) {
    case 'exemptions':
      return metrics.exemptions.cell(labels);
    case 'errors':
      return metrics.errors.cell({ fatal: String(count.fatal), ...labels });
    case 'evaluations':
      return metrics.evaluations.cell({
        decision: count.decision,
        policy_level: count.policy.level,
        policy_version: policyVersionLabel(count.policy),
        mode: count.mode,
        ...labels,
      });
  }
}

/** The version label has a bounded set of values, because all versions newer than the newest known one are `future`. */
function policyVersionLabel({ level, version }: Policy): string {
  if (level === 'privileged' || version === 'latest') return 'latest';
  return compareVersions(version, newestVersion) <= 0 ? version : 'future';
}
