import type { GroupVersionKind } from '../../../kube/types.ts';
import type { ApiObject } from '../types.ts';
import type { FieldValidation, ObjectType } from './types.ts';

/** A decoded body: what is kept of it, and what to warn of. */
export interface Decoded {
  readonly object: ApiObject;
  readonly warnings: readonly string[];
}

/** What decoding found: `error` is Go's text for the first value of a wrong type; `unknown` lists `unknown field "…"`. */
export interface Decoding {
  readonly object: ApiObject;
  readonly error?: string;
  readonly unknown: readonly string[];
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

/** Reads a request body as an object of that type, without unknown fields and nulls. Throws ApiError 400. */
export declare function decodeBody(body: Body): Decoded;

/** Decodes parsed JSON, for objects that patches have changed. */
export declare function decodeValue(value: unknown, type: ObjectType): Decoding;
