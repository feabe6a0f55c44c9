/**
 * The development cluster: a Kubernetes API in memory, to try, test and demonstrate with. It stores objects, admits them
 * through real webhooks and serves them to kubectl; it runs nothing, schedules nothing and never talks to a real cluster.
 */
import type { FieldError } from '../kube/field-error.ts';
import type { Operation } from '../kube/admission.ts';
import type { ObjectMeta, UserInfo } from '../kube/types.ts';

/** An object while the development cluster works on it: JSON that may be changed. */
export interface ApiObject {
  apiVersion?: string;
  kind?: string;
  metadata?: Record<string, unknown>;
  [field: string]: unknown;
}

/** One column of `kubectl get`. */
export interface TableColumn {
  readonly name: string;
  readonly type: string;
  readonly format?: string;
  readonly description?: string;
  /** 0: always shown; above: with `-o wide` only. */
  readonly priority: number;
  cell(object: ApiObject, now: Date): unknown;
}

/** A resource that is served, built in or by a CustomResourceDefinition. */
export interface ResourceInfo {
  /** `''` for the core group. */
  readonly group: string;
  readonly version: string;
  readonly kind: string;
  readonly listKind: string;
  /** The lower-case plural, as in URLs. */
  readonly resource: string;
  readonly singular: string;
  readonly namespaced: boolean;
  readonly shortNames: readonly string[];
  readonly categories: readonly string[];
  readonly verbs: readonly string[];
  /** For example `status`, `scale`, `ephemeralcontainers`, `exec`. */
  readonly subresources: readonly string[];
  readonly columns: readonly TableColumn[];
  readonly strategy: Strategy;
  /** True for resources of CustomResourceDefinitions. */
  readonly custom: boolean;
}

/**
 * What the API does with objects of one kind besides storing them. Drafts are changed in place; nothing throws.
 * `defaults` runs after every decoding, also after each webhook's patch.
 */
export interface Strategy {
  defaults(object: ApiObject): void;
  /** Drops what a requester may not set (status, generation) and sets what the server sets. */
  prepareForCreate(object: ApiObject): void;
  /** Keeps what this request may not change, by subresource (`''`: the object itself); raises `generation`. */
  prepareForUpdate(object: ApiObject, old: ApiObject, subresource: string): void;
  validateCreate(object: ApiObject): readonly FieldError[];
  validateUpdate(object: ApiObject, old: ApiObject, subresource: string): readonly FieldError[];
  /** Texts for the requester about legal but useless content. */
  warnings(object: ApiObject): readonly string[];
}

/** What admission knows of a request that writes or connects. */
export interface Attributes {
  readonly operation: Operation;
  readonly resource: ResourceInfo;
  readonly subresource: string;
  /** `''` on a create with generateName until the name is made. */
  readonly name: string;
  readonly namespace: string;
  /** Absent on DELETE; on CONNECT the options object (`PodExecOptions`, …). */
  readonly object?: ApiObject;
  readonly oldObject?: ApiObject;
  /** `CreateOptions`, `UpdateOptions`, `PatchOptions`, `DeleteOptions`, as the webhook sees them. */
  readonly options: ApiObject;
  readonly dryRun: boolean;
  readonly user: UserInfo;
}

/** Where a request leaves its remarks while it runs. */
export interface RequestContext {
  /** Becomes a `Warning` header; equal ones are said once. */
  warn(text: string): void;
  /** An annotation of the audit event; kept for tests and the request log. */
  audit(key: string, value: string): void;
  readonly signal: AbortSignal;
}

/** The admission chain. Both reject with an `ApiError` to refuse. */
export interface Admission {
  /** Returns the object to go on with: plugins and mutating webhooks have changed it. */
  mutate(attributes: Attributes, context: RequestContext): Promise<ApiObject | undefined>;
  validate(attributes: Attributes, context: RequestContext): Promise<void>;
}

/** Reads of what is stored, past admission and authorization, for plugins and chores. Objects are not to be changed. */
export interface Reader {
  get(resource: ResourceKey, namespace: string, name: string): ApiObject | undefined;
  list(resource: ResourceKey, namespace?: string): readonly ApiObject[];
}

/**
 * Requests of the cluster to itself, for chores, seed and the port: as a user of `system:masters`, through the same
 * pipeline as any other request. Everything rejects with an `ApiError`.
 */
export interface Writer {
  create(resource: ResourceKey, object: ApiObject, options?: WriterOptions): Promise<ApiObject>;
  /** Replaces the object, or with a subresource (`status`, `finalize`, …) that part of it. */
  update(resource: ResourceKey, object: ApiObject, options?: WriterOptions): Promise<ApiObject>;
  remove(resource: ResourceKey, namespace: string, name: string): Promise<ApiObject>;
}

export interface WriterOptions {
  readonly subresource?: string;
  /** The name under which fields are owned; `kube-apiserver` unless said otherwise. */
  readonly fieldManager?: string;
}

/** Names a resource whatever its version. */
export interface ResourceKey {
  readonly group: string;
  readonly resource: string;
}

/** The typed view of the metadata of an object. */
export function metadataOf(object: ApiObject | undefined): ObjectMeta {
  return object?.metadata ?? {};
}
