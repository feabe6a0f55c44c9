import { isObject, type JsonObject } from '../../../kube/types.ts';

/** A text that is the same for equal values, whatever the order of their members. */
export function identityOf(value: unknown): string {
  return JSON.stringify(inOrder(value)) ?? '';
}

/** The identity of an item of a list that is a map: it lies in those fields. */
export function keyOf(item: JsonObject, fields: readonly string[]): string {
  return identityOf(fields.map((field) => item[field]));
}

function inOrder(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(inOrder);
  if (!isObject(value)) return value;
  const members = Object.entries(value).filter(([, member]) => member !== undefined);
  // An object of one member, so that nothing but another object is equal to it.
  return { members: members.sort(([a], [b]) => (a < b ? -1 : 1)).map(([name, member]) => [name, inOrder(member)]) };
}
