import type { UserInfo } from '../kube/types.ts';
import type { Access } from '../cluster/access.ts';
import type { Schemas } from './fields/index.ts';
import type { Registry } from './registry.ts';
import type { Storage } from './storage.ts';
import type { Subresource } from './subresources.ts';
import type { Admission, ApiObject, RequestContext, ResourceInfo } from './types.ts';

/** All that requests are served from. */
export interface Core {
  readonly storage: Storage;
  readonly registry: Registry;
  readonly schemas: Schemas;
  readonly admission: Admission;
  readonly access: Access;
  clock(): Date;
}

/** A request for a resource, whatever way it came. */
export interface ApiRequest {
  /** As RBAC calls it: `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`. */
  readonly verb: string;
  readonly group: string;
  readonly version: string;
  readonly resource: string;
  readonly subresource: string;
  /** `''` for requests of the whole cluster; of a Namespace its own name. */
  readonly namespace: string;
  /** `''` for requests of a collection. */
  readonly name: string;
  readonly query: URLSearchParams;
  readonly user: UserInfo;
  readonly userAgent: string;
  readonly contentType: string;
  readonly body: string;
  readonly context: RequestContext;
}

/** A request whose resource has been found. */
export interface Call extends Omit<ApiRequest, 'resource' | 'subresource'> {
  readonly info: ResourceInfo;
  readonly subresource: Subresource | undefined;
  /** Where the object lies: `''` for objects of the whole cluster, Namespaces included. */
  readonly scope: string;
}

/** Changes of a resource as they come, until the signal of the request is aborted. */
export type WatchEvent =
  | { readonly type: 'ADDED' | 'MODIFIED' | 'DELETED'; readonly object: ApiObject }
  | { readonly type: 'BOOKMARK' | 'ERROR'; readonly object: ApiObject };

export interface ListResult {
  readonly kind: 'list';
  readonly info: ResourceInfo;
  readonly items: readonly ApiObject[];
  readonly metadata: {
    readonly resourceVersion: string;
    readonly continue?: string;
    readonly remainingItemCount?: number;
  };
}

export interface ObjectResult {
  readonly kind: 'object';
  readonly code: number;
  readonly object: ApiObject;
  /** Absent where the object is not of the resource: a Status, a Scale. */
  readonly info?: ResourceInfo;
}

export interface WatchResult {
  readonly kind: 'watch';
  readonly info: ResourceInfo;
  readonly events: AsyncIterable<WatchEvent>;
}

/** There is nothing to answer with. */
export interface EmptyResult {
  readonly kind: 'nothing';
}

export type ApiResult = ObjectResult | ListResult | WatchResult | EmptyResult;
