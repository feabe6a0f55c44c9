import { createStore } from '../../cluster/store.ts';
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
import { failOn, readObjects } from './read-objects.ts';
import type { Inventory, InventoryNeeds } from './types.ts';

/** Reads manifests as if they were all that there is in a cluster. Rejects with a UserError for what cannot be read. */
export async function readFromManifests(
  values: InventoryValues,
  io: Io,
  { kinds, ranges }: InventoryNeeds,
): Promise<Inventory> {
  if (values.kubeconfig !== undefined || values.context !== undefined) {
    throw new UserError('--filename reads manifests instead of a cluster: leave out --kubeconfig and --context');
  }
  const namespace = values.namespace ?? 'default';
  const objects = await readObjects(values.filename, io);
  const store = createStore();
  failOn(fillStore(store, objects, namespace));
  const assumptions = [
    ...(hasStandardSccs(store) ? [] : assumeStandardSccs(store)),
    ...assumeClusterAdmin(store),
    ...(kinds.includes('Namespace') ? assumeNamespaces(store) : []),
    ...(kinds.includes('ServiceAccount') ? assumeServiceAccounts(store) : []),
    ...(kinds.includes('Namespace') && ranges !== 'leave' ? assumeRanges(store) : []),
  ];
  store.markSynced();
  return { store, source: 'manifests', objects, assumptions, namespace };
}
