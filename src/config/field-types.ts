/** Describes the fields of the built-in kinds and their types, as API servers decode them. */
import { type FieldError, formatFieldError, invalidValue } from '../kube/field-error.ts';
import { describeShape, type FieldShape, type FieldShapes, findShapeErrors, isList } from '../kube/field-shape.ts';
import { quote } from '../kube/text.ts';
import { isObject } from '../kube/types.ts';
import { manifestErrors } from '../kube/validation.ts';
import { printFieldPath } from '../policy/pod/index.ts';
import document from './field-types.json' with { type: 'json' };
import { errorAt, kustomizedObjects, manifestName, type ManifestObject, type ObjectPod, readPods } from './objects.ts';
import { findPlaceholder } from './placeholders.ts';
import { type ManifestError, parsePath, type Path, readDocuments } from './yaml.ts';

/** Type names of the kinds by API version, and the fields of each type, such as `string a b; []T c`. */
type Table = Readonly<Record<string, string>>;

const KINDS: Table = document.kinds;
const TYPES: Table = document.types;
const shapes = new Map<string, FieldShape>();

/**
 * Returns the shape of a type, such as `PodSpec`, `[]Container` or `{}string`. The shapes of recursive types contain
 * themselves.
 */
function typeShape(type: string): FieldShape {
  const existing = shapes.get(type);
  if (existing !== undefined) return existing;
  if (type.startsWith('[]')) return [typeShape(type.slice(2))];
  if (type.startsWith('{}')) return { '*': typeShape(type.slice(2)) };
  const fields = Object.hasOwn(TYPES, type) ? TYPES[type] : undefined;
  if (fields === undefined) return type as FieldShape;
  const shape: Record<string, FieldShape> = {};
  shapes.set(type, shape);
  for (const group of fields === '' ? [] : fields.split('; ')) {
    const [fieldType = '', ...names] = group.split(' ');
    const own = typeShape(fieldType);
    for (const name of names) shape[name] = own;
  }
  return shape;
}

/** Returns the shape of a built-in kind, or `undefined` for other kinds. */
export function builtInShape({
  apiVersion,
  kind,
}: Pick<ManifestObject, 'apiVersion' | 'kind'>): FieldShapes | undefined {
  const types = Object.hasOwn(KINDS, apiVersion) ? KINDS[apiVersion]?.split(' ') : undefined;
  const type = types?.find((name) => name.slice(name.indexOf('.') + 1) === kind);
  return type === undefined ? undefined : (typeShape(type) as FieldShapes);
}

/** A field that API servers reject, such as a value that they cannot decode. */
export interface WrongType {
  readonly path: Path;
  readonly error: FieldError;
  /** One sentence that describes how to correct the field. */
  readonly fix: string;
}

/** Fields of an object that API servers reject or drop. */
interface FieldProblems {
  readonly wrong: readonly WrongType[];
  readonly unknown: readonly Path[];
}

/** Finds wrong types and unknown fields in an object of a built-in kind, and wrong types in the pods of other kinds. */
export function findFieldProblems(object: ManifestObject): FieldProblems {
  const shape = builtInShape(object);
  if (shape === undefined) return { wrong: readPods(object.value).pods.flatMap(findPodFieldProblems), unknown: [] };
  const errors = findShapeErrors(object.value, shape, true);
  return {
    wrong: errors.flatMap((error) => ('known' in error ? [] : [describeWrongType(error)])),
    unknown: errors.flatMap((error) => ('known' in error ? [error.path] : [])),
  };
}

/**
 * Finds missing and invalid fields for which API servers reject an object of a built-in kind, regardless of policies.
 * The object must not contain wrong types. Ignores errors about values with placeholders, because these values are not
 * final.
 */
export function findInvalidFields(object: ManifestObject): readonly WrongType[] {
  if (builtInShape(object) === undefined) return [];
  const errors = manifestErrors(object.value);
  const unrendered = new Set([...new Set(errors.map(({ compared }) => compared))].filter(hasPlaceholder));
  return errors
    .filter(({ value, compared }) => !unrendered.has(compared) && !hasPlaceholder(value))
    .map(({ fix, ...error }) => ({
      // API servers omit `metadata` in the paths of template labels.
      path: parsePath(error.path.replace(/template\.labels$/, 'template.metadata.labels')),
      error,
      fix,
    }));
}

function hasPlaceholder(value: unknown): boolean {
  if (typeof value === 'string') return findPlaceholder(value) !== undefined;
  if (value instanceof Set) return [...value].some(hasPlaceholder);
  return typeof value === 'object' && value !== null && Object.entries(value).flat().some(hasPlaceholder);
}

const POD = { apiVersion: 'v1', kind: 'Pod' } as const;

/** Finds values of the wrong type in a pod or pod template. The returned paths are relative to the object. */
export function findPodFieldProblems({ pod, sourcePath }: Pick<ObjectPod, 'pod' | 'sourcePath'>): readonly WrongType[] {
  return findShapeErrors(pod, builtInShape(POD) ?? 'any', true).flatMap((error) =>
    'known' in error ? [] : [describeWrongType({ ...error, path: sourcePath(error.path) })],
  );
}

type ShapeError = ReturnType<typeof findShapeErrors>[number];

export function describeWrongType({ path, value, shape }: Exclude<ShapeError, { readonly known: unknown }>): WrongType {
  return { path, error: invalidValue(printFieldPath(path), value, describeShape(shape)), fix: findFix(value, shape) };
}

/** Maximum length of a string that may be a quoted number or boolean. */
const MAX_SCALAR = 64;

/** Returns the fix for a value of the wrong type. In YAML, unquoted numbers and words such as `on` are not strings. */
function findFix(value: unknown, shape: FieldShape): string {
  const isQuotable = typeof value === 'number' || typeof value === 'boolean';
  if (isQuotable && matches(String(value), shape)) return 'Put the value in quotes.';
  const isShort = typeof value === 'string' && value.length <= MAX_SCALAR;
  if (isShort && matches(readDocuments(value, '').documents[0]?.value, shape)) return 'Remove the quotes.';
  if (isList(shape) && matches([value], shape)) return 'Write it as the item of a list.';
  if (isList(shape) && isObject(value)) return 'Begin each item of the list with a hyphen.';
  return 'Use a value of the required type.';
}

function matches(value: unknown, shape: FieldShape): boolean {
  return value != null && findShapeErrors(value, shape).length === 0;
}

/** Returns an error for each value that API servers cannot decode. */
export function decodeErrors(object: ManifestObject): readonly ManifestError[] {
  const subject = builtInShape(object) === undefined ? `the pods of the ${object.kind}` : `the ${object.kind}`;
  return findFieldProblems(object).wrong.map(({ path, error, fix }) =>
    errorAt(object, path, `API servers cannot decode ${subject}: ${formatFieldError(error)}. ${fix}`),
  );
}

/**
 * Returns an error for each field that `findInvalidFields` finds, except in objects that a kustomization may complete.
 */
export function invalidErrors(objects: readonly ManifestObject[]): readonly ManifestError[] {
  const isKustomized = kustomizedObjects(objects);
  return objects
    .filter((object) => !isKustomized(object))
    .flatMap((object) =>
      findInvalidFields(object).map(({ path, error, fix }) => {
        const subject = `${object.kind} ${quote(manifestName(object.value))}`.replace(' ""', '');
        return errorAt(object, path, `API servers reject the ${subject}: ${formatFieldError(error)}. ${fix}`);
      }),
    );
}
