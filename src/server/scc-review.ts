/**
 * Runs SCC admission for webhooks: selects the mode, checks access, waits for new namespaces, records metrics, and
 * defaults workload templates.
 */
import { canUseScc, getSccSet, lacksStandardSccs } from '../cluster/access.ts';
import { memoize, type Store } from '../cluster/store.ts';
import type { AdmissionRequest, Decision } from '../kube/admission.ts';
import { createStatus } from '../kube/status.ts';
import { quote } from '../kube/text.ts';
import { type Namespace, objectMember } from '../kube/types.ts';
import { CONFIGURATION_NAMES, SCC_REGISTERED_ANNOTATION } from '../kube/webhooks.ts';
import type { PodFields, WorkloadResource } from '../policy/pod/index.ts';
import {
  completeTemplate,
  decodeWorkload,
  hasDefaults,
  type PodDefaults,
  type DecodedWorkload,
} from '../policy/psa/index.ts';
import {
  admitTemplate,
  type CanUse,
  type NamespaceMode,
  readNamespaceRanges,
  reportScc,
  SCC_MODES,
  type SccDecision,
  type SccInput,
  type SccMode,
  sccMode,
  type SccSettings,
  templateWarnings,
} from '../policy/scc/index.ts';
import type { Metrics } from '../telemetry/metrics.ts';
import type { WaitingRoom } from './waiting-room.ts';
import type { WebhookContext } from './webhook.ts';

/** Calls `decide` with an access check that is based on the RBAC index or on SubjectAccessReviews. */
export type WithAccess = (decide: (canUse: CanUse) => SccDecision, context: WebhookContext) => Promise<SccDecision>;

export interface SccReviewDeps {
  /** Returns the effective settings. */
  settings(): SccSettings;
  readonly withAccess: WithAccess;
  readonly waitingRoom: WaitingRoom;
  readonly previewRanges: PreviewRanges;
  readonly record: SccRecorder;
  /** True if a controller creates missing standard SCCs. */
  restoresStandardSccs(): boolean;
}

/** Returns the namespace with the ranges that it would receive if SCCs were enforced. */
export type PreviewRanges = (namespace: Namespace, all: readonly Namespace[]) => Namespace;

/** Decides on one pod based on the gathered cluster state. */
type DecidePod = (
  cluster: Pick<
    SccInput,
    'namespace' | 'namespaceRanges' | 'sccs' | 'canUse' | 'compatibility' | 'preferUserNamespaces' | 'isReported'
  >,
) => SccDecision;

export interface SccReview {
  readonly request: AdmissionRequest;
  /** Modes in which the webhook makes decisions. */
  readonly modes: readonly SccMode[];
  /**
   * True to default pods as soon as the settings require enforcement, before pods are denied. Otherwise, the mode could
   * change between the two reviews of a pod, and the pod would be denied because it has not been defaulted.
   */
  readonly precedesDenials?: boolean;
  readonly context: WebhookContext;
  readonly decide: DecidePod;
  /** Adapts the decision to the request, if necessary. */
  readonly adapt?: (decision: SccDecision) => SccDecision;
}

/** A decision with the SCC mode of its namespace. */
interface DecisionInMode {
  readonly mode: NamespaceMode;
  readonly decision: SccDecision;
}

/** Reviews a pod, records the outcome and returns the response. Returns `undefined` if the webhook does not apply. */
export async function reviewPod(review: SccReview, deps: SccReviewDeps): Promise<Decision | undefined> {
  const outcome = await decideOrWait(review, deps);
  if (outcome === undefined) return undefined;
  const { mode } = outcome;
  const decision = review.adapt ? review.adapt(outcome.decision) : outcome.decision;
  deps.record(review.request, { mode, decision });
  const { compatibility } = deps.settings();
  const response = mode.mode === 'report' ? reportScc(decision, compatibility) : withDetails(decision, review.request);
  return mode.problem === undefined
    ? response
    : { ...response, warnings: [mode.problem, ...(response.warnings ?? [])] };
}

/**
 * Adds the name of the pod to a denial, or its name prefix if the API server has not generated the name yet.
 * @see https://github.com/kubernetes/kubernetes/blob/v1.36.0/staging/src/k8s.io/apiserver/pkg/admission/errors.go
 */
function withDetails(decision: SccDecision, { name, object }: AdmissionRequest): Decision {
  if (decision.allowed || decision.status.details !== undefined) return decision;
  const metadata = objectMember(object, 'metadata');
  const found = [name, metadata['name'], metadata['generateName']].find((one) => typeof one === 'string' && one !== '');
  const details = { name: typeof found === 'string' ? found : 'Unknown', kind: 'pods' };
  return { ...decision, status: { ...decision.status, details } };
}

/**
 * Where SCCs are enforced, a denial waits for the namespace, its ranges, and the standard SCCs of a new installation. A
 * displaced review is denied immediately, because an HTTP error would admit the pod under `failurePolicy: Ignore`.
 * Controllers retry in both cases.
 */
