import { isObject, type JsonObject } from '../../../kube/types.ts';

/**
 * Fills in the defaults of a schema, in place. A null where null is not allowed counts as absent if there is a default.
 * @see https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/#defaulting
 */
export function fillDefaults(value: unknown, schema: JsonObject): void {
  if (Array.isArray(value) && isObject(schema['items'])) {
    for (const item of value) fillDefaults(item, schema['items']);
  }
  if (!isObject(value)) return;
  const object = value as Record<string, unknown>;
  for (const [name, property] of entries(schema['properties'])) {
    const given = Object.hasOwn(object, name) ? object[name] : undefined;
    const isMissing = given === undefined || (given === null && property['nullable'] !== true);
    if (isMissing && property['default'] !== undefined) set(object, name, structuredClone(property['default']));
    if (Object.hasOwn(object, name)) fillDefaults(object[name], property);
  }
  const { additionalProperties } = schema;
  if (!isObject(additionalProperties)) return;
  for (const [name, item] of Object.entries(object)) {
    if (!Object.hasOwn(objectOr(schema['properties']), name)) fillDefaults(item, additionalProperties);
  }
}

function entries(properties: unknown): (readonly [string, JsonObject])[] {
  return Object.entries(objectOr(properties)).flatMap(([name, schema]) => (isObject(schema) ? [[name, schema]] : []));
}

function objectOr(value: unknown): JsonObject {
  return isObject(value) ? value : {};
}

function set(object: Record<string, unknown>, name: string, value: unknown): void {
  Object.defineProperty(object, name, { value, enumerable: true, configurable: true, writable: true });
}
