import { invalidValue, forbiddenField, notSupported, requiredField, type FieldError } from '../kube/field-error.ts';
import { quote } from '../kube/text.ts';
import { ApiError, badRequest, invalid } from '../kube/status.ts';
import type { FieldValidation } from './fields/index.ts';
import type { ApiObject } from './types.ts';

/** The query of a request that writes. */
export interface WriteOptions {
  readonly dryRun: boolean;
  readonly fieldManager?: string;
  readonly fieldValidation: FieldValidation;
  readonly force: boolean;
  /** As webhooks see it, under the name of the operation that it becomes. */
  as(kind: 'CreateOptions' | 'UpdateOptions'): ApiObject;
}

export const APPLY = 'application/apply-patch+yaml';

/**
 * Reads the options of a create, an update or a patch. Throws ApiError 422.
 * @see https://github.com/kubernetes/apimachinery/blob/v0.36.0/pkg/apis/meta/v1/validation/validation.go
 */
export function readWriteOptions(
  query: URLSearchParams,
  kind: 'CreateOptions' | 'UpdateOptions' | 'PatchOptions',
  patchType?: string,
): WriteOptions {
  const dryRun = query.getAll('dryRun');
  const fieldManager = query.get('fieldManager') ?? '';
  const fieldValidation = query.get('fieldValidation') ?? '';
  const force = query.has('force') ? readBoolean(query, 'force') : undefined;
  const errors = [
    ...(kind === 'PatchOptions' ? patchErrors(patchType, fieldManager, force) : []),
    ...managerErrors(fieldManager),
    ...dryRunErrors(dryRun),
    ...validationErrors(fieldValidation),
  ];
  if (errors.length > 0) throw invalidOptions(kind, errors);
  return {
    dryRun: dryRun.length > 0,
    ...(fieldManager === '' ? {} : { fieldManager }),
    fieldValidation: fieldValidation === '' ? 'Warn' : (fieldValidation as FieldValidation),
    force: force ?? false,
    as: (name) => ({
      kind: name,
      apiVersion: 'meta.k8s.io/v1',
      ...(dryRun.length > 0 ? { dryRun } : {}),
      ...(fieldManager === '' ? {} : { fieldManager }),
      ...(fieldValidation === '' ? {} : { fieldValidation }),
    }),
  };
}

export function invalidOptions(kind: string, errors: readonly FieldError[]): ApiError {
  return new ApiError(invalid({ group: 'meta.k8s.io', kind }, '', errors));
}

/** Anything but `false` and `0` is true, a parameter without a value too. */
export function readBoolean(query: URLSearchParams, name: string): boolean {
  const value = query.get(name);
  return value !== null && value.toLowerCase() !== 'false' && value !== '0';
}

/** A whole number; `undefined` where the parameter is absent. Throws ApiError 400. */
export function readInteger(query: URLSearchParams, name: string): number | undefined {
  const value = query.get(name);
  if (value === null || value === '') return undefined;
  if (/^[+-]?\d+$/.test(value)) return Number(value);
  throw new ApiError(badRequest(`strconv.ParseInt: parsing ${quote(value)}: invalid syntax`));
}

export function dryRunErrors(dryRun: readonly string[]): FieldError[] {
  return dryRun.every((value) => value === 'All') ? [] : [notSupported('dryRun', dryRun, ['All'])];
}

function patchErrors(patchType: string | undefined, fieldManager: string, force: boolean | undefined): FieldError[] {
  if (patchType === APPLY)
    return fieldManager === '' ? [requiredField('fieldManager', 'is required for apply patch')] : [];
  return force === undefined ? [] : [forbiddenField('force', 'may not be specified for non-apply patch')];
}

const MAX_MANAGER_BYTES = 128;
const UNPRINTABLE = /[^\p{L}\p{M}\p{N}\p{P}\p{S} ]/gu;

function managerErrors(manager: string): FieldError[] {
  const long = new TextEncoder().encode(manager).length > MAX_MANAGER_BYTES;
  return [
    ...(long
      ? [
          {
            type: 'FieldValueTooLong',
            path: 'fieldManager',
            detail: `may not be more than ${MAX_MANAGER_BYTES} bytes`,
          } as const,
        ]
      : []),
    ...[...manager.matchAll(UNPRINTABLE)].map((found) => {
      const code = (found[0].codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0');
      const position = new TextEncoder().encode(manager.slice(0, found.index)).length;
      return invalidValue('fieldManager', manager, `invalid character U+${code} (at position ${position})`);
    }),
  ];
}

const VALIDATIONS = ['', 'Ignore', 'Strict', 'Warn'];

function validationErrors(value: string): FieldError[] {
  return VALIDATIONS.includes(value) ? [] : [notSupported('fieldValidation', value, VALIDATIONS)];
}
