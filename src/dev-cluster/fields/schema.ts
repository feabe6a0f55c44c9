import type { GroupVersionKind } from '../../kube/types.ts';
import { PACKAGES } from './builtin/index.ts';
import { readTypes } from './notation.ts';
import type { ObjectType } from './types.ts';

/** The types of the kinds that are served. */
export interface Schemas {
  /** The type of a built-in or custom kind; `undefined` where it is not known. */
  typeOf(kind: GroupVersionKind): ObjectType | undefined;
  /** Adds or replaces the type of a custom kind. */
  put(kind: GroupVersionKind, type: ObjectType): void;
  remove(kind: GroupVersionKind): void;
}

/** Kinds that every group has: bodies of deletions, answers. */
const META = 'meta.k8s.io';

/** The types of all built-in kinds. */
export function loadSchemas(): Schemas {
  const types = readTypes(PACKAGES);
  const builtin = new Map<string, ObjectType>();
  for (const { path, group, version } of PACKAGES) {
    for (const [name, type] of types) {
      const kind = name.slice(path.length + 1);
      if (name === `${path}.${kind}` && isKind(type)) builtin.set(keyOf({ group, version, kind }), type);
    }
  }
  const custom = new Map<string, ObjectType>();
  return {
    typeOf(kind) {
      const key = keyOf(kind);
      return builtin.get(key) ?? custom.get(key) ?? builtin.get(keyOf({ group: META, version: 'v1', kind: kind.kind }));
    },
    put: (kind, type) => void custom.set(keyOf(kind), type),
    remove: (kind) => void custom.delete(keyOf(kind)),
  };
}

function isKind(type: ObjectType): boolean {
  return type.fields.get('kind')?.embedded === 'TypeMeta';
}

function keyOf({ group, version, kind }: GroupVersionKind): string {
  return `${group}/${version}/${kind}`;
}
