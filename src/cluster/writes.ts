/** Writes objects to an API server. */
import type { Kind, Kinds } from '../kube/kinds.ts';
import { objectPath, resourcePath, typeMeta } from '../kube/resources.ts';
import { isObject, type JsonObject, type KubeObject, objectMember } from '../kube/types.ts';
import type { ApplyOptions, Cluster, WriteOptions } from './cluster.ts';
import type { ApiRequest, Connection } from './connection.ts';
import type { StoreWriter } from './store-writer.ts';

type Writes = Pick<Cluster, 'get' | 'create' | 'update' | 'patch' | 'apply' | 'applyStatus' | 'remove'>;

/**
 * Creates the write operations. If `writerFor` returns a writer for the kind, the result of a write is stored
 * immediately.
 */
export function createWrites(
  connection: Pick<Connection, 'request'>,
  writerFor: (kind: Kind) => StoreWriter | undefined = () => undefined,
): Writes {
  const write = async <K extends Kind>(kind: K, options: WriteOptions, request: ApiRequest): Promise<Kinds[K]> => {
    const query = { ...request.query, fieldManager: options.fieldManager };
    const result = await connection.request({ ...request, query });
    writerFor(kind)?.written(result);
    return result as Kinds[K];
  };
  const apply = (kind: Kind, object: KubeObject, { force }: ApplyOptions, subresource = ''): ApiRequest => ({
    method: 'PATCH',
    path: `${pathFor(kind, object)}${subresource}`,
    query: force === true ? { force: 'true' } : {},
    // The content type for server-side apply is YAML, of which JSON is a subset.
    contentType: 'application/apply-patch+yaml',
    body: withType(kind, object),
  });
  return {
    async get<K extends Kind>(kind: K, name: string, namespace?: string, signal?: AbortSignal) {
      const path = objectPath(kind, name, namespace);
      return (await connection.request({ method: 'GET', path, ...(signal ? { signal } : {}) })) as Kinds[K];
    },
    create(kind, object, options) {
      const path = resourcePath(kind, object.metadata?.namespace);
      return write(kind, options, { method: 'POST', path, body: withType(kind, object) });
    },
    update: (kind, object, options) =>
      write(kind, options, { method: 'PUT', path: pathFor(kind, object), body: withType(kind, object) }),
    patch: (kind, { name, namespace }, patch, options) =>
      write(kind, options, {
        method: 'PATCH',
        path: objectPath(kind, name, namespace),
        contentType: `application/${Array.isArray(patch) ? 'json-patch' : 'merge-patch'}+json`,
        body: patch,
      }),
    apply: (kind, object, options) => write(kind, options, apply(kind, object, options)),
    applyStatus: (kind, object, options) => write(kind, options, apply(kind, object, options, '/status')),
    async remove(kind, name, namespace) {
      // Sets the policy explicitly, because otherwise the finalizers of an earlier foreground deletion would keep the
      // object.
      const query = { propagationPolicy: 'Background' };
      const result = await connection.request({ method: 'DELETE', path: objectPath(kind, name, namespace), query });
      const uid = objectMember(result, result['kind'] === 'Status' ? 'details' : 'metadata')['uid'];
      if (isTerminating(kind, result)) writerFor(kind)?.written(result);
      else if (uid !== undefined) writerFor(kind)?.deleted(uid, name, namespace);
    },
  };
}

function pathFor(kind: Kind, { metadata }: KubeObject): string {
  return objectPath(kind, metadata?.name ?? '', metadata?.namespace);
}

/** Adds apiVersion and kind, which request bodies require but stored objects may lack. */
function withType(kind: Kind, object: KubeObject): KubeObject {
  return { ...typeMeta(kind), ...object };
}

/**
 * Returns true if a deletion returned an object, which remains until its finalizers are removed or its grace period
 * ends.
 */
function isTerminating(kind: Kind, { kind: resultKind, metadata }: JsonObject): boolean {
  if (resultKind === 'Status' || !isObject(metadata) || metadata['deletionTimestamp'] == null) return false;
  const { finalizers, deletionGracePeriodSeconds: graceSeconds } = metadata;
  const hasFinalizers = Array.isArray(finalizers) && finalizers.length > 0;
  return hasFinalizers || kind === 'Namespace' || (typeof graceSeconds === 'number' && graceSeconds > 0);
}
