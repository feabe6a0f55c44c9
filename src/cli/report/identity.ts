import { isObject, type JsonObject } from '../../kube/types.ts';
import type { Labels } from '../../policy/psa/namespace-policy.ts';

/** The name of an object; with generateName its beginning and a star. */
export function nameOf(object: JsonObject): string {
  const { name, generateName } = metadataOf(object);
  if (typeof name === 'string' && name !== '') return name;
  return typeof generateName === 'string' && generateName !== '' ? `${generateName}*` : '';
}

/** The namespace that an object names; `undefined` if it leaves that to whoever creates it. */
export function namespaceOf(object: JsonObject): string | undefined {
  const { namespace } = metadataOf(object);
  return typeof namespace === 'string' && namespace !== '' ? namespace : undefined;
}

/** The labels of an object; none where it has something else in their place. */
export function labelsOf(object: JsonObject): Labels {
  const { labels } = metadataOf(object);
  return isObject(labels) ? labels : {};
}

function metadataOf(object: JsonObject): JsonObject {
  return isObject(object.metadata) ? object.metadata : {};
}
