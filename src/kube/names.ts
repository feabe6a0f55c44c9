import { isObject, type JsonObject } from './types.ts';

const LABEL = '[a-z0-9]([-a-z0-9]*[a-z0-9])?';
const SUBDOMAIN = `${LABEL}(\\.${LABEL})*`;
const IS_LABEL = new RegExp(`^${LABEL}$`);
const IS_SUBDOMAIN = new RegExp(`^${SUBDOMAIN}$`);

const LABEL_RULE =
  "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character";
const SUBDOMAIN_RULE =
  "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character";

/**
 * What is wrong with a name that must be a DNS label (of a namespace, for example), in the API server's words; empty if
 * nothing is.
 * @see https://github.com/kubernetes/apimachinery/blob/v0.37.0/pkg/api/validate/content/dns.go
 */
export function dnsLabelErrors(name: string): string[] {
  const errors = lengthErrors(name, 63);
  if (IS_LABEL.test(name)) return errors;
  const rule = `${LABEL_RULE} (e.g. 'my-name',  or '123-abc', regex used for validation is '${LABEL}')`;
  return [...errors, IS_SUBDOMAIN.test(name) ? 'must not contain dots' : rule];
}

/** What is wrong with a name that must be a DNS subdomain (of most objects), in the API server's words. */
export function dnsSubdomainErrors(name: string): string[] {
  const errors = lengthErrors(name, 253);
  if (IS_SUBDOMAIN.test(name)) return errors;
  return [...errors, `${SUBDOMAIN_RULE} (e.g. 'example.com', regex used for validation is '${SUBDOMAIN}')`];
}

function lengthErrors(name: string, maxBytes: number): string[] {
  return new TextEncoder().encode(name).length > maxBytes ? [`must be no more than ${maxBytes} bytes`] : [];
}

const NAME = '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]';
const IS_NAME = new RegExp(`^${NAME}$`);
const IS_VALUE = new RegExp(`^(${NAME})?$`);
const MAX_BYTES = 63;

const NAME_RULE = `must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '${NAME}')`;
const VALUE_RULE = `a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(${NAME})?')`;

/**
 * What is wrong with a qualified name: the key of a label or an annotation, the name of a finalizer. In the API server's
 * words; empty if nothing is.
 * @see https://github.com/kubernetes/apimachinery/blob/v0.36.0/pkg/api/validate/content/kube.go
 */
export function labelKeyErrors(key: string): string[] {
  const parts = key.split('/');
  if (parts.length > 2) {
    return [`a valid label key ${NAME_RULE} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')`];
  }
  const name = parts.at(-1) ?? '';
  return [...(parts.length === 2 ? prefixErrors(parts[0] ?? '') : []), ...nameErrors(name)];
}

/** What is wrong with the value of a label, in the API server's words. */
export function labelValueErrors(value: string): string[] {
  return [
    ...(bytes(value) > MAX_BYTES ? [`must be no more than ${MAX_BYTES} bytes`] : []),
    ...(IS_VALUE.test(value) ? [] : [VALUE_RULE]),
  ];
}

function prefixErrors(prefix: string): string[] {
  if (prefix === '') return ['prefix part must be non-empty'];
  return dnsSubdomainErrors(prefix).map((error) => `prefix part ${error}`);
}

function nameErrors(name: string): string[] {
  const errors: string[] = [];
  if (name === '') errors.push('name part must be non-empty');
  else if (bytes(name) > MAX_BYTES) errors.push(`name part must be no more than ${MAX_BYTES} bytes`);
  if (!IS_NAME.test(name)) errors.push(`name part ${NAME_RULE}`);
  return errors;
}

function bytes(text: string): number {
  return new TextEncoder().encode(text).length;
}

/** A field of the metadata of an object, and what it has to be. */
interface MetadataProblem {
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
