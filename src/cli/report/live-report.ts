/** The live report, which is recomputed after changes in the cluster while a page is open. */
import type { Store } from '../../cluster/store.ts';
import { UserError } from '../../kube/user-error.ts';
import type { ReportData } from '../../web/report-data.ts';
import type { Inventory } from '../inventory/inventory.ts';
import type { RolloutValues } from '../inventory/rollout.ts';
import { type Dashboard, type DashboardEvent, startDashboard, type SubscribeEvents } from './dashboard-server.ts';

interface DashboardSource {
  readonly port: number;
  /** The address of the API server. */
  readonly server: string;
  /** Returns the inventory of a cluster, whose store is kept up to date. */
  inventory(): Pick<Inventory, 'store' | 'source' | 'customSources' | 'assumptions' | 'unread'>;
  readonly values: Pick<RolloutValues, 'config' | 'installation-namespace' | 'scc-mode'>;
  /** Aborts computations. */
  readonly signal: AbortSignal;
}

/** Starts the dashboard of a cluster. Nothing is loaded or computed while no page is open. */
export async function openDashboard({ port, signal, ...source }: DashboardSource): Promise<Dashboard> {
  const { values } = source;
  const io = { stderr: { write: () => undefined }, signal };
  const compute = async (): Promise<ReportData> => {
    const [{ computeRollout }, { computeReport }] = await Promise.all([
      import('../inventory/rollout.ts'),
      import('./report-data.ts'),
    ]);
    const date = new Date();
    const facts = await computeRollout(source.inventory(), values, date);
    const namespace = values['installation-namespace'];
    const isFromFile = values.config !== undefined;
    return await computeReport({ facts, date, source: source.server, namespace, isFromFile }, io);
  };
  return await startDashboard({
    port,
    async page() {
      const [{ bundlePage }, { renderPage }] = await Promise.all([
        import('../output/bundle.ts'),
        import('../output/html.ts'),
      ]);
      return renderPage(await bundlePage('report'), { title: 'Portcullis dashboard', isLive: true });
    },
    subscribe: createReportFeed(source.inventory().store, compute),
  });
}

/**
 * Minimum interval between two computations. For slow computations, the interval is longer, so they use at most a third
 * of the time.
 */
const MIN_INTERVAL_MS = 500;
const DURATIONS_PER_INTERVAL = 2;

/** Interval for recomputing the state of the replicas. Changes to their Leases alone do not start a computation. */
const REFRESH_MS = 30_000;

/**
 * Computes a report for the first subscriber, and after changes to the store. Publishes consecutive equal reports only
 * once.
 */
function createReportFeed(store: Store, compute: () => Promise<ReportData>): SubscribeEvents {
  const listeners = new Set<(event: DashboardEvent) => void>();
  let last: { readonly key: string; readonly event: DashboardEvent } | undefined;
  let timer: NodeJS.Timeout | undefined;
  let isRunning = false;
  let isStale = false;
  let durationMs = 0;
  const run = async (): Promise<void> => {
    timer = undefined;
    isRunning = true;
    isStale = false;
    const startMs = performance.now();
    const next = await computeEvent(compute);
    durationMs = performance.now() - startMs;
    isRunning = false;
    if (next.key !== last?.key) for (const listener of listeners) listener(next.event);
    last = next;
    if (isStale) schedule();
  };
  const schedule = (): void => {
    isStale = true;
    if (isRunning || timer !== undefined || listeners.size === 0) return;
    const delayMs = last === undefined ? 0 : Math.max(MIN_INTERVAL_MS, DURATIONS_PER_INTERVAL * durationMs);
    timer = setTimeout(() => void run(), delayMs).unref();
  };
  store.subscribe(({ kind }) => {
    if (kind !== 'Lease') schedule();
  });
  setInterval(schedule, REFRESH_MS).unref();
  return (listener) => {
    listeners.add(listener);
    if (last) listener(last.event);
    schedule();
    return () => void listeners.delete(listener);
  };
}

/** Returns the report or the error as an event. Events with the same key represent the same state. */
async function computeEvent(
  compute: () => Promise<ReportData>,
): Promise<{ readonly key: string; readonly event: DashboardEvent }> {
  try {
    const data = await compute();
    return { key: JSON.stringify({ ...data, time: '' }), event: { event: 'report', data: JSON.stringify(data) } };
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    const data = JSON.stringify(error instanceof UserError ? message : `the report cannot be computed: ${message}`);
    return { key: data, event: { event: 'problem', data } };
  }
}
