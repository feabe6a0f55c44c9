import type { Manifest } from '../types.ts';

/** What a field may hold: the part of OpenAPI that is used here. */
export interface Schema {
  readonly type?: 'array' | 'boolean' | 'integer' | 'object' | 'string';
  readonly format?: 'byte' | 'date-time' | 'int32' | 'int64';
  readonly nullable?: boolean;
  readonly enum?: readonly string[];
  readonly default?: string;
  readonly minimum?: number;
  readonly minLength?: number;
  readonly maxLength?: number;
  readonly maxItems?: number;
  readonly 'x-kubernetes-list-type'?: 'atomic' | 'map';
  readonly 'x-kubernetes-list-map-keys'?: readonly string[];
  readonly items?: Schema;
  readonly required?: readonly string[];
  readonly 'x-kubernetes-validations'?: readonly { readonly rule: string; readonly message: string }[];
  readonly anyOf?: readonly Schema[];
  readonly properties?: Fields;
  readonly description?: string;
}

/** What a field is for, as `kubectl explain` shows it. */
export type Fields = Readonly<Record<string, Schema>>;

/** A kind that clusters do not have by themselves. */
export type Definition = Manifest & {
  readonly spec: {
    readonly group: string;
    readonly scope: 'Cluster' | 'Namespaced';
    readonly names: {
      readonly kind: string;
      readonly listKind: string;
      readonly plural: string;
      readonly singular: string;
      readonly shortNames?: readonly string[];
    };
    readonly versions: readonly {
      readonly name: string;
      readonly served: boolean;
      readonly storage: boolean;
      readonly subresources?: { readonly status: object };
      readonly additionalPrinterColumns?: readonly Column[];
      readonly schema: { readonly openAPIV3Schema: Schema };
    }[];
  };
};

export const TYPE_META: Fields = {
  apiVersion: { type: 'string' },
  kind: { type: 'string' },
  metadata: { type: 'object' },
};

export function boolean(description: string): Schema {
  return { type: 'boolean', description };
}

export function text(description: string): Schema {
  return { type: 'string', description };
}

export function integer(format: 'int32' | 'int64', description: string): Schema {
  return { type: 'integer', format, description };
}

export function object(description: string, properties: Fields): Schema {
  return { type: 'object', description, properties };
}

/** A list that is written as a whole. */
export function listOf(items: Schema, description: string): Schema {
  return { type: 'array', 'x-kubernetes-list-type': 'atomic', items, description };
}

export function texts(description: string): Schema {
  return listOf({ type: 'string' }, description);
}

/** The same, but `null` is as good as absent. */
export function nullable(schema: Schema): Schema {
  return { ...schema, nullable: true };
}

/** A column of what `kubectl get` prints; one with a priority above 0 only with `-o wide`. */
interface Column {
  readonly name: string;
  readonly type: 'date' | 'string';
  readonly jsonPath: string;
  readonly description: string;
  readonly priority?: number;
}

export function column(name: string, jsonPath: string, description: string): Column {
  return { name, type: 'string', jsonPath, description };
}

/** A column for a moment, told as how long ago it was. */
export function ageColumn(name: string, jsonPath: string, description: string): Column {
  return { name, type: 'date', jsonPath, description };
}
