/** The readiness controller's state while this process is the leader. */
import type { PSAEnforcementConfig } from '../kube/psa-enforcement-config.ts';
import { parseTimestamp } from '../kube/units.ts';
import { EVALUATE_ANNOTATION } from '../kube/well-known.ts';
import type { PodSecurity } from '../policy/psa/configuration.ts';
import type { NamespaceEvaluation, ViolatingWorkload } from '../policy/rollout/evaluation.ts';
import { type CompletedSweep, isBlocking } from '../policy/rollout/readiness.ts';
import { createReportWriter } from './readiness-reports.ts';
import type { WorkloadRefusal } from './readiness-writes.ts';

interface StateOptions {
  getConfig(): PSAEnforcementConfig | undefined;
  /** Returns the effective configuration. */
  podSecurity(): PodSecurity;
  nowMs(): number;
}

export type ReadinessState = ReturnType<typeof createState>;

/** Creates the state. Fields named `…Ms` use the runtime's clock. */
export function createState({ getConfig, podSecurity, nowMs }: StateOptions) {
  const wasViolating = (name: string): boolean =>
    getConfig()?.status?.violatingNamespaces?.some((entry) => entry.name === name && entry.state !== 'Previous') ===
    true;
  const findings = createFindings(wasViolating);
  return {
    findings,
    reports: createReportWriter({
      ...{ evaluations: findings.all, findEvaluation: findings.get, nowMs },
      exemptions: () => podSecurity().exemptions,
    }),
    requestedMs: createRequestReader(),
    settling: createSettling(),
    /** Violating namespaces whose event has not been recorded yet. */
    unrecorded: [] as string[],
    refusals: createRefusals(wasViolating),
    evaluatedMs: new Map<string, number>(),
    allMs: -Infinity,
    /** True if all namespaces must be reevaluated. */
    isAllStale: true,
    /** Common dependencies of all evaluations. */
    basis: [] as readonly unknown[],
    /** Number of consecutive incomplete sweeps. */
    failures: 0,
    sweep: undefined as CompletedSweep | undefined,
    sweptGeneration: undefined as number | undefined,
    deniedGeneration: undefined as number | undefined,
    /** Revision of the findings that the metrics were computed from. */
    measured: -1,
  };
}

/** Maximum number of pending workload events. Further events are dropped, because reports list all workloads anyway. */
const MAX_REFUSALS = 500;

/**
 * Newly denied workloads whose events have not been recorded yet. @param wasViolating returns true if an
 * earlier process has recorded events for the namespace
 */
function createRefusals(wasViolating: (name: string) => boolean) {
  const waiting: WorkloadRefusal[] = [];
  return {
    add(
      { name: namespace, isSelected, workloads }: NamespaceEvaluation,
      before: NamespaceEvaluation | undefined,
    ): void {
      // For a namespace that has its own level, it is unknown whether events were recorded earlier.
      if (before === undefined && (!isSelected || wasViolating(namespace))) return;
      const isDenied = ({ verdict }: ViolatingWorkload): boolean => verdict !== 'restart';
      const known = new Set(before?.workloads.filter(isDenied).map(({ kind, name }) => `${kind}/${name}`));
      const added = workloads.filter(
        (workload) => isDenied(workload) && !known.has(`${workload.kind}/${workload.name}`),
      );
      waiting.push(...added.slice(0, MAX_REFUSALS - waiting.length).map((workload) => ({ namespace, workload })));
    },
    take: (count: number) => waiting.splice(0, count),
    size: () => waiting.length,
  };
}

/**
 * The current evaluation of each namespace, and the time since which an evaluation has differed from the last
 * sweep. @param wasViolating returns the result of an earlier process for the namespace, which is used until
 * the first sweep
 */
function createFindings(wasViolating: (name: string) => boolean) {
  const current = new Map<string, NamespaceEvaluation>();
  let swept: ReadonlyMap<string, string> | undefined;
  let changedSinceMs: number | undefined;
  let revision = 0;
  const compare = (name: string, nowMs: number): void => {
    revision++;
    const evaluation = current.get(name);
    const isChanged = swept
      ? (swept.get(name) ?? 'clean') !== outcome(evaluation)
      : wasViolating(name) !== (evaluation !== undefined && isBlocking(evaluation));
    if (isChanged) changedSinceMs ??= nowMs;
  };
  return {
    all: (): readonly NamespaceEvaluation[] => [...current.values()],
    get: (name: string) => current.get(name),
    set(name: string, evaluation: NamespaceEvaluation | undefined, nowMs: number): void {
      if (evaluation) current.set(name, evaluation);
      else current.delete(name);
      compare(name, nowMs);
    },
    /** Compares evaluations with the given sweep from now on. */
    compareWith(evaluations: readonly NamespaceEvaluation[], nowMs: number): void {
      swept = new Map(evaluations.map((evaluation) => [evaluation.name, outcome(evaluation)]));
      changedSinceMs = undefined;
      for (const name of current.keys()) compare(name, nowMs);
    },
    changedSinceMs: () => changedSinceMs,
    /** A number that increases with every change. */
    revision: () => revision,
  };
}

function outcome(evaluation: NamespaceEvaluation | undefined): string {
  return evaluation === undefined ? 'clean' : [evaluation.verdict, ...evaluation.categories].join(' ');
}

/**
 * Reads requests for an evaluation. The time of a request is when this process first observes it, because clocks
 * differ.
 */
function createRequestReader(): (object: PSAEnforcementConfig, nowMs: number) => number | undefined {
  let seen: { readonly value: string | undefined; readonly atMs: number | undefined } | undefined;
  return ({ metadata, status }, nowMs) => {
    const value = metadata?.annotations?.[EVALUATE_ANNOTATION];
    if (seen && seen.value === value) return seen.atMs;
    const requestedMs = parseTimestamp(value);
    const evaluatedMs = parseTimestamp(status?.lastEvaluationTime) ?? -Infinity;
    const isAnswered = seen === undefined && requestedMs !== undefined && requestedMs <= evaluatedMs;
    seen = { value, atMs: requestedMs === undefined || isAnswered ? undefined : nowMs };
    return seen.atMs;
  };
}

const SETTLE_MS = 5_000;
/** Sweeps stop waiting if changes continue for this long. */
const MAX_SETTLE_MS = 60_000;

/** Detects when changes that affect all namespaces have stopped. */
function createSettling() {
  let sinceMs = -Infinity;
  let lastMs = -Infinity;
  return {
    changed(nowMs: number): void {
      if (nowMs - lastMs > SETTLE_MS) sinceMs = nowMs;
      lastMs = nowMs;
    },
    delayMs: (nowMs: number): number => (nowMs - sinceMs > MAX_SETTLE_MS ? 0 : Math.max(0, lastMs + SETTLE_MS - nowMs)),
  };
}
