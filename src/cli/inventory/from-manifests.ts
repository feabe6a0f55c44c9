import type { ManifestObject } from '../../config/manifests.ts';
import type { Path } from '../../config/yaml.ts';
import { metadataProblem } from '../../kube/names.ts';
import {
  isObject,
  type JsonObject,
  type ObjectMeta,
  draft,
  type Kind,
  type Kinds,
  type KubeObject,
} from '../../kube/types.ts';
import { type WritableStore, createStore } from '../../cluster/store.ts';
import { completePod } from '../../kube/controller-pod.ts';
import { applyDefaults } from '../../kube/defaults.ts';
import { quote } from '../../kube/text.ts';
import { getApiVersion, RESOURCES } from '../../kube/resources.ts';
import { defaultScc } from '../../policy/scc/objects.ts';
import type { Remark } from '../report/types.ts';
import { UserError } from '../../config/files.ts';
import type { Io } from '../command.ts';
import {
  assumeClusterAdmin,
  assumeNamespaces,
  assumeRanges,
  assumeServiceAccounts,
  assumeStandardSccs,
  hasStandardSccs,
} from './assume.ts';
import type { InventoryValues } from './options.ts';
import { findAlso } from './read-also.ts';
import { failOn, readObjects } from './read-objects.ts';
import type { Inventory, InventoryNeeds } from './types.ts';

/** The metadata of an object, or what is wrong with them and where. */
type ReadMetadata = { readonly metadata: ObjectMeta } | { readonly path: Path; readonly message: string };

const NAMELESS = 'metadata.name: Required value: name or generateName is required';

/**
 * Reads the metadata as they are stored: without nulls, with a namespace or, where `defaultNamespace` is `undefined`,
 * without. What has no name yet goes by the beginning of it.
 */
function readMetadata(value: JsonObject, defaultNamespace: string | undefined): ReadMetadata {
  const given = value['metadata'] ?? {};
  if (!isObject(given)) return { path: ['metadata'], message: 'metadata must be an object' };
  const metadata = Object.fromEntries(Object.entries(given).filter(([, field]) => field !== null));
  const problem = metadataProblem(metadata);
  if (problem) return { path: ['metadata', problem.field], message: problem.message };
  const { namespace, ...others }: ObjectMeta = metadata;
  const name = others.name || others.generateName;
  if (!name) return { path: ['metadata'], message: NAMELESS };
  const place = defaultNamespace === undefined ? {} : { namespace: namespace || defaultNamespace };
  return { metadata: { ...others, name, ...place } };
}

/**
 * Puts the objects of known kinds into a store, as an API server would keep them; returns what no API server would
 * take. Other kinds are left out.
 */
function fillStore(store: WritableStore, objects: readonly ManifestObject[], namespace: string): Remark[] {
  // What a pod is completed with depends on its service account.
  const ordered = objects.toSorted((a, b) => Number(a.kind === 'Pod') - Number(b.kind === 'Pod'));
  return ordered.flatMap((object) => {
    const kind = Object.hasOwn(RESOURCES, object.kind) ? (object.kind as Kind) : undefined;
    if (kind === undefined || UNREAD.has(kind)) return [];
    if (object.apiVersion !== getApiVersion(kind)) return mistakenVersion(object);
    const read = readMetadata(object.value, RESOURCES[kind].scope === 'Cluster' ? undefined : namespace);
    if ('message' in read) return [remarkOn(object, read.path, read.message)];
    store.put(kind, completed(kind, { ...object.value, metadata: read.metadata }, store));
    return [];
  });
}

/** Of kinds that the server alone reads, and no command. */
const UNREAD: ReadonlySet<Kind> = new Set([
  'ConfigMap',
  'Lease',
  'MutatingWebhookConfiguration',
  'Secret',
  'ValidatingWebhookConfiguration',
]);

/** The groups that have, or had, these kinds. Other groups may have kinds of the same names. */
const GROUPS: ReadonlySet<string> = new Set([...Object.values(RESOURCES).map(({ group }) => group), 'extensions']);

function mistakenVersion(object: ManifestObject): Remark[] {
  const { apiVersion, kind } = object;
  const group = apiVersion.includes('/') ? apiVersion.slice(0, apiVersion.indexOf('/')) : '';
  const message = `no kind ${quote(kind)} is registered for version ${quote(apiVersion)}`;
  return GROUPS.has(group) ? [remarkOn(object, ['apiVersion'], message)] : [];
}

function remarkOn(object: ManifestObject, path: Path, message: string): Remark {
  return { file: object.document.file, ...object.positionOf(path), message };
}

/** The object as it is stored: with what is filled in on its way. */
function completed(kind: Kind, object: KubeObject, store: WritableStore): Kinds[Kind] {
  const { namespace } = object.metadata ?? {};
  if (kind === 'Pod') return completePod(object, (name) => store.get('ServiceAccount', name, namespace));
  const complete = draft(object) as Record<string, unknown>;
  applyDefaults(complete);
  return kind === 'SecurityContextConstraints' ? defaultScc(complete) : complete;
}

/** Reads manifests as if they were all that there is in a cluster. Rejects with a UserError for what cannot be read. */
export async function readFromManifests(values: InventoryValues, io: Io, needs: InventoryNeeds): Promise<Inventory> {
  checkSource(values);
  return inventoryOf(await readObjects(values.filename, io), values.namespace, needs);
}

/**
 * The objects as if they were all that there is in a cluster.
 * @throws {UserError} for what no API server would take
 */
export function inventoryOf(
  objects: readonly ManifestObject[],
  namespace = 'default',
  { kinds, namespaces, ranges, also }: InventoryNeeds,
): Inventory {
  const store = createStore();
  failOn(fillStore(store, objects, namespace));
  const assumptions = [
    ...(hasStandardSccs(store) ? [] : assumeStandardSccs(store)),
    ...assumeClusterAdmin(store),
    ...(kinds.includes('Namespace') ? assumeNamespaces(store, namespaces) : []),
    ...(kinds.includes('ServiceAccount') ? assumeServiceAccounts(store) : []),
    ...(kinds.includes('Namespace') && ranges !== 'leave' ? assumeRanges(store) : []),
  ];
  findAlso(also?.(store) ?? [], objects, store);
  store.markSynced();
  return { store, source: 'manifests', objects, assumptions, namespace };
}

/** @throws {UserError} if both manifests and a cluster are named */
export function checkSource({ filename, kubeconfig, context }: InventoryValues): void {
  if (filename.length === 0 || (kubeconfig === undefined && context === undefined)) return;
  throw new UserError('--filename reads manifests instead of a cluster: leave out --kubeconfig and --context');
}
