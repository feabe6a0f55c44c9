/**
 * What commands read: all objects of a cluster, or those of manifests as if they were one. What is missing for a
 * decision is assumed, and said. The folder decides nothing and writes nothing into clusters.
 */
import { createStore, type Store } from '../../cluster/store.ts';
import type { AccessAttributes } from '../../cluster/port.ts';
import type { ManifestObject } from '../../config/manifests.ts';
import { UserError } from '../../config/user-error.ts';
import type { Kind, UserInfo } from '../../kube/types.ts';
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

/** Everything that a decision may ask for. */
export interface Inventory {
  readonly store: Store;
  readonly source: 'manifests' | 'cluster';
  /** As they stand in the manifests; none of a cluster. */
  readonly objects: readonly ManifestObject[];
  /** What was not there, each in a few words without a full stop. */
  readonly assumptions: readonly string[];
  /** Where objects belong that name no namespace. */
  readonly namespace: string;
  /** Who reads the cluster; absent if the cluster does not say. */
  readonly user?: UserInfo;
  /** Asks the cluster whether a user may do something; absent for manifests. */
  readonly reviewAccess?: (user: UserInfo, attributes: AccessAttributes) => Promise<boolean>;
}

export interface InventoryNeeds {
  /** What to read from a cluster; of manifests everything is read. */
  readonly kinds: readonly Kind[];
}

/**
 * Reads manifests if there are any to read, else the cluster of the kubeconfig.
 * Rejects with a UserError that says what cannot be read and why.
 */
export async function readInventory(values: InventoryValues, io: Io, { kinds }: InventoryNeeds): Promise<Inventory> {
  if (values.filename.length > 0) return await readFromManifests(values, io);
  throw new UserError(`no manifests given; ${kinds.join(', ')} are needed`);
}

async function readFromManifests(values: InventoryValues, io: Io): Promise<Inventory> {
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
    ...assumeNamespaces(store),
    ...assumeServiceAccounts(store),
    ...assumeRanges(store),
  ];
  store.markSynced();
  return { store, source: 'manifests', objects, assumptions, namespace };
}
