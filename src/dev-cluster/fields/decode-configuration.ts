import { ApiError, badRequest } from '../../kube/status.ts';
import { isObject } from '../../kube/types.ts';
import { jsonTypeName } from '../../kube/field-error.ts';
import type { Decoded } from './decode.ts';
import { parseYaml } from './parse.ts';
import type { FieldValidation } from './types.ts';

/**
 * Reads the body of a server-side apply, as it stands: its type is checked when it is applied. Throws ApiError 400 for
 * broken YAML, and for keys that come twice where validation is strict.
 * @see https://github.com/kubernetes/kubernetes/blob/v1.36.0/staging/src/k8s.io/apiserver/pkg/endpoints/handlers/patch.go
 */
export function decodeConfiguration(body: {
  readonly text: string;
  readonly fieldValidation: FieldValidation;
}): Decoded {
  const { value, error, duplicates } = parseYaml(body.text);
  if (error !== undefined) throw new ApiError(badRequest(`error decoding YAML: ${error}`));
  if (value !== null && !isObject(value)) {
    const found = `json: cannot unmarshal ${jsonTypeName(value)} into Go value of type map[string]interface {}`;
    throw new ApiError(badRequest(`error decoding YAML: error unmarshaling JSON: while decoding JSON: ${found}`));
  }
  const [duplicate] = duplicates.map((text) => `error converting YAML to JSON: ${text}`);
  if (duplicate !== undefined && body.fieldValidation === 'Strict') {
    throw new ApiError(badRequest(`error strict decoding YAML: ${duplicate}`));
  }
  const warnings = duplicate === undefined || body.fieldValidation === 'Ignore' ? [] : [duplicate];
  return { object: { ...value }, warnings };
}
