/**
 * Maintains the record of temporary grants. RBAC allows the holder of a permission to grant it to others, and objects
 * do not contain their creator. The record therefore contains the periods in which each SCC was granted temporarily, so
 * grants that were created or changed in one of these periods can be reviewed. Only users who can change namespaces can
 * change the record.
 */
import { isObject, type JsonObject, type KubeObject, valueAt } from '../../kube/types.ts';
import { parseTimestamp } from '../../kube/units.ts';

/** A period in which an SCC was granted temporarily. */
export interface TemporaryGrant {
  readonly scc: string;
  /** Start of the period, in RFC 3339 format. */
  readonly from: string;
  /** End of the period, in RFC 3339 format. It is in the future while the grant exists. */
  readonly until: string;
}

/** Maximum number of periods. Limits the annotation to about 4 KiB unless the names of SCCs are long. */
const MAX_RECORDED = 40;

/** Parses the annotation. Ignores malformed entries. */
export function parseTemporaryGrants(text: string | undefined): readonly TemporaryGrant[] {
  let value: unknown;
  try {
    value = JSON.parse(text ?? '[]');
  } catch {
    return [];
  }
  const entries: readonly unknown[] = Array.isArray(value) ? value : [];
  return entries.flatMap((entry): readonly TemporaryGrant[] => {
    const { scc, from, until } = isObject(entry) ? entry : {};
    const isValid = typeof scc === 'string' && typeof from === 'string' && typeof until === 'string';
    return isValid ? [{ scc, from, until }] : [];
  });
}

/**
 * Updates the record with the grants that exist now. A period ends when its grant is deleted. If there are too many
 * periods, merges the oldest periods of the same SCC.
 */
export function recordTemporaryGrants(
  recorded: readonly TemporaryGrant[],
  current: readonly TemporaryGrant[],
  now: string,
): readonly TemporaryGrant[] {
  const isSame = (a: TemporaryGrant, b: TemporaryGrant): boolean => a.scc === b.scc && a.from === b.from;
  const later = (a: string, b: string): string => (time(a) < time(b) ? b : a);
  const ended = recorded
    .filter((entry) => !current.some((grant) => isSame(grant, entry)))
    .map((entry) => ({ ...entry, until: time(entry.until) < time(now) ? entry.until : now }));
  // A grant remains in effect after its end until the leader deletes it.
  const existing = Map.groupBy(current, ({ scc, from }) => JSON.stringify([scc, from]))
    .values()
    .map(([first, ...others]) => {
      const until = others.reduce((end, grant) => later(end, grant.until), first?.until ?? now);
      return { scc: first?.scc ?? '', from: first?.from ?? now, until: later(until, now) };
    });
  const all = [...ended, ...existing].sort((a, b) => time(a.from) - time(b.from));
  if (all.length <= MAX_RECORDED) return all;
  const merged = new Map<string, TemporaryGrant>();
  for (const entry of all.slice(0, all.length - MAX_RECORDED + 1)) {
    const known = merged.get(entry.scc);
    merged.set(entry.scc, known ? { ...known, until: later(known.until, entry.until) } : entry);
  }
  return [...merged.values(), ...all.slice(all.length - MAX_RECORDED + 1)];
}

function time(text: string): number {
  return parseTimestamp(text) ?? 0;
}

/**
 * Returns the first period of the SCC that contains one of the times. Times of objects have a precision of one second.
 */
export function findTemporaryGrant(
  grants: readonly TemporaryGrant[],
  scc: string,
  times: readonly (string | undefined)[],
): TemporaryGrant | undefined {
  const known = times.flatMap((time) => parseTimestamp(time) ?? []);
  return grants.find(
    (grant) =>
      grant.scc === scc &&
      known.some((ms) => ms >= Math.floor(time(grant.from) / 1000) * 1000 && ms <= time(grant.until)),
  );
}

/**
 * Returns the times when an object was created and when a field changed. API servers set the creation time, but authors
 * can change the other times.
 */
export function changeTimes(object: KubeObject | undefined, field: 'subjects' | 'rules'): readonly string[] {
  const { creationTimestamp, managedFields = [] } = object?.metadata ?? {};
  const entries: readonly JsonObject[] = managedFields ?? [];
  const changed = entries.filter(({ fieldsV1 }) => valueAt(fieldsV1, [`f:${field}`]) !== undefined);
  return [creationTimestamp, ...changed.map((entry) => entry['time'])].filter((time) => typeof time === 'string');
}
