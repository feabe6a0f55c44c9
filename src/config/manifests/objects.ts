import { isObject, type JsonObject } from '../../kube/types.ts';
import type { ManifestDocument, ManifestError } from './documents.ts';
import type { Path } from './node.ts';
import type { Position } from './line-index.ts';

/** An object of the Kubernetes API in a document: the whole, or an item of a list. */
export interface ManifestObject extends Position {
  readonly document: ManifestDocument;
  /** Where the object lies in the document; empty for the whole. */
  readonly path: Path;
  readonly apiVersion: string;
  readonly kind: string;
  readonly value: JsonObject;
  /** Where a field of the object begins, or its nearest parent that exists. */
  positionOf(path: Path): Position;
}

export interface ManifestObjects {
  readonly objects: readonly ManifestObject[];
  readonly errors: readonly ManifestError[];
}

/** The objects of a document, lists taken apart; what is no object of the Kubernetes API is an error. */
export function objectsOf(document: ManifestDocument): ManifestObjects {
  const objects: ManifestObject[] = [];
  const errors: ManifestError[] = [];

  function add(value: unknown, path: Path, inherited: TypeMeta): void {
    const type = typeMetaOf(value, inherited);
    if ('message' in type) {
      errors.push({ file: document.file, ...document.positionOf([...path, ...type.path]), message: type.message });
      return;
    }
    const items = type.kind.endsWith('List') ? type.value.items : undefined;
    if (Array.isArray(items)) {
      const itemType = type.kind === 'List' ? {} : { apiVersion: type.apiVersion, kind: type.kind.slice(0, -4) };
      items.forEach((item, index) => add(item, [...path, 'items', index], itemType));
    } else objects.push(createObject(document, path, type));
  }

  add(document.value, [], {});
  return { objects, errors };
}

/** What the items of a `PodList` are, which the API server does not repeat in each. */
interface TypeMeta {
  readonly apiVersion?: string;
  readonly kind?: string;
}

/** An object with its type, or what is wrong with it and where. */
type Typed =
  | { readonly apiVersion: string; readonly kind: string; readonly value: JsonObject }
  | { readonly path: Path; readonly message: string };

function typeMetaOf(value: unknown, inherited: TypeMeta): Typed {
  if (!isObject(value)) return { path: [], message: 'expected an object with apiVersion and kind' };
  const { apiVersion, kind } = value.apiVersion == null && value.kind == null ? inherited : value;
  if (kind == null || kind === '') return { path: [], message: "Object 'Kind' is missing" };
  if (apiVersion == null || apiVersion === '') return { path: [], message: "Object 'apiVersion' is missing" };
  if (typeof kind !== 'string') return { path: ['kind'], message: 'kind must be a string' };
  if (typeof apiVersion !== 'string') return { path: ['apiVersion'], message: 'apiVersion must be a string' };
  return { apiVersion, kind, value: value.kind == null ? { ...value, apiVersion, kind } : value };
}

function createObject(
  document: ManifestDocument,
  path: Path,
  typed: Pick<ManifestObject, 'apiVersion' | 'kind' | 'value'>,
): ManifestObject {
  return {
    ...typed,
    document,
    path,
    ...document.positionOf(path),
    positionOf: (below) => document.positionOf([...path, ...below]),
  };
}
