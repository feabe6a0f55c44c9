/** Finds the locations where unknown fields of built-in kinds belong, and moves the fields there. */
import { deepEqual } from '../kube/equality.ts';
import { type FieldShape, type FieldShapes, findShapeErrors, isList } from '../kube/field-shape.ts';
import { CONTAINER_LISTS } from '../kube/pod.ts';
import { findSimilar, quote } from '../kube/text.ts';
import { isObject, valueAt, withValueAt } from '../kube/types.ts';
import { findConflicts, findPodTemplates, printFieldPath } from '../policy/pod/index.ts';
import { builtInShape, findFieldProblems } from './field-types.ts';
import { type FieldChange, type Relocated, type Unfixed, removeField } from './fix.ts';
import type { ManifestObject } from './objects.ts';
import { parsePath, type Path } from './yaml.ts';

/** A location for a field. `*` in the path represents every item of a list. */
interface Place {
  readonly path: Path;
  readonly shape: FieldShape;
}

/** An unknown field, and the location where it belongs, if its name and value determine the location. */
interface UnknownField {
  readonly path: Path;
  readonly place?: Place;
}

/** Returns the unknown fields of an object, in the order of the object. */
export function findUnknownFields(object: ManifestObject): readonly UnknownField[] {
  const root = builtInShape(object);
  return findFieldProblems(object).unknown.map((path) => {
    const place = root && findPlace(path, root, object.value);
    return place === undefined ? { path } : { path, place };
  });
}

/** Returns one sentence that describes how to correct an unknown field, if its location is known. */
export function describePlace({ path, place }: UnknownField): string | undefined {
  if (place === undefined) return undefined;
  const name = String(place.path.at(-1));
  if (isInSameObject(path, place.path)) return `Write ${quote(name)}.`;
  return `Move it to ${printOwner(place.path)}${name === path.at(-1) ? '' : `, and write ${quote(name)}`}.`;
}

function isInSameObject(a: Path, b: Path): boolean {
  return samePath(a.slice(0, -1), b.slice(0, -1));
}

function printOwner(path: Path): string {
  return printFieldPath(path.slice(0, -1)).replaceAll('.*', '[]') || 'the top level';
}

function samePath(a: Path, b: Path): boolean {
  return a.length === b.length && a.every((step, index) => step === b[index]);
}

/**
 * Finds the location where an unknown field belongs. In order of preference, this is the same name with different
 * capitalization in the same object, the nearest object that has a field with this name (in any capitalization) and the
 * type of the value, or a similar name in the same object. An absent object next to the object that contains the field
 * is not considered, unless it is a security context. Several locations at the same distance are ambiguous.
 */
function findPlace(path: Path, root: FieldShapes, object: unknown): Place | undefined {
  const name = String(path.at(-1));
  const owners = ownersOf(path.slice(0, -1), root);
  const own = owners[0];
  if (own === undefined) return undefined;
  const rename = (known: string | undefined): Place | undefined => {
    const shape = known === undefined ? undefined : own.shape[known];
    return known === undefined || shape === undefined ? undefined : { path: [...own.path, known], shape };
  };
  const names = Object.keys(own.shape);
  return (
    rename(names.find((known) => known.toLowerCase() === name.toLowerCase())) ??
    findNearest(path, owners, object) ??
    rename(findSimilar(name, names))
  );
}

function findNearest(field: Path, owners: readonly Owner[], object: unknown): Place | undefined {
  const value = valueAt(object, field);
  // For example, a field of a volume source does not belong to a different source that the volume does not have.
  const isAbsent = (below: Path, owner: Path): boolean => {
    const steps = below.slice(0, -1).map((step) => (step === '*' ? 0 : step));
    const missing = steps.find((_, index) => valueAt(object, [...owner, ...steps.slice(0, index + 1)]) == null);
    return typeof missing === 'string' && missing !== 'securityContext';
  };
  const places = owners.flatMap(({ path, shape }, distance) =>
    (placesBelow(shape).get(String(field.at(-1)).toLowerCase()) ?? [])
      .filter((place) => isOfKind(value, place.shape) && (distance === 0 || !isAbsent(place.path, path)))
      .map((place) => ({ path: [...path, ...place.path], shape: place.shape, distance: distance + place.depth })),
  );
  const distance = Math.min(...places.map((place) => place.distance));
  const nearest = places.filter((place) => place.distance === distance);
  // All kinds of containers in a pod count as one location, which is represented by the regular containers.
  const distinct = Map.groupBy(nearest, (place) => place.path.map((step) => CONTAINERS.get(step) ?? step).join('.'));
  const [only, ...others] = [...distinct.values()];
  if (only === undefined || others.length > 0) return undefined;
  return only.find((place) => place.path.includes('containers')) ?? only[0];
}

