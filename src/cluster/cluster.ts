import type { JsonPatchOp } from '../kube/json-patch.ts';
import type { Kind, Kinds, KubeObject, UserInfo } from '../kube/types.ts';
import type { Store } from './store.ts';

/** Who writes; field ownership is kept under this name. */
export interface WriteOptions {
  readonly fieldManager: string;
  readonly dryRun?: boolean;
  /** Hears each warning that comes with the answer. */
  readonly onWarning?: (text: string) => void;
}

export interface ApplyOptions extends WriteOptions {
  /** Take fields over from other managers instead of failing with a conflict. */
  readonly force?: boolean;
}

/** Something worth telling about an object, as `kubectl describe` shows it. */
export interface ClusterEvent {
  readonly regarding: KubeObject;
  readonly type: 'Normal' | 'Warning';
  /** In CamelCase. */
  readonly reason: string;
  readonly action: string;
  readonly note: string;
  readonly reportingController: string;
}

/** What a user wants to do; `resource` is the plural, `apiGroup` `''` for the core group. */
export interface AccessAttributes {
  readonly verb: string;
  readonly apiGroup?: string;
  readonly resource?: string;
  readonly subresource?: string;
  readonly name?: string;
  readonly namespace?: string;
  readonly nonResourceURL?: string;
}

/**
 * A cluster, whichever: the same store to read, the same writes. Every write rejects with an `ApiError` when the API
 * server would refuse it (404 missing, 409 exists or changed, 422 invalid), and puts what it wrote into the store.
 */
export interface Cluster {
  readonly store: Store;
  /** Reads past the store. */
  get<K extends Kind>(kind: K, name: string, namespace?: string): Promise<Kinds[K]>;
  create<K extends Kind>(kind: K, object: Kinds[K], options: WriteOptions): Promise<Kinds[K]>;
  /** Replaces the object; 409 if `metadata.resourceVersion` is set and stale. */
  update<K extends Kind>(kind: K, object: Kinds[K], options: WriteOptions): Promise<Kinds[K]>;
  updateStatus<K extends Kind>(kind: K, object: Kinds[K], options: WriteOptions): Promise<Kinds[K]>;
  patch<K extends Kind>(
    kind: K,
    key: { readonly name: string; readonly namespace?: string },
    ops: readonly JsonPatchOp[],
    options: WriteOptions,
  ): Promise<Kinds[K]>;
  /** Server-side apply: the object holds just the fields that the manager wants to own. */
  apply<K extends Kind>(kind: K, object: Kinds[K], options: ApplyOptions): Promise<Kinds[K]>;
  /** The same for the status: several managers may each own their conditions. */
  applyStatus<K extends Kind>(kind: K, object: Kinds[K], options: ApplyOptions): Promise<Kinds[K]>;
  remove(kind: Kind, name: string, namespace?: string): Promise<void>;
  recordEvent(note: ClusterEvent): Promise<void>;
  reviewAccess(user: UserInfo, attributes: AccessAttributes): Promise<boolean>;
}
