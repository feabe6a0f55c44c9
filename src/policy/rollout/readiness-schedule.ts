/** Schedules sweeps. A sweep evaluates all namespaces. */
import type { PSAEnforcementConfig } from '../../kube/psa-enforcement-config.ts';
import { parseTimestamp } from '../../kube/units.ts';
import { readEnforcement } from './enforcement.ts';
import type { CompletedSweep } from './readiness.ts';
import type { RolloutSettings } from './settings.ts';

/** The state that determines whether decisions wait for the next sweep. Times are in milliseconds since the epoch. */
interface AwaitedSweep {
  readonly object: PSAEnforcementConfig;
  readonly settings: RolloutSettings;
  /** The last sweep in this process. */
  readonly sweep: CompletedSweep | undefined;
  /** Time since which the verdict of at least one namespace has differed from that sweep. */
  readonly changedSinceMs: number | undefined;
}

/** Input for scheduling the next sweep. */
interface SweepSchedule extends AwaitedSweep {
  readonly nowMs: number;
  /** Number of consecutive incomplete sweeps. */
  readonly failures: number;
  /** Time in the `portcullis.dev/evaluate` annotation, which requests a sweep. */
  readonly requestedMs: number | undefined;
  /** Remaining delay until SCCs and grants have settled. Verdicts are unreliable until then. */
  readonly settleMs: number;
  /** A number from -0.1 to 0.1 that spreads out the sweeps of many clusters. */
  readonly jitter: number;
}

const MINUTE_MS = 60_000;
const MAX_RETRY_MS = 30 * MINUTE_MS;
/** Delay between a changed verdict and the sweep that it triggers, and minimum time between two of these sweeps. */
const CHANGE_DELAY_MS = MINUTE_MS;
/** Maximum time that changed verdicts delay a decision. */
const AWAITED_DELAY_MS = 5_000;

/** Returns the delay until the next sweep. A delay of 0 means that the sweep starts immediately. */
export function scheduleSweep(input: SweepSchedule): number {
  const { object, nowMs, sweep, changedSinceMs } = input;
  const storedMs = parseTimestamp(object.status?.lastEvaluationTime);
  const lastMs = sweep?.startMs ?? -Infinity;
  const dueMs = Math.min(
    nextByInterval(input, storedMs),
    changedSinceMs === undefined ? Infinity : Math.max(changedSinceMs, lastMs) + CHANGE_DELAY_MS,
    isSpecNew(input) ? nowMs : Infinity,
    isOutdated(input) ? lastMs + AWAITED_DELAY_MS : Infinity,
  );
  return Math.max(0, dueMs - nowMs, input.settleMs);
}

/** Returns true if decisions wait for the next sweep. */
export function isSweepAwaited(input: AwaitedSweep): boolean {
  return isSpecNew(input) || isOutdated(input);
}

/** Returns true if the mode was cleared after the last sweep started. */
function isSpecNew({ object, sweep }: AwaitedSweep): boolean {
  const { generation } = object.metadata ?? {};
  return (
    readEnforcement(object).spec === '' &&
    generation !== object.status?.observedGeneration &&
    generation !== sweep?.generation
  );
}

/** Returns true if the evaluation determines the mode, but there is no current sweep. */
function isOutdated(input: AwaitedSweep): boolean {
  return isUndecided(input) && (input.sweep === undefined || input.changedSinceMs !== undefined);
}

/** Returns true if no mode is requested or decided, so the evaluation determines the mode. */
function isUndecided({ object, settings }: AwaitedSweep): boolean {
  const { spec, status } = readEnforcement(object);
  return settings.phase === 'Enforce' && spec === '' && status !== 'Restricted';
}

/**
 * Returns the time of the next sweep based on the interval, a request, and retries. The interval starts at the stored
 * time, so a restart does not change it. Incomplete sweeps are retried with exponential backoff from 1 to 30 minutes.
 */
function nextByInterval(input: SweepSchedule, storedMs: number | undefined): number {
  const { settings, nowMs, sweep, failures, requestedMs, jitter } = input;
  // The end of the last sweep might not be stored yet.
  const completedMs = sweep && failures === 0 ? sweep.endMs : storedMs;
  if (requestedMs !== undefined && requestedMs > (sweep?.startMs ?? completedMs ?? -Infinity)) return nowMs;
  if (failures > 0 && sweep) return sweep.startMs + Math.min(MAX_RETRY_MS, MINUTE_MS * 2 ** (failures - 1));
  // A time in the future is ignored, because the clock of the writer was wrong.
  if (completedMs === undefined || completedMs > nowMs) return nowMs;
  if (isUndecided(input) && nowMs - completedMs > settings.maxEvaluationAgeMs) return nowMs;
  return completedMs + settings.evaluationIntervalMs * (1 + jitter);
}