const CONTAINERS: ReadonlyMap<string | number, string> = new Map(CONTAINER_LISTS.map((list) => [list, 'containers']));

interface Owner {
  readonly path: Path;
  readonly shape: FieldShapes;
}

/** Returns the objects that contain a field, innermost first. */
function ownersOf(path: Path, root: FieldShapes): readonly Owner[] {
  const owners: Owner[] = [{ path: [], shape: root }];
  let shape: FieldShape | undefined = root;
  for (const [index, step] of path.entries()) {
    if (shape === undefined || typeof shape === 'string') return [];
    shape = isList(shape) ? shape[0] : (shape[step] ?? shape['*']);
    if (shape !== undefined && typeof shape !== 'string' && !isList(shape))
      owners.unshift({ path: path.slice(0, index + 1), shape });
  }
  return owners;
}

/** A location below an object, with the number of field names in its path. */
interface PlaceBelow extends Place {
  readonly depth: number;
}

/**
 * Members to which fields are never moved, which are the type of an object and members in which users do not configure
 * pods.
 */
const IGNORED: ReadonlySet<string> = new Set(['apiVersion', 'kind', 'managedFields', 'ownerReferences', 'status']);
const MAX_DEPTH = 8;

const placesByShape = new WeakMap<FieldShapes, ReadonlyMap<string, readonly PlaceBelow[]>>();

/** Returns all fields below an object, by their lowercase names. */
function placesBelow(root: FieldShapes): ReadonlyMap<string, readonly PlaceBelow[]> {
  const existing = placesByShape.get(root);
  if (existing) return existing;
  const places = new Map<string, PlaceBelow[]>();
  const visited: FieldShapes[] = [];
  const visit = (owner: FieldShapes, path: Path, depth: number): void => {
    if (visited.includes(owner) || depth > MAX_DEPTH) return;
    visited.push(owner);
    for (const [name, shape] of Object.entries(owner)) {
      if (IGNORED.has(name) || name === '*') continue;
      const here = [...path, name];
      const key = name.toLowerCase();
      const found = places.get(key);
      const place = { path: here, shape, depth };
      if (found) found.push(place);
      else places.set(key, [place]);
      if (typeof shape === 'string') continue;
      if (!isList(shape)) visit(shape, here, depth + 1);
      else if (typeof shape[0] !== 'string' && !isList(shape[0])) visit(shape[0], [...here, '*'], depth + 1);
    }
    visited.pop();
  };
  visit(root, [], 1);
  placesByShape.set(root, places);
  return places;
}

/** Returns true if the value and the shape are both lists, both objects or both scalars. */
function isOfKind(value: unknown, shape: FieldShape): boolean {
  if (typeof shape !== 'string') return isList(shape) ? Array.isArray(value) : isObject(value);
  return findShapeErrors(value, shape).length === 0;
}

/** Maximum number of moved fields in an object, because each move copies the objects that contain the field. */
const MAX_MOVES = 1000;
const TOO_MANY = `move the first ${MAX_MOVES} unknown fields of the object, and run the command again`;

/** A change to one unknown field, or the reason why it is not changed. */
interface Move {
  readonly field: UnknownField;
  /** Paths of the fields to set. */
  readonly targets: readonly Path[];
  readonly refusal?: string;
}

const CHECK = 'unknownField';
const NOTE = 'the moved or renamed fields now take effect. Previously, API servers dropped them as unknown fields';

/**
 * Moves the unknown fields of an object to the locations where they belong. Fields whose location or value is
 * ambiguous, or that would make API servers reject the object, are listed as unfixed.
 */
export function moveFields(object: ManifestObject): Relocated {
  const fields = findUnknownFields(object);
  const refusals = new Map(fields.slice(MAX_MOVES).map((field) => [field, TOO_MANY]));
  for (;;) {
    const moves = planMoves(object, fields, refusals);
    const value = moves.reduce<unknown>((changed, { field, targets }) => {
      const moved = valueAt(object.value, field.path);
      if (targets.length === 0) return changed;
      const without = removeField(changed, field.path);
      return targets.reduce((result, target) => withValueAt(result, target, moved), without);
    }, object.value);
    const rejected = findRejected(value, moves);
    if (rejected.size === 0)
      return { object: { ...object, value: value as ManifestObject['value'] }, ...results(object, moves) };
    for (const [field, reason] of rejected) refusals.set(field, reason);
  }
}

