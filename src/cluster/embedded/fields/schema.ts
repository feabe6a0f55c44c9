import type { GroupVersionKind } from '../../../kube/types.ts';
import type { ObjectType } from './types.ts';

/** The types of the kinds that are served. */
export interface Schemas {
  /** The type of a built-in or custom kind; `undefined` where it is not known. */
  typeOf(kind: GroupVersionKind): ObjectType | undefined;
  /** Adds or replaces the type of a custom kind. */
  put(kind: GroupVersionKind, type: ObjectType): void;
  remove(kind: GroupVersionKind): void;
}

/** The types of all built-in kinds. */
export declare function loadSchemas(): Schemas;
