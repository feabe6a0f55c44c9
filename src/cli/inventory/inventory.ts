import type { AccessAttributes } from '../../cluster/cluster.ts';
import { type Store, type WritableStore, createStore } from '../../cluster/store.ts';
import type { ManifestObject } from '../../config/manifests.ts';
import {
  type Kind,
  type UserInfo,
  type Namespace,
  isObject,
  type JsonObject,
  type ObjectMeta,
  draft,
  type Kinds,
  type KubeObject,
} from '../../kube/types.ts';
import { flag, list, objectName, option, text, type Values } from '../options.ts';
import { UserError } from '../../config/files.ts';
import { quote } from '../../kube/text.ts';
import { type Connection, connect } from '../../cluster/connection.ts';
import { readCluster } from '../../cluster/lists.ts';
import { ApiError } from '../../kube/status.ts';
import { nameOf, namespaceOf, failOn, readObjects } from './manifests.ts';
import { reviewAccess, reviewSelf } from '../../cluster/access.ts';
import { RESOURCES, getApiVersion, resourcePath } from '../../kube/resources.ts';
import { PROGRAM, type Io, VERSION } from '../command.ts';
import { createProgress } from '../output/print.ts';
import {
  assumeRanges,
  assumeStandardSccs,
  assumeClusterAdmin,
  assumeNamespaces,
  assumeServiceAccounts,
  hasStandardSccs,
} from './assumptions.ts';
import type { Path } from '../../config/yaml.ts';
import { metadataProblem } from '../../kube/names.ts';
import { completePod } from '../../kube/controller-pod.ts';
import { applyDefaults } from '../../kube/defaults.ts';
import { defaultScc } from '../../policy/scc/objects.ts';
import type { Remark } from '../output/findings.ts';
import { findCluster } from '../../cluster/cluster-source.ts';
import { REVIEW_KINDS } from '../../policy/scc/review.ts';

/** Everything that a decision may ask for. */
export interface Inventory {
  readonly store: Store;
  readonly source: 'manifests' | 'cluster';
  /** As they stand in the manifests; none of a cluster. */
  readonly objects: readonly ManifestObject[];
  /** What was not there, each in a few words without a full stop. */
  readonly assumptions: readonly string[];
  /** Where objects belong that name no namespace. */
  readonly namespace: string;
  /** Who reads the cluster; absent if the cluster does not say. */
  readonly user?: UserInfo;
  /** Asks the cluster whether a user may do something; absent for manifests. */
  readonly reviewAccess?: (user: UserInfo, attributes: AccessAttributes) => Promise<boolean>;
}

/** An object by its name. */
export interface ObjectName {
  readonly kind: Kind;
  readonly namespace: string;
  readonly name: string;
}

interface InventoryNeeds {
  /** What to read from a cluster; of manifests everything is read. */
  readonly kinds: readonly Kind[];
  /** Read only this namespace of a cluster, and what lies in none. */
  readonly only?: string | undefined;
  /** Namespaces that manifests which lack them are assumed to have, besides those that objects are in. */
  readonly namespaces?: readonly string[];
  /** Absent: namespaces that lack ranges of ids in manifests get those that would be allotted to them. */
  readonly ranges?: 'leave';
  /** Objects to read beside, of kinds of which not all are wanted; what they are may depend on the others. */
  also?(store: Store): readonly ObjectName[];
  /** What SCCs need and a cluster does not have: absent, it stays as it is; manifests never hold everything. */
  readonly gaps?: 'fill';
}

/** Where a command reads from: manifests, or a cluster. */
export const inventoryOptions = {
  filename: list('PATH', text, {
    short: 'f',
    help: 'Manifests to read instead of a cluster: files, folders, - for the standard input',
  }),
  kubeconfig: option('FILE', text, undefined, {
    help: 'Kubeconfig of the cluster to read; absent, $KUBECONFIG, ~/.kube/config, or the cluster around the process',
  }),
  context: option('NAME', text, undefined, { help: 'Context of the kubeconfig; absent, its current one' }),
};

/** Of which namespaces a command tells. */
export const selectionOptions = {
  namespace: option('NAME', objectName, undefined, {
    short: 'n',
    help: 'This namespace only; of manifests, also the namespace of objects that name none',
  }),
  'all-namespaces': flag({ short: 'A', help: 'All namespaces, which is the default' }),
};

/** The only namespace of which to tell; `undefined`: all. */
export function selectedNamespace({
  namespace,
  'all-namespaces': all,
}: Values<typeof selectionOptions>): string | undefined {
  return all ? undefined : namespace;
}

export type InventoryValues = Values<typeof inventoryOptions> & {
  /** The namespace of objects in manifests that name none; absent: `default`. */
  readonly namespace?: string | undefined;
};

