import type { Comparison } from '../typed/compare.ts';
import { difference, intersection, isEmpty, pathsOf, union, type FieldPath } from '../typed/field-set.ts';
import type { Owner, Owners } from './owners.ts';

/** A field that an applier wants to set and somebody else owns. */
export interface OwnershipConflict {
  readonly owner: Owner;
  readonly path: FieldPath;
}

/** The fields of others that a change touches, in the order of their owners' keys. */
export function conflictsOf(owners: Owners, actor: string, { modified, added }: Comparison): OwnershipConflict[] {
  const touched = union(modified, added);
  return [...owners]
    .filter(([key]) => key !== actor)
    .flatMap(([, owner]) => pathsOf(intersection(owner.fields, touched)).map((path) => ({ owner, path })));
}

/** The owners after a change: all but the actor lose what was changed, added or removed. */
export function afterChange(owners: Owners, actor: string, { removed, modified, added }: Comparison): Owners {
  const taken = union(union(modified, added), removed);
  return new Map(
    [...owners].flatMap(([key, owner]): [string, Owner][] => {
      const fields = key === actor ? owner.fields : difference(owner.fields, taken);
      return isEmpty(fields) ? [] : [[key, { ...owner, fields }]];
    }),
  );
}