async function decideOrWait(review: SccReview, deps: SccReviewDeps): Promise<DecisionInMode | undefined> {
  const first = await decideNow(review, deps);
  if (first?.mode.mode !== 'enforce' || !first.mayChange) return withoutEarlyDenial(first);
  const { request, context } = review;
  const canDecide = (namespace: Namespace): boolean =>
    isReady(namespace, deps.settings()) && !awaitsStandardSccs(context.store, deps);
  await deps.waitingRoom.wait(request.namespace ?? '', context, canDecide);
  return withoutEarlyDenial(await decideNow(review, deps));
}

/** Drops the denial of a pod in a mode that is not in force yet. */
function withoutEarlyDenial(outcome: ProvisionalDecision | undefined): DecisionInMode | undefined {
  return outcome?.isAhead === true && !outcome.decision.allowed ? undefined : outcome;
}

/** True until the controller has created all standard SCCs and the bindings that grant them. */
function awaitsStandardSccs(store: Store, deps: Pick<SccReviewDeps, 'restoresStandardSccs'>): boolean {
  return lacksStandardSccs(store) && deps.restoresStandardSccs();
}

/** True if decisions in the namespace need not wait for its ranges. */
function isReady(namespace: Namespace, settings: SccSettings): boolean {
  return sccMode(namespace, settings).mode !== 'enforce' || getRanges(namespace).problem === undefined;
}

interface ProvisionalDecision extends DecisionInMode {
  /** True if the mode is not in force yet. */
  readonly isAhead: boolean;
  /** True if the decision may change once the namespace has its ranges and the standard SCCs exist. */
  readonly mayChange: boolean;
}

async function decideNow(review: SccReview, deps: SccReviewDeps): Promise<ProvisionalDecision | undefined> {
  const settings = deps.settings();
  const { request, modes, precedesDenials = false, context, decide } = review;
  const { namespace: name = '' } = request;
  const { store } = context;
  const namespace = store.get('Namespace', name);
  const stored = namespace ?? { metadata: { name } };
  const inForce = namespaceMode(store, name, settings);
  const isAhead = precedesDenials && inForce.mode !== 'enforce';
  const mode = isAhead ? sccMode(stored, settings) : inForce;
  if (!modes.includes(mode.mode)) return undefined;
  const { compatibility, preferUserNamespaces } = settings;
  const isReported = mode.mode === 'report';
  const current = isReported ? deps.previewRanges(stored, store.list('Namespace')) : stored;
  const cluster = {
    namespace: current,
    namespaceRanges: getRanges(current),
    sccs: getSccSet(store),
    compatibility,
    preferUserNamespaces,
    isReported,
  };
  const lacksSccs = awaitsStandardSccs(store, deps);
  const decision = await deps.withAccess((canUse) => decide({ ...cluster, canUse }), context);
  const mayChange =
    !decision.allowed && (!namespace || decision.status.message === getRanges(namespace).problem || lacksSccs);
  return { mode, isAhead, mayChange, decision: namespace ? decision : namespaceNotFound(decision, name) };
}

/** Parses the ranges once for each version of a namespace. */
const getRanges = memoize((namespace: Namespace) => readNamespaceRanges(namespace));

/**
 * Returns the SCC mode of a namespace. If the store lacks the namespace, SCCs are enforced unless its name is exempt. SCCs
 * are only reported until API servers send the pods for which the mode is `enforce`.
 */
export function namespaceMode(store: Store, name: string, settings: SccSettings): NamespaceMode {
  const namespace = store.get('Namespace', name);
  const registered = registeredMode(store);
  if (registered === undefined) {
    const mode = sccMode(namespace ?? { metadata: { name } }, settings);
    return mode.mode === 'enforce' ? { ...mode, mode: 'report' } : mode;
  }
  const current =
    settings.mode === 'enforce' && registered !== 'enforce' ? { ...settings, mode: registered } : settings;
  if (namespace) return sccMode(namespace, current);
  const { mode } = sccMode({ metadata: { name } }, current);
  return { mode: mode === 'off' ? 'off' : 'enforce' };
}

/** Returns the mode for which the mutating webhook is registered. If replicas cannot read it, all modes are in force. */
function registeredMode(store: Store): SccMode | undefined {
  const kind = 'MutatingWebhookConfiguration';
  if (!store.synced(kind)) return 'enforce';
  const mode = store.get(kind, CONFIGURATION_NAMES[kind])?.metadata?.annotations?.[SCC_REGISTERED_ANNOTATION];
  return SCC_MODES.find((one) => one === mode);
}

/** True if SCCs are enforced in the request's namespace. */
export function enforcesSccs({ namespace = '' }: AdmissionRequest, store: Store, settings: SccSettings): boolean {
  return namespaceMode(store, namespace, settings).mode === 'enforce';
}

function namespaceNotFound(decision: SccDecision, name: string): SccDecision {
  if (decision.allowed) return decision;
  const message = `error fetching namespace ${quote(name)}: namespace ${quote(name)} not found`;
  return { ...decision, warnings: [], status: createStatus(403, 'Forbidden', message) };
}

