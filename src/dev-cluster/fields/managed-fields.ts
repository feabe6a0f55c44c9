/**
 * Tracks field ownership in `metadata.managedFields`. A manager owns the fields that its create, update or patch
 * request changes.
 * @see https://github.com/kubernetes/kubernetes/tree/v1.36.0/staging/src/k8s.io/apimachinery/pkg/util/managedfields/internal
 */
import { defined } from '../../kube/defined.ts';
import { deepEqual } from '../../kube/equality.ts';
import { formatApiVersion } from '../../kube/resources.ts';
import { compareBy, compareBytes } from '../../kube/text.ts';
import { isObject } from '../../kube/types.ts';
import { formatTimestamp } from '../../kube/units.ts';
import type { ServedResource } from '../resource-info.ts';
import type { ApiObject } from '../types.ts';
import { differenceBelow, joinedPath, type FieldSet, fromFieldsV1, toFieldsV1 } from './field-set.ts';
import { compare, type Comparison } from './typed.ts';

/** The properties of a resource that determine which fields a request can own. */
export type OwnedResource = Pick<
  ServedResource,
  'group' | 'version' | 'kind' | 'resource' | 'schema' | 'custom' | 'subresources'
>;

/** The manager, the subresource and the time of a write. */
export interface Ownership {
  readonly resource: OwnedResource;
  /** Subresource of the write, or `''` for the object itself. */
  readonly subresource: string;
  readonly manager: string;
  readonly now: Date;
}

interface UpdateRequest extends Ownership {
  /** The stored object. Absent on create. */
  readonly live?: ApiObject;
  /** The decoded and defaulted object before admission. Its `metadata.managedFields` is set. */
  readonly object: ApiObject;
}

/** A `managedFields` entry. */
export interface Owner {
  readonly manager: string;
  readonly operation: 'Apply' | 'Update';
  readonly apiVersion: string;
  /** `''` for the object itself. */
  readonly subresource: string;
  /** Time in RFC 3339 format with a precision of seconds. */
  readonly time?: string;
  readonly fields: FieldSet;
}

/** Owners by the key that `ownerKey` returns. */
export type Owners = ReadonlyMap<string, Owner>;

/** Returns the identity of an owner. The identity of an update includes the version, but that of an apply does not. */
export function ownerKey({ manager, operation, apiVersion, subresource }: Omit<Owner, 'fields' | 'time'>): string {
  return JSON.stringify([manager, operation, operation === 'Apply' ? '' : apiVersion, subresource]);
}

/** Maximum length of a field manager name, in bytes. */
const MAX_MANAGER_BYTES = 128;

/** Returns a request's field manager, which is `fieldManager` or the User-Agent up to the first slash. */
export function fieldManagerName(fieldManager: string | undefined, userAgent: string | undefined): string {
  if (fieldManager !== undefined && fieldManager !== '') return fieldManager;
  const name = (userAgent ?? '').split('/')[0]?.replaceAll(/[^\p{L}\p{M}\p{N}\p{P}\p{S} ]/gu, '') ?? '';
  return Buffer.from(name).subarray(0, MAX_MANAGER_BYTES).toString() || 'unknown';
}

/** Sets `metadata.managedFields` in an object that is created, updated or patched. */
export function trackUpdate(request: UpdateRequest): void {
  const { live, object, subresource } = request;
  const owners = ownersBefore(live, object, subresource);
  // A stored object that has no owners receives none until the first apply.
  const untracked = owners.size === 0 && live !== undefined;
  setOwners(object, untracked ? owners : ownersAfterUpdate(owners, request));
}

/**
 * Returns the owners in the request, through which managers can release fields, or otherwise the owners of the live
 * object.
 */
function ownersBefore(live: ApiObject | undefined, object: ApiObject, subresource: string): Owners {
  const stored = parseOwners(live?.metadata?.['managedFields']) ?? new Map<string, Owner>();
  const sent: unknown = object.metadata?.['managedFields'];
  if (subresource !== '') return stored;
  const owners = parseOwners(sent);
  return owners === undefined || owners.size === 0 ? stored : owners;
}

/** Returns the owners after an update from the live object to the new object. */
export function ownersAfterUpdate(owners: Owners, request: UpdateRequest): Owners {
  const { resource, subresource, manager, now, object } = request;
  const live = request.live ?? emptyObject(resource, object);
  const change = ownedChange(resource, subresource, withoutOwners(live), withoutOwners(object));
  const owner = { manager, operation: 'Update', apiVersion: formatApiVersion(resource), subresource } as const;
  const key = ownerKey(owner);
  const others = releaseChanged(owners, '', change);
  const own = change.modified.union(change.added).difference(NEVER_OWNED);
  if (own.size === 0) return others;
  const fields = own.union(others.get(key)?.fields ?? new Set<string>());
  return new Map([...others, [key, { ...owner, time: formatTimestamp(now.getTime()), fields }]]);
}

/** Structs that Go serializes even if they are empty. They exist before a create, so no manager owns them. */
const STRUCTS = new Set([
  'metadata',
  'spec',
  'status',
  'template',
  'jobTemplate',
  'strategy',
  'updateStrategy',
  'names',
  'source',
]);

/** Returns the object with which a new object is compared. */
export function emptyObject({ custom }: Pick<OwnedResource, 'custom'>, object: object): ApiObject {
  if (custom) return {};
  const entries = Object.entries(object).flatMap(([name, value]): [string, unknown][] => {
    if (name === 'containers') return [[name, []]];
    return STRUCTS.has(name) && isObject(value) ? [[name, emptyObject({ custom }, value)]] : [];
  });
  return Object.fromEntries(entries);
}

