import { quote } from '../../kube/text.ts';
import { ApiError, badRequest } from '../../kube/status.ts';
import type { GroupVersionKind } from '../../kube/types.ts';
import type { ApiObject } from '../types.ts';
import { kindError, kindOf, parseError, withDefaults } from './body-kind.ts';
import { decodeValue, MAX_COMPLAINTS } from './decode-value.ts';
import { parseJson, parseYaml } from './parse.ts';
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
