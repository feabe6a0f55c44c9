import type { ApiObject, ResourceInfo, ResourceKey } from './types.ts';

/** The two groups that have events show the same ones, under different field names. */
const EVENTS: ResourceKey = { group: '', resource: 'events' };
const EVENTS_GROUP = 'events.k8s.io';

/** By the name in events.k8s.io: the name in the core group. */
const EVENT_FIELDS: readonly (readonly [string, string])[] = [
  ['regarding', 'involvedObject'],
  ['note', 'message'],
  ['reportingController', 'reportingComponent'],
  ['deprecatedSource', 'source'],
  ['deprecatedFirstTimestamp', 'firstTimestamp'],
  ['deprecatedLastTimestamp', 'lastTimestamp'],
  ['deprecatedCount', 'count'],
];

/** Where the objects of a resource are kept. */
export function storageKey(info: ResourceInfo): ResourceKey {
  return info.group === EVENTS_GROUP && info.resource === 'events' ? EVENTS : info;
}

/** A stored object as one resource shows it. */
export function present(info: ResourceInfo, stored: ApiObject): ApiObject {
  const apiVersion = apiVersionOf(info);
  if (stored.apiVersion === apiVersion) return stored;
  return { ...rename(info, stored, ([shown, kept]) => [kept, shown]), apiVersion };
}

/** What a resource showed, as it is stored. */
export function toStored(info: ResourceInfo, object: ApiObject): ApiObject {
  if (storageKey(info) === info) return object;
  return { ...rename(info, object, ([shown, kept]) => [shown, kept]), apiVersion: 'v1' };
}

export function apiVersionOf({ group, version }: { readonly group: string; readonly version: string }): string {
  return group === '' ? version : `${group}/${version}`;
}

function rename(
  info: ResourceInfo,
  object: ApiObject,
  direction: (pair: readonly [string, string]) => readonly [string, string],
): ApiObject {
  if (storageKey(info) === info) return object;
  const names = new Map(EVENT_FIELDS.map(direction));
  return Object.fromEntries(Object.entries(object).map(([field, value]) => [names.get(field) ?? field, value]));
}
