/** Runs SCC admission for webhooks: selects the mode, checks access, waits for new namespaces, and records metrics. */
import type { Store } from '../cluster/store.ts';
import type { AdmissionRequest, Decision } from '../kube/admission.ts';
import type { Namespace } from '../kube/types.ts';
import {
  namespaceNotFound,
  reportScc,
  type SccDecision,
  type SccInput,
  type SccMode,
  sccMode,
  type SccSettings,
  withPodName,
} from '../policy/scc/index.ts';
import type { DecisionInMode, SccRecorder } from '../telemetry/admission.ts';
import { getSccSet, lacksStandardSccs, sccAccess } from '../views/access.ts';
import { getRanges, namespaceMode } from '../views/scc-mode.ts';
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
    mode.mode === 'report' ? reportScc(decision, settings().compatibility) : withPodName(decision, request);
  return mode.problem === undefined
    ? response
    : { ...response, warnings: [mode.problem, ...(response.warnings ?? [])] };
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

/** True if SCCs are enforced in the request's namespace. */
export function enforcesSccs({ namespace = '' }: AdmissionRequest, store: Store, settings: SccSettings): boolean {
  return namespaceMode(store, namespace, settings).mode === 'enforce';
}
