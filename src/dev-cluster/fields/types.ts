/**
 * How the fields of a kind are typed: enough to decode a body as the API server does, to patch it, and to keep track of
 * who owns which field. Types of built-in kinds and of CustomResourceDefinitions have the same form.
 */

/** What a leaf may hold. `int-or-string`, `quantity`, the times and `bytes` check the text or number they are given. */
export type ScalarKind =
  | 'string'
  | 'boolean'
  | 'int32'
  | 'int64'
  | 'number'
  | 'int-or-string'
  | 'quantity'
  | 'time'
  | 'micro-time'
  | 'duration'
  | 'bytes';

export interface ScalarType {
  readonly kind: 'scalar';
  readonly scalar: ScalarKind;
  /** As Go names it in decoding errors: `int32`, `v1.DNSPolicy`. */
  readonly goType: string;
}

/** A list: owned as a whole, or item by item (a set of scalars, or objects told apart by `keys`). */
export interface ListType {
  readonly kind: 'list';
  readonly items: FieldType;
  readonly listType: 'atomic' | 'set' | 'map';
  readonly keys: readonly string[];
  readonly goType: string;
}

/** A struct, a map, or both: known fields, and a type for all other keys where those are allowed. */
export interface ObjectType {
  readonly kind: 'object';
  readonly fields: ReadonlyMap<string, Field>;
  /** The type of the values of keys that `fields` does not name; absent, such keys are unknown fields. */
  readonly additional?: FieldType;
  /** Owned as a whole. */
  readonly atomic: boolean;
  /** True in custom resources: values are judged by validation against the schema, not by decoding. */
  readonly structural?: boolean;
  /** The full name for OpenAPI, such as `io.k8s.api.core.v1.PodSpec`; absent for maps and inline types. */
  readonly name?: string;
  /** For OpenAPI, in custom resources: the fields that must be there. */
  readonly required?: readonly string[];
  /** For OpenAPI, of a custom resource as a whole. */
  readonly description?: string;
  readonly goType: string;
}

/** Anything at all; `granular`: owned field by field where the value is an object. */
export interface AnyType {
  readonly kind: 'any';
  readonly granular: boolean;
  readonly goType: string;
}

export type FieldType = ScalarType | ListType | ObjectType | AnyType;

export interface Field {
  readonly type: FieldType;
  /** Written even when it holds the zero value of its type: Go's struct tag lacks `omitempty`. */
  readonly always: boolean;
  /** Keeps a zero value apart from an absent one: a pointer in Go. */
  readonly pointer: boolean;
  /** How a strategic merge patch treats the field; absent, it replaces lists and merges objects. */
  readonly patch?: PatchStrategy;
  /** What a missing list-map key stands for, and what CustomResourceDefinitions fill in. */
  readonly default?: unknown;
  /** Keeps `null`, in custom resources. */
  readonly nullable?: boolean;
  /** For OpenAPI, in custom resources. */
  readonly description?: string;
  /** The embedded Go struct that holds the field; decoding errors name it in their paths. */
  readonly embedded?: string;
}

export interface PatchStrategy {
  readonly strategies: readonly ('merge' | 'replace' | 'retainKeys')[];
  readonly mergeKey?: string;
}

/** What a client asks to happen with unknown and duplicate fields. */
export type FieldValidation = 'Ignore' | 'Warn' | 'Strict';
