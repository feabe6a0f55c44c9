/**
 * A second, literal implementation of the decisions, written from their specifications to judge the first one. Slow and
 * simple on purpose; it takes nothing from `src`, not even helpers or types.
 */
export type JsonObject = Readonly<Record<string, unknown>>;

export function isObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** What is found on that way; absent and null are the same, and so is what lies beyond something that is no object. */
export function at(value: unknown, ...path: readonly (string | number)[]): unknown {
  let found = value;
  for (const key of path) {
    if (typeof found !== 'object' || found === null || !Object.hasOwn(found, key)) return undefined;
    found = (found as Readonly<Record<string | number, unknown>>)[key];
  }
  return found ?? undefined;
}

export function listAt(value: unknown, ...path: readonly (string | number)[]): readonly unknown[] {
  const found = at(value, ...path);
  return Array.isArray(found) ? (found as readonly unknown[]) : [];
}

/** Texts of a list; null in it is the empty text. */
export function textsAt(value: unknown, ...path: readonly (string | number)[]): readonly string[] {
  return listAt(value, ...path).map((item) => (typeof item === 'string' ? item : ''));
}

/** Absent is the empty text. */
export function textAt(value: unknown, ...path: readonly (string | number)[]): string {
  const found = at(value, ...path);
  return typeof found === 'string' ? found : '';
}

/** A map of texts, as labels and annotations are. */
export function mapAt(value: unknown, ...path: readonly (string | number)[]): ReadonlyMap<string, string> {
  const found = at(value, ...path);
  if (!isObject(found)) return new Map();
  return new Map(Object.entries(found).map(([key, text]) => [key, typeof text === 'string' ? text : '']));
}
