import { isObject, type JsonObject, ownMember } from './types.ts';

const LABEL = '[a-z0-9]([-a-z0-9]*[a-z0-9])?';
const SUBDOMAIN = `${LABEL}(\\.${LABEL})*`;
const IS_LABEL = new RegExp(`^${LABEL}$`);
const IS_SUBDOMAIN = new RegExp(`^${SUBDOMAIN}$`);

const LABEL_RULE =
  "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character";
const SUBDOMAIN_RULE =
  "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character";

/**
 * Validates a name that must be a DNS label, such as a namespace name. Returns the API server's errors.
 * @see https://github.com/kubernetes/apimachinery/blob/v0.37.0/pkg/api/validate/content/dns.go
 */
export function dnsLabelErrors(name: string): string[] {
  const errors = lengthErrors(name, 63);
  if (IS_LABEL.test(name)) return errors;
  const rule = `${LABEL_RULE} (e.g. 'my-name',  or '123-abc', regex used for validation is '${LABEL}')`;
  return [...errors, IS_SUBDOMAIN.test(name) ? 'must not contain dots' : rule];
}

/** Validates a name that must be a DNS subdomain, as most object names must be. Returns the API server's errors. */
export function dnsSubdomainErrors(name: string): string[] {
  const errors = lengthErrors(name, 253);
  if (IS_SUBDOMAIN.test(name)) return errors;
  return [...errors, `${SUBDOMAIN_RULE} (e.g. 'example.com', regex used for validation is '${SUBDOMAIN}')`];
}

function lengthErrors(name: string, maxBytes: number): string[] {
  return bytes(name) > maxBytes ? [`must be no more than ${maxBytes} bytes`] : [];
}

const NAME = '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]';
const IS_NAME = new RegExp(`^${NAME}$`);
const IS_VALUE = new RegExp(`^(${NAME})?$`);
const MAX_BYTES = 63;

const NAME_RULE = `must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '${NAME}')`;
const VALUE_RULE = `a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(${NAME})?')`;

/**
 * Validates a qualified name, such as a label key, an annotation key or a finalizer. Returns the API server's errors.
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

/** Validates a label value. Returns the API server's errors. */
export function labelValueErrors(value: string): string[] {
  return [...lengthErrors(value, MAX_BYTES), ...(IS_VALUE.test(value) ? [] : [VALUE_RULE])];
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

/** The problem with a metadata field that has the wrong type. */
interface MetadataProblem {
  readonly field: string;
  /** The message, such as `metadata.name must be a string`. */
  readonly message: string;
}

interface FieldRule {
  readonly rule: string;
  matches(value: unknown): boolean;
}

const TEXT: FieldRule = { rule: 'a string', matches: isText };
const TEXTS: FieldRule = {
  rule: 'a map of strings',
  matches: (value) => isObject(value) && Object.values(value).every(isText),
};
const OBJECTS: FieldRule = {
  rule: 'a list of objects',
  matches: (value) => Array.isArray(value) && value.every((item) => isObject(item)),
};

const FIELD_RULES: readonly (readonly [field: string, rule: FieldRule])[] = [
  ['name', TEXT],
  ['generateName', TEXT],
  ['namespace', TEXT],
  ['creationTimestamp', TEXT],
  ['deletionTimestamp', TEXT],
  ['labels', TEXTS],
  ['annotations', TEXTS],
  ['ownerReferences', OBJECTS],
];

/** Returns the first metadata field that has the wrong type. Null fields are treated as absent. */
export function metadataProblem(metadata: JsonObject): MetadataProblem | undefined {
  for (const [field, { rule, matches }] of FIELD_RULES) {
    const value = ownMember(metadata, field);
    if (value != null && !matches(value)) return { field, message: `metadata.${field} must be ${rule}` };
  }
  return undefined;
}

function isText(value: unknown): value is string {
  return typeof value === 'string';
}
