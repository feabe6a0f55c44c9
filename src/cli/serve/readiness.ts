import type { Store } from '../../cluster/store.ts';
import type { Connections } from '../../webhook/connections.ts';
import type { HealthCheck } from '../../webhook/probes.ts';
import type { SccProblemsWatch } from '../../webhook/scc-problems.ts';

/** The process is worth keeping as long as it answers. */
export const ping: HealthCheck = { name: 'ping', check: () => undefined };

interface ReadinessOptions {
  readonly store: Store;
  readonly connections: Connections;
  /** Absent where SCCs are off. */
  readonly sccProblems: SccProblemsWatch | undefined;
}

/** What has to be true for reviews to be sent here. */
export function readinessChecks({ store, connections, sccProblems }: ReadinessOptions): readonly HealthCheck[] {
  return [
    ping,
    { name: 'informer-sync', check: () => (store.synced() ? undefined : 'the cluster is being read') },
    ...(sccProblems ? [{ name: 'scc', check: () => undefined, note: () => sccProblems.note() }] : []),
    { name: 'shutdown', check: () => (connections.draining() ? 'the server drains' : undefined) },
  ];
}
