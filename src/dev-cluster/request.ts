import { ApiError, badRequest, createStatus, notFound } from '../kube/status.ts';
import { isObject } from '../kube/types.ts';
import { formatTimestamp } from '../kube/units.ts';
import type { Action } from '../policy/rbac/index.ts';
import { requireAccess } from './access.ts';
import type { ApiResult, ObjectResult } from './attributes.ts';
import { readBoolean, readWriteOptions } from './body.ts';
import { type ResourceRequest, type Call, type Core, createAttributes, type ResourceTarget } from './call.ts';
import { listResource, selectedName, watchResource } from './read.ts';
import type { ServedResource } from './resource-info.ts';
import { findSubresource, storageKey, toServed } from './resources.ts';
import { type ApiObject, textAt, at, editMetadata, textsAt } from './types.ts';
import { create, patch, remove, update, decodeNew } from './write.ts';

/** Boolean options that all container connections support. */
const FLAGS: Readonly<Record<string, readonly string[]>> = {
  exec: ['stdin', 'stdout', 'stderr', 'tty'],
  attach: ['stdin', 'stdout', 'stderr', 'tty'],
};

/**
 * Authorizes and admits a connection to a container. Then rejects the connection as the API server does for an
 * unscheduled pod, because the development cluster runs no pods. Requests for logs return an empty log.
 */
async function connect(core: Core, call: Call): Promise<ApiResult> {
  const name = call.subresource?.name ?? '';
  if (name !== 'log') await admitConnection(core, call, name);
  const pod = getObject(core, call);
  const nodeName = textAt(pod, 'spec', 'nodeName');
  if (nodeName === '' && name === 'log') return { kind: 'empty' };
  if (nodeName === '') throw new ApiError(badRequest(`pod ${call.name} does not have a host assigned`));
  throw new ApiError(badRequest(`node ${nodeName} has no kubelet: this is a development cluster, which runs no pods`));
}

/** Authorizes and admits a connection. A GET request that is upgraded to a stream also requires the `create` verb. */
async function admitConnection(core: Core, call: Call, subresource: string): Promise<void> {
  const { info, namespace, name, context } = call;
  const action = { apiGroup: info.group, resource: info.resource, subresource, namespace, name };
  if (call.verb === 'get') requireAccess(core.access, call.user, { verb: 'create', ...action });
  const object = connectOptions(call, subresource);
  const attributes = createAttributes(call, { operation: 'CONNECT', object, options: {}, dryRun: false });
  const admitted = await core.admission.mutate(attributes, context);
  await core.admission.validate({ ...attributes, object: admitted ?? object }, context);
}

function connectOptions({ query, subresource }: Call, name: string): ApiObject {
  const flags = (FLAGS[name] ?? []).filter((flag) => ['true', '1'].includes(query.get(flag) ?? ''));
  const container = query.get('container') ?? '';
  const command = query.getAll('command');
  const ports = query.getAll('ports').flatMap((port) => port.split(',').map(Number));
  return {
    kind: subresource?.kind.kind ?? '',
    apiVersion: 'v1',
    ...Object.fromEntries(flags.map((flag) => [flag, true])),
    ...(container === '' ? {} : { container }),
    ...(command.length === 0 ? {} : { command }),
    ...(ports.length === 0 ? {} : { ports }),
  };
}

const VERBS: Readonly<Record<string, string>> = {
  POST: 'create',
  GET: 'get',
  PUT: 'update',
  PATCH: 'patch',
  DELETE: 'delete',
};

/**
 * Parses the URL of a resource request. Returns `undefined` for other paths.
 * @see https://github.com/kubernetes/apiserver/blob/v0.36.0/pkg/endpoints/request/requestinfo.go
 */
export function parseResourcePath(method: string, path: string, query: URLSearchParams): ResourceTarget | undefined {
  const [prefix, ...parts] = path
    .split('/')
    .filter((part) => part !== '')
    .map(decodeURIComponent);
  const group = prefix === 'apis' ? parts.shift() : '';
  const [version, ...rest] = parts;
  const isResource = (prefix === 'api' || prefix === 'apis') && rest.length > 0;
  if (!isResource || group === undefined || version === undefined) return undefined;
  const inNamespace = rest[0] === 'namespaces' && rest.length > 1;
  const namespace = inNamespace ? (rest[1] ?? '') : '';
  const isSubresource = rest[2] === 'status' || rest[2] === 'finalize';
  const [resource = '', name = '', subresource = ''] =
    inNamespace && rest.length > 2 && !isSubresource ? rest.slice(2) : rest;
  const target = { verb: VERBS[method] ?? '', group, version, resource, subresource, namespace, name };
  if (name !== '' || target.verb !== 'get') return target;
  const verb = readBoolean(query, 'watch') ? 'watch' : 'list';
  return { ...target, verb, name: selectedName(query.get('fieldSelector') ?? '') };
}

/** A function that authorizes, admits and executes a request. Rejects with an ApiError. */
export type HandleRequest = (request: ResourceRequest) => Promise<ApiResult>;

type Handler = (core: Core, call: Call) => ApiResult | Promise<ApiResult>;

