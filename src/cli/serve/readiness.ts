import type { LiveCluster } from '../../cluster/live-cluster.ts';
import type { Connections } from '../../server/connections.ts';
import type { HealthCheck } from '../../server/probes.ts';
import type { SccProblemsWatch } from '../../server/scc-problems.ts';

/** The process is worth keeping as long as it answers. */
export const ping: HealthCheck = { name: 'ping', check: () => undefined };

/** Verdicts need all of the cluster. An API server that goes away later changes nothing. */
export function readCheck({ store, unread }: Pick<LiveCluster, 'store' | 'unread'>): HealthCheck {
  const check = (): string | undefined =>
    store.synced() ? undefined : `the cluster has not been read completely yet: ${unread().join(', ')}`;
  return { name: 'informer-sync', check };
}

/** The API server speaks at least once a minute about each kind. */
const MAX_AGE_MS = 120_000;

/** Whether decisions are made by what the cluster is now, or by what it was. */
export function newsCheck({ lastEventAgesMs }: Pick<LiveCluster, 'lastEventAgesMs'>): HealthCheck {
  const check = (): string | undefined => {
    const stale = [...lastEventAgesMs()].filter(([, ageMs]) => ageMs > MAX_AGE_MS);
    if (stale.length === 0) return undefined;
    const ages = stale.map(([kind, ageMs]) => `${kind} for ${Math.round(ageMs / 1000)} s`);
    return `no news of the cluster, decisions go on by what was known last: ${ages.join(', ')}`;
  };
  return { name: 'cluster', check };
}

interface ReadinessOptions {
  /** Of the cluster. */
  readonly checks: readonly HealthCheck[];
  readonly connections: Connections;
  /** Absent where SCCs are off. */
  readonly sccProblems: SccProblemsWatch | undefined;
}

/** What has to be true for reviews to be sent here. */
export function readinessChecks({ checks, connections, sccProblems }: ReadinessOptions): readonly HealthCheck[] {
  return [
    ping,
    ...checks,
    ...(sccProblems ? [{ name: 'scc', check: () => undefined, note: () => sccProblems.note() }] : []),
    { name: 'shutdown', check: () => (connections.draining() ? 'the server drains' : undefined) },
  ];
}
