/**
 * Who owns which fields: what a create, update or patch changes belongs to its manager.
 * @see https://github.com/kubernetes/kubernetes/tree/v1.36.0/staging/src/k8s.io/apimachinery/pkg/util/managedfields/internal
 */
import { isObject } from '../../kube/types.ts';
import type { ApiObject } from '../types.ts';
import { capOwners } from './ownership/cap.ts';
import { afterChange } from './ownership/changes.ts';
import { NEVER_OWNED } from './ownership/never-owned.ts';
import { ownerKey, readOwners, writeOwners, type Owner, type Owners } from './ownership/owners.ts';
import { resetFieldsOf, type OwnedResource } from './reset-fields.ts';
import { compare, filtered } from './typed/compare.ts';
import { difference, isEmpty, union } from './typed/field-set.ts';
import { deepEqual } from '../../kube/equality.ts';
import { validateTyped } from './typed/validate.ts';
import type { ObjectType } from './types.ts';
import { emptyObject } from './zero.ts';

/** Who writes, where and when. */
export interface Ownership {
  readonly resource: OwnedResource;
  /** `''`: the object itself. */
  readonly subresource: string;
  readonly type: ObjectType;
  readonly manager: string;
  readonly now: Date;
}

export interface UpdateRequest extends Ownership {
  /** As stored; absent on create. */
  readonly live?: ApiObject;
  /** As decoded and defaulted, before admission; its `metadata.managedFields` is set. */
  readonly object: ApiObject;
}

/** The longest name of a field manager in bytes. */
const MAX_MANAGER_BYTES = 128;
/** What Go's unicode.IsPrint accepts. */
const PRINTABLE = /^[\p{L}\p{M}\p{N}\p{P}\p{S} ]$/u;

/** The name under which a request owns fields: `fieldManager`, or the User-Agent up to its slash. */
export function managerOf(fieldManager: string | undefined, userAgent: string | undefined): string {
  if (fieldManager !== undefined && fieldManager !== '') return fieldManager;
  let name = '';
  for (const rune of (userAgent ?? '').split('/')[0] ?? '') {
    if (!PRINTABLE.test(rune)) continue;
    if (Buffer.byteLength(name + rune) > MAX_MANAGER_BYTES) break;
    name += rune;
  }
  return name === '' ? 'unknown' : name;
}

/** Sets `metadata.managedFields` of an object that is created, updated or patched. */
export function trackUpdate(request: UpdateRequest): void {
  const { live, object, subresource, type } = request;
  const owners = ownersBefore(live, object, subresource);
  // An object that was stored without owners gets none until somebody applies to it.
  const untracked = owners.size === 0 && live !== undefined;
  // What cannot be told apart cannot be owned: the object goes on without owners, most often to be refused.
  const untrackable = [withoutOwners(object), withoutOwners(live ?? {})].some(
    (value) => validateTyped(type, value, 'allowed') !== undefined,
  );
  if (untrackable) setOwners(object, new Map());
  else setOwners(object, untracked ? owners : ownersAfterUpdate(owners, request));
}

/**
 * The owners that count: those sent along, for managers may give fields up so, else those of the live object.
 * A subresource cannot change them.
 */
function ownersBefore(live: ApiObject | undefined, object: ApiObject, subresource: string): Owners {
  const stored = readOwners(live?.metadata?.['managedFields']) ?? new Map<string, Owner>();
  const sent: unknown = object.metadata?.['managedFields'];
  if (subresource !== '') return stored;
  if (isReset(sent)) return new Map();
  const owners = readOwners(sent);
  return owners === undefined || owners.size === 0 ? stored : owners;
}

/** An empty list, or one with nothing but an empty entry, asks to forget all owners. */
function isReset(entries: unknown): boolean {
  if (!Array.isArray(entries) || entries.length > 1) return false;
  const [entry] = entries as readonly unknown[];
  return entry === undefined || (isObject(entry) && Object.keys(entry).length === 0);
}

/** The owners after an update by which the live object became the new one. */
export function ownersAfterUpdate(owners: Owners, request: UpdateRequest): Owners {
  const { resource, subresource, type, manager, now } = request;
  const live = request.live ?? newObject(request);
  const filter = resetFieldsOf(resource, subresource);
  const change = filtered(compare(type, withoutOwners(live), withoutOwners(request.object)), filter);
  const owner = { manager, operation: 'Update', apiVersion: apiVersionOf(resource), subresource } as const;
  const key = ownerKey(owner);
  const others = afterChange(owners, '', change);
  const own = difference(filter(union(change.modified, change.added)), NEVER_OWNED);
  if (isEmpty(own)) return capOwners(others);
  const former = others.get(key);
  const fields = former ? union(own, former.fields) : own;
  return capOwners(new Map([...others, [key, { ...owner, time: timeOf(now), fields }]]));
}

/** What a new object is compared with: a built-in one is born with the fields that Go always writes. */
export function newObject({ resource, type }: Pick<Ownership, 'resource' | 'type'>): ApiObject {
  return resource.custom ? {} : emptyObject(type);
}

/** Writes the owners into an object. */
export function setOwners(object: ApiObject, owners: Owners): void {
  const entries = writeOwners(owners);
  if (entries) (object.metadata ??= {})['managedFields'] = entries;
  else delete object.metadata?.['managedFields'];
}

/** The object as it is compared: its owners own nothing of themselves. */
export function withoutOwners(object: ApiObject): ApiObject {
  if (object.metadata?.['managedFields'] === undefined) return object;
  const metadata = { ...object.metadata };
  delete metadata['managedFields'];
  return { ...object, metadata };
}

/** Takes the live object's times over where nothing but times has changed: then nothing is to be stored. */
export function keepTimes(object: ApiObject, live: ApiObject): void {
  const entries = (of: ApiObject): unknown[] => {
    const list = of.metadata?.['managedFields'];
    return Array.isArray(list) ? list.map((entry: unknown) => (isObject(entry) ? { ...entry, time: '' } : entry)) : [];
  };
  if (!deepEqual(entries(object), entries(live)) || !deepEqual(withoutOwners(object), withoutOwners(live))) return;
  if (live.metadata?.['managedFields'] === undefined) return;
  (object.metadata ??= {})['managedFields'] = live.metadata['managedFields'];
}

export function apiVersionOf({ group, version }: { group: string; version: string }): string {
  return group === '' ? version : `${group}/${version}`;
}

/** RFC 3339 in whole seconds, as the API server writes times. */
export function timeOf(date: Date): string {
  return `${date.toISOString().slice(0, 19)}Z`;
}
