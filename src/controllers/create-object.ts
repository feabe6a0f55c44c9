import type { Cluster, WriteOptions } from '../cluster/port.ts';
import { ApiError } from '../kube/status.ts';
import { RESOURCES } from '../kube/resources.ts';
import type { Kind, Kinds } from '../kube/types.ts';

/** Creates an object. Where the cluster does not serve the kind, that is an error like any other: it may still come. */
export async function createObject<K extends Kind>(
  cluster: Cluster,
  kind: K,
  object: Kinds[K],
  options: WriteOptions,
): Promise<Kinds[K]> {
  try {
    return await cluster.create(kind, object, options);
  } catch (error) {
    if (!(error instanceof ApiError && error.status.code === 404)) throw error;
    const { group, resource } = RESOURCES[kind];
    throw new Error(`the cluster does not serve ${resource}.${group}; is its CustomResourceDefinition missing?`, {
      cause: error,
    });
  }
}
