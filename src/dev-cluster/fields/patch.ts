import { invalidValue, jsonTypeName } from '../../kube/field-error.ts';
import { apply } from '../../kube/json-patch.ts';
import { quote } from '../../kube/text.ts';
import { ApiError, badRequest, createStatus, invalid } from '../../kube/status.ts';
import { isObject, type JsonObject } from '../../kube/types.ts';
import type { ApiObject } from '../types.ts';
import { decodeValue, MAX_COMPLAINTS } from './decode-value.ts';
import { strictError, type Decoded } from './decode.ts';
import { parseJson } from './parse.ts';
import { goFormat } from './go-format.ts';
import { mergePatch } from './patch/merge-patch.ts';
import { strategicMerge } from './patch/strategic-merge.ts';
import type { FieldValidation, ObjectType } from './types.ts';

export type PatchMediaType =
  'application/json-patch+json' | 'application/merge-patch+json' | 'application/strategic-merge-patch+json';

export interface PatchRequest {
  /** The object as it is stored; not changed. */
  readonly object: ApiObject;
  readonly text: string;
  readonly mediaType: PatchMediaType;
  readonly type: ObjectType;
  readonly fieldValidation: FieldValidation;
}

/** A patched object that is not yet decoded. */
interface Patched {
  readonly value: unknown;
  /** What errors show as the invalid value. */
  readonly shown: string;
  /** About fields that come twice in the patch, or that an operation does not have. */
  readonly complaints: readonly string[];
}

/**
 * The patched and decoded object. Throws ApiError 400 for a broken patch, 422 for one that does not fit.
 * @see https://github.com/kubernetes/kubernetes/blob/v1.36.0/staging/src/k8s.io/apiserver/pkg/endpoints/handlers/patch.go
 */
export function applyPatch(request: PatchRequest): Decoded {
  const { value, shown, complaints } = PATCHES[request.mediaType](request);
  if (!isObject(value))
    throw misfit(shown, `json: cannot unmarshal ${jsonTypeName(value)} into Go value of type ${request.type.goType}`);
  const { object, error, unknown } = decodeValue(value, request.type);
  if (error !== undefined) throw misfit(shown, error);
  const all = request.fieldValidation === 'Ignore' ? [] : [...complaints, ...unknown].slice(0, MAX_COMPLAINTS);
  if (request.fieldValidation === 'Strict' && all.length > 0) throw misfit(shown, strictError(all));
  return { object, warnings: all };
}

/** The most operations that a JSON patch may have. */
const MAX_OPERATIONS = 10_000;

const PATCHES: Readonly<Record<PatchMediaType, (request: PatchRequest) => Patched>> = {
  'application/json-patch+json': ({ object, text, fieldValidation }) => {
    const { value, duplicates } = parsePatch(text, fieldValidation);
    if (!Array.isArray(value) || !value.every(isObject)) {
      throw new ApiError(badRequest(patchError(value, '[]handlers.jsonPatchOp', fieldValidation)));
    }
    if (value.length > MAX_OPERATIONS) {
      const limit = `The allowed maximum operations in a JSON patch is ${MAX_OPERATIONS}, got ${value.length}`;
      throw new ApiError(createStatus(413, 'RequestEntityTooLarge', `Request entity too large: ${limit}`));
    }
    const patched = applyOperations(object, value);
    return {
      value: patched,
      shown: JSON.stringify(patched),
      complaints: [...unknownMembers(value), ...duplicates.map((complaint) => `json patch ${complaint}`)],
    };
  },
  'application/merge-patch+json': ({ object, text, fieldValidation }) => {
    const { value, duplicates } = parsePatch(text, fieldValidation);
    if (!isObject(value)) throw new ApiError(badRequest(patchError(value, 'map[string]interface {}', fieldValidation)));
    const patched = mergePatch(object, value);
    return { value: patched, shown: JSON.stringify(patched), complaints: duplicates };
  },
  'application/strategic-merge-patch+json': ({ object, text, type }) => {
    const { value, error, duplicates } = parseJson(text);
    if (error !== undefined) throw new ApiError(badRequest(error));
    if (!isObject(value)) {
      throw new ApiError(
        badRequest(`json: cannot unmarshal ${jsonTypeName(value)} into Go value of type map[string]interface {}`),
      );
    }
    return { value: strategicMerge(object, value, type), shown: goFormat(value), complaints: duplicates };
  },
};

function parsePatch(text: string, fieldValidation: FieldValidation) {
  const { value, error, duplicates } = parseJson(text);
  if (error === undefined) return { value, duplicates };
  throw new ApiError(
    badRequest(fieldValidation === 'Ignore' ? 'Invalid JSON Patch' : `error decoding patch: ${error}`),
  );
}

function patchError(value: unknown, goType: string, fieldValidation: FieldValidation): string {
  if (fieldValidation === 'Ignore') return 'Invalid JSON Patch';
  return `error decoding patch: json: cannot unmarshal ${jsonTypeName(value)} into Go value of type ${goType}`;
}

/** Any failure of an operation is answered alike, without saying which. */
function applyOperations(object: ApiObject, operations: readonly JsonObject[]): unknown {
  try {
    return apply(object, operations);
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    const message = 'the server rejected our request due to an error in our request';
    throw new ApiError(createStatus(422, 'Invalid', message, {}), { cause: error });
  }
}

const OPERATION_MEMBERS: ReadonlySet<string> = new Set(['op', 'path', 'from', 'value']);

function unknownMembers(operations: readonly JsonObject[]): string[] {
  return operations.flatMap((operation, index) =>
    Object.keys(operation)
      .filter((key) => !OPERATION_MEMBERS.has(key))
      .map((key) => `json patch unknown field ${quote(`[${index}].${key}`)}`),
  );
}

/** 422: the patched object is none of its kind. */
function misfit(shown: string, detail: string): ApiError {
  return new ApiError(invalid({ group: '', kind: '' }, '', [invalidValue('patch', shown, detail)]));
}
