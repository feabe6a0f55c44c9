import { UserError } from '../config/user-error.ts';
import { RESOURCES } from '../kube/resources.ts';
import { ApiError } from '../kube/status.ts';
import type { Kind } from '../kube/types.ts';
import { createStore, type WritableStore } from './store.ts';
import type { Connection } from './connect.ts';
import { listAll, type ListRequest } from './list.ts';

export interface ReadOptions extends Pick<ListRequest, 'namespace' | 'pageSize'> {
  readonly signal?: AbortSignal;
  /** Told how many objects have been read so far. */
  readonly onProgress?: (count: number) => void;
}

/** A cluster as it was when it was read. */
export interface Snapshot {
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
