/** The inventory of a command: the objects of a cluster, or of manifests as if they were all objects of a cluster. */
import { reviewSelf } from '../../cluster/access.ts';
import { findCluster } from '../../cluster/cluster-source.ts';
import { connect, type Connection } from '../../cluster/connection.ts';
import { listAll, readCluster } from '../../cluster/lists.ts';
import type { Scope } from '../../cluster/live-cluster.ts';
import { readServerVersion } from '../../cluster/server-version.ts';
import { createStore, type Store, type WritableStore } from '../../cluster/store.ts';
import { UserError } from '../../config/files.ts';
import { apiGroup, manifestName, manifestNamespace, type ManifestObject } from '../../config/objects.ts';
import type { ManifestError, Path } from '../../config/yaml.ts';
import { completePod, type CustomPodSource } from '../../kube/controller-pod.ts';
import { applyDefaults } from '../../kube/defaults.ts';
import { matchesLabelSelector, parseLabelSelector } from '../../kube/label-selector.ts';
import { metadataProblem } from '../../kube/names.ts';
import { findKindsNamed, getApiVersion, objectName, objectPath, RESOURCES } from '../../kube/resources.ts';
import { ApiError } from '../../kube/status.ts';
import { CONFIGURATION_NAME, POLICY_SELECTOR } from '../../kube/well-known.ts';
import { compareBytes, quote } from '../../kube/text.ts';
import type { Kind, Kinds } from '../../kube/kinds.ts';
import {
  draft,
  isObject,
  type JsonObject,
  type KubeObject,
  type Namespace,
  type ObjectMeta,
  type UserInfo,
} from '../../kube/types.ts';
import { findPodTemplates, type WorkloadResource } from '../../policy/pod/templates.ts';
import { defaultScc } from '../../policy/scc/objects.ts';
import { REVIEW_KINDS } from '../../policy/scc/review.ts';
import { PROGRAM, VERSION, type Io } from '../command.ts';
import { flag, nonEmpty, option, text, type Values } from '../options.ts';
import { withProgress } from '../output/print.ts';

import {
  assumeClusterAdmin,
  assumeNamespaces,
  assumeRanges,
  assumeServiceAccounts,
  assumeStandardSccs,
} from './assumptions.ts';
import { findCustomSources, readCustomSources } from './custom-resources.ts';
import { failOnErrors, filenameOption, readObjects } from './manifests.ts';

/** The policies among the objects of a cluster. */
export const POLICY_SCOPE: Scope = { kind: 'ValidatingAdmissionPolicy', labelSelector: POLICY_SELECTOR };

/** The source of the objects: manifests or a cluster. */
export const inventoryOptions = {
  filename: filenameOption('Manifests to read instead of a cluster'),
  kubeconfig: option('FILE', text, undefined, {
    help: 'Kubeconfig of the cluster. Default: $KUBECONFIG, then ~/.kube/config, then the cluster of the pod',
  }),
  context: option('NAME', text, undefined, { help: 'Kubeconfig context. Default: the current context' }),
};

/** The options of commands that evaluate the pods of manifests with the objects of a cluster. */
export const subjectOptions = {
  ...inventoryOptions,
  filename: filenameOption('Manifests of the pods'),
  offline: flag({ help: 'Use only the manifests, and do not read a cluster' }),
};

/** The selection of namespaces. */
export const selectionOptions = {
  namespace: option('NAME', nonEmpty, undefined, {
    short: 'n',
    help: 'Only this namespace; for manifests, also the namespace of objects without one',
  }),
  'all-namespaces': flag({ short: 'A', help: 'All namespaces (the default)' }),
};

/** The option `-l`: returns whether labels match. */
export const selectorOption = {
  selector: option('SELECTOR', labelSelector, () => true, {
    short: 'l',
    help: 'Only objects with these labels: app=web,tier in (a, b),!old',
  }),
};

function labelSelector(text: string): (labels: ObjectMeta['labels']) => boolean {
  const selector = parseLabelSelector(text);
  if (selector === undefined) throw new UserError('must be a label selector such as app=web,tier!=cache');
  return (labels) => matchesLabelSelector(selector, labels);
}

/** Returns the only selected namespace; `undefined` for all. */
export function selectedNamespace(values: Values<typeof selectionOptions>): string | undefined {
  return values['all-namespaces'] ? undefined : values.namespace;
}

export type InventoryValues = Values<typeof inventoryOptions> & {
  /** The namespace of objects in manifests without one; `default` if absent. */
  readonly namespace?: string | undefined;
};

