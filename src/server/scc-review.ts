/** Runs SCC admission for webhooks. Selects the mode, checks access, waits for new namespaces, and records metrics. */
import { ACCESS_REVIEWS_LIMITED, accessReviewKey, type ReviewAccess } from '../cluster/access-reviews.ts';
import type { Store } from '../cluster/store.ts';
import type { AdmissionRequest, Decision } from '../kube/admission.ts';
import type { Namespace } from '../kube/types.ts';
import {
  type AccessQuestion,
  assignScc,
  createKnownAccess,
  enterPod,
  namespaceNotFound,
  reportScc,
  type SccDecision,
  type SccInput,
  type SccMode,
  sccMode,
  type SccSettings,
  validateScc,
  withPodName,
} from '../policy/scc/index.ts';
import type { DecisionInMode, SccRecorder } from '../telemetry/admission.ts';
import { getSccSet, lacksStandardSccs, sccAccess } from '../views/access.ts';
import { getRanges, namespaceMode } from '../views/scc-mode.ts';
import { remainingMs, type WaitingRoom } from './waiting-room.ts';
import type { WebhookContext } from './webhook.ts';

export interface SccReviewDeps {
  settings(): SccSettings;
  /** Starts the SubjectAccessReviews of a review. Returns `undefined` if the RBAC objects in the store apply. */
  accessReviews?(context: WebhookContext): AccessSession | undefined;
  readonly waitingRoom: WaitingRoom;
  readonly previewRanges: PreviewRanges;
  readonly record: SccRecorder;
  /** Returns true if a controller creates missing standard SCCs. */
  restoresStandardSccs(): boolean;
}

/** Returns a copy of the namespace with the ranges that it would receive if SCCs were enforced. */
export type PreviewRanges = (namespace: Namespace, all: readonly Namespace[]) => Namespace;

export interface SccReview {
  readonly request: AdmissionRequest;
  /** The pod on which SCC admission decides. Defaults to the objects in the request. */
  readonly pod?: Pick<SccInput, 'operation' | 'object'>;
  /** Modes in which the webhook makes decisions. */
  readonly modes: readonly SccMode[];
  /**
   * True if pods are defaulted as soon as the settings require enforcement, which is before pods are denied. Otherwise,
   * the mode could change between the two reviews of a pod, and the second review would deny the pod because it was not
   * defaulted.
   */
  readonly precedesDenials?: boolean;
  readonly context: WebhookContext;
  /** Purpose of the decision. `enter` decides whether the user could create the pod. */
  readonly pass: 'assign' | 'validate' | 'enter';
}

/**
 * Decides on a pod. Returns `undefined` if the webhook does not apply. Where SCCs are enforced, a denial waits for the
 * namespace, its ranges, and the standard SCCs of a new installation. A displaced review is denied immediately, because
 * an HTTP error would admit the pod under `failurePolicy: Ignore`. Controllers retry in both cases.
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
  if (outcome?.isAhead !== true) return outcome;
  // Until the mode is in force, no pods are denied, and only the validating webhook returns warnings.
  const { mode, decision } = outcome;
  return decision.allowed ? { mode, decision: { ...decision, warnings: [] } } : undefined;
}

/** Counts a decision and returns the response. In report mode, the response only reports a denial. */
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

/** Returns true until the controller has created all standard SCCs and the bindings that grant them. */
function awaitsStandardSccs(store: Store, deps: Pick<SccReviewDeps, 'restoresStandardSccs'>): boolean {
  return lacksStandardSccs(store) && deps.restoresStandardSccs();
}

/** Returns true if decisions in the namespace do not have to wait for its ranges. */
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
  const { request, modes, precedesDenials = false, context, pass } = review;
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
  const reviews = deps.accessReviews?.(context);
  const decision = reviews
    ? await decideWithReviews(input, pass, reviews)
    : decidePass({ ...input, access: sccAccess(store) }, pass);
  const mayChange =
    !decision.allowed && (!namespace || decision.status.message === input.namespaceRanges.problem || lacksSccs);
  return { mode, isAhead, mayChange, decision: namespace ? decision : namespaceNotFound(decision, name) };
}

/** Repeats the decision until all access reviews on which it depends have results. */
async function decideWithReviews(
  input: Omit<SccInput, 'access'>,
  pass: SccReview['pass'],
  reviews: AccessSession,
): Promise<SccDecision> {
  try {
    for (;;) {
      const { access, openQuestions } = reviews.known();
      const decision = decidePass({ ...input, access }, pass);
      if (!(await reviews.answer(openQuestions(decision)))) return reviews.explain(decision);
    }
  } finally {
    reviews.end();
  }
}

function decidePass(input: SccInput, pass: SccReview['pass']): SccDecision {
  if (pass === 'enter') return enterPod(input);
  // Reports also assign an SCC, because they describe the SCC that would be assigned.
  return pass === 'assign' || input.isReported === true ? assignScc(input) : validateScc(input);
}

/** Returns true if SCCs are enforced in the request's namespace. */
export function enforcesSccs({ namespace = '' }: AdmissionRequest, store: Store, settings: SccSettings): boolean {
  return namespaceMode(store, namespace, settings).mode === 'enforce';
}

/** Maximum number of concurrent SubjectAccessReviews for one request. */
const MAX_CONCURRENT = 16;

/** The SubjectAccessReviews of one admission review. */
interface AccessSession {
  /** Returns the access check that the next decision uses. */
  known(): ReturnType<typeof createKnownAccess>;
  /** Sends reviews for the questions until the time limit. Returns false if there are no questions. */
  answer(questions: readonly AccessQuestion[]): Promise<boolean>;
  /** Adds the reason to a denial if the client has reached its limit of SubjectAccessReviews. */
  explain(decision: SccDecision): SccDecision;
  end(): void;
}

/**
 * Creates the function that starts a session, which sends as few SubjectAccessReviews as the decision needs. Denies
 * access if the SubjectAccessReview does not finish in time or before the admission review is displaced from the waiting
 * room.
 */
export function createAccessSessions(review: ReviewAccess, waitingRoom: Pick<WaitingRoom, 'enter'>) {
  return (context: WebhookContext): AccessSession => {
    const answers = new Map<string, boolean>();
    let isLimited = false;
    const displaced = Promise.withResolvers<undefined>();
    let untilMs = context.now() + remainingMs(context);
    const signal = context.getSignal?.();
    const leftMs = (): number => (signal?.aborted ? 0 : untilMs - context.now());
    return {
      known: () => createKnownAccess(answers, { getKey: accessReviewKey, isLast: leftMs() <= 0 }),
      async answer(questions) {
        const open = questions.values();
        const reviewNext = async (): Promise<void> => {
          for (const question of open) {
            const timeoutMs = leftMs();
            if (timeoutMs <= 0) return;
            const result = await review(question, { timeoutMs, address: context.address });
            isLimited ||= result === 'limited';
            answers.set(accessReviewKey(question), result === true);
          }
        };
        const reviewed = Promise.all(Array.from({ length: MAX_CONCURRENT }, reviewNext));
        await Promise.race([reviewed, displaced.promise]);
        return questions.length > 0;
      },
      explain(decision) {
        if (!isLimited || decision.allowed) return decision;
        const message = `${decision.status.message}: ${ACCESS_REVIEWS_LIMITED}`;
        return { ...decision, status: { ...decision.status, message } };
      },
      end: waitingRoom.enter(context, () => {
        untilMs = -Infinity;
        displaced.resolve(undefined);
      }),
    };
  };
}
