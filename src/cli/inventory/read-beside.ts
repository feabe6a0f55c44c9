import { findAnyCluster } from '../../cluster/live/find-cluster.ts';
import type { ManifestObject } from '../../config/manifests.ts';
import { RESOURCES } from '../../kube/resources.ts';
import type { Kind } from '../../kube/types.ts';
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
 * they are all that there is.
 * Rejects with a UserError for what cannot be read.
 */
export async function readBeside(
  paths: readonly string[],
  values: InventoryValues,
  { io, needs }: { readonly io: Io; readonly needs: InventoryNeeds },
): Promise<Surrounded> {
  checkSource(values);
  const objects = await readObjects(paths, io);
  const { kubeconfig, context, filename } = values;
  if (filename.length === 0 && (await findAnyCluster({ kubeconfig, context, env: io.env })) !== undefined) {
    const only = onlyNamespaceOf(objects, values.namespace);
    return { objects, inventory: await readFromCluster(values, io, { ...needs, only }) };
  }
  const others = filename.length === 0 ? [] : await readObjects(filename, io);
  return { objects, inventory: inventoryOf([...others, ...objects], values.namespace, needs) };
}

/** The namespace in which all objects are; `undefined` if there are several, or if only the cluster knows. */
function onlyNamespaceOf(objects: readonly ManifestObject[], fallback: string | undefined): string | undefined {
  const names = new Set(objects.filter(isNamespaced).map(({ value }) => namespaceOf(value) ?? fallback));
  return names.size === 1 ? [...names][0] : undefined;
}

function isNamespaced({ kind }: ManifestObject): boolean {
  return !Object.hasOwn(RESOURCES, kind) || RESOURCES[kind as Kind].scope === 'Namespaced';
}
