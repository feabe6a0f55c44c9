import type { ObjectType } from '../types.ts';
import {
  createFieldSet,
  difference,
  intersection,
  isEmpty,
  union,
  withNamedFields,
  type FieldSet,
} from '../typed/field-set.ts';
import { fieldSetOf } from '../typed/field-set-of.ts';
import { removeFields } from '../typed/remove.ts';
import type { Owners } from './owners.ts';

/**
 * Removes from a merged object what the applier applied last time, does not apply any more, and nobody else owns.
 * @see https://github.com/kubernetes-sigs/structured-merge-diff/blob/v6.3.2/merge/update.go
 */
export function pruneReleased(type: ObjectType, merged: unknown, owners: Owners, last: FieldSet | undefined): unknown {
  if (!last || isEmpty(last)) return merged;
  const named = (set: FieldSet): FieldSet => withNamedFields(set, type);
  const namedOf = (value: unknown): FieldSet => named(fieldSetOf(type, value));
  const all = namedOf(merged);
  const owned = named([...owners.values()].reduce((sum, { fields }) => union(sum, fields), createFieldSet()));

  const withoutLast = removeFields(type, merged, named(last));
  const withOwned = removeFields(type, merged, difference(all, union(namedOf(withoutLast), owned)));
  // What went along with a removed parent without having been applied comes back.
  return removeFields(type, merged, intersection(difference(all, namedOf(withOwned)), named(last)));
}
