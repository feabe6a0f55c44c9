import type { JsonPatchOp } from '../kube/json-patch.ts';
import type { Kind, Kinds } from '../kube/kinds.ts';
import type { AccessReviewStatus, JsonObject, KubeObject, UserInfo } from '../kube/types.ts';
import type { Action } from '../policy/rbac/index.ts';
import type { Store } from './store.ts';

export interface WriteOptions {
  /** Field manager for the written fields. */
  readonly fieldManager: string;
}

export interface ApplyOptions extends WriteOptions {
  /** True to take over fields from other managers instead of failing with a conflict. */
  readonly force?: boolean;
}

/** An event for an object, as shown by `kubectl describe`. */
export interface ClusterEvent {
  readonly regarding: KubeObject;
  readonly type: 'Normal' | 'Warning';
  /** Reason in CamelCase. */
  readonly reason: string;
  readonly action: string;
  readonly note: string;
  readonly reportingController: string;
}

/**
 * A cluster, which consists of a store for reads and an API for writes. A write rejects with an ApiError if the API
 * server returns an error (404 missing, 409 exists or changed, 422 invalid). When a write resolves, the store already
 * contains its result.
 */
export interface Cluster {
  readonly store: Store;
  /** Returns false while the cluster does not serve the kind. Its CRD may be installed later. */
  serves(kind: Kind): boolean;
  /** Reads the object from the API server. */
  get<K extends Kind>(kind: K, name: string, namespace?: string, signal?: AbortSignal): Promise<Kinds[K]>;
  create<K extends Kind>(kind: K, object: Kinds[K], options: WriteOptions): Promise<Kinds[K]>;
  /** Replaces the object. Rejects with 409 if `metadata.resourceVersion` is set but is not the current version. */
  update<K extends Kind>(kind: K, object: Kinds[K], options: WriteOptions): Promise<Kinds[K]>;
  /** Patches an object. A list of operations is sent as a JSON patch, and an object as a JSON merge patch. */
  patch<K extends Kind>(
    kind: K,
    key: { readonly name: string; readonly namespace?: string },
    patch: readonly JsonPatchOp[] | JsonObject,
    options: WriteOptions,
  ): Promise<Kinds[K]>;
  /** Applies an object server-side. The object must contain only the fields that the field manager owns. */
  apply<K extends Kind>(kind: K, object: Kinds[K], options: ApplyOptions): Promise<Kinds[K]>;
  /** Applies the status server-side, so several managers can each own a condition. */
  applyStatus<K extends Kind>(kind: K, object: Kinds[K], options: ApplyOptions): Promise<Kinds[K]>;
  remove(kind: Kind, name: string, namespace?: string): Promise<void>;
  recordEvent(event: ClusterEvent): Promise<void>;
  /**
   * Creates a SubjectAccessReview for a user, through any API server of the cluster or at the address of a specific API
   * server, such as `10.0.0.1:6443`.
   */
  reviewAccess(user: UserInfo, action: Action, address?: string): Promise<AccessReviewStatus>;
}
