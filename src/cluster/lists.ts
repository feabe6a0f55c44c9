import { UserError } from '../config/files.ts';
import { ApiError } from '../kube/status.ts';
import { isObject, type JsonObject, type Kind, type Kinds, type KubeObject } from '../kube/types.ts';
import type { Connection } from './connection.ts';
import { metadataProblem } from '../kube/names.ts';
import { getApiVersion, RESOURCES } from '../kube/resources.ts';
import { createStore, type WritableStore } from './store.ts';

/** Far more than any cluster can hold: 500 objects each. */
const MAX_PAGES = 10_000;

/**
 * Makes a function that is told where each page of a list goes on.
 * @throws {UserError} when the list has no end: a server gives every token once
 */
function createPageLimit(path: string): (token: string) => void {
  const seen = new Set<string>();
  return (token) => {
    const isRepeated = seen.has(token);
    seen.add(token);
    if (!isRepeated && seen.size < MAX_PAGES) return;
    const why = isRepeated ? 'it goes on where it has been before' : `there is more after ${MAX_PAGES} pages`;
    throw new UserError(`the server's list of ${path} does not end: ${why}`);
  };
}

interface PagesRequest {
  /** Of the resource, as `/api/v1/pods`. */
  readonly path: string;
  readonly query?: Readonly<Record<string, string>>;
  readonly accept?: string | undefined;
  readonly signal?: AbortSignal | undefined;
  /** How many objects to ask for at once. */
  readonly pageSize?: number | undefined;
}

const PAGE_SIZE = 500;
/** What changes faster than it can be read in pages is asked for as a whole. */
const MAX_RESTARTS = 3;

/**
 * Lists a resource page by page; returns the resource version of the list. `begin` makes the function that takes the
 * pages: anew whenever the list has to be started over. Rejects as `request` does.
 */
export async function readPages(
  connection: Pick<Connection, 'request'>,
  { pageSize = PAGE_SIZE, ...request }: PagesRequest,
  begin: () => (items: readonly JsonObject[]) => void,
): Promise<string> {
  for (let restarts = 0; ; restarts++) {
    const limit = restarts < MAX_RESTARTS ? pageSize : 0;
    try {
      return await readOnce(connection, { ...request, pageSize: limit }, begin());
    } catch (error) {
      // The rest of a list is kept for a few minutes only; what has been read of it is of no use without it.
      const isExpired = error instanceof ApiError && error.status.code === 410 && limit > 0;
      if (!isExpired) throw error;
    }
  }
}

async function readOnce(
  connection: Pick<Connection, 'request'>,
  { path, query = {}, accept, signal, pageSize = 0 }: PagesRequest,
  take: (items: readonly JsonObject[]) => void,
): Promise<string> {
  const goOn = createPageLimit(path);
  let rest: string | undefined;
  for (;;) {
    const list = await connection.request({
      method: 'GET',
      path,
      query: {
        ...(pageSize === 0 ? {} : { limit: String(pageSize) }),
        ...(rest === undefined ? {} : { continue: rest }),
        ...query,
      },
      ...(accept === undefined ? {} : { accept }),
      ...(signal ? { signal } : {}),
    });
    const { items, resourceVersion } = readList(list, path);
    take(items);
    rest = textIn(list, 'continue');
    if (rest === undefined) return resourceVersion;
    goOn(rest);
  }
}

interface Page {
  readonly items: readonly JsonObject[];
  readonly resourceVersion: string;
}

/**
 * An answer that is no list is not taken for an empty one: that would be the end of all that was known.
 * @throws {UserError} for what is none
 */
function readList(list: JsonObject, path: string): Page {
  const { kind, items } = list;
  const resourceVersion = textIn(list, 'resourceVersion');
  // What is empty may be left out.
  const found: unknown = items ?? (typeof kind === 'string' && kind.endsWith('List') ? [] : undefined);
  if (Array.isArray(found) && resourceVersion !== undefined) return { items: found.filter(isObject), resourceVersion };
  throw new UserError(`${path} was answered with something else than a list: is it a Kubernetes API server?`);
}

function textIn({ metadata }: JsonObject, key: string): string | undefined {
  const text = isObject(metadata) ? metadata[key] : undefined;
  return typeof text === 'string' && text !== '' ? text : undefined;
}

interface ListRequest {
  readonly kind: Kind;
  /** Of namespaced kinds only what lies there, and of namespaces only that one. */
  readonly namespace?: string | undefined;
  readonly signal?: AbortSignal | undefined;
  /** How many objects to ask for at once. */
  readonly pageSize?: number | undefined;
  /** Told of each page: how many objects it had. */
  readonly onPage?: ((count: number) => void) | undefined;
}

/** Lists all objects of a kind, page by page. Rejects as `request` does. */
export async function listAll(
  connection: Connection,
  { kind, namespace, signal, pageSize, onPage }: ListRequest,
): Promise<readonly Kinds[Kind][]> {
  const type = { apiVersion: getApiVersion(kind), kind };
  const query: Record<string, string> =
    kind === 'Namespace' && namespace !== undefined ? { fieldSelector: `metadata.name=${namespace}` } : {};
  let objects: Kinds[Kind][] = [];
  await readPages(connection, { path: resourcePath(kind, namespace), query, signal, pageSize }, () => {
    objects = [];
    return (items) => {
      for (const item of items) objects.push(kept(kind, { ...item, ...type }));
      onPage?.(items.length);
    };
  });
  return objects;
}

