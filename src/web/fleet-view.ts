/**
 * Determines the content of the fleet page from the filters in the URL, and exports it as CSV. Does not use the DOM.
 */
import { LEVELS } from '../policy/pss/index.ts';
import { formatCsv } from './csv.ts';
import type { FleetCluster, FleetData } from './fleet-data.ts';
import { createFragment } from './fragment.ts';

/** Fields of the filter, and the ID of the element to show. */
const FIELDS = ['cluster', 'state', 'check', 'at'] as const;

export const { parse: parseFleetView, format: formatFleetView } = createFragment(FIELDS);

/** The page state in the URL fragment. Absent fields do not restrict the report. */
export type FleetView = ReturnType<typeof parseFleetView>;

/**
 * Returns the clusters that a view selects. A cluster matches by its full name or, if no cluster has that name, by a part
 * of its name.
 */
export function selectClusters(
  clusters: readonly FleetCluster[],
  { cluster = '', state }: FleetView,
): readonly FleetCluster[] {
  const isWhole = clusters.some(({ name }) => name === cluster);
  return clusters.filter(
    ({ name, state: own }) =>
      (isWhole ? name === cluster : name.includes(cluster)) && (state === undefined || own === state),
  );
}

/** Returns the number of denied workloads that violate a check, or `undefined` if it is unknown. */
export function countViolations(cluster: FleetCluster, check: string): number | undefined {
  const { checks, namespaces, notEvaluated } = cluster;
  return checks[check] ?? (namespaces === notEvaluated.length && namespaces > 0 ? undefined : 0);
}

/** Returns one row for each cluster as CSV. A cell is empty if the number is unknown. */
export function fleetToCsv(
  clusters: readonly FleetCluster[],
  { checks, unread }: Pick<FleetData, 'checks' | 'unread'>,
): string {
  const columns = checks.map(({ check }) => check);
  const header = [
    ...['cluster', 'error', 'uid', 'source', 'time', 'version', 'state', 'phase', 'default', 'namespaces', ...LEVELS],
    ...['deniedNow', 'wouldBeDenied', 'restart', 'notEvaluated', ...columns],
  ];
  const rows = clusters.map((cluster) => [
    ...[cluster.name, '', cluster.uid ?? '', cluster.source, cluster.time, cluster.version],
    ...[cluster.state, cluster.phase, cluster.default, cluster.namespaces],
    ...LEVELS.map((level) => cluster.levels[level]),
    ...[cluster.workloads.deniedNow, cluster.workloads.wouldBeDenied, cluster.workloads.restart],
    cluster.notEvaluated.length,
    ...columns.map((check) => countViolations(cluster, check) ?? ''),
  ]);
  const failed = unread.map(({ name, error }) => [name, error, ...header.slice(2).map(() => '')]);
  return formatCsv(header, [...rows, ...failed]);
}
