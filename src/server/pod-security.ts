import { memoize, type Store } from '../cluster/store.ts';
import type { AdmissionRequest, Decision } from '../kube/admission.ts';
import { defined } from '../kube/defined.ts';
import type { Namespace } from '../kube/types.ts';
import type { WorkloadResource } from '../policy/pod/index.ts';
import {
  type AdmittedWorkload,
  admitWorkload,
  decodeWorkload,
  DEFAULT_LIMITS,
  type ExceptionSettings,
  mayDeny,
  type PodSecurity,
  type PodSecurityInput,
  type PodSecurityReview,
  reviewNamespace,
  reviewPodSecurity,
  type WorkloadSettings,
} from '../policy/psa/index.ts';
import { withWarnLevel } from '../policy/rollout/index.ts';
import { modeLabelWarning, type SccSettings } from '../policy/scc/index.ts';
import { createPodSecurityRecorder } from '../telemetry/admission.ts';
import type { Metrics } from '../telemetry/metrics.ts';
import { getSccSet, sccAccess } from '../views/access.ts';
import type { PreviewEnforcement, PreviewLabels } from '../views/enforcement-preview.ts';
import { activeExceptions } from '../views/exceptions.ts';
import { getRanges } from '../views/scc-mode.ts';
import type { Discloses } from './disclosure.ts';
import type { Evaluations } from './evaluations.ts';
import { isReady as hasRanges, type PreviewRanges } from './scc-review.ts';
import type { WaitingRoom } from './waiting-room.ts';
import type { Webhook, WebhookContext } from './webhook.ts';

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
  /**
   * Sets defaults in workload templates in namespaces to which SCCs or pod defaults apply. Absent if there are no such
   * namespaces.
   */
  readonly workloads?: WorkloadAdmission;
  /** Warns about pods that planned enforcement will deny. Absent if no enforcement is planned. */
  readonly preview?: PreviewEnforcement | undefined;
  /** Warns about namespace edits that a controller will revert. Absent if there is no such controller. */
  readonly previewLabels?: PreviewLabels | undefined;
}

const NO_RESOURCES: readonly WorkloadResource[] = [];

/**
 * Creates the reviewer of pods, namespaces and workloads that makes the same decisions as an API server's Pod Security
 * Admission, using only the store.
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
        // Does not wait if the request has no namespace.
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
    enforces: (request, store) => mayDeny(request, options.podSecurity(), (name) => store.get('Namespace', name)),
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
  const record = createPodSecurityRecorder(metrics);
  return (request: AdmissionRequest, { workload, ...reviewed }: Review, store: Store): Decision => {
    const { decision } = reviewed;
    record(request, reviewed);
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
  /** Absent for pods and namespaces, and in namespaces to which SCCs do not apply. */
  readonly workload: AdmittedWorkload | undefined;
  /** Namespace that the store does not contain yet, or that has no ranges yet. */
  readonly awaited: string | undefined;
  /** True if the decision depends on pods that the store does not contain yet. */
  readonly needsPods: boolean;
}

function isNamespace({ resource: { group, resource } }: AdmissionRequest): boolean {
  return !group && resource === 'namespaces';
}

/** Returns true for a write to an object with a pod template. */
function isWorkload({ operation, resource, requestSubResource }: AdmissionRequest): boolean {
  const isOther = !resource.group && (resource.resource === 'pods' || resource.resource === 'namespaces');
  return (operation === 'CREATE' || operation === 'UPDATE') && !requestSubResource && !isOther;
}

// Workloads

interface WorkloadAdmission {
  /** Defaults the template. Returns `undefined` in namespaces to which neither SCCs nor defaults apply. */
  admit(request: AdmissionRequest, resources: readonly WorkloadResource[], store: Store): AdmittedWorkload | undefined;
  /** Returns true if `admit` does not wait for the namespace's ranges. */
  isReady(namespace: Namespace): boolean;
}

interface WorkloadAdmissionDeps {
  readonly previewRanges: PreviewRanges;
  settings(): WorkloadSettings;
}

/**
 * Creates the function that defaults workload templates. It determines access from the roles and bindings in the store,
 * because warnings do not justify requests to the API server.
 */
export function createWorkloadAdmission({ settings, previewRanges }: WorkloadAdmissionDeps): WorkloadAdmission {
  return {
    isReady: (namespace) => hasRanges(namespace, settings().scc),
    admit(request, resources, store) {
      const stored = store.get('Namespace', request.namespace ?? '');
      if (!stored) return undefined;
      return admitWorkload(() => decodeWorkload(request, resources), {
        namespace: stored,
        settings: settings(),
        findSccs(mode) {
          const namespace = mode === 'report' ? previewRanges(stored, store.list('Namespace')) : stored;
          return { namespace, namespaceRanges: getRanges(namespace), sccs: getSccSet(store), access: sccAccess(store) };
        },
      });
    },
  };
}
