/** Reads complete lists of resources page by page, and reads snapshots of several kinds. */
import { setImmediate } from 'node:timers/promises';
import { defined } from '../kube/defined.ts';
import type { Kind, Kinds } from '../kube/kinds.ts';
import { LIMITS } from '../kube/limits.ts';
import { metadataProblem } from '../kube/names.ts';
import { resourceName, resourcePath, RESOURCES, typeMeta } from '../kube/resources.ts';
import { ApiError } from '../kube/status.ts';
import { isObject, type JsonObject, objectMember } from '../kube/types.ts';
import { UserError } from '../kube/user-error.ts';
import { countExceeded } from '../telemetry/limits.ts';
import type { Connection } from './connection.ts';
import { TooLargeError } from './json.ts';
import { createParser, type Parser } from './parser.ts';
import { isLimited, WITH_OWNERSHIP } from './projection.ts';
import { createStore, type WritableStore } from './store.ts';

/** Accepted content types for metadata-only lists and watch events. */
export const METADATA_ONLY = {
  list: metadataOnly('PartialObjectMetadataList'),
  watch: metadataOnly('PartialObjectMetadata'),
} as const;

function metadataOnly(kind: string): string {
  return `application/json;as=${kind};g=meta.k8s.io;v=v1,application/json`;
}

interface PagesRequest {
  /** Path of the resource, for example `/api/v1/pods`. */
  readonly path: string;
  readonly query?: Readonly<Record<string, string>>;
  readonly accept?: string | undefined;
  readonly signal?: AbortSignal | undefined;
  readonly pageSize?: number | undefined;
  /** Multiplier for the time limit of each page. */
  readonly timeoutFactor?: number;
  /** Kind of the objects, of which only the stored part is returned. If absent, the objects are complete. */
  readonly kind?: Kind | undefined;
  readonly parser?: Parser;
}

/** Parser that runs in the main thread, because commands need no worker. */
const MAIN_THREAD = createParser();

export const PAGE_SIZE = 500;
/**
 * Number of restarts after which the whole list is requested in a single response, because the resource changes faster
 * than its pages can be read.
 */
const MAX_RESTARTS = 3;

/**
 * Lists a resource page by page. Resolves to the resource version of the list. `begin` returns a consumer for the
 * objects. The function yields to other work between calls of the consumer. `begin` is called again if the list must
 * restart because the continue token has expired. Rejects with the errors of `Connection.request`.
 */
export async function readPages(
  connection: Pick<Connection, 'read'>,
  { pageSize = PAGE_SIZE, ...request }: PagesRequest,
  begin: () => (items: readonly JsonObject[]) => void,
): Promise<string> {
  for (let restarts = 0; ; restarts++) {
    const limit = restarts < MAX_RESTARTS ? pageSize : 0;
    try {
      return await readOnce(connection, { ...request, pageSize: limit }, begin());
    } catch (error) {
      const isExpired = error instanceof ApiError && error.status.code === 410 && limit > 0;
      if (!isExpired) throw error;
    }
  }
}

async function readOnce(
  connection: Pick<Connection, 'read'>,
  { pageSize = 0, ...request }: PagesRequest,
  take: (items: readonly JsonObject[]) => void,
): Promise<string> {
  const readPage = createPageReader(connection, request, pageSize);
  let token: string | undefined;
  for (let pages = 1; ; pages++) {
    const { metadata, parts } = await readPage(token);
    const { resourceVersion, continue: next } = metadata;
    if (parts === undefined || typeof resourceVersion !== 'string' || resourceVersion === '') {
      throw new UserError(`the response to ${request.path} is not a list: is it a Kubernetes API server?`);
    }
    for (const [index, part] of parts.entries()) {
      if (index > 0) await setImmediate();
      take(part());
    }
    if (typeof next !== 'string' || next === '') return resourceVersion;
    if (next === token) throw endless(request.path, 'a continue token repeats');
    if (pages === LIMITS.listPages) {
      countExceeded('listPages');
      throw endless(request.path, `it has more than ${LIMITS.listPages} pages`);
    }
    token = next;
  }
}