/**
 * Returns the owners after a change. All owners except the actor lose the fields that were changed, added or removed.
 */
export function releaseChanged(owners: Owners, actor: string, { removed, modified, added }: Comparison): Owners {
  const changed = modified.union(added).union(removed);
  return new Map(
    [...owners].flatMap(([key, owner]): [string, Owner][] => {
      const fields = key === actor ? owner.fields : owner.fields.difference(changed);
      return fields.size === 0 ? [] : [[key, { ...owner, fields }]];
    }),
  );
}

const IDENTITY = [
  'name',
  'namespace',
  'creationTimestamp',
  'selfLink',
  'uid',
  'generation',
  'managedFields',
  'resourceVersion',
];

/** Fields that no manager owns, because they identify the object or belong to the server. */
export const NEVER_OWNED: FieldSet = new Set([
  ...['apiVersion', 'kind', 'metadata'].map((name) => joinedPath(name)),
  ...IDENTITY.map((name) => joinedPath('metadata', name)),
]);

/** Selects the fields that a request to a resource or subresource can change. */
export function ownableFields(resource: OwnedResource, subresource: string, fields: FieldSet): FieldSet {
  return differenceBelow(fields, resetFields(resource, subresource));
}

/** Compares the fields of two objects that the request can change. */
export function ownedChange(
  resource: OwnedResource,
  subresource: string,
  before: ApiObject,
  after: unknown,
): Comparison {
  const { removed, modified, added } = compare(resource.schema, before, after);
  const filter = (fields: FieldSet): FieldSet => ownableFields(resource, subresource, fields);
  return { removed: filter(removed), modified: filter(modified), added: filter(added) };
}

/** Returns the fields that the server resets in a request. */
function resetFields({ custom, subresources, resource }: OwnedResource, subresource: string): FieldSet {
  const [status, spec] = [joinedPath('status'), joinedPath('spec')];
  if (subresource !== 'status') return new Set(custom && !subresources.includes('status') ? [] : [status]);
  if (custom) return new Set([joinedPath('metadata'), spec]);
  return new Set(resource === 'pods' ? [spec, joinedPath('metadata', 'ownerReferences')] : [spec]);
}

/** Parses `metadata.managedFields`. Returns `undefined` if it is malformed. */
export function parseOwners(entries: unknown): Owners | undefined {
  if (entries == null) return new Map();
  if (!Array.isArray(entries)) return undefined;
  const owners = entries.map(parseOwner);
  if (owners.includes(undefined)) return undefined;
  return new Map(owners.flatMap((owner) => (owner ? [[ownerKey(owner), owner]] : [])));
}

function parseOwner(entry: unknown): Owner | undefined {
  if (!isObject(entry)) return undefined;
  const { manager, operation, apiVersion, subresource, time, fieldsType, fieldsV1 } = entry;
  const fields = fromFieldsV1(fieldsV1 ?? {});
  if (operation !== 'Apply' && operation !== 'Update') return undefined;
  if (!fields || fieldsType !== 'FieldsV1' || typeof apiVersion !== 'string' || apiVersion === '') return undefined;
  return {
    manager: typeof manager === 'string' ? manager : '',
    operation,
    apiVersion,
    subresource: typeof subresource === 'string' ? subresource : '',
    ...(typeof time === 'string' ? { time } : {}),
    fields,
  };
}

/**
 * Writes the owners into an object. Owners that apply come first. Within both groups, owners are sorted by time, name
 * and version.
 */
export function setOwners(object: ApiObject, owners: Owners): void {
  const entries = [...owners.values()].filter(({ fields }) => fields.size > 0).sort(compareOwners);
  if (entries.length > 0) (object.metadata ??= {})['managedFields'] = entries.map(printOwner);
  else delete object.metadata?.['managedFields'];
}

function printOwner({ manager, operation, apiVersion, subresource, time, fields }: Owner): object {
  return {
    ...(manager === '' ? {} : { manager }),
    operation,
    apiVersion,
    ...defined({ time }),
    fieldsType: 'FieldsV1',
    fieldsV1: toFieldsV1(fields),
    ...(subresource === '' ? {} : { subresource }),
  };
}

const compareIdentities = compareBy(({ manager, apiVersion, subresource }: Owner) => [
  manager,
  apiVersion,
  subresource,
]);

function compareOwners(a: Owner, b: Owner): number {
  return compareBytes(a.operation, b.operation) || seconds(a) - seconds(b) || compareIdentities(a, b);
}

/** Returns the time of an entry in seconds. An entry without a time is considered the oldest. */
function seconds({ time }: Owner): number {
  return Math.floor(Date.parse(time ?? '') / 1000) || 0;
}

/** Returns the object without `metadata.managedFields`, which no manager can own. */
export function withoutOwners(object: ApiObject): ApiObject {
  if (object.metadata?.['managedFields'] === undefined) return object;
  const metadata = { ...object.metadata };
  delete metadata['managedFields'];
  return { ...object, metadata };
}

/** Keeps the times of the live object if nothing else has changed, so the write is a no-op. */
export function keepTimes(object: ApiObject, live: ApiObject): void {
  const entries = (of: ApiObject): unknown[] => {
    const list = of.metadata?.['managedFields'];
    return Array.isArray(list) ? list.map((entry: unknown) => (isObject(entry) ? { ...entry, time: '' } : entry)) : [];
  };
  if (!deepEqual(entries(object), entries(live)) || !deepEqual(withoutOwners(object), withoutOwners(live))) return;
  if (live.metadata?.['managedFields'] === undefined) return;
  (object.metadata ??= {})['managedFields'] = live.metadata['managedFields'];
}
