import type { Store } from '../cluster/store.ts';
import { type Observable, selectObservable } from '../config/settings.ts';
import { findSccProblems, formatSccProblems, type SccProblems, type SccSettings } from '../policy/scc/index.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { Metrics } from '../telemetry/metrics.ts';

interface SccHealthDeps {
  readonly store: Store;
  readonly settings: Observable<{ readonly scc: Pick<SccSettings, 'mode' | 'compatibility'> }>;
  readonly logger: Logger;
  readonly metrics: Metrics['scc'];
}

/** Delay of a check after a change. SCCs change in bursts, for example during installation. */
const DELAY_MS = 1000;
/** Delay of the first check if there are no changes. The leader creates the standard SCCs only after it starts. */
const START_DELAY_MS = 10_000;

const NO_PROBLEMS: SccProblems = { broken: new Map(), missing: [], required: [], brokenBlocks: false };

/**
 * Reports missing standard SCCs and broken SCCs in the log and in metrics. Depending on the settings, decisions skip
 * broken SCCs or deny every pod.
 */
export function watchSccHealth({ store, settings, logger, metrics }: SccHealthDeps) {
  const log = logger.child({ logger: 'scc' });
  let reported = NO_PROBLEMS;
  const sccSettings = selectObservable(settings, ({ scc }) => scc);
  const findProblems = (): SccProblems => {
    const { mode, compatibility } = sccSettings.value;
    return mode === 'off' ? NO_PROBLEMS : findSccProblems(store.list('SecurityContextConstraints'), compatibility);
  };
  let timer: NodeJS.Timeout | undefined;
  /** True while a check is due within `DELAY_MS`. Later changes do not delay the check. */
  let isDue = false;

  const check = (): void => {
    isDue = false;
    if (!store.synced()) {
      schedule();
      return;
    }
    const problems = findProblems();
    for (const [scc, reason] of problems.broken) {
      if (reported.broken.get(scc) === reason) continue;
      if (problems.brokenBlocks) log.error({ scc, reason }, 'broken SCC, so no pod is admitted');
      else log.warn({ scc, reason }, 'broken SCC, which decisions skip');
    }
    const missing = problems.missing.filter((scc) => !reported.missing.includes(scc));
    if (missing.length > 0) log.warn({ sccs: missing }, 'standard SCCs are missing');
    const required = problems.required.filter((scc) => !reported.required.includes(scc));
    if (required.length > 0) log.error({ sccs: required }, 'required SCCs are missing, so no pod is admitted');
    reported = problems;
    metrics.broken.reset();
    for (const scc of problems.broken.keys()) metrics.broken.set({ scc }, 1);
    metrics.missing.reset();
    for (const scc of [...problems.required, ...problems.missing]) metrics.missing.set({ scc }, 1);
  };
  const schedule = (delayMs = DELAY_MS): void => {
    if (isDue) return;
    isDue = delayMs === DELAY_MS;
    clearTimeout(timer);
    timer = setTimeout(check, delayMs).unref();
  };
  const unsubscribe = store.subscribe(({ kind }) => {
    if (kind === 'SecurityContextConstraints') schedule();
  });
  const unsubscribeSettings = sccSettings.subscribe(() => schedule());
  schedule(START_DELAY_MS);
  return {
    /** Returns the current problems on one line, or `undefined` if there are none. */
    summary: (): string | undefined => (store.synced() ? formatSccProblems(findProblems()) : undefined),
    stop(): void {
      clearTimeout(timer);
      unsubscribe();
      unsubscribeSettings();
    },
  };
}
