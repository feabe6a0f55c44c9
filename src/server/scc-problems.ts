import type { Store } from '../cluster/store.ts';
import type { SccSettings } from '../policy/scc/mode.ts';
import { findSccProblems, printSccProblems, type SccProblems } from '../policy/scc/advice/scc-warnings.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { Metrics } from '../telemetry/metrics.ts';

export interface SccProblemsDeps {
  readonly store: Store;
  readonly settings: Pick<SccSettings, 'compatibility'>;
  readonly logger: Logger;
  readonly metrics: Metrics['scc'];
}

/** What decisions do without, told in log and metrics as it changes. */
export interface SccProblemsWatch {
  /** The problems of now, in a line; `undefined` if there are none. */
  note(): string | undefined;
  stop(): void;
}

/** SCCs come in bursts, as when they are installed: what is wrong is looked at when the burst is over. */
const DELAY_MS = 1000;

/** Tells of SCCs that are broken, and of standard ones that are missing: decisions leave them out instead of failing. */
export function watchSccProblems({ store, settings, logger, metrics }: SccProblemsDeps): SccProblemsWatch {
  const log = logger.child({ logger: 'scc' });
  let told: SccProblems = { broken: new Map(), missing: [], required: [] };
  const problems = (): SccProblems => findSccProblems(store.list('SecurityContextConstraints'), settings.compatibility);
  let timer: NodeJS.Timeout | undefined;

  const look = (): void => {
    timer = undefined;
    if (!store.synced()) {
      schedule();
      return;
    }
    const found = problems();
    for (const [scc, reason] of found.broken) {
      if (told.broken.get(scc) !== reason) log.warn({ scc, reason }, 'broken SCC, decisions do without it');
    }
    const missing = found.missing.filter((scc) => !told.missing.includes(scc));
    if (missing.length > 0) log.warn({ sccs: missing }, 'standard SCCs are missing');
    const required = found.required.filter((scc) => !told.required.includes(scc));
    if (required.length > 0) log.error({ sccs: required }, 'required SCCs are missing, no pod is admitted');
    told = found;
    metrics.broken.reset();
    for (const scc of found.broken.keys()) metrics.broken.set({ scc }, 1);
    metrics.missing.reset();
    for (const scc of [...found.required, ...found.missing]) metrics.missing.set({ scc }, 1);
  };
  const schedule = (): void => {
    timer ??= setTimeout(look, DELAY_MS).unref();
  };
  const unsubscribe = store.subscribe(({ kind }) => {
    if (kind === 'SecurityContextConstraints') schedule();
  });
  schedule();
  return {
    note: () => (store.synced() ? printSccProblems(problems()) : undefined),
    stop() {
      clearTimeout(timer);
      unsubscribe();
    },
  };
}