function results(object: ManifestObject, moves: readonly Move[]): Pick<Relocated, 'changes' | 'unfixed'> {
  const changes: FieldChange[] = [];
  const unfixed: Unfixed[] = [];
  for (const { field, targets, refusal } of moves) {
    const { path, place } = field;
    const common = { object, path: [], check: CHECK, field: path };
    if (place === undefined || refusal !== undefined) {
      const choice = refusal ?? 'correct the name, or remove the field';
      unfixed.push({ ...common, detail: `unknown field ${quote(printFieldPath(path))}`, choices: [choice] });
      continue;
    }
    const [first = place.path, ...others] = targets;
    const target = others.length === 0 ? first : place.path;
    const change = isInSameObject(path, target)
      ? `renamed to ${String(target.at(-1))}`
      : `moved to ${printOwner(target)}`;
    changes.push({ ...common, change, note: NOTE });
  }
  return { changes, unfixed };
}

/** Plans a move for each unknown field. A field without targets is not moved. */
function planMoves(
  object: ManifestObject,
  fields: readonly UnknownField[],
  refusals: ReadonlyMap<UnknownField, string>,
): readonly Move[] {
  const moves = fields.map((field) => planMove(object.value, field, refusals.get(field)));
  const byTarget = Map.groupBy(
    moves.flatMap(({ field, targets }) => targets.map((target) => ({ target: printFieldPath(target), field }))),
    ({ target }) => target,
  );
  const getValue = ({ path }: UnknownField): unknown => valueAt(object.value, path);
  /** For each target, the first field that moves to it, and the first field with a different value. */
  const contradictions = new Map(
    [...byTarget].flatMap(([target, [first, ...others]]) => {
      const other = first && others.find(({ field }) => !deepEqual(getValue(field), getValue(first.field)));
      return first && other ? [[target, [first.field, other.field] as const] as const] : [];
    }),
  );
  return moves.map((move) => {
    const [pair] = move.targets.flatMap((target) => {
      const found = contradictions.get(printFieldPath(target));
      return found === undefined ? [] : [found];
    });
    if (pair === undefined) return move;
    const other = pair.find((candidate) => !deepEqual(getValue(candidate), getValue(move.field))) ?? pair[0];
    return refuse(move.field, `${printFieldPath(other.path)} has another value: keep one of them`);
  });
}

function refuse(field: UnknownField, refusal: string): Move {
  return { field, targets: [], refusal };
}

function planMove(value: unknown, field: UnknownField, refusal: string | undefined): Move {
  const { path, place } = field;
  if (refusal !== undefined) return refuse(field, refusal);
  if (place === undefined) return { field, targets: [] };
  const owner = printOwner(place.path);
  const moved = valueAt(value, path);
  if (findShapeErrors(moved, place.shape, true).length > 0) {
    return refuse(field, `move it to ${owner}, and correct its value`);
  }
  // It is unknown to which volume or port, for example, a field belongs.
  const isInOtherList = place.path.some((step, index) => step === '*' && place.path[index - 1] !== 'containers');
  if (isInOtherList) return refuse(field, `move it to ${owner}`);
  const all = expandPath(value, place.path);
  const isForAll = place.path.includes('securityContext');
  if (all.length === 0) return refuse(field, `move it to ${owner}, which does not exist`);
  if (all.length > 1 && !isForAll) return refuse(field, `move it to one of ${all.map(printOwner).join(', ')}`);
  const targets = all.filter((target) => !deepEqual(valueAt(value, target) ?? undefined, moved));
  const conflict = targets.find((target) => valueAt(value, target) != null);
  if (conflict !== undefined) return refuse(field, `${printFieldPath(conflict)} has another value: keep one of them`);
  return { field, targets: targets.length === 0 ? all : targets };
}

/** Returns the paths for all containers in the pod if a path contains `containers` and `*`. */
function expandPath(value: unknown, path: Path): readonly Path[] {
  const index = path.indexOf('*');
  if (index < 0) return [path];
  return CONTAINER_LISTS.flatMap((name) => {
    const list = [...path.slice(0, index - 1), name];
    const items = valueAt(value, list);
    return Array.isArray(items) ? items.map((_, item) => [...list, item, ...path.slice(index + 1)]) : [];
  });
}

/** Returns the fields that would make API servers reject a pod at their new location, with the reasons. */
function findRejected(value: unknown, moves: readonly Move[]): ReadonlyMap<UnknownField, string> {
  const fieldsByTarget = new Map(
    moves.flatMap(({ field, targets }) => targets.map((target) => [printFieldPath(target), field] as const)),
  );
  const rejected = new Map<UnknownField, string>();
  for (const template of isObject(value) ? findPodTemplates(value).templates : []) {
    for (const { fields, choice } of findConflicts(valueAt(value, template))) {
      for (const path of fields.map((field) => [...template, ...parsePath(field)])) {
        // The moved field may be an object that contains the rejected field.
        const field = path
          .map((_, index) => fieldsByTarget.get(printFieldPath(path.slice(0, index + 1))))
          .find(Boolean);
        if (field) rejected.set(field, choice);
      }
    }
  }
  return rejected;
}
