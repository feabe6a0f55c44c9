import type { Path } from '../../config/manifests.ts';
import { isObject, type JsonObject, type ObjectMeta } from '../../kube/types.ts';

/** The metadata of an object, or what is wrong with them and where. */
export type ReadMetadata = { readonly metadata: ObjectMeta } | { readonly path: Path; readonly message: string };

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

const FORMS: Readonly<Record<string, Form>> = {
  name: TEXT,
  generateName: TEXT,
  namespace: TEXT,
  creationTimestamp: TEXT,
  deletionTimestamp: TEXT,
  labels: TEXTS,
  annotations: TEXTS,
  ownerReferences: OBJECTS,
};

const NAMELESS = 'metadata.name: Required value: name or generateName is required';

/**
 * Reads the metadata as they are stored: without nulls, with a namespace or, where `defaultNamespace` is `undefined`,
 * without. What has no name yet goes by the beginning of it.
 */
export function readMetadata(value: JsonObject, defaultNamespace: string | undefined): ReadMetadata {
  const given = value['metadata'] ?? {};
  if (!isObject(given)) return { path: ['metadata'], message: 'metadata must be an object' };
  const metadata = Object.fromEntries(Object.entries(given).filter(([, field]) => field !== null));
  for (const [field, { rule, matches }] of Object.entries(FORMS)) {
    if (!Object.hasOwn(metadata, field) || matches(metadata[field])) continue;
    return { path: ['metadata', field], message: `metadata.${field} must be ${rule}` };
  }
  const { namespace, ...others }: ObjectMeta = metadata;
  const name = others.name || others.generateName;
  if (!name) return { path: ['metadata'], message: NAMELESS };
  const place = defaultNamespace === undefined ? {} : { namespace: namespace || defaultNamespace };
  return { metadata: { ...others, name, ...place } };
}

function isText(value: unknown): value is string {
  return typeof value === 'string';
}
