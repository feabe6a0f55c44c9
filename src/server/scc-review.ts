/** Runs SCC admission for webhooks: selects the mode, checks access, waits for new namespaces, and records metrics. */
import { CONFIGURATION_NAMES, SCC_REGISTERED_ANNOTATION } from '../api/webhooks.ts';
import { memoize, type Store } from '../cluster/store.ts';
import type { AdmissionRequest, Decision } from '../kube/admission.ts';
import { createStatus } from '../kube/status.ts';
import { quote } from '../kube/text.ts';
import { type Namespace, objectMember } from '../kube/types.ts';
import {
  type NamespaceMode,
  readNamespaceRanges,
  reportScc,
  SCC_MODES,
  type SccDecision,
  type SccInput,
  type SccMode,
  sccMode,
  type SccSettings,
} from '../policy/scc/index.ts';
import type { Metrics } from '../telemetry/metrics.ts';
import { sccAccess, getSccSet, lacksStandardSccs } from '../views/access.ts';
import type { DecideWithAccess } from './access-reviews.ts';
import type { WaitingRoom } from './waiting-room.ts';
import type { WebhookContext } from './webhook.ts';

export interface SccReviewDeps {
  /** Returns the effective settings. */
  settings(): SccSettings;
  /**
   * Returns the function that checks access with SubjectAccessReviews, or `undefined` if the roles and bindings in the
   * store determine access.
   */
  accessReviews?(): DecideWithAccess | undefined;
  readonly waitingRoom: WaitingRoom;
  readonly previewRanges: PreviewRanges;
  readonly record: SccRecorder;
  /** True if a controller creates missing standard SCCs. */
  restoresStandardSccs(): boolean;
}

/** Returns the namespace with the ranges that it would receive if SCCs were enforced. */
export type PreviewRanges = (namespace: Namespace, all: readonly Namespace[]) => Namespace;

export interface SccReview {
  readonly request: AdmissionRequest;
  /** The pod on which SCC admission decides. Default: the objects of the request. */
  readonly pod?: Pick<SccInput, 'operation' | 'object'>;
  /** Modes in which the webhook makes decisions. */
  readonly modes: readonly SccMode[];
  /**
   * True to default pods as soon as the settings require enforcement, before pods are denied. Otherwise, the mode could
   * change between the two reviews of a pod, and the pod would be denied because it has not been defaulted.
   */
  readonly precedesDenials?: boolean;
  readonly context: WebhookContext;
  readonly decide: (input: SccInput, store: Store) => SccDecision;
}

/** A decision with the SCC mode of its namespace. */
interface DecisionInMode {
  readonly mode: NamespaceMode;
  readonly decision: SccDecision;
}

/**
 * Decides on a pod. Returns `undefined` if the webhook does not apply. Where SCCs are enforced, a denial waits for the
 * namespace, its ranges, and the standard SCCs of a new installation. A displaced review is denied immediately, because an
 * HTTP error would admit the pod under `failurePolicy: Ignore`. Controllers retry in both cases.
 */
export async function decideScc(review: SccReview, deps: SccReviewDeps): Promise<DecisionInMode | undefined> {
  let outcome = await decideNow(review, deps);
  if (outcome?.mode.mode === 'enforce' && outcome.mayChange) {
    const { request, context } = review;
    const canDecide = (namespace: Namespace): boolean =>
      isReady(namespace, deps.settings()) && !awaitsStandardSccs(context.store, deps);
    await deps.waitingRoom.wait(request.namespace ?? '', context, canDecide);
    outcome = await decideNow(review, deps);
  }
  // A mode that is not in force yet denies no pods.
  return outcome?.isAhead === true && !outcome.decision.allowed ? undefined : outcome;
}

/** Counts a decision. Returns the response, which only reports a denial in report mode. */
export function concludeScc(
  request: AdmissionRequest,
  { mode, decision }: DecisionInMode,
  { settings, record }: Pick<SccReviewDeps, 'settings' | 'record'>,
): Decision {
  record(request, { mode, decision });
  const response =
    mode.mode === 'report' ? reportScc(decision, settings().compatibility) : withDetails(decision, request);
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
  const names: readonly unknown[] = [name, metadata['name'], metadata['generateName'], 'Unknown'];
  const details = {
    name: names.filter((value) => typeof value === 'string').find((value) => value !== '') ?? '',
    kind: 'pods',
  };
  return { ...decision, status: { ...decision.status, details } };
}

/** True until the controller has created all standard SCCs and the bindings that grant them. */
function awaitsStandardSccs(store: Store, deps: Pick<SccReviewDeps, 'restoresStandardSccs'>): boolean {
  return lacksStandardSccs(store) && deps.restoresStandardSccs();
}

/** True if decisions in the namespace do not wait for its ranges. */
export function isReady(namespace: Namespace, settings: SccSettings): boolean {
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
  const { namespace: name = '', operation, subResource, object, oldObject, userInfo } = request;
  const { store } = context;
  const namespace = store.get('Namespace', name);
  const stored = namespace ?? { metadata: { name } };
  const inForce = namespaceMode(store, name, settings);
  const isAhead = precedesDenials && inForce.mode !== 'enforce';
  const mode = isAhead ? sccMode(stored, settings) : inForce;
  if (!modes.includes(mode.mode)) return undefined;
  const isReported = mode.mode === 'report';
  const current = isReported ? deps.previewRanges(stored, store.list('Namespace')) : stored;
  const { compatibility, preferUserNamespaces } = settings;
  const input = {
    ...(review.pod ?? { operation, subResource, object, oldObject }),
    userInfo,
    namespace: current,
    namespaceRanges: getRanges(current),
    sccs: getSccSet(store),
    compatibility,
    preferUserNamespaces,
    isReported,
  };
  const lacksSccs = awaitsStandardSccs(store, deps);
  const reviewAccess = deps.accessReviews?.();
  const decision = reviewAccess
    ? await reviewAccess((access) => decide({ ...input, access }, store), context)
    : decide({ ...input, access: sccAccess(store) }, store);
  const mayChange =
    !decision.allowed && (!namespace || decision.status.message === input.namespaceRanges.problem || lacksSccs);
  return { mode, isAhead, mayChange, decision: namespace ? decision : namespaceNotFound(decision, name) };
}

/** Parses the ranges once for each version of a namespace. */
export const getRanges = memoize((namespace: Namespace) => readNamespaceRanges(namespace));

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
  return SCC_MODES.find((known) => known === mode);
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
