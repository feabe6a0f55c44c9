import { isObject, type JsonObject, type ObjectMeta, objectsIn, valueAt } from '../kube/types.ts';

/** An object that a request is processing, as mutable JSON. Unlike stored objects, it is not frozen. */
export interface ApiObject {
  apiVersion?: string;
  kind?: string;
  metadata?: Record<string, unknown>;
  [field: string]: unknown;
}

/** A resource, regardless of version. */
export interface ResourceKey {
  readonly group: string;
  readonly resource: string;
}

/** A column of `kubectl get`. */
export interface TableColumn {
  readonly name: string;
  readonly type: string;
  readonly format?: string;
  readonly description?: string;
  /** Columns with priority 0 are always shown, and columns with priority 1 only with `-o wide`. */
  readonly priority: number;
  cell(object: ApiObject, now: Date): unknown;
}

/** Reads stored objects, which are frozen. Bypasses authorization and admission. */
export interface ObjectReader {
  get(resource: ResourceKey, namespace: string, name: string): ApiObject | undefined;
  /** Lists objects in a namespace, or in all namespaces if none is given, sorted by namespace and name. */
  list(resource: ResourceKey, namespace?: string): readonly ApiObject[];
}

/** Returns the typed metadata of an object. */
export function getMetadata(object: ApiObject | undefined): ObjectMeta {
  return object?.metadata ?? {};
}

/** Returns an object's mutable metadata. Adds it if it is missing. */
export function editMetadata(object: ApiObject): Record<string, unknown> {
  object.metadata ??= {};
  return object.metadata;
}

/** Returns the value at a field path, or `undefined` if part of the path is missing, null or not an object. */
export function at(object: unknown, ...path: readonly string[]): unknown {
  return valueAt(object, path) ?? undefined;
}

/** Returns the string at a path, or `''` if the value is not a string. */
export function textAt(object: unknown, ...path: readonly string[]): string {
  const value = at(object, ...path);
  return typeof value === 'string' ? value : '';
}

/** Returns the number at a path, or 0 if the value is not a number. */
export function numberAt(object: unknown, ...path: readonly string[]): number {
  const value = at(object, ...path);
  return typeof value === 'number' ? value : 0;
}

/** Returns the object at a path, or an empty object if the value is not an object. */
export function nestedObject(object: unknown, ...path: readonly string[]): JsonObject {
  const value = at(object, ...path);
  return isObject(value) ? value : {};
}

/** Returns the objects in the list at a path. */
export function itemsAt(object: unknown, ...path: readonly string[]): readonly JsonObject[] {
  return objectsIn(at(object, ...path));
}

/** Returns true if the field at a path has a value other than null. */
export function hasField(object: unknown, ...path: readonly string[]): boolean {
  return at(object, ...path) !== undefined;
}

/** Returns the strings in the list at a path. */
export function textsAt(object: unknown, ...path: readonly string[]): readonly string[] {
  const value = at(object, ...path);
  return Array.isArray(value) ? value.filter((item) => typeof item === 'string') : [];
}
