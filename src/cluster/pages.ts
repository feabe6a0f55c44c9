import { UserError } from '../config/user-error.ts';
import { ApiError } from '../kube/status.ts';
import { isObject, type JsonObject } from '../kube/types.ts';
import type { Connection } from './connect.ts';

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
