import type { AccessAttributes } from '../../cluster/cluster.ts';
import type { Store } from '../../cluster/store.ts';
import type { ManifestObject } from '../../config/manifests.ts';
import type { Kind, UserInfo } from '../../kube/types.ts';

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

/** An object by its name. */
export interface ObjectName {
  readonly kind: Kind;
  readonly namespace: string;
  readonly name: string;
}

export interface InventoryNeeds {
  /** What to read from a cluster; of manifests everything is read. */
  readonly kinds: readonly Kind[];
  /** Read only this namespace of a cluster, and what lies in none. */
  readonly only?: string | undefined;
  /** Namespaces that manifests which lack them are assumed to have, besides those that objects are in. */
  readonly namespaces?: readonly string[];
  /** Absent: namespaces that lack ranges of ids in manifests get those that would be allotted to them. */
  readonly ranges?: 'leave';
  /** Objects to read beside, of kinds of which not all are wanted; what they are may depend on the others. */
  also?(store: Store): readonly ObjectName[];
  /** What SCCs need and a cluster does not have: absent, it stays as it is; manifests never hold everything. */
  readonly gaps?: 'fill';
}
