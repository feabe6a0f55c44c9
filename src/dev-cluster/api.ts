import { requireAccess } from './access.ts';
import { connect } from './connect.ts';
import type { ApiRequest, ApiResult, Call, Core } from './core.ts';
import { create } from './create.ts';
import { methodNotAllowed, noSuchResource } from './errors.ts';
import { list } from './list.ts';
import { patch } from './patch.ts';
import { createBinding, createEviction } from './pod-actions.ts';
import { read } from './read.ts';
import { remove, removeCollection } from './remove.ts';
import { createReview, isReview } from './reviews.ts';
import { readScale, patchScale, updateScale } from './scale.ts';
import { subresourceOf } from './subresources.ts';
import { update } from './update.ts';
import { watch } from './watch.ts';

/** The Kubernetes API as a function of requests: authorization, admission, storage. It knows nothing of HTTP. */
export interface Api {
  /** Answers a request for a resource; rejects with an ApiError. `undefined`: no such API version is served. */
  handle(request: ApiRequest): Promise<ApiResult | undefined>;
}

type Handler = (core: Core, call: Call) => ApiResult | Promise<ApiResult>;

const HANDLERS: Readonly<Record<string, Handler>> = {
  get: read,
  list,
  watch,
  create,
  update,
  patch,
  delete: remove,
  deletecollection: removeCollection,
};

/** By subresource and verb; subresources without an entry are handled like the object itself. */
const SUBRESOURCE_HANDLERS: Readonly<Record<string, Readonly<Record<string, Handler>>>> = {
  scale: { get: readScale, update: updateScale, patch: patchScale },
  binding: { create: createBinding },
  eviction: { create: createEviction },
  exec: { get: connect, create: connect },
  attach: { get: connect, create: connect },
  portforward: { get: connect, create: connect },
  log: { get: connect },
};

/** Makes the API on top of storage, registry and admission. */
export function createApi(core: Core): Api {
  return {
    async handle(request) {
      authorize(core, request);
      const { group, version } = request;
      const served = core.registry.list().some((info) => info.group === group && info.version === version);
      if (!served) return undefined;
      const call = findResource(core, request);
      const handler = handlerOf(call);
      if (!handler) throw methodNotAllowed();
      return handler(core, call);
    },
  };
}

function authorize(core: Core, request: ApiRequest): void {
  const { verb, group: apiGroup, resource, subresource, namespace, name } = request;
  const action = { verb, apiGroup, resource, subresource, namespace, name };
  requireAccess(core.access, request.user, action);
}

/** Throws ApiError 404 for unknown resources, and for resources that do not lie where the URL says. */
function findResource(core: Core, request: ApiRequest): Call {
  const { group, version, resource, subresource, namespace, name, ...rest } = request;
  const info = core.registry.find(group, version, resource);
  if (!info) throw noSuchResource();
  const isNamespace = group === '' && resource === 'namespaces';
  const scope = isNamespace ? '' : namespace;
  // Those of a collection may have a name, too: that which their field selector gives.
  const collection = rest.verb === 'list' || rest.verb === 'watch';
  if (!info.namespaced && scope !== '') throw noSuchResource();
  if (info.namespaced && scope === '' && !collection) throw name === '' ? methodNotAllowed() : noSuchResource();
  const part = subresourceOf(info, subresource);
  if (subresource !== '' && !part) throw noSuchResource();
  return { ...rest, group, version, namespace, name, info, scope, subresource: part };
}

function handlerOf(call: Call): Handler | undefined {
  const { verb, info, subresource, name } = call;
  const handler = own(HANDLERS, verb);
  if (subresource) {
    if (name === '' || !subresource.verbs.includes(verb)) return undefined;
    const special = own(SUBRESOURCE_HANDLERS, subresource.name);
    return special ? own(special, verb) : handler;
  }
  if (!info.verbs.includes(verb)) return undefined;
  if (verb === 'create' && name !== '') return undefined;
  if ((verb === 'update' || verb === 'patch') && name === '') return undefined;
  return verb === 'create' && isReview(info) ? createReview : handler;
}

function own<T>(table: Readonly<Record<string, T>>, key: string): T | undefined {
  return Object.hasOwn(table, key) ? table[key] : undefined;
}
