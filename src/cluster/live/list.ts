import { ApiError } from '../../kube/status.ts';
import { UserError } from '../../config/user-error.ts';
import { metadataProblem } from '../../kube/metadata-problem.ts';
import { apiVersionOf, RESOURCES } from '../../kube/resources.ts';
import { isObject, type JsonObject, type Kind, type Kinds } from '../../kube/types.ts';
import type { Connection } from './connect.ts';
import { createPageLimit } from './page-limit.ts';

export interface ListRequest {
  readonly kind: Kind;
  /** Of namespaced kinds only what lies there, and of namespaces only that one. */
  readonly namespace?: string | undefined;
  readonly signal?: AbortSignal | undefined;
  /** How many objects to ask for at once. */
  readonly pageSize?: number | undefined;
  /** Told of each page: how many objects it had. */
  readonly onPage?: ((count: number) => void) | undefined;
}

const PAGE_SIZE = 500;
/** What changes faster than it can be read in pages is asked for as a whole. */
const MAX_RESTARTS = 3;

/** Lists all objects of a kind, page by page. Rejects as `request` does. */
export async function listAll(connection: Connection, request: ListRequest): Promise<readonly Kinds[Kind][]> {
  for (let restarts = 0; ; restarts++) {
    const pageSize = restarts < MAX_RESTARTS ? (request.pageSize ?? PAGE_SIZE) : 0;
    try {
      return await listPages(connection, { ...request, pageSize });
    } catch (error) {
      // The rest of a list is kept for a few minutes only; what has been read of it is of no use without it.
      const isExpired = error instanceof ApiError && error.status.code === 410 && pageSize > 0;
      if (!isExpired) throw error;
    }
  }
}

async function listPages(
  connection: Connection,
  { kind, namespace, signal, pageSize = 0, onPage }: ListRequest,
): Promise<readonly Kinds[Kind][]> {
  const type = { apiVersion: apiVersionOf(kind), kind };
  const objects: Kinds[Kind][] = [];
  const goOn = createPageLimit(pathOf(kind, namespace));
  let rest: string | undefined;
  do {
    const list = await connection.request({
      method: 'GET',
      path: pathOf(kind, namespace),
      query: {
        ...(pageSize === 0 ? {} : { limit: String(pageSize) }),
        ...(rest === undefined ? {} : { continue: rest }),
        ...(kind === 'Namespace' && namespace !== undefined ? { fieldSelector: `metadata.name=${namespace}` } : {}),
      },
      ...(signal ? { signal } : {}),
    });
    const items = Array.isArray(list['items']) ? list['items'].filter(isObject) : [];
    for (const item of items) objects.push(kept(kind, { ...item, ...type }));
    onPage?.(items.length);
    rest = continueOf(list);
    if (rest !== undefined) goOn(rest);
  } while (rest !== undefined);
  return objects;
}

/** Where the API server serves the objects of a kind, all of them or those of one namespace. */
export function pathOf(kind: Kind, namespace: string | undefined): string {
  const { group, version, resource, scope } = RESOURCES[kind];
  const root = group === '' ? `/api/${version}` : `/apis/${group}/${version}`;
  const isWhole = scope === 'Cluster' || namespace === undefined;
  return isWhole ? `${root}/${resource}` : `${root}/namespaces/${encodeURIComponent(namespace)}/${resource}`;
}

function continueOf({ metadata }: JsonObject): string | undefined {
  const token = isObject(metadata) ? metadata['continue'] : undefined;
  return typeof token === 'string' && token !== '' ? token : undefined;
}

/**
 * Who owns which field is most of an object, and decides of namespaces only.
 * @throws {UserError} for metadata of wrong types
 */
function kept(kind: Kind, object: JsonObject): Kinds[Kind] {
  const metadata = object['metadata'] ?? {};
  const wrong = isObject(metadata) ? metadataProblem(metadata)?.message : 'metadata must be an object';
  if (wrong !== undefined) {
    throw new UserError(`the server lists ${RESOURCES[kind].resource} as no API server would store them: ${wrong}`);
  }
  if (kind === 'Namespace' || !isObject(metadata) || metadata['managedFields'] == null) return object;
  return {
    ...object,
    metadata: Object.fromEntries(Object.entries(metadata).filter(([key]) => key !== 'managedFields')),
  };
}
