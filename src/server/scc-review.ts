import { waitFor, type Store } from '../cluster/store.ts';
import type { Decision } from '../kube/admission.ts';
import { quote } from '../kube/text.ts';
import type { Namespace } from '../kube/types.ts';
import { sccModeOf, type NamespaceMode, type SccMode, type SccSettings } from '../policy/scc/mode.ts';
import { namespaceRangesOf } from '../policy/scc/namespace.ts';
import { reportScc } from '../policy/scc/assign.ts';
import type { CanUse, SccDecision, SccInput } from '../policy/scc/request.ts';
import { andThen, type Later } from './later.ts';
import { remainingMs, type WaitingRoom } from './waiting-room.ts';
import type { WebhookContext } from './webhook.ts';

/** Lets a decision that asks for access be made; by whom access is known is its business. */
export type WithAccess = (decide: (canUse: CanUse) => SccDecision, context: WebhookContext) => Later<SccDecision>;

export interface SccReviewDeps {
  readonly settings: SccSettings;
  readonly withAccess: WithAccess;
  readonly waitingRoom: WaitingRoom;
}

/** Decides on one pod, given what the cluster has to say. */
export type JudgePod = (
  cluster: Pick<SccInput, 'namespace' | 'sccs' | 'canUse' | 'compatibility' | 'preferUserNamespaces'>,
) => SccDecision;

export interface SccReview {
  readonly namespaceName: string;
  /** Those in which something is decided. */
  readonly modes: readonly SccMode[];
  readonly context: WebhookContext;
  readonly judge: JudgePod;
}

/** A decision, and what becomes of it in its namespace. */
export interface SccOutcome {
  readonly mode: NamespaceMode;
  readonly decision: SccDecision;
}

/**
 * Gathers and decides; `undefined` where the mode is none of those. A namespace that was created a moment ago is not there
 * yet, or has no ranges: where SCCs are enforced, the decision waits until it has, and is then made anew.
 */
export function reviewScc(review: SccReview, deps: SccReviewDeps): Later<SccOutcome | undefined> {
  return andThen(decide(review, deps), (first) => {
    if (first?.mode.mode !== 'enforce' || !first.isEarly) return first;
    // Without room, it is refused as if it had waited in vain: as an admission decision, since an HTTP error would let pods
    // pass where the failure policy is `Ignore`. Controllers try again in either case.
    const leave = deps.waitingRoom.enter(review.context.bodyBytes ?? 0);
    return leave ? waitAndDecide(review, deps, first).finally(leave) : first;
  });
}

async function waitAndDecide(
  review: SccReview,
  deps: SccReviewDeps,
  first: FirstOutcome,
): Promise<SccOutcome | undefined> {
  const { namespaceName: name, context } = review;
  const { store, signal } = context;
  const find = (): Namespace | undefined => store.get('Namespace', name);
  const isReady = (): true | undefined => {
    const namespace = find();
    if (!namespace) return undefined;
    const { mode } = sccModeOf(namespace, deps.settings);
    return mode !== 'enforce' || namespaceRangesOf(namespace).problem === undefined ? true : undefined;
  };
  await waitFor(store, { kind: 'Namespace', name }, isReady, { timeoutMs: remainingMs(context), signal });
  if (find() === first.judged) return first;
  await deps.waitingRoom.turn();
  return signal?.aborted ? first : decide(review, deps);
}

interface FirstOutcome extends SccOutcome {
  /** The namespace as it was; absent if there was none. */
  readonly judged: Namespace | undefined;
  /** The decision might be another one once the namespace is there and has its ranges. */
  readonly isEarly: boolean;
}

function decide(
  { namespaceName, modes, context, judge }: SccReview,
  { settings, withAccess }: SccReviewDeps,
): Later<FirstOutcome | undefined> {
  const { store } = context;
  const judged = store.get('Namespace', namespaceName);
  const mode = modeIn(store, namespaceName, settings);
  if (!modes.includes(mode.mode)) return undefined;
  const sccs = store.list('SecurityContextConstraints');
  const { compatibility, preferUserNamespaces } = settings;
  const namespace = judged ?? withoutRanges(namespaceName);
  return andThen(
    withAccess((canUse) => judge({ namespace, sccs, canUse, compatibility, preferUserNamespaces }), context),
    (decision) => {
      if (judged) return { mode, decision, judged, isEarly: isRefusedForRanges(decision, judged) };
      return { mode, decision: namespaceNotFound(decision, namespaceName), judged, isEarly: !decision.allowed };
    },
  );
}

/** The answer to the API server. */
export function answerScc({ mode: { mode, problem }, decision }: SccOutcome): Decision {
  const answer = mode === 'report' ? reportScc(decision) : decision;
  return problem === undefined ? answer : { ...answer, warnings: [problem, ...(answer.warnings ?? [])] };
}

/**
 * The mode of a namespace. One that is not there may turn out to be one where SCCs are enforced: unless its name exempts it,
 * it is held to that.
 */
export function modeIn(store: Store, namespaceName: string, settings: SccSettings): NamespaceMode {
  const namespace = store.get('Namespace', namespaceName);
  if (namespace) return sccModeOf(namespace, settings);
  const { mode } = sccModeOf(withoutRanges(namespaceName), settings);
  return { mode: mode === 'off' ? 'off' : 'enforce' };
}

function withoutRanges(name: string): Namespace {
  return { metadata: { name } };
}

function isRefusedForRanges(decision: SccDecision, namespace: Namespace): boolean {
  return !decision.allowed && decision.status.message === namespaceRangesOf(namespace).problem;
}

function namespaceNotFound(decision: SccDecision, name: string): SccDecision {
  if (decision.allowed) return decision;
  const message = `error fetching namespace ${quote(name)}: namespace ${quote(name)} not found`;
  return { ...decision, warnings: [], status: { ...decision.status, message } };
}
