/** The numbers of uses of exemptions, which replicas publish in annotations on their Leases. */
import { EXEMPTION_USES_ANNOTATION } from '../api/names.ts';
import { isObject, type JsonObject, type Lease } from '../kube/types.ts';

/** Number of requests that each exemption admitted, counted by the replicas since they started. */
export interface ExemptionUses {
  /** Start time of the oldest replica, in RFC 3339. */
  readonly since: string;
  /** Number of replicas that publish counts. */
  readonly replicas: number;
  /** Counts by kind and name, such as `user/alice` or `scc/privileged`. */
  readonly counts: ReadonlyMap<string, number>;
}

/** Limits the annotation to 56 KB, which is 200 names of at most 253 characters. */
const MAX_PUBLISHED = 200;

/**
 * Formats a replica's counts for an annotation on its Lease. If there are more than 200 names, omits the least used
 * ones.
 */
export function formatExemptionUses(since: string, counts: Iterable<readonly [name: string, count: number]>): string {
  const used = [...counts].filter(([, count]) => count > 0).sort(([, a], [, b]) => b - a);
  return JSON.stringify({ since, uses: Object.fromEntries(used.slice(0, MAX_PUBLISHED)) });
}

/** Adds up the counts in the replicas' Leases. Returns `undefined` if no replica publishes counts. */
export function readExemptionUses(leases: readonly Lease[]): ExemptionUses | undefined {
  const published = leases.flatMap(
    ({ metadata }) => parseUses(metadata?.annotations?.[EXEMPTION_USES_ANNOTATION]) ?? [],
  );
  const [since] = published.map((record) => record.since).sort();
  if (since === undefined) return undefined;
  const counts = new Map<string, number>();
  for (const { uses } of published) {
    for (const [name, count] of Object.entries(uses)) {
      if (typeof count === 'number') counts.set(name, (counts.get(name) ?? 0) + count);
    }
  }
  return { since, replicas: published.length, counts };
}

function parseUses(text: string | undefined): { readonly since: string; readonly uses: JsonObject } | undefined {
  if (text === undefined) return undefined;
  try {
    const value: unknown = JSON.parse(text);
    if (!isObject(value) || typeof value['since'] !== 'string' || !isObject(value['uses'])) return undefined;
    return { since: value['since'], uses: value['uses'] };
  } catch {
    return undefined;
  }
}
