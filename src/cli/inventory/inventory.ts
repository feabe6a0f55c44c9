/**
 * What commands read: all objects of a cluster, or those of manifests as if they were one. What is missing for a
 * decision is assumed, and said. The folder decides nothing and writes nothing into clusters.
 */
import type { Io } from '../command.ts';
import { readFromCluster } from './from-cluster.ts';
import { readFromManifests } from './from-manifests.ts';
import type { InventoryValues } from './options.ts';
import type { Inventory, InventoryNeeds } from './types.ts';

export type { Inventory, InventoryNeeds } from './types.ts';

/**
 * Reads manifests if there are any to read, else the cluster of the kubeconfig.
 * Rejects with a UserError that says what cannot be read and why.
 */
export async function readInventory(values: InventoryValues, io: Io, needs: InventoryNeeds): Promise<Inventory> {
  return values.filename.length > 0
    ? await readFromManifests(values, io, needs)
    : await readFromCluster(values, io, needs);
}