/**
 * The namespace of that name.
 * @throws {UserError} if there is none
 */
export function findNamespace(store: Store, name: string): Namespace {
  const namespace = store.get('Namespace', name);
  if (!namespace) throw new UserError(`namespace ${quote(name)} not found`);
  return namespace;
}

/**
 * Puts single objects of a cluster into a store; those that are not there are left out. Returns which may not be read, in a
 * few words. Rejects as `request` does.
 */
async function readAlso(
  names: readonly ObjectName[],
  { connection, store, signal }: { connection: Connection; store: WritableStore; signal: AbortSignal },
): Promise<readonly string[]> {
  const problems = await Promise.all(
    names.map(async ({ kind, namespace, name }) => {
      const path = `${resourcePath(kind, namespace)}/${encodeURIComponent(name)}`;
      try {
        const object = await connection.request({ method: 'GET', path, signal });
        if (object) store.put(kind, object);
      } catch (error) {
        if (!(error instanceof ApiError)) throw error;
        if (error.status.code === 403) return [`no ${kind} ${namespace}/${name}: it may not be read`];
        if (error.status.code !== 404) throw error;
      }
      return [];
    }),
  );
  return problems.flat();
}

/** The same of manifests. */
function findAlso(names: readonly ObjectName[], objects: readonly ManifestObject[], store: WritableStore): void {
  for (const { kind, namespace, name } of names) {
    const found = objects.find(
      (object) => object.kind === kind && nameOf(object.value) === name && namespaceOf(object.value) === namespace,
    );
    if (found) store.put(kind, found.value);
  }
}

/**
 * Reads the cluster of the kubeconfig, once.
 * Rejects with a UserError if there is none, or if it cannot be reached or read.
 */
async function readFromCluster(
  { kubeconfig, context }: InventoryValues,
  { env, signal, stderr }: Io,
  { kinds, only, gaps, also }: InventoryNeeds,
): Promise<Inventory> {
  const connection = await connect({ kubeconfig, context, env, userAgent: `${PROGRAM}/${VERSION}` });
  const progress = createProgress(stderr);
  const onProgress = (count: number): void => progress.show(`Reading ${connection.server}: ${count} objects`);
  try {
    const [{ store, unserved }, user] = await Promise.all([
      readCluster(connection, kinds, { namespace: only, signal, onProgress }),
      reviewSelf(connection, signal),
    ]);
    const unread = await readAlso(also?.(store) ?? [], { connection, store, signal });
    const isWithoutSccs = store.list('SecurityContextConstraints').length === 0;
    const assumptions = [
      ...(gaps === 'fill' && isWithoutSccs ? assumeStandardSccs(store) : []),
      ...(gaps === 'fill' ? assumeRanges(store) : []),
      ...unread,
      ...unserved.filter((kind) => gaps !== 'fill' || kind !== 'SecurityContextConstraints').map(absent),
    ];
    return {
      store,
      source: 'cluster',
      objects: [],
      assumptions,
      namespace: connection.namespace,
      ...(user ? { user } : {}),
      reviewAccess: (subject, attributes) => reviewAccess(connection, subject, attributes, signal),
    };
  } finally {
    progress.clear();
  }
}

function absent(kind: Kind): string {
  const { group, resource } = RESOURCES[kind];
  return `no ${resource}.${group}: the cluster does not serve them`;
}

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
async function readFromManifests(values: InventoryValues, io: Io, needs: InventoryNeeds): Promise<Inventory> {
  checkSource(values);
  return inventoryOf(await readObjects(values.filename, io), values.namespace, needs);
}

/**
 * The objects as if they were all that there is in a cluster.
 * @throws {UserError} for what no API server would take
 */
function inventoryOf(
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
function checkSource({ filename, kubeconfig, context }: InventoryValues): void {
  if (filename.length === 0 || (kubeconfig === undefined && context === undefined)) return;
  throw new UserError('--filename reads manifests instead of a cluster: leave out --kubeconfig and --context');
}

// * What commands read: all objects of a cluster, or those of manifests as if they were one. What is missing for a
// decision is assumed, and said. The folder decides nothing and writes nothing into clusters.

/**
 * Reads manifests if there are any to read, else the cluster of the kubeconfig.
 * Rejects with a UserError that says what cannot be read and why.
 */
export async function readInventory(values: InventoryValues, io: Io, needs: InventoryNeeds): Promise<Inventory> {
  return values.filename.length > 0
    ? await readFromManifests(values, io, needs)
    : await readFromCluster(values, io, needs);
}

/** The objects that a command is asked about, and what surrounds them. */
interface Surrounded {
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
  if (filename.length === 0 && (await findCluster({ kubeconfig, context, env: io.env })) !== undefined) {
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
