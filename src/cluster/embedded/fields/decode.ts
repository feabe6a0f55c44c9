import { readDocuments } from '../../../config/manifests.ts';
import { quote } from '../../../kube/quote.ts';
import { ApiError, badRequest } from '../../../kube/status.ts';
import { isObject, type GroupVersionKind } from '../../../kube/types.ts';
import type { ApiObject } from '../types.ts';
import { decodeValue, MAX_COMPLAINTS } from './decode-value.ts';
import { scanJson } from './json-text.ts';
import { jsonTypeOf } from '../../../kube/unmarshal-error.ts';
import type { FieldValidation, ObjectType } from './types.ts';

/** A decoded body: what is kept of it, and what to warn of. */
export interface Decoded {
  readonly object: ApiObject;
  readonly warnings: readonly string[];
}

export interface Body {
  readonly text: string;
  /** `application/json` or `application/yaml`; parameters are ignored. */
  readonly contentType: string;
  readonly type: ObjectType;
  /** What the URL stands for; a body without kind or version is taken to be of it. */
  readonly kind: GroupVersionKind;
  readonly fieldValidation: FieldValidation;
}

/** Parsed text: its value, or why there is none, and the complaints about fields that come twice. */
export interface Parsed {
  readonly value: unknown;
  readonly error?: string;
  readonly duplicates: readonly string[];
}

/**
 * Reads a request body as an object of that type, without unknown fields and nulls. Throws ApiError 400.
 * @see https://github.com/kubernetes/kubernetes/blob/v1.36.0/staging/src/k8s.io/apimachinery/pkg/runtime/serializer/json/json.go
 */
export function decodeBody(body: Body): Decoded {
  const yaml = body.contentType.includes('yaml');
  const parsed = yaml ? parseYaml(body.text) : parseJson(body.text);
  const sent =
    parsed.error === undefined ? kindOf(parsed.value) : { error: yaml ? parsed.error : parseError(parsed.error) };
  if ('error' in sent) throw unrecognized(body, sent.error);
  const kind = withDefaults(sent, body.kind);
  const mismatch = kindError(kind, body.kind);
  if (mismatch !== undefined) throw unhandled(kind, body, mismatch);

  const { object, error, unknown } = decodeValue(parsed.value, body.type);
  if (error !== undefined) throw unhandled(kind, body, error);
  const complaints = [...knownDuplicates(parsed.duplicates, unknown), ...unknown].slice(0, MAX_COMPLAINTS);
  if (body.fieldValidation === 'Strict' && complaints.length > 0) {
    throw unhandled(kind, body, strictError(complaints));
  }
  const apiVersion = kind.group === '' ? kind.version : `${kind.group}/${kind.version}`;
  const typed = { kind: kind.kind, apiVersion, ...object };
  return { object: typed, warnings: body.fieldValidation === 'Warn' ? complaints : [] };
}

/** Several complaints as one error. */
export function strictError(complaints: readonly string[]): string {
  return `strict decoding error: ${complaints.join(', ')}`;
}

/** Parses JSON; the error is Go's. */
export function parseJson(text: string): Parsed {
  const { error, duplicates } = scanJson(text);
  if (error !== undefined) return { value: undefined, error, duplicates: [] };
  return { value: JSON.parse(text) as unknown, duplicates: duplicates.map((path) => `duplicate field ${quote(path)}`) };
}

/** Parses the first YAML document of a text, which may as well be JSON. */
export function parseYaml(text: string): Parsed {
  const { documents, errors } = readDocuments(text, '');
  const [error] = errors;
  if (error) {
    return {
      value: undefined,
      error: `error converting YAML to JSON: yaml: line ${error.line}: ${error.message}`,
      duplicates: [],
    };
  }
  const keys = (documents[0]?.duplicateKeys ?? []).map(
    ({ line, path }) => `  line ${line}: key ${quote(String(path.at(-1)))} already set in map`,
  );
  const duplicates = keys.length === 0 ? [] : [['yaml: unmarshal errors:', ...keys].join('\n')];
  return { value: documents[0]?.value ?? null, duplicates };
}

/** What `apiVersion` and `kind` of a value say. */
function kindOf(value: unknown): GroupVersionKind | { error: string } {
  if (value != null && !isObject(value))
    return { error: parseError(`${CANNOT} ${jsonTypeOf(value)} into Go value of type ${KIND_STRUCT}`) };
  const apiVersion = value?.['apiVersion'] ?? '';
  const kind = value?.['kind'] ?? '';
  if (typeof apiVersion !== 'string') return wrongMember('apiVersion', apiVersion);
  if (typeof kind !== 'string') return wrongMember('kind', kind);
  const parts = apiVersion.split('/');
  if (parts.length > 2) return { error: `unexpected GroupVersion string: ${apiVersion}` };
  return { group: parts.length === 2 ? (parts[0] ?? '') : '', version: parts.at(-1) ?? '', kind };
}

function wrongMember(name: string, value: unknown): { error: string } {
  return { error: parseError(`${CANNOT} ${jsonTypeOf(value)} into Go struct field .${name} of type string`) };
}

const KIND_STRUCT =
  'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }';

const CANNOT = 'json: cannot unmarshal';

function parseError(text: string): string {
  return `couldn't get version/kind; json parse error: ${text}`;
}

function withDefaults(sent: GroupVersionKind, expected: GroupVersionKind): GroupVersionKind {
  const kind = sent.kind === '' ? expected.kind : sent.kind;
  if (sent.version === '' && (sent.group === '' || sent.group === expected.group)) return { ...expected, kind };
  return { ...sent, kind };
}

function kindError(kind: GroupVersionKind, expected: GroupVersionKind): string | undefined {
  const { group, version } = expected;
  if (kind.group === group && kind.version === version) {
    if (kind.kind === expected.kind) return undefined;
    return `converting (${version}.${kind.kind}) to (${group === '' ? 'core' : group.split('.')[0]}.${expected.kind}): unknown conversion`;
  }
  const apiVersion = kind.group === '' ? kind.version : `${kind.group}/${kind.version}`;
  return `no kind ${quote(kind.kind)} is registered for version ${quote(apiVersion)} in scheme "pkg/api/legacyscheme/scheme.go:30"`;
}

/** Within fields that are dropped nobody looks for duplicates. */
function knownDuplicates(duplicates: readonly string[], unknown: readonly string[]): string[] {
  const dropped = unknown.map((text) => text.slice('unknown field "'.length, -1));
  return duplicates.filter((text) => {
    const path = text.slice('duplicate field "'.length, -1);
    return !dropped.some((parent) => path === parent || path.startsWith(`${parent}.`) || path.startsWith(`${parent}[`));
  });
}

function unhandled(kind: GroupVersionKind, body: Body, error: string): ApiError {
  const text = `${kind.kind} in version ${quote(kind.version)} cannot be handled as a ${body.kind.kind}: ${error}`;
  return new ApiError(badRequest(text));
}

function unrecognized({ kind, text }: Body, error: string): ApiError {
  const subject = `the object provided is unrecognized (must be of type ${kind.kind})`;
  return new ApiError(badRequest(`${subject}: ${error} (${summarize(text)})`));
}

const SUMMARY_BYTES = 30;

/** The start of a body: as text where it looks like JSON, else in hexadecimal. */
function summarize(text: string): string {
  const bytes = Buffer.from(text);
  if (bytes.length === 0) return '<empty>';
  const start = bytes.subarray(0, SUMMARY_BYTES).toString(text.startsWith('{') ? 'utf8' : 'hex');
  return bytes.length > SUMMARY_BYTES ? `${start} ...` : start;
}
