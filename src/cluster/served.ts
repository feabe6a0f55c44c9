import type { ResourceInfo } from '../kube/resources.ts';
import { isObject, type JsonObject } from '../kube/types.ts';
import type { Connection } from './connect.ts';

/** What every cluster has, and never loses. */
const BUILT_IN: ReadonlySet<string> = new Set([
  '',
  'admissionregistration.k8s.io',
  'apps',
  'batch',
  'coordination.k8s.io',
  'rbac.authorization.k8s.io',
]);

/** True for a resource that comes with a definition, which may be missing. */
export function isDefinedInClusters({ group }: Pick<ResourceInfo, 'group'>): boolean {
  return !BUILT_IN.has(group);
}

/**
 * True if the API server says itself, in its discovery, that it does not serve the resource. A 404 alone says nothing: a
 * load balancer without an API server behind it answers the same. Rejects as `request` does.
 */
export async function isUnserved(
  connection: Pick<Connection, 'request'>,
  { group, version, resource }: ResourceInfo,
  signal: AbortSignal,
): Promise<boolean> {
  const groups = await connection.request({ method: 'GET', path: '/apis', signal });
  if (groups['kind'] !== 'APIGroupList') return false;
  const known = objectsIn(groups, 'groups').find(({ name }) => name === group);
  if (!known || !objectsIn(known, 'versions').some((one) => one['version'] === version)) return true;
  const resources = await connection.request({ method: 'GET', path: `/apis/${group}/${version}`, signal });
  return (
    resources['kind'] === 'APIResourceList' && !objectsIn(resources, 'resources').some(({ name }) => name === resource)
  );
}

function objectsIn(object: JsonObject, name: string): readonly JsonObject[] {
  const list = object[name];
  return Array.isArray(list) ? list.filter(isObject) : [];
}
