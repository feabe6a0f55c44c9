import type { Connection } from '../../cluster/connection.ts';
import { readPages } from '../../cluster/lists.ts';
import { isObject, type JsonObject, type KubeObject, type ObjectMeta } from '../../kube/types.ts';

/** A resource of the API, whether or not this program keeps objects of it; the core group is `''`. */
export interface Resource {
  readonly group: string;
  readonly version: string;
  /** The lower-case plural. */
  readonly resource: string;
}

/** An object of any kind, with what all have. */
export interface AnyObject extends KubeObject {
  readonly metadata: ObjectMeta & { readonly name: string };
}

/** Where the API server serves the objects of a resource; without a namespace those of all. */
export function collectionPath({ group, version, resource }: Resource, namespace?: string): string {
  const root = group === '' ? `/api/${version}` : `/apis/${group}/${version}`;
  return namespace === undefined
    ? `${root}/${resource}`
    : `${root}/namespaces/${encodeURIComponent(namespace)}/${resource}`;
}

/** Where the API server serves one object. */
export function objectPath(resource: Resource, name: string, namespace?: string): string {
  return `${collectionPath(resource, namespace)}/${encodeURIComponent(name)}`;
}

/** `deployments.apps/portcullis`, as kubectl names objects. */
export function printTarget({ group, resource }: Resource, name: string): string {
  return `${resource}${group === '' ? '' : `.${group}`}/${name}`;
}

export interface Selection {
  readonly namespace?: string | undefined;
  readonly labels?: string | undefined;
  readonly signal: AbortSignal;
}

/** All objects of a resource, or those of a namespace, or with a label. Rejects as `request` does. */
export async function listObjects(
  connection: Connection,
  resource: Resource,
  { namespace, labels, signal }: Selection,
): Promise<readonly AnyObject[]> {
  let objects: AnyObject[] = [];
  const query = labels === undefined ? {} : { labelSelector: labels };
  await readPages(connection, { path: collectionPath(resource, namespace), query, signal }, () => {
    objects = [];
    return (items) => objects.push(...items.filter(hasName));
  });
  return objects;
}

function hasName(object: JsonObject): object is JsonObject & AnyObject {
  const { metadata } = object;
  return isObject(metadata) && typeof metadata['name'] === 'string';
}