const HANDLERS: Readonly<Record<string, Handler>> = {
  get: (core, call) => ({ kind: 'object', code: 200, object: getObject(core, call), info: call.info }),
  list: listResource,
  watch: watchResource,
  create,
  update,
  patch,
  delete: remove,
};

const CONNECT_SUBRESOURCES = ['exec', 'attach', 'portforward', 'log'];

/** Creates the Kubernetes API from storage, registry and admission. */
export function createRequestHandler(core: Core): HandleRequest {
  return async (request) => {
    const { verb, group: apiGroup, resource, subresource, namespace, name } = request;
    requireAccess(core.access, request.user, { verb, apiGroup, resource, subresource, namespace, name });
    const call = findResource(core, request);
    const handler = findHandler(call);
    if (!handler) throw methodNotAllowed();
    return handler(core, call);
  };
}

/**
 * Finds the resource of a request. Throws ApiError 404 for an unknown resource or a resource whose scope does not match
 * the URL, and 405 for a POST that lacks a namespace.
 */
function findResource(core: Core, request: ResourceRequest): Call {
  const { group, version, resource, subresource, namespace, name, ...rest } = request;
  const info = core.registry.find(group, version, resource);
  if (!info) throw noSuchResource();
  const scope = group === '' && resource === 'namespaces' ? '' : namespace;
  const isCollection = rest.verb === 'list' || rest.verb === 'watch';
  if (!info.namespaced && scope !== '') throw noSuchResource();
  if (info.namespaced && scope === '' && !isCollection) throw name === '' ? methodNotAllowed() : noSuchResource();
  const part = findSubresource(info, subresource);
  if (subresource !== '' && !part) throw noSuchResource();
  return { ...rest, group, version, namespace, name, info, scope, subresource: part };
}

function findHandler(call: Call): Handler | undefined {
  const { verb, info, subresource, name } = call;
  if (!(subresource?.verbs ?? info.verbs).includes(verb)) return undefined;
  if (subresource) {
    if (name === '') return undefined;
    return CONNECT_SUBRESOURCES.includes(subresource.name) ? connect : HANDLERS[verb];
  }
  const needsName = ['update', 'patch', 'delete'].includes(verb);
  if ((verb === 'create' && name !== '') || (needsName && name === '')) return undefined;
  return isReview(info) ? createReview : HANDLERS[verb];
}

/** Returns ApiError 404 for an unknown resource or subresource. */
export function noSuchResource(): ApiError {
  return new ApiError(createStatus(404, 'NotFound', 'the server could not find the requested resource', {}));
}

function methodNotAllowed(): ApiError {
  const message = 'the server does not allow this method on the requested resource';
  return new ApiError(createStatus(405, 'MethodNotAllowed', message, {}));
}

/** Returns the object to which a call refers. Throws ApiError 404 if it does not exist. */
function getObject(core: Core, { info, scope, name }: Call): ApiObject {
  const stored = core.storage.get(storageKey(info), scope, name);
  if (!stored) throw new ApiError(notFound(info, name));
  return toServed(info, stored);
}

type ReviewStatus = (core: Core, call: Call, review: ApiObject) => unknown;

/** Functions that compute the status of reviews, by kind. */
const REVIEWS: Readonly<Record<string, ReviewStatus>> = {
  SelfSubjectAccessReview: (core, call, review) => ({ allowed: core.access(call.user, reviewedAction(review)) }),
  SubjectAccessReview: (core, _call, review) => {
    const user = { username: textAt(review, 'spec', 'user'), groups: textsAt(review, 'spec', 'groups') };
    return { allowed: core.access(user, reviewedAction(review)) };
  },
  SelfSubjectReview: (_core, { user }) => ({ userInfo: user }),
};

function isReview({ group, kind }: ServedResource): boolean {
  return /^auth(entication|orization)\.k8s\.io$/.test(group) && Object.hasOwn(REVIEWS, kind);
}

/** Returns a review with its status, without storing it. */
async function createReview(core: Core, call: Call): Promise<ObjectResult> {
  const { info, context } = call;
  const options = readWriteOptions(call.query);
  const sent = decodeNew(core, call, options);
  const change = { operation: 'CREATE', options: options.toObject('CreateOptions'), dryRun: options.dryRun } as const;
  const attributes = createAttributes(call, { ...change, object: sent });
  const object = (await core.admission.mutate(attributes, context)) ?? sent;
  await core.admission.validate({ ...attributes, object }, context);
  editMetadata(object)['creationTimestamp'] =
    info.kind === 'SelfSubjectReview' ? formatTimestamp(core.clock().getTime()) : null;
  object['status'] = REVIEWS[info.kind]?.(core, call, object);
  return { kind: 'object', code: 201, object };
}

function reviewedAction(review: ApiObject): Action {
  const url = at(review, 'spec', 'nonResourceAttributes');
  if (isObject(url)) return { verb: textAt(url, 'verb'), nonResourceURL: textAt(url, 'path') };
  const text = (field: string): string => textAt(review, 'spec', 'resourceAttributes', field);
  return {
    verb: text('verb'),
    apiGroup: text('group'),
    resource: text('resource'),
    subresource: text('subresource'),
    name: text('name'),
    namespace: text('namespace'),
  };
}
