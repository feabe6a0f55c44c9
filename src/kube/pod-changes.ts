/** Compares a pod before and after an SCC has defaulted it. */
import { deepEqual } from './equality.ts';
import { POD_SCC_ANNOTATIONS } from './scc.ts';
import { isObject, type JsonObject, ownMember } from './types.ts';

/** A field whose value differs between two objects. `before` or `after` is absent if that object lacks the field. */
export interface PodFieldChange {
  /** For example `spec.containers[0].securityContext.runAsUser` or `metadata.annotations[a.b/c]`. */
  readonly path: string;
  readonly before?: unknown;
  readonly after?: unknown;
}

/** Annotations that record the decision. They are not reported as pod changes. */
const RECORDS: ReadonlySet<string> = new Set([
  `metadata.annotations[${POD_SCC_ANNOTATIONS.scc}]`,
  `metadata.annotations[${POD_SCC_ANNOTATIONS.subjectType}]`,
]);

/**
 * Returns the fields that an SCC changes in a pod, in the order in which the pod contains them. Lists of equal length
 * are compared element by element, and other lists are compared as a whole.
 */
export function findChanges(before: unknown, after: unknown): readonly PodFieldChange[] {
  const changes: PodFieldChange[] = [];
  compare(before, after, '', changes);
  return changes.filter(({ path }) => !RECORDS.has(path));
}

function compare(before: unknown, after: unknown, path: string, changes: PodFieldChange[]): void {
  if (before === after) return;
  const [old, next] = [before ?? emptyFor(after), after ?? emptyFor(before)];
  if (isObject(old) && isObject(next)) {
    const keys = new Set([...Object.keys(old), ...Object.keys(next)]);
    for (const key of keys) compare(ownMember(old, key), ownMember(next, key), memberPath(path, key), changes);
  } else if (Array.isArray(before) && Array.isArray(after) && before.length === after.length) {
    before.forEach((item, index) => compare(item, after[index], `${path}[${index}]`, changes));
  } else if (!deepEqual(before, after)) {
    changes.push({ path, ...(before == null ? {} : { before }), ...(after == null ? {} : { after }) });
  }
}

/** Returns an empty object for a side that is absent, so that a non-empty `other` is compared member by member. */
function emptyFor(other: unknown): JsonObject | undefined {
  return isObject(other) && Object.keys(other).length > 0 ? {} : undefined;
}

/** Appends a map key in brackets or a field name after a dot. */
function memberPath(parent: string, key: string): string {
  if (!/^[A-Za-z][A-Za-z0-9]*$/.test(key) || parent === 'metadata.annotations' || parent === 'metadata.labels') {
    return `${parent}[${key}]`;
  }
  return parent === '' ? key : `${parent}.${key}`;
}
