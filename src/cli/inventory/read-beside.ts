import { findAnyCluster } from '../../cluster/cluster-source.ts';
import type { ManifestObject } from '../../config/manifests.ts';
import { UserError } from '../../config/files.ts';
import { RESOURCES } from '../../kube/resources.ts';
import type { Kind } from '../../kube/types.ts';
import { REVIEW_KINDS } from '../../policy/scc/review.ts';
import type { Io } from '../command.ts';
import { namespaceOf } from '../report/identity.ts';
import { readFromCluster } from './from-cluster.ts';
import { checkSource, inventoryOf } from './from-manifests.ts';
import type { InventoryValues } from './options.ts';
import { readObjects } from './read-objects.ts';
import type { Inventory, InventoryNeeds } from './types.ts';

/** The objects that a command is asked about, and what surrounds them. */
export interface Surrounded {
  readonly objects: readonly ManifestObject[];
  readonly inventory: Inventory;
}

/**
 * Reads the manifests that a command is asked about, and beside them other manifests or a cluster. Where there is neither,
 * they are all that there is; where no paths are named, it is the other manifests that are asked about.
 * Rejects with a UserError for what cannot be read.
 */
export async function readBeside(
  paths: readonly string[],
  values: InventoryValues,
  { io, needs }: { readonly io: Io; readonly needs: InventoryNeeds },
): Promise<Surrounded> {
  checkSource(values);
  const { kubeconfig, context, filename } = values;
  const subjects = paths.length === 0 ? filename : paths;
  if (subjects.length === 0) throw new UserError('no manifests: name their paths');
  if (subjects !== filename && [paths, filename].every((some) => some.includes('-'))) {
    throw new UserError('the standard input can be read only once: leave out one of - and --filename=-');
  }
  const objects = await readObjects(subjects, io);
  if (filename.length === 0 && (await findAnyCluster({ kubeconfig, context, env: io.env })) !== undefined) {
    const [only, ...others] = namespacesOf(objects, values.namespace);
    const scope = others.length === 0 ? { only } : {};
    return { objects, inventory: await readFromCluster(values, io, { ...needs, ...scope }) };
  }
  const surroundings = subjects === filename || filename.length === 0 ? [] : await readObjects(filename, io);
  const namespaces = namespacesOf(objects, values.namespace ?? 'default').filter((name) => name !== undefined);
  return { objects, inventory: inventoryOf([...surroundings, ...objects], values.namespace, { ...needs, namespaces }) };
}

/** The namespaces in which objects are; `undefined` among them stands for one that only the cluster knows. */
function namespacesOf(
  objects: readonly ManifestObject[],
  fallback: string | undefined,
): readonly (string | undefined)[] {
  return [...new Set(objects.filter(isNamespaced).map(({ value }) => namespaceOf(value) ?? fallback))];
}

/** Of other kinds nothing is asked. */
function isNamespaced({ kind }: ManifestObject): boolean {
  if (Object.hasOwn(RESOURCES, kind)) return RESOURCES[kind as Kind].scope === 'Namespaced';
  return REVIEW_KINDS.some((one) => one === kind);
}
