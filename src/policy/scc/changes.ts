import { deepEqual } from '../../kube/equality.ts';
import { POD_SCC_ANNOTATIONS } from '../../kube/scc.ts';
import { isObject, type JsonObject } from '../../kube/types.ts';

/** A field that one of two pods has and the other has not, or has with another value. */
export interface Change {
  /** `spec.containers[0].securityContext.runAsUser`, `metadata.annotations[a.b/c]` */
  readonly path: string;
  readonly before?: unknown;
  readonly after?: unknown;
}

/** What is told of a pod in other words. */
const RECORDS: ReadonlySet<string> = new Set([
  `metadata.annotations[${POD_SCC_ANNOTATIONS.scc}]`,
  `metadata.annotations[${POD_SCC_ANNOTATIONS.subjectType}]`,
]);

/**
 * What an SCC changes in a pod, field by field in the order of the pod; without the annotations that tell the SCC. Lists of
 * one length are compared element by element, others as a whole.
 */
export function changesOf(before: unknown, after: unknown): readonly Change[] {
  const changes: Change[] = [];
  compare(before, after, '', changes);
  return changes.filter(({ path }) => !RECORDS.has(path));
}

function compare(before: unknown, after: unknown, path: string, changes: Change[]): void {
  if (before === after) return;
  const members = membersOf(before, after);
  if (members) {
    const [old, now] = members;
    const keys = new Set([...Object.keys(old), ...Object.keys(now)]);
    for (const key of keys) compare(memberOf(old, key), memberOf(now, key), pathOf(path, key), changes);
  } else if (Array.isArray(before) && Array.isArray(after) && before.length === after.length) {
    before.forEach((item, index) => compare(item, after[index], `${path}[${index}]`, changes));
  } else if (!deepEqual(before, after)) {
    changes.push({ path, ...(before == null ? {} : { before }), ...(after == null ? {} : { after }) });
  }
}

const NONE: JsonObject = {};

/** Both as objects, if they can be compared member by member; one that comes or goes empty is a change itself. */
function membersOf(before: unknown, after: unknown): readonly [JsonObject, JsonObject] | undefined {
  if (isObject(before) && isObject(after)) return [before, after];
  if (before == null && isFilled(after)) return [NONE, after];
  return after == null && isFilled(before) ? [before, NONE] : undefined;
}

function isFilled(value: unknown): value is JsonObject {
  return isObject(value) && Object.keys(value).length > 0;
}

function memberOf(object: JsonObject, key: string): unknown {
  return Object.hasOwn(object, key) ? object[key] : undefined;
}

/** Keys that are no names of fields stand in brackets. */
function pathOf(parent: string, key: string): string {
  if (!/^[A-Za-z][A-Za-z0-9]*$/.test(key) || parent === 'metadata.annotations' || parent === 'metadata.labels') {
    return `${parent}[${key}]`;
  }
  return parent === '' ? key : `${parent}.${key}`;
}
