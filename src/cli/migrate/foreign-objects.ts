/** Reads the policies of other systems from a cluster. */
import type { Connection } from '../../cluster/connection.ts';
import { readPages } from '../../cluster/lists.ts';
import { ApiError } from '../../kube/status.ts';
import { type JsonObject, objectsIn, stringsIn } from '../../kube/types.ts';
import { UserError } from '../../kube/user-error.ts';
import { preferredVersion } from '../inventory/custom-resources.ts';

/**
 * Lists all objects of an API group, or none if the cluster does not serve the group. Rejects like
 * `Connection.request`, and with a UserError if the user may not list a resource.
 */
export async function listGroup(
  connection: Pick<Connection, 'read' | 'request'>,
  group: string,
  signal: AbortSignal,
): Promise<readonly JsonObject[]> {
  const version = await preferredVersion(group, connection, signal).catch((error: unknown) => {
    if (error instanceof ApiError && error.status.code === 404) return undefined;
    throw error;
  });
  if (version === undefined) return [];
  const apiVersion = `${group}/${version}`;
  const { resources } = await connection.request({ method: 'GET', path: `/apis/${apiVersion}`, signal });
  const listed = objectsIn(resources).filter(
    ({ name, verbs }) => !String(name).includes('/') && stringsIn(verbs).includes('list'),
  );
  const lists = await Promise.all(
    listed.map(async ({ name, kind }) => {
      let objects: JsonObject[] = [];
      const request = { path: `/apis/${apiVersion}/${String(name)}`, signal };
      const reading = readPages(connection, request, () => {
        objects = [];
        return (items) => objects.push(...items.map((item) => ({ ...item, apiVersion, kind })));
      });
      await reading.catch((error: unknown) => {
        if (!(error instanceof ApiError) || error.status.code !== 403) throw error;
        throw new UserError(`this requires the "list" verb on ${String(name)}.${group}: ${error.message}`);
      });
      return objects;
    }),
  );
  return lists.flat();
}