/** Where the API server serves the objects of a kind, all of them or those of one namespace. */
export function resourcePath(kind: Kind, namespace: string | undefined): string {
  const { group, version, resource, scope } = RESOURCES[kind];
  const root = group === '' ? `/api/${version}` : `/apis/${group}/${version}`;
  const isWhole = scope === 'Cluster' || namespace === undefined;
  return isWhole ? `${root}/${resource}` : `${root}/namespaces/${encodeURIComponent(namespace)}/${resource}`;
}

/** Of these it matters who owns which field. */
const OWNED: ReadonlySet<Kind> = new Set(['Namespace', 'PSAEnforcementConfig']);

/**
 * Who owns which field is most of an object, and decides of few kinds only.
 * @throws {UserError} for metadata of wrong types
 */
function kept(kind: Kind, object: JsonObject): Kinds[Kind] {
  const metadata = object['metadata'] ?? {};
  const wrong = isObject(metadata) ? metadataProblem(metadata)?.message : 'metadata must be an object';
  if (wrong !== undefined) {
    throw new UserError(`the server lists ${RESOURCES[kind].resource} as no API server would store them: ${wrong}`);
  }
  if (OWNED.has(kind) || !isObject(metadata) || metadata['managedFields'] == null) return object;
  return {
    ...object,
    metadata: Object.fromEntries(Object.entries(metadata).filter(([key]) => key !== 'managedFields')),
  };
}

interface ReadOptions extends Pick<ListRequest, 'namespace' | 'pageSize'> {
  readonly signal?: AbortSignal;
  /** Told how many objects have been read so far. */
  readonly onProgress?: (count: number) => void;
}

/** A cluster as it was when it was read. */
interface Snapshot {
  readonly store: WritableStore;
  /** Kinds that the cluster does not know. */
  readonly unserved: readonly Kind[];
}

/**
 * Reads all objects of some kinds, once; the store is complete when this resolves.
 * Rejects with a UserError that says what the server refuses, or why it cannot be reached.
 */
export async function readCluster(
  connection: Connection,
  kinds: readonly Kind[],
  { signal, onProgress, ...options }: ReadOptions,
): Promise<Snapshot> {
  let count = 0;
  const onPage = (more: number): void => onProgress?.((count += more));
  const failed = new AbortController();
  const abort = signal ? AbortSignal.any([signal, failed.signal]) : failed.signal;
  const outcomes = await Promise.all(
    kinds.map((kind) =>
      listAll(connection, { ...options, kind, signal: abort, onPage }).then(
        (objects) => ({ kind, objects }),
        (error: unknown) => refusalOf(kind, error, connection.server),
      ),
    ),
  ).catch((error: unknown) => {
    failed.abort();
    throw error;
  });

  const denials = outcomes.flatMap((outcome) => ('denial' in outcome ? [outcome] : []));
  if (denials.length > 0) throw denied(denials);
  if (kinds.length > 0 && outcomes.every((outcome) => 'unserved' in outcome)) {
    throw new UserError(`${connection.server} serves none of ${namesOf(kinds)}: is it a Kubernetes API server?`);
  }
  const store = createStore();
  for (const outcome of outcomes) {
    if ('objects' in outcome) for (const object of outcome.objects) store.put(outcome.kind, object);
  }
  store.markSynced();
  return { store, unserved: outcomes.flatMap((outcome) => ('unserved' in outcome ? [outcome.kind] : [])) };
}

interface Denial {
  readonly kind: Kind;
  readonly denial: string;
}

/** What a refusal to list a kind means; throws what ends the reading at once. */
function refusalOf(
  kind: Kind,
  error: unknown,
  server: string,
): Denial | { readonly kind: Kind; readonly unserved: true } {
  if (!(error instanceof ApiError)) throw error;
  const { code, message } = error.status;
  if (code === 401) throw new UserError(`You must be logged in to the server (${message})`, { cause: error });
  if (code === 403) return { kind, denial: message };
  // What every cluster has would be there if this were one.
  if (code === 404 && RESOURCES[kind].group !== '') return { kind, unserved: true };
  throw new UserError(`${server} does not list ${nameOf(kind)}: ${message}`, { cause: error });
}

/** All at once: whoever grants the rights wants to do so only once. */
function denied(denials: readonly Denial[]): UserError {
  const names = namesOf(denials.map(({ kind }) => kind));
  return new UserError(`this needs the verb "list" on ${names}: ${denials[0]?.denial ?? ''}`);
}

function namesOf(kinds: readonly Kind[]): string {
  return kinds.map(nameOf).join(', ');
}

/** `pods`, `roles.rbac.authorization.k8s.io` */
function nameOf(kind: Kind): string {
  const { group, resource } = RESOURCES[kind];
  return group === '' ? resource : `${resource}.${group}`;
}

/** What is followed of a kind: what lies in one namespace, or one object. The rights of a reader often end there. */
export interface Scope {
  readonly kind: Kind;
  readonly namespace?: string;
  readonly name?: string;
}

/** Where a scope is listed and watched. */
interface ScopedRequest {
  readonly path: string;
  readonly query: Readonly<Record<string, string>>;
}

/** The request for what lies in a scope; rights to the one object by its name are enough for one with a name. */
export function scopedRequest({ kind, namespace, name }: Scope): ScopedRequest {
  const query = name === undefined ? {} : { fieldSelector: `metadata.name=${name}` };
  return { path: resourcePath(kind, namespace), query };
}

/** True if the object, of the kind of the scope, lies in it. */
export function isInScope({ namespace, name }: Scope, { metadata }: KubeObject): boolean {
  return (
    (namespace === undefined || metadata?.namespace === namespace) && (name === undefined || metadata?.name === name)
  );
}
