import { isObject, type JsonObject, type ObjectMeta } from './types.ts';

/** The ownership of labels and annotations in one `managedFields` entry. */
export interface FieldOwner {
  readonly manager: string;
  /** `Apply` or `Update`. */
  readonly operation: string;
  /** Subresource through which the fields were written. Empty for the main resource. */
  readonly subresource: string;
  /** Time of the last change, or `''` if unknown. */
  readonly time: string;
  /** The label keys. The key `.` stands for the map itself. */
  readonly labels: ReadonlySet<string>;
  readonly annotations: ReadonlySet<string>;
}

/**
 * Returns the owners of labels and annotations, one for each `managedFields` entry, in order. Returns `undefined` if an
 * entry is malformed.
 * @see https://kubernetes.io/docs/reference/using-api/server-side-apply/#field-management
 */
export function getMetadataOwners(metadata: ObjectMeta | undefined): readonly FieldOwner[] | undefined {
  const entries: unknown = metadata?.managedFields ?? [];
  if (!Array.isArray(entries)) return undefined;
  const owners = entries.map(readEntry);
  return owners.every((owner) => owner !== undefined) ? owners : undefined;
}

function readEntry(entry: unknown): FieldOwner | undefined {
  if (!isObject(entry) || (entry['fieldsType'] ?? 'FieldsV1') !== 'FieldsV1') return undefined;
  const metadata = membersAt(entry, 'fieldsV1', 'f:metadata');
  const labels = metadata && keysAt(metadata, 'f:labels');
  const annotations = metadata && keysAt(metadata, 'f:annotations');
  if (labels === undefined || annotations === undefined) return undefined;
  return {
    manager: asText(entry['manager']),
    operation: asText(entry['operation']),
    subresource: asText(entry['subresource']),
    time: asText(entry['time']),
    labels,
    annotations,
  };
}

/**
 * Returns the object at a path, or an empty object if it is absent. Returns `undefined` if the value is not an object.
 */
function membersAt(object: JsonObject, ...path: readonly string[]): JsonObject | undefined {
  let value: unknown = object;
  for (const name of path) {
    if (!isObject(value)) return undefined;
    value = value[name] ?? {};
  }
  return isObject(value) ? value : undefined;
}

function keysAt(metadata: JsonObject, name: string): ReadonlySet<string> | undefined {
  const members = membersAt(metadata, name);
  const keys = members && Object.keys(members);
  if (!keys?.every((key) => key === '.' || key.startsWith('f:'))) return undefined;
  return new Set(keys.map((key) => (key === '.' ? key : key.slice('f:'.length))));
}

function asText(value: unknown): string {
  return typeof value === 'string' ? value : '';
}
