/**
 * Strategic merge patches: lists of built-in kinds merge by their keys, and directives replace, delete and order.
 * @see https://github.com/kubernetes/kubernetes/blob/v1.36.0/staging/src/k8s.io/apimachinery/pkg/util/strategicpatch/patch.go
 */
import { ApiError, badRequest } from '../../../kube/status.ts';
import { isObject, type JsonObject } from '../../../kube/types.ts';
import { withoutNulls } from '../../../kube/equality.ts';
import { goFormat, goTypeOf } from '../go-format.ts';
import { plainError } from '../plain-error.ts';
import type { Field, FieldType, ObjectType } from '../types.ts';
import { mergeLists, orderBy } from './strategic-list.ts';

const DIRECTIVE = '$patch';
const RETAIN_KEYS = '$retainKeys';
const DELETE_FROM = '$deleteFromPrimitiveList/';
const ORDER = '$setElementOrder/';

/** Merges a patch into an object of the type; neither is changed. Throws ApiError for a patch that makes no sense. */
export function strategicMerge(original: JsonObject, patch: JsonObject, type: FieldType | undefined): JsonObject {
  if (Object.hasOwn(patch, DIRECTIVE)) return followDirective(patch);
  const members = new Map(Object.entries(original));
  const rest = new Map(Object.entries(patch));
  retainKeys(members, rest);
  for (const key of [...rest.keys()].filter((name) => name.startsWith(ORDER))) mergeOrdered(members, rest, key, type);
  for (const [key, value] of rest) mergeMember(members, key, value, type);
  return Object.fromEntries(members);
}

function followDirective(patch: JsonObject): JsonObject {
  const { [DIRECTIVE]: directive, ...rest } = patch;
  if (directive === 'replace') return rest;
  if (directive === 'delete') return {};
  throw plainError(`unknown patch type: ${goFormat(directive)} in map: ${goFormat(patch)}`);
}

/** Drops all members that the directive does not list. */
function retainKeys(members: Map<string, unknown>, patch: Map<string, unknown>): void {
  if (!patch.has(RETAIN_KEYS)) return;
  const list = patch.get(RETAIN_KEYS);
  patch.delete(RETAIN_KEYS);
  const stray = [...patch].some(
    ([key, value]) => value !== null && !key.startsWith(DELETE_FROM) && !key.startsWith(ORDER) && !includes(list, key),
  );
  if (!Array.isArray(list) || stray) throw new ApiError(badRequest('invalid patch format of retainKeys'));
  for (const key of members.keys()) if (!includes(list, key)) members.delete(key);
}

function includes(list: unknown, item: unknown): boolean {
  return Array.isArray(list) && list.includes(item);
}

/** Merges the list that an order directive speaks of, and brings its items into that order. */
function mergeOrdered(
  members: Map<string, unknown>,
  patch: Map<string, unknown>,
  key: string,
  type: FieldType | undefined,
): void {
  const order = listOrThrow(patch.get(key));
  const name = key.slice(ORDER.length);
  const [original, change] = [members.get(name), patch.get(name)];
  patch.delete(key);
  if (original === undefined && change === undefined) return;
  const field = fieldOf(type, name);
  const mergeKey = field?.patch?.mergeKey;
  const items = change === undefined ? [] : listOrThrow(change);
  checkOrder(items, order, mergeKey);
  const before = original === undefined ? [] : listOrThrow(original);
  if (before.length + items.length === 0) throw plainError('no elements in any of the given slices');
  const merged = original === undefined ? withoutDirectives(items) : mergeField(before, change, field);
  patch.delete(name);
  members.set(name, orderBy(listOrThrow(merged), order, before, mergeKey));
}

function listOrThrow(value: unknown): readonly unknown[] {
  if (Array.isArray(value)) return value;
  const found = value == null ? '%!s(<nil>)' : goTypeOf(value);
  throw plainError(`expected a []interface {}, but received a ${found}`);
}

/** What the patch lists must stand in the order that the directive gives. */
function checkOrder(items: readonly unknown[], order: readonly unknown[], mergeKey: string | undefined): void {
  const keyOf = (item: unknown): unknown => (mergeKey !== undefined && isObject(item) ? item[mergeKey] : item);
  const kept = items.filter((item) => !(isObject(item) && Object.hasOwn(item, DIRECTIVE)));
  let next = 0;
  for (const entry of order) if (next < kept.length && keyOf(kept[next]) === keyOf(entry)) next++;
  if (order.length === 0 || next === kept.length) return;
  const lists = `${goFormat(items)}\n doesn't match $setElementOrder list:\n${goFormat(order)}`;
  throw plainError(`The order in patch list:\n${lists}\n`);
}

function mergeMember(members: Map<string, unknown>, key: string, value: unknown, type: FieldType | undefined): void {
  const deletes = key.startsWith(DELETE_FROM);
  const name = deletes ? key.slice(DELETE_FROM.length) : key;
  const original = members.get(name);
  if (deletes) {
    if (Array.isArray(original))
      members.set(
        name,
        original.filter((item) => !includes(value, item)),
      );
  } else if (value === null) members.delete(name);
  else {
    const merged = original == null ? asNew(value) : mergeField(original, value, fieldOf(type, name));
    if (merged === undefined) members.delete(name);
    else members.set(name, merged);
  }
}

/** A value and its change: merged where both are objects, or lists that merge; else the change wins. */
function mergeField(original: unknown, change: unknown, field: Field | undefined): unknown {
  if (change === undefined) return original;
  const strategies = field?.patch?.strategies ?? [];
  if (isObject(original) && isObject(change)) {
    return strategies.includes('replace') ? change : strategicMerge(original, change, field?.type);
  }
  if (Array.isArray(original) && Array.isArray(change)) {
    if (!strategies.includes('merge')) return change;
    const items = field?.type.kind === 'list' ? field.type.items : undefined;
    return mergeLists(original, change, field?.patch?.mergeKey, (item, itemChange) =>
      strategicMerge(item, itemChange, items),
    );
  }
  return asNew(change);
}

/** What a value becomes where there was none before: no nulls, no directives; `undefined` if it is but a directive. */
function asNew(value: unknown): unknown {
  return withoutDirectives(withoutNulls(value));
}

function withoutDirectives(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutDirectives).filter((item) => item !== undefined);
  if (!isObject(value)) return value;
  if (Object.hasOwn(value, DIRECTIVE)) return undefined;
  const members = Object.entries(value).map(([key, member]) => [key, withoutDirectives(member)] as const);
  return Object.fromEntries(members.filter(([, member]) => member !== undefined));
}

function fieldOf(type: FieldType | undefined, name: string): Field | undefined {
  if (type?.kind !== 'object') return undefined;
  return type.fields.get(name) ?? fieldOfMap(type);
}

function fieldOfMap({ additional }: ObjectType): Field | undefined {
  return additional && { type: additional, always: false, pointer: false };
}
