import { UserError } from '../config/user-error.ts';
import { metadataProblem } from '../kube/metadata-problem.ts';
import { apiVersionOf, RESOURCES } from '../kube/resources.ts';
import { isObject, type JsonObject, type Kind, type Kinds } from '../kube/types.ts';
import type { Connection } from './connect.ts';
import { readPages } from './pages.ts';

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

/** Lists all objects of a kind, page by page. Rejects as `request` does. */
export async function listAll(
  connection: Connection,
  { kind, namespace, signal, pageSize, onPage }: ListRequest,
): Promise<readonly Kinds[Kind][]> {
  const type = { apiVersion: apiVersionOf(kind), kind };
  const query: Record<string, string> =
    kind === 'Namespace' && namespace !== undefined ? { fieldSelector: `metadata.name=${namespace}` } : {};
  let objects: Kinds[Kind][] = [];
  await readPages(connection, { path: pathOf(kind, namespace), query, signal, pageSize }, () => {
    objects = [];
    return (items) => {
      for (const item of items) objects.push(kept(kind, { ...item, ...type }));
      onPage?.(items.length);
    };
  });
  return objects;
}

/** Where the API server serves the objects of a kind, all of them or those of one namespace. */
export function pathOf(kind: Kind, namespace: string | undefined): string {
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
