import type { JsonPatchOp } from '../kube/json-patch.ts';
import type { Kind, Kinds } from '../kube/kinds.ts';
import type { AccessReviewStatus, JsonObject, KubeObject, UserInfo } from '../kube/types.ts';
import type { Action } from '../policy/rbac/rules.ts';
import type { Store } from './store.ts';

export interface WriteOptions {
  /** Field manager under which the API server records field ownership. */
  readonly fieldManager: string;
  readonly dryRun?: boolean;
  /** Called for each warning in the response. */
  readonly onWarning?: (text: string) => void;
}

export interface ApplyOptions extends WriteOptions {
  /** Take over fields from other managers instead of failing with a conflict. */
  readonly force?: boolean;
}

/** An event for an object, as `kubectl describe` shows it. */
export interface ClusterEvent {
  readonly regarding: KubeObject;
  readonly type: 'Normal' | 'Warning';
  /** In CamelCase. */
  readonly reason: string;
  readonly action: string;
  readonly note: string;
  readonly reportingController: string;
}

/**
 * A cluster: a store to read and an API to write. A write rejects with an ApiError if the API server returns an error
 * (404 missing, 409 exists or changed, 422 invalid). When a write resolves, the store contains its result.
 */
export interface Cluster {
  readonly store: Store;
  /** Returns false while the cluster does not serve the kind. Its CRD may be installed later. */
  serves(kind: Kind): boolean;
  /** Reads the object from the API server. */
  get<K extends Kind>(kind: K, name: string, namespace?: string, signal?: AbortSignal): Promise<Kinds[K]>;
  create<K extends Kind>(kind: K, object: Kinds[K], options: WriteOptions): Promise<Kinds[K]>;
  /** Replaces the object. Rejects with 409 if `metadata.resourceVersion` is set and is not the current version. */
  update<K extends Kind>(kind: K, object: Kinds[K], options: WriteOptions): Promise<Kinds[K]>;
  /** Sends a list of operations as a JSON patch, and an object as a JSON merge patch. */
  patch<K extends Kind>(
    kind: K,
    key: { readonly name: string; readonly namespace?: string },
    patch: readonly JsonPatchOp[] | JsonObject,
    options: WriteOptions,
  ): Promise<Kinds[K]>;
  /** Server-side apply. The object contains only the fields that the field manager owns. */
  apply<K extends Kind>(kind: K, object: Kinds[K], options: ApplyOptions): Promise<Kinds[K]>;
  /** Server-side apply of the status, in which each of several managers may own a condition. */
  applyStatus<K extends Kind>(kind: K, object: Kinds[K], options: ApplyOptions): Promise<Kinds[K]>;
  remove(kind: Kind, name: string, namespace?: string): Promise<void>;
  recordEvent(event: ClusterEvent): Promise<void>;
  /**
   * Creates a SubjectAccessReview for a user.
   * @param address the address of one API server, such as `10.0.0.1:6443`; by default any API server of the cluster
   */
  reviewAccess(user: UserInfo, action: Action, address?: string): Promise<AccessReviewStatus>;
}