/** A workload in a namespace where SCCs or defaults apply. */
export interface AdmittedWorkload {
  /** The workload with the defaults that SCC admission or the pod defaults set in its templates. */
  readonly object: DecodedWorkload;
  /** Warnings about pods that SCC admission denies. */
  readonly warnings: readonly string[];
  /** True if pods cannot be defaulted yet because the namespace has no ranges. */
  readonly isPending: boolean;
}

export interface WorkloadAdmission {
  /** Returns `undefined` where neither SCCs nor defaults apply. */
  admit(request: AdmissionRequest, resources: readonly WorkloadResource[], store: Store): AdmittedWorkload | undefined;
  /** True if `admit` need not wait for the namespace's ranges. */
  isReady(namespace: Namespace): boolean;
}

interface WorkloadAdmissionDeps extends Pick<SccReviewDeps, 'previewRanges'> {
  /** Returns the current settings. */
  settings(): { readonly scc: SccSettings; readonly defaults: PodDefaults };
}

/**
 * Creates the function that defaults workload templates through SCC admission or pod defaults. It checks access based
 * on the roles and bindings in the store, because warnings do not justify requests to the API server.
 */
export function createWorkloadAdmission({ settings, previewRanges }: WorkloadAdmissionDeps): WorkloadAdmission {
  return {
    isReady: (namespace) => isReady(namespace, settings().scc),
    admit(request, resources, store) {
      const stored = store.get('Namespace', request.namespace ?? '');
      const current = settings();
      if (!stored) return undefined;
      const { mode } = sccMode(stored, current.scc);
      const withDefaults = (template: PodFields): PodFields => completeTemplate(template, stored, current);
      if (mode === 'off') {
        if (!hasDefaults(stored, current)) return undefined;
        return {
          object: mapTemplates(decodeWorkload(request, resources), withDefaults),
          warnings: [],
          isPending: false,
        };
      }
      const { compatibility, preferUserNamespaces } = current.scc;
      const namespace = mode === 'report' ? previewRanges(stored, store.list('Namespace')) : stored;
      const namespaceRanges = getRanges(namespace);
      const input = {
        namespace,
        namespaceRanges,
        sccs: getSccSet(store),
        canUse: canUseScc(store),
        compatibility,
        preferUserNamespaces,
      };
      const denials: Denial[] = [];
      const object = mapTemplates(decodeWorkload(request, resources), (original) => {
        const template = withDefaults(original);
        const { pod, denial } = admitTemplate(template, input);
        if (denial) denials.push(denial);
        return mode === 'enforce' ? pod : template;
      });
      const { problem } = namespaceRanges;
      const isPending = mode === 'enforce' && denials.some(({ status }) => status.message === problem);
      // OpenShift does not warn about templates that SCC admission denies.
      const reported = mode === 'enforce' && compatibility === 'openshift' ? [] : denials;
      const warnings = new Set(reported.flatMap((denial) => templateWarnings(denial, mode)));
      return { object, warnings: [...warnings], isPending };
    },
  };
}

type Denial = NonNullable<ReturnType<typeof admitTemplate>['denial']>;

function mapTemplates(workload: DecodedWorkload, complete: (template: PodFields) => PodFields): DecodedWorkload {
  if (workload.outcome === 'decoded') return workload.pod ? { ...workload, pod: complete(workload.pod) } : workload;
  if (workload.outcome !== 'templates') return workload;
  const templates = workload.templates.map(({ location, decoded }) => {
    return { location, decoded: decoded.pod ? { pod: complete(decoded.pod) } : decoded };
  });
  return { ...workload, templates };
}

/** Counts one decision. */
type SccRecorder = (request: AdmissionRequest, outcome: DecisionInMode) => void;

const SUBRESOURCES: ReadonlySet<string> = new Set(['attach', 'ephemeralcontainers', 'exec', 'resize']);

/** Creates the recorder of SCC decisions, which may count those in report mode separately. */
export function createSccRecorder(decisions: Metrics['scc']['decisions'], reports = decisions): SccRecorder {
  return (request, { mode: { mode }, decision: { allowed, facts } }) => {
    const operation = operationLabel(request);
    const { scc = '', subjectType: subject_type = '' } = facts ?? {};
    // Decisions have no facts for pods to which SCCs do not apply, such as Windows pods.
    const result = !allowed ? 'deny' : facts ? 'allow' : 'skip';
    const counter = mode === 'report' ? reports : decisions;
    counter.cell({ operation, mode, decision: result, scc, subject_type }).count++;
  };
}

/** Returns a label value from a fixed set. */
function operationLabel({ operation, subResource = '' }: AdmissionRequest): string {
  if (subResource !== '') return SUBRESOURCES.has(subResource) ? subResource : 'other';
  return operation === 'CREATE' || operation === 'UPDATE' ? operation.toLowerCase() : 'other';
}
