import { connect } from '../../cluster/connection.ts';
import { readCluster } from '../../cluster/lists.ts';
import { reviewAccess, reviewSelf } from '../../cluster/access.ts';
import { RESOURCES } from '../../kube/resources.ts';
import type { Kind } from '../../kube/types.ts';
import { PROGRAM, type Io } from '../command.ts';
import { createProgress } from '../progress.ts';
import { VERSION } from '../command.ts';
import { assumeRanges, assumeStandardSccs } from './assume.ts';
import type { InventoryValues } from './options.ts';
import { readAlso } from './read-also.ts';
import type { Inventory, InventoryNeeds } from './types.ts';

/**
 * Reads the cluster of the kubeconfig, once.
 * Rejects with a UserError if there is none, or if it cannot be reached or read.
 */
export async function readFromCluster(
  { kubeconfig, context }: InventoryValues,
  { env, signal, stderr }: Io,
  { kinds, only, gaps, also }: InventoryNeeds,
): Promise<Inventory> {
  const connection = await connect({ kubeconfig, context, env, userAgent: `${PROGRAM}/${VERSION}` });
  const progress = createProgress(stderr);
  const onProgress = (count: number): void => progress.show(`Reading ${connection.server}: ${count} objects`);
  try {
    const [{ store, unserved }, user] = await Promise.all([
      readCluster(connection, kinds, { namespace: only, signal, onProgress }),
      reviewSelf(connection, signal),
    ]);
    const unread = await readAlso(also?.(store) ?? [], { connection, store, signal });
    const isWithoutSccs = store.list('SecurityContextConstraints').length === 0;
    const assumptions = [
      ...(gaps === 'fill' && isWithoutSccs ? assumeStandardSccs(store) : []),
      ...(gaps === 'fill' ? assumeRanges(store) : []),
      ...unread,
      ...unserved.filter((kind) => gaps !== 'fill' || kind !== 'SecurityContextConstraints').map(absent),
    ];
    return {
      store,
      source: 'cluster',
      objects: [],
      assumptions,
      namespace: connection.namespace,
      ...(user ? { user } : {}),
      reviewAccess: (subject, attributes) => reviewAccess(connection, subject, attributes, signal),
    };
  } finally {
    progress.clear();
  }
}

function absent(kind: Kind): string {
  const { group, resource } = RESOURCES[kind];
  return `no ${resource}.${group}: the cluster does not serve them`;
}
