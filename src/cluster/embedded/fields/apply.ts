import type { GroupVersionKind } from '../../../kube/types.ts';
import type { ApiObject } from '../types.ts';
import type { Decoded } from './decode.ts';
import type { Ownership } from './managed-fields.ts';
import type { FieldValidation } from './types.ts';

export interface ApplyRequest extends Ownership {
  /** As stored; absent when the apply creates. */
  readonly live?: ApiObject;
  /** As sent. */
  readonly config: ApiObject;
  readonly kind: GroupVersionKind;
  readonly force: boolean;
}

/** Reads the body of an apply. Throws ApiError 400 for broken or doubtful YAML. */
export declare function decodeConfiguration(body: {
  readonly text: string;
  readonly fieldValidation: FieldValidation;
}): Decoded;

/**
 * Merges an applied configuration into the live object and returns the new object with its `metadata.managedFields`, not
 * yet defaulted. Throws ApiError 409 on conflicts, 400 for an object of another kind, 500 for one that does not fit its type.
 */
export declare function applyConfiguration(request: ApplyRequest): ApiObject;