function endless(path: string, reason: string): UserError {
  return new UserError(`listing ${path} does not terminate: ${reason}`);
}

/**
 * Creates the function that reads the page at a continue token. A page that exceeds its limit in bytes is requested
 * again with fewer objects. If a single object exceeds the limit, only its metadata is requested.
 */
function createPageReader(
  connection: Pick<Connection, 'read'>,
  { path, query = {}, accept, signal, timeoutFactor = 1, kind, parser = MAIN_THREAD }: PagesRequest,
  pageSize: number,
) {
  let limit = pageSize;
  const read = async (token: string | undefined, accepted: string | undefined) => {
    const request = {
      method: 'GET',
      path,
      query: {
        ...(limit === 0 ? {} : { limit: String(limit) }),
        ...defined({ continue: token }),
        ...query,
      },
      ...defined({ accept: accepted }),
      ...(signal ? { signal } : {}),
      timeoutFactor,
    } as const;
    const maxBytes = limit > 1 ? LIMITS.pageBytes : LIMITS.responseBytes;
    const { bytes, release } = await connection.read(request, (body) => parser.collect(body, maxBytes));
    const { length } = bytes;
    try {
      const isTooLarge = accepted !== accept;
      const { head, parts } = await parser.parse(bytes, { form: 'list', kind, isTooLarge });
      // Aims at half of the limit, because the next objects may be larger.
      limit &&= Math.max(1, Math.min(pageSize, Math.floor((limit * LIMITS.pageBytes) / (2 * length))));
      return { metadata: objectMember(head, 'metadata'), parts };
    } catch (error) {
      if (error instanceof SyntaxError) return { metadata: {}, parts: undefined };
      throw error;
    } finally {
      release();
    }
  };
  return async (token: string | undefined) => {
    let accepted = accept;
    for (;;) {
      try {
        return await read(token, accepted);
      } catch (error) {
        const isLast = limit === 0 || (limit === 1 && (kind === undefined || !isLimited(kind) || accepted !== accept));
        if (!(error instanceof TooLargeError) || isLast) throw error;
        if (limit === 1) accepted = METADATA_ONLY.list;
        limit = Math.ceil(limit / 4);
      }
    }
  };
}

interface ListRequest {
  readonly kind: Kind;
  /** Restricts namespaced kinds to this namespace, and Namespaces to the one with this name. */
  readonly namespace?: string | undefined;
  readonly labelSelector?: string | undefined;
  /** If true, lists only the metadata. */
  readonly isMetadataOnly?: boolean | undefined;
  readonly signal?: AbortSignal | undefined;
  readonly pageSize?: number | undefined;
  /** Called with the number of objects on each page. */
  readonly onPage?: ((count: number) => void) | undefined;
}

/**
 * Lists all objects of a kind in a scope. Rejects with the errors of `Connection.request`, and with a UserError if
 * metadata fields have the wrong type.
 */
export async function listAll(
  connection: Connection,
  { kind, namespace, labelSelector, isMetadataOnly = false, signal, pageSize, onPage }: ListRequest,
): Promise<readonly Kinds[Kind][]> {
  const type = typeMeta(kind);
  const query = {
    ...(kind === 'Namespace' && namespace !== undefined ? { fieldSelector: `metadata.name=${namespace}` } : {}),
    ...defined({ labelSelector }),
  };
  const accept = isMetadataOnly ? METADATA_ONLY.list : undefined;
  let objects: Kinds[Kind][] = [];
  await readPages(connection, { path: resourcePath(kind, namespace), query, accept, signal, pageSize }, () => {
    objects = [];
    return (items) => {
      for (const item of items) objects.push(withoutManagedFields(kind, { ...item, ...type }));
      onPage?.(items.length);
    };
  });
  return objects;
}

