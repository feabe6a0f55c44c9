import type { UserInfo } from '../kube/types.ts';
import type { Access } from '../views/access.ts';
import type { Admission } from './admission/index.ts';
import type { Attributes, RequestedChange, RequestContext } from './attributes.ts';
import type { ServedResource } from './resource-info.ts';
import type { Registry, Subresource } from './resources.ts';
import type { Storage } from './storage.ts';
import { getMetadata } from './types.ts';

/** The components that serve requests. */
export interface Core {
  readonly storage: Storage;
  readonly registry: Registry;
  readonly admission: Admission;
  readonly access: Access;
  clock(): Date;
}

/** A request for a resource, independent of HTTP. */
export interface ResourceRequest {
  /** The RBAC verb, such as `get`, `list`, `watch`, `create`, `update`, `patch` or `delete`. */
  readonly verb: string;
  readonly group: string;
  readonly version: string;
  readonly resource: string;
  readonly subresource: string;
  /**
   * Namespace of the request. Empty for all namespaces and for cluster-scoped objects. For requests for a Namespace,
   * the name of the Namespace.
   */
  readonly namespace: string;
  /** Name of the object. Empty for requests for a collection, unless a field selector requires a name. */
  readonly name: string;
  readonly query: URLSearchParams;
  readonly user: UserInfo;
  readonly userAgent: string;
  readonly contentType: string;
  readonly body: string;
  readonly context: RequestContext;
}

/** The part of a request that its method and path determine. */
export type ResourceTarget = Pick<
  ResourceRequest,
  'verb' | 'group' | 'version' | 'resource' | 'subresource' | 'namespace' | 'name'
>;

/** A request for a known resource. */
export interface Call extends Omit<ResourceRequest, 'resource' | 'subresource'> {
  readonly info: ServedResource;
  readonly subresource: Subresource | undefined;
  /** Namespace of the object. Empty for cluster-scoped objects, including Namespaces. */
  readonly scope: string;
}

export function createAttributes(call: Call, change: RequestedChange): Attributes {
  const name = call.name === '' ? (getMetadata(change.object).name ?? '') : call.name;
  const isNamespace = call.info.group === '' && call.info.resource === 'namespaces';
  return {
    ...change,
    resource: call.info,
    subresource: call.subresource?.name ?? '',
    name,
    namespace: isNamespace ? name : call.namespace,
    user: call.user,
  };
}
