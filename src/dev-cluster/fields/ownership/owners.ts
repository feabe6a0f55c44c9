import { compareBytes } from '../../../kube/text.ts';
import { isObject } from '../../../kube/types.ts';
import { fromFieldsV1, isEmpty, toFieldsV1, type FieldSet } from '../typed/field-set.ts';

/** One entry of `managedFields`: who owns which fields, by which operation. */
export interface Owner {
  readonly manager: string;
  readonly operation: 'Apply' | 'Update';
  readonly apiVersion: string;
  readonly subresource: string;
  /** RFC 3339, whole seconds. */
  readonly time?: string;
  readonly fields: FieldSet;
}

/** By what tells owners apart. */
export type Owners = ReadonlyMap<string, Owner>;

/** An applier is the same one whatever its version; updates are kept apart by version. */
export function ownerKey({ manager, operation, apiVersion, subresource }: Omit<Owner, 'fields' | 'time'>): string {
  return JSON.stringify({
    manager,
    operation,
    ...(operation === 'Apply' ? {} : { apiVersion }),
    ...(subresource === '' ? {} : { subresource }),
  });
}

/** Reads `metadata.managedFields`; `undefined` where it is malformed, since ownership then starts anew. */
export function readOwners(entries: unknown): Owners | undefined {
  if (entries == null) return new Map();
  if (!Array.isArray(entries)) return undefined;
  const owners = entries.map(readOwner);
  return owners.includes(undefined)
    ? undefined
    : new Map(owners.flatMap((owner) => (owner ? [[ownerKey(owner), owner]] : [])));
}

function readOwner(entry: unknown): Owner | undefined {
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

/** `metadata.managedFields`: appliers first, then by time, name and version; `undefined` if nobody owns anything. */
export function writeOwners(owners: Owners): unknown[] | undefined {
  const entries = [...owners.values()].filter(({ fields }) => !isEmpty(fields)).sort(compareOwners);
  return entries.length === 0 ? undefined : entries.map(writeOwner);
}

function writeOwner({ manager, operation, apiVersion, subresource, time, fields }: Owner): object {
  return {
    ...(manager === '' ? {} : { manager }),
    operation,
    apiVersion,
    ...(time === undefined ? {} : { time }),
    fieldsType: 'FieldsV1',
    fieldsV1: toFieldsV1(fields),
    ...(subresource === '' ? {} : { subresource }),
  };
}

function compareOwners(a: Owner, b: Owner): number {
  return (
    compareBytes(a.operation, b.operation) ||
    compareTimes(a, b) ||
    compareBytes(a.manager, b.manager) ||
    compareBytes(a.apiVersion, b.apiVersion) ||
    compareBytes(a.subresource, b.subresource)
  );
}

/** Older first; an entry without a time is older than all. */
export function compareTimes(a: Owner, b: Owner): number {
  return secondsOf(a) - secondsOf(b);
}

function secondsOf({ time }: Owner): number {
  const seconds = Math.floor(Date.parse(time ?? '') / 1000);
  return Number.isNaN(seconds) ? 0 : seconds;
}
