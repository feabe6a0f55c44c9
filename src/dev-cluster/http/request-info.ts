import { ApiError, badRequest } from '../../kube/status.ts';
import { readBoolean } from '../options.ts';

/** What a URL and a method ask for. */
export type RequestInfo = ResourceRequest | PathRequest;

export interface ResourceRequest {
  readonly kind: 'resource';
  readonly verb: string;
  readonly group: string;
  readonly version: string;
  readonly resource: string;
  readonly subresource: string;
  readonly namespace: string;
  readonly name: string;
}

/** A path of the server itself: discovery, health, version, OpenAPI. */
export interface PathRequest {
  readonly kind: 'path';
  readonly verb: string;
  readonly path: string;
}

const VERBS: Readonly<Record<string, string>> = {
  POST: 'create',
  GET: 'get',
  HEAD: 'get',
  PUT: 'update',
  PATCH: 'patch',
  DELETE: 'delete',
};

const NAMESPACE_SUBRESOURCES = ['status', 'finalize'];

/**
 * Takes a request apart.
 * @see https://github.com/kubernetes/apiserver/blob/v0.36.0/pkg/endpoints/request/requestinfo.go
 */
export function requestInfoOf(method: string, path: string, query: URLSearchParams): RequestInfo {
  const [prefix, ...parts] = path
    .split('/')
    .filter((part) => part !== '')
    .map(decode);
  const group = prefix === 'apis' ? parts.shift() : '';
  const [version, ...rest] = parts;
  if ((prefix !== 'api' && prefix !== 'apis') || group === undefined || version === undefined || rest.length === 0) {
    return { kind: 'path', verb: method.toLowerCase(), path };
  }
  const inNamespace = rest[0] === 'namespaces' && rest.length > 1;
  const namespace = inNamespace ? (rest[1] ?? '') : '';
  const below =
    inNamespace && rest.length > 2 && !NAMESPACE_SUBRESOURCES.includes(rest[2] ?? '') ? rest.slice(2) : rest;
  const [resource = '', name = '', subresource = ''] = below;
  const verb = Object.hasOwn(VERBS, method) ? (VERBS[method] ?? '') : '';
  const found = { kind: 'resource', verb, group, version, resource, subresource, namespace, name } as const;
  return name === '' ? collection(found, query) : found;
}

/** Requests without a name are of a collection; one whose field selector gives the name is of that object, too. */
function collection(request: ResourceRequest, query: URLSearchParams): ResourceRequest {
  if (request.verb === 'delete') return { ...request, verb: 'deletecollection' };
  if (request.verb !== 'get') return request;
  return { ...request, verb: readBoolean(query, 'watch') ? 'watch' : 'list', name: selectedName(query) };
}

function selectedName(query: URLSearchParams): string {
  const found = /(?:^|,)metadata\.name==?([^,]*)(?:,|$)/.exec(query.get('fieldSelector') ?? '');
  return found?.[1] ?? '';
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch (error) {
    throw new ApiError(badRequest(`invalid URL escape in ${JSON.stringify(part)}`), { cause: error });
  }
}
