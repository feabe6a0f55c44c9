import { createStore } from '../../cluster/store.ts';
import type { ManifestObject } from '../../config/manifests.ts';
import { UserError } from '../../config/user-error.ts';
import type { Io } from '../command.ts';
import {
  assumeClusterAdmin,
  assumeNamespaces,
  assumeRanges,
  assumeServiceAccounts,
  assumeStandardSccs,
  hasStandardSccs,
} from './assume.ts';
import { fillStore } from './fill-store.ts';
import type { InventoryValues } from './options.ts';
import { findAlso } from './read-also.ts';
import { failOn, readObjects } from './read-objects.ts';
import type { Inventory, InventoryNeeds } from './types.ts';

/** Reads manifests as if they were all that there is in a cluster. Rejects with a UserError for what cannot be read. */
export async function readFromManifests(values: InventoryValues, io: Io, needs: InventoryNeeds): Promise<Inventory> {
  checkSource(values);
  return inventoryOf(await readObjects(values.filename, io), values.namespace, needs);
}

/**
 * The objects as if they were all that there is in a cluster.
 * @throws {UserError} for what no API server would take
 */
export function inventoryOf(
  objects: readonly ManifestObject[],
  namespace = 'default',
  { kinds, namespaces, ranges, also }: InventoryNeeds,
): Inventory {
  const store = createStore();
  failOn(fillStore(store, objects, namespace));
  const assumptions = [
    ...(hasStandardSccs(store) ? [] : assumeStandardSccs(store)),
    ...assumeClusterAdmin(store),
    ...(kinds.includes('Namespace') ? assumeNamespaces(store, namespaces) : []),
    ...(kinds.includes('ServiceAccount') ? assumeServiceAccounts(store) : []),
    ...(kinds.includes('Namespace') && ranges !== 'leave' ? assumeRanges(store) : []),
  ];
  findAlso(also?.(store) ?? [], objects, store);
  store.markSynced();
  return { store, source: 'manifests', objects, assumptions, namespace };
}

/** @throws {UserError} if both manifests and a cluster are named */
export function checkSource({ filename, kubeconfig, context }: InventoryValues): void {
  if (filename.length === 0 || (kubeconfig === undefined && context === undefined)) return;
  throw new UserError('--filename reads manifests instead of a cluster: leave out --kubeconfig and --context');
}
