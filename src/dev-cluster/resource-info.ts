import type { Schema } from './fields/schema.ts';
import type { Strategy } from './objects/strategy.ts';
import type { TableColumn } from './types.ts';

/** A served resource, which is either built in or defined by a CRD. */
export interface ServedResource {
  /** `''` for the core group. */
  readonly group: string;
  readonly version: string;
  readonly kind: string;
  readonly listKind: string;
  /** Lowercase plural name, as in URLs. */
  readonly resource: string;
  readonly singular: string;
  readonly namespaced: boolean;
  readonly shortNames: readonly string[];
  readonly categories: readonly string[];
  readonly verbs: readonly string[];
  readonly subresources: readonly string[];
  readonly columns: readonly TableColumn[];
  /** Fields that field selectors support in addition to name and namespace. */
  readonly selectableFields?: readonly string[];
  readonly strategy: Strategy;
  readonly schema: Schema;
  /** True for resources that a CRD defines. */
  readonly custom: boolean;
}