function withoutManagedFields(kind: Kind, object: JsonObject): Kinds[Kind] {
  const metadata = object['metadata'] ?? {};
  const problem = isObject(metadata) ? metadataProblem(metadata)?.message : 'metadata must be an object';
  if (problem !== undefined) throw new UserError(`invalid object in the list of ${resourceName(kind)}: ${problem}`);
  if (WITH_OWNERSHIP.has(kind) || !isObject(metadata) || metadata['managedFields'] == null) return object;
  const rest = Object.entries(metadata).filter(([key]) => key !== 'managedFields');
  return { ...object, metadata: Object.fromEntries(rest) };
}

interface SnapshotOptions extends Pick<ListRequest, 'namespace' | 'pageSize'> {
  readonly signal?: AbortSignal;
  /** Called with the number of objects read so far. */
  readonly onProgress?: (count: number) => void;
}

interface Snapshot {
  readonly store: WritableStore;
  /** Kinds that the cluster does not serve. */
  readonly unserved: readonly Kind[];
}

/**
 * Reads all objects of the given kinds into a store once.
 * @throws {UserError} if the server cannot be reached, or if a list is denied or fails
 */
export async function readCluster(
  connection: Connection,
  kinds: readonly Kind[],
  { signal, onProgress, ...options }: SnapshotOptions,
): Promise<Snapshot> {
  let count = 0;
  const onPage = (more: number): void => onProgress?.((count += more));
  const failed = new AbortController();
  const abort = signal ? AbortSignal.any([signal, failed.signal]) : failed.signal;
  const results = await Promise.all(
    kinds.map((kind) =>
      listAll(connection, { ...options, kind, signal: abort, onPage }).then(
        (objects) => ({ kind, objects }),
        (error: unknown) => listFailure(kind, error, connection.server),
      ),
    ),
  ).catch((error: unknown) => {
    failed.abort();
    throw error;
  });
  const denials = results.flatMap((result) => ('denial' in result ? [result] : []));
  // Reports all kinds in one message, so the administrator can grant all permissions at once.
  if (denials.length > 0) {
    const names = denials.map(({ kind }) => resourceName(kind)).join(', ');
    throw new UserError(`this requires the "list" verb on ${names}: ${denials[0]?.denial ?? ''}`);
  }
  if (kinds.some(isBuiltIn) && results.every((result) => 'unserved' in result)) {
    const names = kinds.map(resourceName).join(', ');
    throw new UserError(`${connection.server} does not serve ${names}: is it a Kubernetes API server?`);
  }
  const store = createStore();
  for (const result of results) {
    if ('objects' in result) for (const object of result.objects) store.put(result.kind, object);
  }
  store.markSynced();
  return { store, unserved: results.flatMap((result) => ('unserved' in result ? [result.kind] : [])) };
}

/** True for a kind that every Kubernetes API server serves. All other kinds require a CRD. */
function isBuiltIn(kind: Kind): boolean {
  const { group } = RESOURCES[kind];
  return !group.includes('.') || group.endsWith('.k8s.io');
}

type ListFailure = { readonly kind: Kind; readonly denial: string } | { readonly kind: Kind; readonly unserved: true };

/** Classifies a list error. Throws if the whole snapshot must fail. */
function listFailure(kind: Kind, error: unknown, server: string): ListFailure {
  if (!(error instanceof ApiError)) throw error;
  const { code, message } = error.status;
  if (code === 401) throw new UserError(`You must be logged in to the server (${message})`, { cause: error });
  if (code === 403) return { kind, denial: message };
  // A 404 for the core group is an error, because every cluster serves this group.
  if (code === 404 && RESOURCES[kind].group !== '') return { kind, unserved: true };
  throw new UserError(`cannot list ${resourceName(kind)} at ${server}: ${message}`, { cause: error });
}
