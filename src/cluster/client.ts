/** Sends requests directly to a cluster, for commands that need no store. */
import { INSTALLATION } from '../api/names.ts';
import { defined } from '../kube/defined.ts';
import type { JsonPatchOp } from '../kube/json-patch.ts';
import { clusterScoped, objectPath, resourcePath } from '../kube/resources.ts';
import { ApiError } from '../kube/status.ts';
import {
  type GroupVersionResource,
  isObject,
  type JsonObject,
  type KubeObject,
  objectMember,
  type ObjectMeta,
} from '../kube/types.ts';
import type { Version } from '../policy/pss/index.ts';
import type { ApiRequest, Connection } from './connection.ts';
import { readPages } from './lists.ts';
import { parseServerVersion } from './server-version.ts';

export const DEFINITIONS = clusterScoped('apiextensions.k8s.io/v1', 'customresourcedefinitions');

export interface AnyObject extends KubeObject {
  readonly metadata: ObjectMeta & { readonly name: string };
}

interface Selection {
  /** Namespace of the objects. Defaults to all namespaces. */
  readonly namespace?: string | undefined;
  /** Selects only the object with this name. Unlike `get`, this requires permission to list objects. */
  readonly name?: string;
  /** Label selector. */
  readonly labels?: string;
}

/** Requests of a command to its cluster. They reject with the errors of `Connection.request`. */
export interface ClusterClient {
  readonly connection: Connection;
  /** Aborts all requests. */
  readonly signal: AbortSignal;
  send(request: ApiRequest): Promise<JsonObject>;
  /** Resolves to `undefined` if the object does not exist. */
  get(resource: GroupVersionResource, name: string, namespace?: string): Promise<AnyObject | undefined>;
  /** Lists objects. Resolves to an empty list if the cluster does not serve the resource. */
  list(resource: GroupVersionResource, selection?: Selection): Promise<readonly AnyObject[]>;
  /** Applies a JSON patch to a cluster-scoped object. */
  patch(resource: GroupVersionResource, name: string, patch: Patch): Promise<JsonObject>;
}

interface Patch {
  readonly operations: readonly JsonPatchOp[];
  /** If true, the server validates the patch but does not store the result. */
  readonly dryRun: boolean;
}

export function createClient(connection: Connection, signal: AbortSignal): ClusterClient {
  const send: ClusterClient['send'] = (request) => connection.request({ ...request, signal });
  return {
    connection,
    signal,
    send,
    async get(resource, name, namespace) {
      const path = objectPath(resource, name, namespace);
      return (await ignoreNotFound(send({ method: 'GET', path }))) as AnyObject | undefined;
    },
    async list(resource, { namespace, name, labels } = {}) {
      let objects: AnyObject[] = [];
      const query = {
        ...defined({ labelSelector: labels }),
        ...(name === undefined ? {} : { fieldSelector: `metadata.name=${name}` }),
      };
      const pages = readPages(connection, { path: resourcePath(resource, namespace), query, signal }, () => {
        objects = [];
        return (items) => objects.push(...items.filter(hasName));
      });
      await ignoreNotFound(pages);
      return objects;
    },
    patch: (resource, name, { operations, dryRun }) =>
      send({
        method: 'PATCH',
        path: objectPath(resource, name),
        query: { fieldManager: INSTALLATION.name, ...(dryRun ? { dryRun: 'All' } : {}) },
        contentType: 'application/json-patch+json',
        body: operations,
      }),
  };
}

function hasName(object: JsonObject): object is JsonObject & AnyObject {
  return typeof objectMember(object, 'metadata')['name'] === 'string';
}

export function isNotFound(error: unknown): error is ApiError {
  return error instanceof ApiError && error.status.code === 404;
}

/** Awaits a response. Resolves to `undefined` if the requested object does not exist. */
export async function ignoreNotFound<T>(response: Promise<T>): Promise<T | undefined> {
  try {
    return await response;
  } catch (error) {
    if (isNotFound(error)) return undefined;
    throw error;
  }
}

/** Version of the API server, such as `v1.36.3`, and its API groups. */
export interface Server {
  readonly version: string;
  /** The version in the form that Pod Security uses, or `undefined` if the API server reports none. */
  readonly minor?: Version | undefined;
  readonly groups: readonly string[];
}

export async function readServer({ send }: ClusterClient): Promise<Server> {
  const [version, apis] = await Promise.all([
    send({ method: 'GET', path: '/version' }),
    send({ method: 'GET', path: '/apis' }),
  ]);
  const groups: readonly unknown[] = Array.isArray(apis['groups']) ? apis['groups'] : [];
  return {
    version: String(version['gitVersion']),
    minor: parseServerVersion(version),
    groups: groups.flatMap((group) => (isObject(group) ? [String(group['name'])] : [])),
  };
}
