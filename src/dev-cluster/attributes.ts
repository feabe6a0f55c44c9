/** Attributes of a request, as admission receives them. */
import type { Operation } from '../kube/admission.ts';
import type { UserInfo } from '../kube/types.ts';
import type { ServedResource } from './resource-info.ts';
import type { ApiObject } from './types.ts';

/** Context of a request, which collects its warnings. */
export interface RequestContext {
  /** Adds a `Warning` header to the response. */
  warn(text: string): void;
  /** Aborted when the client disconnects or the server stops. */
  readonly signal: AbortSignal;
}

/** The change that admission evaluates. */
export interface RequestedChange {
  readonly operation: Operation;
  /** The new object, or the connection options on CONNECT. Absent on DELETE. */
  readonly object?: ApiObject;
  readonly oldObject?: ApiObject;
  /** `CreateOptions`, `UpdateOptions` or `DeleteOptions`, as webhooks receive them. */
  readonly options: ApiObject;
  readonly dryRun: boolean;
}

/** A request as admission plugins and webhooks receive it. */
export interface Attributes extends RequestedChange {
  readonly resource: ServedResource;
  readonly subresource: string;
  /** Name of the object. Empty on a create with `generateName` until the name is generated. */
  readonly name: string;
  readonly namespace: string;
  readonly user: UserInfo;
}

export interface WatchEvent {
  readonly type: 'ADDED' | 'MODIFIED' | 'DELETED' | 'BOOKMARK' | 'ERROR';
  readonly object: ApiObject;
}

export interface ListResult {
  readonly kind: 'list';
  readonly info: ServedResource;
  readonly items: readonly ApiObject[];
  readonly metadata: {
    readonly resourceVersion: string;
    readonly continue?: string;
  };
}

export interface ObjectResult {
  readonly kind: 'object';
  readonly code: number;
  readonly object: ApiObject;
  /** Absent if the object, such as a Status, does not belong to the resource. */
  readonly info?: ServedResource;
}

export interface WatchResult {
  readonly kind: 'watch';
  readonly info: ServedResource;
  readonly events: AsyncIterable<WatchEvent>;
}

interface EmptyResult {
  readonly kind: 'empty';
}

export type ApiResult = ObjectResult | ListResult | WatchResult | EmptyResult;
