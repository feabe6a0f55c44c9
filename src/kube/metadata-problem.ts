import { isObject, type JsonObject } from './types.ts';

/** A field of the metadata of an object, and what it has to be. */
export interface MetadataProblem {
  readonly field: string;
  /** Such as `metadata.name must be a string`. */
  readonly message: string;
}

/** What a field of the metadata has to be, where it is there. */
interface Form {
  readonly rule: string;
  matches(value: unknown): boolean;
}

const TEXT: Form = { rule: 'a string', matches: isText };
const TEXTS: Form = {
  rule: 'an object that holds strings',
  matches: (value) => isObject(value) && Object.values(value).every(isText),
};
const OBJECTS: Form = {
  rule: 'a list of objects',
  matches: (value) => Array.isArray(value) && value.every((item) => isObject(item)),
};

const FORMS: readonly (readonly [field: string, form: Form])[] = [
  ['name', TEXT],
  ['generateName', TEXT],
  ['namespace', TEXT],
  ['creationTimestamp', TEXT],
  ['deletionTimestamp', TEXT],
  ['labels', TEXTS],
  ['annotations', TEXTS],
  ['ownerReferences', OBJECTS],
];

/** The first field of the metadata that is of a wrong type; fields that are null count as absent. */
export function metadataProblem(metadata: JsonObject): MetadataProblem | undefined {
  for (const [field, { rule, matches }] of FORMS) {
    const value = Object.hasOwn(metadata, field) ? metadata[field] : undefined;
    if (value != null && !matches(value)) return { field, message: `metadata.${field} must be ${rule}` };
  }
  return undefined;
}

function isText(value: unknown): value is string {
  return typeof value === 'string';
}
