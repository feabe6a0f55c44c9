import { apiVersionOf } from '../kube/resources.ts';
import { isObject, type JsonObject, type Kind, type Kinds, type KubeObject } from '../kube/types.ts';
import type { ApplyOptions, Cluster, WriteOptions } from './port.ts';
import type { ApiRequest, Connection } from './connect.ts';
import type { Feed } from './feed.ts';
import { pathOf } from './list.ts';

export type Writes = Pick<
  Cluster,
  'get' | 'create' | 'update' | 'updateStatus' | 'patch' | 'apply' | 'applyStatus' | 'remove'
>;

const JSON_PATCH = 'application/json-patch+json';
/** JSON is YAML. */
const APPLY = 'application/apply-patch+yaml';

/** The writes of the port; what was written is given to the feed of its kind, if that is followed. */
export function createWrites(
  connection: Pick<Connection, 'request'>,
  feedOf: (kind: Kind) => Feed | undefined,
): Writes {
  const write = async <K extends Kind>(kind: K, options: WriteOptions, request: ApiRequest): Promise<Kinds[K]> => {
    const { fieldManager, onWarning } = options;
    const query = { ...request.query, fieldManager };
    if (options.dryRun === true) {
      return (await connection.request({ ...request, onWarning, query: { ...query, dryRun: 'All' } })) as Kinds[K];
    }
    const answer = await connection.request({ ...request, onWarning, query });
    feedOf(kind)?.wrote(answer);
    return answer as Kinds[K];
  };
  return {
    async get<K extends Kind>(kind: K, name: string, namespace?: string) {
      return (await connection.request({ method: 'GET', path: pathTo(kind, name, namespace) })) as Kinds[K];
    },
    create: (kind, object, options) =>
      write(kind, options, {
        method: 'POST',
        path: pathOf(kind, object.metadata?.namespace),
        body: typed(kind, object),
      }),
    update: (kind, object, options) =>
      write(kind, options, { method: 'PUT', path: pathOfObject(kind, object), body: typed(kind, object) }),
    updateStatus: (kind, object, options) =>
      write(kind, options, {
        method: 'PUT',
        path: `${pathOfObject(kind, object)}/status`,
        body: typed(kind, object),
      }),
    patch: (kind, { name, namespace }, ops, options) =>
      write(kind, options, {
        method: 'PATCH',
        path: pathTo(kind, name, namespace),
        contentType: JSON_PATCH,
        body: ops,
      }),
    apply: (kind, object, options) => write(kind, options, applied(kind, object, options)),
    applyStatus(kind, object, options) {
      const request = applied(kind, object, options);
      return write(kind, options, { ...request, path: `${request.path}/status` });
    },
    async remove(kind, name, namespace) {
      const answer = await connection.request({ method: 'DELETE', path: pathTo(kind, name, namespace) });
      const uid = uidIn(answer);
      if (isStillThere(kind, answer)) feedOf(kind)?.wrote(answer);
      else if (uid !== undefined) feedOf(kind)?.removed(uid, name, namespace);
    },
  };
}

function applied(kind: Kind, object: KubeObject, { force }: ApplyOptions): ApiRequest {
  return {
    method: 'PATCH',
    path: pathOfObject(kind, object),
    query: force === true ? { force: 'true' } : {},
    contentType: APPLY,
    body: typed(kind, object),
  };
}

function pathTo(kind: Kind, name: string, namespace: string | undefined): string {
  return `${pathOf(kind, namespace)}/${encodeURIComponent(name)}`;
}

function pathOfObject(kind: Kind, { metadata }: KubeObject): string {
  return pathTo(kind, metadata?.name ?? '', metadata?.namespace);
}

/** Objects in the store need not say what they are; bodies must. */
function typed(kind: Kind, object: KubeObject): KubeObject {
  return { apiVersion: apiVersionOf(kind), kind, ...object };
}

/** True if what was answered to a removal is an object that has yet to be let go. */
function isStillThere(kind: Kind, { kind: answered, metadata }: JsonObject): boolean {
  if (answered === 'Status' || !isObject(metadata) || metadata['deletionTimestamp'] == null) return false;
  const { finalizers, deletionGracePeriodSeconds: graceSeconds } = metadata;
  const isHeld = Array.isArray(finalizers) && finalizers.length > 0;
  return isHeld || kind === 'Namespace' || (typeof graceSeconds === 'number' && graceSeconds > 0);
}

/** Of the object that was removed: a Status tells it in its details. */
function uidIn({ kind, metadata, details }: JsonObject): unknown {
  const holder = kind === 'Status' ? details : metadata;
  return isObject(holder) ? holder['uid'] : undefined;
}
