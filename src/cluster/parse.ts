/**
 * Parses lists and watch events, and selects the part of each object to store. Runs in the main thread for small texts,
 * and in a worker thread for large texts.
 */
import type { Kind } from '../kube/kinds.ts';
import { isObject, type JsonObject, objectMember } from '../kube/types.ts';
import { project } from './projection.ts';

export interface ParseJob {
  readonly form: 'list' | 'event' | 'object';
  /** Kind of the objects. If absent, the objects remain complete. */
  readonly kind?: Kind | undefined;
  /** True if the list contains only the metadata of objects that are too large. */
  readonly isTooLarge?: boolean;
}

/** A parsed list or watch event, and its objects. */
export interface Parsed {
  /** Members of the list or event other than the objects. */
  readonly head: JsonObject;
  /** `undefined` if a list has no items. */
  readonly items: readonly JsonObject[] | undefined;
}

/** Reads the decoded JSON of a list, a watch event or an object. */
export function parse(value: unknown, { form, kind, isTooLarge = false }: ParseJob): Parsed {
  const select = (object: JsonObject): JsonObject | undefined =>
    kind === undefined ? object : project(kind, object, isTooLarge);
  if (form === 'object') return { head: {}, items: isObject(value) ? [select(value) ?? {}] : undefined };
  if (form === 'event') return parseEvent(isObject(value) ? value : {}, select);
  const { kind: listKind, items, metadata } = isObject(value) ? value : {};
  const head = { kind: listKind, metadata };
  // An empty list may omit `items`.
  const objects: unknown = items ?? (typeof listKind === 'string' && listKind.endsWith('List') ? [] : undefined);
  if (!Array.isArray(objects) || !objects.every(isObject)) return { head, items: undefined };
  return { head, items: objects.map(select).filter((object) => object !== undefined) };
}

/** Converts a watch event. A change to an object that is not stored becomes a deletion. */
function parseEvent(event: JsonObject, select: (object: JsonObject) => JsonObject | undefined): Parsed {
  const { type, object } = event;
  if (!isObject(object)) return { head: { type }, items: undefined };
  if (type === 'ERROR' || type === 'BOOKMARK') return { head: { type }, items: [object] };
  const selected = select(object);
  if (selected !== undefined) return { head: { type }, items: [selected] };
  const { uid, name, namespace, resourceVersion } = objectMember(object, 'metadata');
  return { head: { type: 'DELETED' }, items: [{ metadata: { uid, name, namespace, resourceVersion } }] };
}
