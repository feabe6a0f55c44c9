import type { UserInfo } from '../kube/types.ts';
import type { Api } from './api.ts';
import type { ApiRequest } from './core.ts';
import { noSuchResource } from './errors.ts';
import type { Registry } from './registry.ts';
import type { ApiObject, ResourceKey } from './types.ts';

/** As whom the cluster does its own work. */
const SELF: UserInfo = { username: 'system:apiserver', groups: ['system:masters', 'system:authenticated'] };

/** A request of the cluster to itself; what is left out is empty. */
export interface OwnRequest {
  readonly verb: string;
  readonly resource: ResourceKey;
  readonly subresource?: string;
  readonly namespace?: string;
  readonly name?: string;
  readonly query?: Readonly<Record<string, string>>;
  readonly contentType?: string;
  readonly body?: unknown;
  /** Hears each warning; absent: nobody is warned. */
  readonly onWarning?: ((text: string) => void) | undefined;
}

/** Sends a request through the API and returns the object of the answer; rejects with an ApiError. */
export type Send = (request: OwnRequest) => Promise<ApiObject>;

/** Makes the way by which the cluster sends requests to itself: nothing is aborted. */
export function createSend(api: Api, registry: Registry): Send {
  return async ({ resource, ...request }) => {
    const info = registry.preferred(resource);
    if (!info) throw noSuchResource();
    const result = await api.handle(complete({ ...request, group: info.group, version: info.version }, info.resource));
    if (result?.kind !== 'object') throw new TypeError(`${request.verb} ${info.resource} gives no object`);
    return result.object;
  };
}

function complete(
  request: Omit<OwnRequest, 'resource'> & { readonly group: string; readonly version: string },
  resource: string,
): ApiRequest {
  return {
    verb: request.verb,
    group: request.group,
    version: request.version,
    resource,
    subresource: request.subresource ?? '',
    namespace: request.namespace ?? '',
    name: request.name ?? '',
    query: new URLSearchParams(request.query),
    user: SELF,
    userAgent: '',
    contentType: request.contentType ?? 'application/json',
    body: request.body === undefined ? '' : JSON.stringify(request.body),
    context: {
      warn: request.onWarning ?? (() => undefined),
      audit: () => undefined,
      signal: new AbortController().signal,
    },
  };
}
