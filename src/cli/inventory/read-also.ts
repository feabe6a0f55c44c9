import type { Connection } from '../../cluster/connection.ts';
import { resourcePath } from '../../cluster/lists.ts';
import type { WritableStore } from '../../cluster/store.ts';
import type { ManifestObject } from '../../config/manifests.ts';
import { ApiError } from '../../kube/status.ts';
import { nameOf, namespaceOf } from '../report/identity.ts';
import type { ObjectName } from './types.ts';

/**
 * Puts single objects of a cluster into a store; those that are not there are left out. Returns which may not be read, in a
 * few words. Rejects as `request` does.
 */
export async function readAlso(
  names: readonly ObjectName[],
  { connection, store, signal }: { connection: Connection; store: WritableStore; signal: AbortSignal },
): Promise<readonly string[]> {
  const problems = await Promise.all(
    names.map(async ({ kind, namespace, name }) => {
      const path = `${resourcePath(kind, namespace)}/${encodeURIComponent(name)}`;
      try {
        const object = await connection.request({ method: 'GET', path, signal });
        if (object) store.put(kind, object);
      } catch (error) {
        if (!(error instanceof ApiError)) throw error;
        if (error.status.code === 403) return [`no ${kind} ${namespace}/${name}: it may not be read`];
        if (error.status.code !== 404) throw error;
      }
      return [];
    }),
  );
  return problems.flat();
}

/** The same of manifests. */
export function findAlso(names: readonly ObjectName[], objects: readonly ManifestObject[], store: WritableStore): void {
  for (const { kind, namespace, name } of names) {
    const found = objects.find(
      (object) => object.kind === kind && nameOf(object.value) === name && namespaceOf(object.value) === namespace,
    );
    if (found) store.put(kind, found.value);
  }
}
