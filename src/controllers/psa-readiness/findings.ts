import type { NamespaceEvaluation } from '../../policy/rollout/readiness.ts';

/** What is known of the namespaces at the moment. */
export interface Findings {
  all(): readonly NamespaceEvaluation[];
  get(name: string): NamespaceEvaluation | undefined;
  note(evaluation: NamespaceEvaluation, nowMs: number): void;
  /** There is nothing to say of that namespace any more. */
  drop(name: string, nowMs: number): void;
  /** An evaluation of all namespaces has come to its end: it is what news are compared with. */
  settle(evaluations: readonly NamespaceEvaluation[], nowMs: number): void;
  /** Since when a verdict has been another than in the last evaluation of all namespaces. */
  newsSinceMs(): number | undefined;
  /** Rises with every change. */
  revision(): number;
}

/**
 * Makes an empty memory.
 * @param wasViolating what an earlier process found, where this one has evaluated nothing yet
 */
export function createFindings(wasViolating: (name: string) => boolean): Findings {
  const found = new Map<string, NamespaceEvaluation>();
  let settled: ReadonlyMap<string, string> | undefined;
  let sinceMs: number | undefined;
  let revision = 0;
  const isNews = (name: string, evaluation: NamespaceEvaluation | undefined): boolean => {
    if (settled) return (settled.get(name) ?? NOTHING) !== verdictOf(evaluation);
    return wasViolating(name) !== (evaluation?.verdict === 'violating');
  };
  const compare = (name: string, nowMs: number): void => {
    revision++;
    if (isNews(name, found.get(name))) sinceMs ??= nowMs;
  };
  return {
    all: () => [...found.values()],
    get: (name) => found.get(name),
    note(evaluation, nowMs) {
      found.set(evaluation.name, evaluation);
      compare(evaluation.name, nowMs);
    },
    drop(name, nowMs) {
      found.delete(name);
      compare(name, nowMs);
    },
    settle(evaluations, nowMs) {
      settled = new Map(evaluations.map((evaluation) => [evaluation.name, verdictOf(evaluation)]));
      sinceMs = undefined;
      for (const name of found.keys()) compare(name, nowMs);
    },
    newsSinceMs: () => sinceMs,
    revision: () => revision,
  };
}

/** A namespace that is clean, and one that is not looked at. */
const NOTHING = 'clean';

function verdictOf(evaluation: NamespaceEvaluation | undefined): string {
  if (evaluation === undefined) return NOTHING;
  return [evaluation.verdict, ...evaluation.categories].join(' ');
}
