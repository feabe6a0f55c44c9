import { readManifests } from '../../config/manifests.ts';
import { UserError } from '../../config/user-error.ts';
import type { EmbeddedCluster } from '../../dev-cluster/cluster.ts';
import type { ApiObject } from '../../dev-cluster/types.ts';
import { ApiError } from '../../kube/status.ts';
import { draft, type JsonObject } from '../../kube/types.ts';

/** Kinds that others need, in the order in which they are needed; all other kinds come after them. */
const FIRST = [
  'CustomResourceDefinition',
  'Namespace',
  'PriorityClass',
  'RuntimeClass',
  'ServiceAccount',
  'Secret',
  'ConfigMap',
  'ClusterRole',
  'Role',
  'ClusterRoleBinding',
  'RoleBinding',
];

/** What is to be created, and where it comes from. */
export interface SeedObject {
  readonly value: JsonObject;
  readonly place: string;
}

const FIELD_MANAGER = 'portcullis-seed';

/**
 * Reads the manifests of a folder or file, in the order in which they have to be created.
 * Rejects with a UserError that names file and line of what cannot be read.
 */
export async function readSeed(path: string): Promise<readonly SeedObject[]> {
  const { objects, errors } = await readManifests([path], { stdin: nothing() });
  if (errors.length > 0) {
    throw new UserError(
      errors.map(({ file, line, column, message }) => `${file}:${line}:${column}: ${message}`).join('\n'),
    );
  }
  const rank = ({ value }: SeedObject): number => {
    const index = FIRST.indexOf((value as ApiObject).kind ?? '');
    return index < 0 ? FIRST.length : index;
  };
  const seed = objects.map(({ value, document, line }) => ({ value, place: `${document.file}:${line}` }));
  return seed.toSorted((a, b) => rank(a) - rank(b));
}

/**
 * Creates objects one after another, each when what follows from the one before is done (a namespace's service account).
 * Rejects with a UserError that names the place of what the cluster refuses.
 */
export async function createAll(cluster: EmbeddedCluster, objects: readonly SeedObject[]): Promise<void> {
  for (const { value, place } of objects) {
    const object = draft(value) as ApiObject;
    const { apiVersion = '', kind = '' } = object;
    const resource = cluster.registry.list().find((info) => info.kind === kind && groupVersion(info) === apiVersion);
    if (!resource) throw new UserError(`${place}: the embedded cluster does not serve ${kind} of ${apiVersion}`);
    if (resource.namespaced) object.metadata = { namespace: 'default', ...object.metadata };
    try {
      await cluster.writer.create(resource, object, { fieldManager: FIELD_MANAGER });
      await cluster.idle();
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      throw new UserError(`${place}: ${error.message}`, { cause: error });
    }
  }
}

function groupVersion({ group, version }: { readonly group: string; readonly version: string }): string {
  return group === '' ? version : `${group}/${version}`;
}

async function* nothing(): AsyncGenerator<string> {}