export interface Inventory {
  readonly store: Store;
  readonly source: 'manifests' | 'cluster';
  /** Pod templates of kinds that the store does not have. */
  readonly customSources: readonly CustomPodSource[];
  /** Descriptions of missing objects and of their substitutes, without a full stop. */
  readonly assumptions: readonly string[];
  /** The optional objects that the user may not read. */
  readonly unread: readonly Scope[];
  /** The namespace of objects without one: that of `--namespace`, otherwise that of the source. */
  readonly namespace: string;
  /** The user of the kubeconfig; absent for manifests, and if the cluster does not return it. */
  readonly user?: UserInfo;
  /** Absent for manifests. */
  readonly connection?: Connection;
}

export interface InventoryNeeds {
  /**
   * The kinds to read from a cluster. Manifests are read completely; missing objects are assumed if their kinds are among these, and with service accounts the UID ranges, because only pods that are created need them.
   */
  readonly kinds: readonly Kind[];
  /** The only namespace to read from a cluster, besides cluster-scoped objects. */
  readonly only?: string | undefined;
  /** Namespaces to assume for manifests, besides the namespaces of their objects. */
  readonly namespaces?: readonly string[];
  /** Optional objects, which are skipped if they do not exist or the user may not read them. */
  readonly optional?: readonly Scope[];
  /** Returns the custom resources whose pod templates to read from a cluster, by the objects read so far. */
  workloadResources?(store: Store): Promise<readonly WorkloadResource[]>;
  /** `fill`: a cluster without SCCs or UID ranges is completed by assumptions, as manifests always are. */
  readonly gaps?: 'fill';
}

/**
 * Reads manifests if `--filename` names any, and otherwise the cluster of the kubeconfig.
 * @throws {UserError} for a source that cannot be read
 */
export async function readInventory(values: InventoryValues, io: Io, needs: InventoryNeeds): Promise<Inventory> {
  if (values.filename.length === 0) return await readFromCluster(values, io, needs);
  checkSource(values);
  return createInventory(await readObjects(values.filename, io), values.namespace, needs);
}

/** @throws {UserError} if the options name both manifests and a cluster */
function checkSource({ filename, kubeconfig, context }: InventoryValues): void {
  if (filename.length === 0 || (kubeconfig === undefined && context === undefined)) return;
  throw new UserError('--filename reads manifests instead of a cluster: remove --kubeconfig and --context');
}

export type SubjectValues = Values<typeof subjectOptions> & Pick<InventoryValues, 'namespace'>;

/**
 * Reads the manifests that a command evaluates, and their inventory: the cluster, or the same manifests if there is no cluster.
 * @throws {UserError} for a source that cannot be read
 */
export async function readSubjects(
  values: SubjectValues,
  { io, needs }: { readonly io: Io; readonly needs: InventoryNeeds },
): Promise<{ readonly objects: readonly ManifestObject[]; readonly inventory: Inventory }> {
  const { kubeconfig, context, filename, namespace, offline } = values;
  if (offline && (kubeconfig !== undefined || context !== undefined)) {
    throw new UserError('--offline cannot be combined with --kubeconfig and --context');
  }
  const objects = await readObjects(filename, io);
  if (!offline && (await findCluster({ kubeconfig, context, env: io.env })) !== undefined) {
    const [only, ...others] = subjectNamespaces(objects, namespace);
    const scope = others.length === 0 ? { only } : {};
    return { objects, inventory: await readFromCluster(values, io, { ...needs, ...scope }) };
  }
  const namespaces = subjectNamespaces(objects, namespace ?? 'default').filter((name) => name !== undefined);
  return { objects, inventory: createInventory(objects, namespace, { ...needs, namespaces }) };
}

/** The namespaces of objects; `undefined` for the default namespace of the cluster. */
function subjectNamespaces(
  objects: readonly ManifestObject[],
  fallback: string | undefined,
): readonly (string | undefined)[] {
  const namespaced = objects.filter(({ kind, value }) =>
    Object.hasOwn(RESOURCES, kind)
      ? RESOURCES[kind as Kind].scope === 'Namespaced'
      : REVIEW_KINDS.some((one) => one === kind) || findPodTemplates(value).templates.length > 0,
  );
  return [...new Set(namespaced.map(({ value }) => manifestNamespace(value) ?? fallback))];
}

/**
 * Returns a namespace of the store.
 * @throws {UserError} if it does not exist
 */
