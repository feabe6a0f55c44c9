import { EVALUATE_ANNOTATION } from '../../kube/installation.ts';
import type { PSAEnforcementConfig } from '../../kube/psa-enforcement-config.ts';
import { readTimestamp } from '../../kube/timestamp.ts';
import { readEnforcement } from '../../policy/rollout/enforcement.ts';
import { nextEvaluationMs } from '../../policy/rollout/readiness.ts';
import type { RolloutSettings } from '../../policy/rollout/rollout-settings.ts';
import type { CompletedSweep } from './sweep.ts';

/** What is known of evaluations. Times are in milliseconds since 1970. */
export interface ScheduleFacts {
  readonly object: PSAEnforcementConfig;
  readonly settings: RolloutSettings;
  readonly nowMs: number;
  /** The newest of this process that has come to its end. */
  readonly sweep: CompletedSweep | undefined;
  /** How many in a row could not judge all namespaces. */
  readonly failures: number;
  /** The generation of the object when the newest one began. */
  readonly sweptGeneration: number | undefined;
  readonly requestedMs: number | undefined;
  /** Since when a namespace has been found otherwise than the newest one says. */
  readonly newsSinceMs: number | undefined;
  /** Until all has been quiet for a while. */
  readonly restMs: number;
  readonly jitter: number;
}

/** When all namespaces are to be evaluated. */
export interface Schedule {
  /** In so many milliseconds; 0: now. */
  readonly delayMs: number;
  /** True if nothing is to be decided before. */
  readonly isAwaited: boolean;
}

/** What lasts a moment only is not worth an evaluation; nor is every change one of its own. */
const NEWS_MS = 60_000;
/** Whoever waits for a decision waits no longer than that for news to be taken in. */
const SOON_MS = 5_000;

/** By the time, by what somebody asks for, and by what has changed. */
export function scheduleOf(facts: ScheduleFacts): Schedule {
  const { object, settings, nowMs, sweep, newsSinceMs } = facts;
  const { spec, status } = readEnforcement(object);
  const isInProcess = settings.evaluator === 'InProcess';
  // Nobody has asked for anything: what was evaluated is to decide.
  const isUndecided = settings.phase === 'Enforce' && spec === '' && status !== 'Restricted';
  const { generation } = object.metadata ?? {};
  const isNewWish =
    spec === '' && generation !== object.status?.observedGeneration && generation !== facts.sweptGeneration;
  const isOutdated = isUndecided && isInProcess && (sweep === undefined || newsSinceMs !== undefined);
  const attemptedMs = sweep?.startMs;
  const storedMs = readTimestamp(object.status?.lastEvaluationTime);
  // What has just come to its end is yet to be stored.
  const completedMs = sweep && facts.failures === 0 ? sweep.endMs : storedMs;
  const byTime = nextEvaluationMs({
    ...facts,
    intervalMs: settings.evaluationIntervalMs,
    maxAgeMs: settings.maxEvaluationAgeMs,
    completedMs,
    attemptedMs,
    isAwaited: isUndecided,
  });
  const sinceLast = attemptedMs === undefined ? Infinity : nowMs - attemptedMs;
  const byNews = newsSinceMs === undefined ? Infinity : Math.max(newsSinceMs + NEWS_MS - nowMs, NEWS_MS - sinceLast, 0);
  const byWish = isNewWish ? 0 : Infinity;
  const byDoubt = isOutdated ? Math.max(0, SOON_MS - sinceLast) : Infinity;
  // An API server that is asked may take hours: what is known until then is told.
  const isHeld = isNewWish && (isInProcess || storedMs !== undefined);
  const delayMs = Math.max(Math.min(byTime, byNews, byWish, byDoubt), facts.restMs);
  return { delayMs, isAwaited: isHeld || isOutdated };
}

/** Remembers since when somebody has wanted an evaluation. */
export type Requests = (object: PSAEnforcementConfig, nowMs: number) => number | undefined;

/** Makes a memory. The time that a request names counts once, for whoever sees it first: clocks differ. */
export function createRequests(): Requests {
  let seen: { readonly value: string | undefined; readonly atMs: number | undefined } | undefined;
  return ({ metadata, status }, nowMs) => {
    const value = metadata?.annotations?.[EVALUATE_ANNOTATION];
    if (seen && seen.value === value) return seen.atMs;
    const wantedMs = readTimestamp(value);
    const isAnswered =
      seen === undefined &&
      wantedMs !== undefined &&
      wantedMs <= (readTimestamp(status?.lastEvaluationTime) ?? -Infinity);
    seen = { value, atMs: wantedMs === undefined || isAnswered ? undefined : nowMs };
    return seen.atMs;
  };
}
