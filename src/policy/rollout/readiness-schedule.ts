/** Schedules the sweeps, which evaluate all namespaces. */
import type { PSAEnforcementConfig } from '../../kube/psa-enforcement-config.ts';
import { parseTimestamp } from '../../kube/units.ts';
import { readEnforcement } from './enforcement.ts';
import type { CompletedSweep } from './readiness.ts';
import type { RolloutSettings } from './settings.ts';

/** Input for the readiness controller's schedule. Times are in milliseconds since the epoch. */
interface ReadinessSchedule {
  readonly object: PSAEnforcementConfig;
  readonly settings: RolloutSettings;
  readonly nowMs: number;
  /** This process's last sweep. */
  readonly sweep: CompletedSweep | undefined;
  /** Number of consecutive incomplete sweeps. */
  readonly failures: number;
  /** Time of the request in the `portcullis.dev/evaluate` annotation. */
  readonly requestedMs: number | undefined;
  /** Generation of the object when the last sweep started. */
  readonly sweptGeneration: number | undefined;
  /** Time from which some namespace's verdict has differed from that sweep. */
  readonly changedSinceMs: number | undefined;
  /** Delay until SCCs and grants have settled. Until then, verdicts are unreliable. */
  readonly settleMs: number;
  /** From -0.1 to 0.1. Spreads out the sweeps of many clusters. */
  readonly jitter: number;
}

const MINUTE_MS = 60_000;
const MAX_RETRY_MS = 30 * MINUTE_MS;
/** Delay from a changed verdict to the sweep that it triggers, and minimum time between such sweeps. */
const CHANGE_DELAY_MS = MINUTE_MS;
/** Maximum time that changed verdicts delay a decision. */
const AWAITED_DELAY_MS = 5_000;

/** Returns the delay until the next sweep (0 means immediately), and whether decisions wait for it. */
export function scheduleSweep(input: ReadinessSchedule): { readonly delayMs: number; readonly isAwaited: boolean } {
  const { object, settings, nowMs, sweep, changedSinceMs } = input;
  const { spec, status } = readEnforcement(object);
  // If no mode is requested, the evaluation determines the mode.
  const isUndecided = settings.phase === 'Enforce' && spec === '' && status !== 'Restricted';
  const { generation } = object.metadata ?? {};
  const isSpecNew =
    spec === '' && generation !== object.status?.observedGeneration && generation !== input.sweptGeneration;
  const isOutdated = isUndecided && (sweep === undefined || changedSinceMs !== undefined);
  const storedMs = parseTimestamp(object.status?.lastEvaluationTime);
  const lastMs = sweep?.startMs ?? -Infinity;
  const dueMs = Math.min(
    nextByInterval(input, storedMs, isUndecided),
    changedSinceMs === undefined ? Infinity : Math.max(changedSinceMs, lastMs) + CHANGE_DELAY_MS,
    isSpecNew ? nowMs : Infinity,
    isOutdated ? lastMs + AWAITED_DELAY_MS : Infinity,
  );
  return { delayMs: Math.max(0, dueMs - nowMs, input.settleMs), isAwaited: isSpecNew || isOutdated };
}

/**
 * Returns the time of the next sweep based on interval, request and retries. The interval starts at the stored time, so
 * a restart does not change it. Incomplete sweeps are retried with exponential backoff from 1 to 30 minutes.
 */
function nextByInterval(
  { settings, nowMs, sweep, failures, requestedMs, jitter }: ReadinessSchedule,
  storedMs: number | undefined,
  isUndecided: boolean,
): number {
  // The end of the last sweep might not be stored yet.
  const completedMs = sweep && failures === 0 ? sweep.endMs : storedMs;
  if (requestedMs !== undefined && requestedMs > (sweep?.startMs ?? completedMs ?? -Infinity)) return nowMs;
  if (failures > 0 && sweep) return sweep.startMs + Math.min(MAX_RETRY_MS, MINUTE_MS * 2 ** (failures - 1));
  // Ignore a time in the future, because the clock that wrote it was wrong.
  if (completedMs === undefined || completedMs > nowMs) return nowMs;
  if (isUndecided && nowMs - completedMs > settings.maxEvaluationAgeMs) return nowMs;
  return completedMs + settings.evaluationIntervalMs * (1 + jitter);
}
