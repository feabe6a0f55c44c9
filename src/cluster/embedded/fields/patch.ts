import type { ApiObject } from '../types.ts';
import type { Decoded } from './decode.ts';
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

/** The patched and decoded object. Throws ApiError 400 for a broken patch, 422 for one that does not fit. */
export declare function applyPatch(request: PatchRequest): Decoded;