export function findNamespace(store: Store, name: string): Namespace {
  const namespace = store.get('Namespace', name);
  if (!namespace) throw new UserError(`namespace ${quote(name)} not found`);
  return namespace;
}

/**
 * Returns all namespaces of the store, or only one, sorted by name.
 * @throws {UserError} if that does not exist
 */
export function listNamespaces(store: Store, only?: string): readonly Namespace[] {
  if (only !== undefined) return [findNamespace(store, only)];
  return store.list('Namespace').toSorted((a, b) => compareBytes(objectName(a), objectName(b)));
}

async function readFromCluster(
  { kubeconfig, context, namespace }: InventoryValues,
  { env, signal, stderr }: Io,
  { kinds, only, gaps, optional = [], workloadResources }: InventoryNeeds,
): Promise<Inventory> {
  const connection = await connect({ kubeconfig, context, env, userAgent: `${PROGRAM}/${VERSION}` });
  const [{ store, unserved }, user, version] = await withProgress(stderr, (show) => {
    const onProgress = (count: number): void => show(`Reading ${connection.server}: ${count} objects`);
    const objects = readCluster(connection, kinds, { namespace: only, signal, onProgress });
    return Promise.all([objects, reviewSelf(connection, signal), readServerVersion(connection, signal)]);
  });
  store.emulationVersion = version;
  const configuration: Scope = { kind: 'PortcullisConfiguration', name: CONFIGURATION_NAME };
  const unread = await readOptional([configuration, POLICY_SCOPE, ...optional], { connection, store, signal });
  const custom = await readCustomSources((await workloadResources?.(store)) ?? [], { connection, only, signal });
  const isWithoutSccs = store.list('SecurityContextConstraints').length === 0;
  const filled = gaps !== 'fill' ? [] : [...(isWithoutSccs ? assumeStandardSccs(store) : []), ...assumeRanges(store)];
  const absent = unserved
    .filter((kind) => gaps !== 'fill' || kind !== 'SecurityContextConstraints')
    .map((kind) => `no ${RESOURCES[kind].resource}.${RESOURCES[kind].group}: the cluster does not serve them`);
  // One note about unread settings is sufficient.
  const isNoted = unread.some(({ kind }) => kind === configuration.kind);
  const notes = unread.filter(({ kind }) => !(isNoted && kind === POLICY_SCOPE.kind)).map(describeUnread);
  return {
    store,
    source: 'cluster',
    customSources: custom.customSources,
    assumptions: [...filled, ...notes, ...absent, ...custom.assumptions],
    unread,
    namespace: namespace ?? connection.namespace,
    ...(user ? { user } : {}),
    connection,
  };
}

/** Reads objects into the store, skips missing ones, and returns those that the user may not read. */
async function readOptional(
  scopes: readonly Scope[],
  { connection, store, signal }: { connection: Connection; store: WritableStore; signal: AbortSignal },
): Promise<readonly Scope[]> {
  const unread = await Promise.all(
    scopes.map(async (scope) => {
      const { kind, name, namespace } = scope;
      try {
        const objects =
          name === undefined
            ? await listAll(connection, { ...scope, signal })
            : [await connection.request({ method: 'GET', path: objectPath(kind, name, namespace), signal })];
        for (const object of objects) store.put(kind, object);
      } catch (error) {
        if (!(error instanceof ApiError)) throw error;
        if (error.status.code === 403) return [scope];
        if (error.status.code !== 404) throw error;
      }
      return [];
    }),
  );
  return unread.flat();
}

function describeUnread({ kind, namespace, name }: Scope): string {
  const where = namespace === undefined ? '' : ` of namespace ${namespace}`;
  if (name === undefined) return `no ${`${kind}s`.replace(/ys$/, 'ies')}${where}: the user may not list them`;
  return `no ${kind} ${namespace === undefined ? name : `${namespace}/${name}`}: the user may not read it`;
}

/**
 * Returns an inventory of the objects alone, completed by assumptions.
 * @throws {UserError} for objects that no API server accepts
 */
export function createInventory(
  objects: readonly ManifestObject[],
  namespace = 'default',
  { kinds, namespaces, optional = [] }: InventoryNeeds,
): Inventory {
  const store = createStore();
  failOnErrors(fillStore(store, objects, namespace));
  const { customSources, assumptions: unknown } = findCustomSources(objects, namespace);
  const used = customSources.map(({ object }) => object.metadata?.namespace ?? namespace);
  const assumptions = [
    ...(kinds.includes('SecurityContextConstraints') ? assumeStandardSccs(store) : []),
    ...(kinds.includes('ClusterRole') ? assumeClusterAdmin(store) : []),
    ...(kinds.includes('Namespace') ? assumeNamespaces(store, [...used, ...(namespaces ?? [])]) : []),
    ...(kinds.includes('ServiceAccount')
      ? [...assumeServiceAccounts(store, customSources), ...assumeRanges(store)]
      : []),
    ...unknown,
  ];
  for (const { kind, value } of objects) {
    const isIn = (scope: Scope): boolean =>
      kind === scope.kind &&
      manifestNamespace(value) === scope.namespace &&
      (scope.name === undefined || manifestName(value) === scope.name);
    const scope = optional.find(isIn);
    if (scope) store.put(scope.kind, value);
  }
  store.markSynced();
  return { store, source: 'manifests', customSources, assumptions, unread: [], namespace };
}

/** Kinds that only the server reads, and no command. */
const SERVER_KINDS: ReadonlySet<Kind> = new Set([
  'ConfigMap',
  'Lease',
  'MutatingWebhookConfiguration',
  'Secret',
  'ValidatingWebhookConfiguration',
]);

/** API groups that have or had these kinds. Kinds of the same names in other groups are unrelated. */
const GROUPS: ReadonlySet<string> = new Set([...Object.values(RESOURCES).map(({ group }) => group), 'extensions']);

/**
 * Puts the objects of known kinds into the store as an API server would store them, and skips other kinds. Returns errors for
 * objects that no API server accepts.
 */
function fillStore(store: WritableStore, objects: readonly ManifestObject[], namespace: string): ManifestError[] {
  // The defaults of a pod depend on its service account.
  const ordered = objects.toSorted((a, b) => Number(a.kind === 'Pod') - Number(b.kind === 'Pod'));
  return ordered.flatMap((object) => {
    const { apiVersion, kind: name, value } = object;
    const kinds = findKindsNamed(name);
    const kind = kinds.find((one) => getApiVersion(one) === apiVersion) ?? kinds[0];
    if (kind === undefined || SERVER_KINDS.has(kind)) return [];
    if (apiVersion !== getApiVersion(kind)) {
      const message = `no kind ${quote(name)} is registered for version ${quote(apiVersion)}`;
      return GROUPS.has(apiGroup(apiVersion)) ? [errorAt(object, ['apiVersion'], message)] : [];
    }
    const result = readMetadata(value, RESOURCES[kind].scope === 'Cluster' ? undefined : namespace);
    if ('message' in result) return [errorAt(object, result.path, result.message)];
    store.put(kind, withDefaults(kind, { ...value, metadata: result.metadata }, store));
    return [];
  });
}

function errorAt(object: ManifestObject, path: Path, message: string): ManifestError {
  return { file: object.document.file, ...object.locate(path), message };
}

/**
 * Returns the metadata as an API server stores them: without nulls, and with the default namespace unless that is `undefined`.
 * An object with `generateName` alone gets the prefix as its name.
 */
function readMetadata(
  value: JsonObject,
  defaultNamespace: string | undefined,
): { readonly metadata: ObjectMeta } | { readonly path: Path; readonly message: string } {
  const given = value['metadata'] ?? {};
  if (!isObject(given)) return { path: ['metadata'], message: 'metadata must be an object' };
  const metadata: ObjectMeta = Object.fromEntries(Object.entries(given).filter(([, field]) => field !== null));
  const problem = metadataProblem(metadata);
  if (problem) return { path: ['metadata', problem.field], message: problem.message };
  const name = metadata.name || metadata.generateName;
  if (!name) return { path: ['metadata'], message: 'metadata.name: Required value: name or generateName is required' };
  const { namespace = '', ...others } = metadata;
  const scope = defaultNamespace === undefined ? {} : { namespace: namespace || defaultNamespace };
  return { metadata: { ...others, name, ...scope } };
}

/** Returns the object with the defaults of the API server. */
function withDefaults(kind: Kind, object: KubeObject, store: WritableStore): Kinds[Kind] {
  const { namespace } = object.metadata ?? {};
  if (kind === 'Pod') return completePod(object, (name) => store.get('ServiceAccount', name, namespace));
  const complete = draft(object) as Record<string, unknown>;
  applyDefaults(complete);
  return kind === 'SecurityContextConstraints' ? defaultScc(complete) : complete;
}
