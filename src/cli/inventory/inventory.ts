/**
 * Builds the inventory of a command, which contains the objects in a cluster, or the objects in manifests that are
 * treated as a complete cluster.
 */
import { CONFIGURATION_NAME, POLICY_SELECTOR } from '../../api/names.ts';
import { reviewSelf } from '../../cluster/access-reviews.ts';
import { findCluster } from '../../cluster/cluster-source.ts';
import { connect, type Connection } from '../../cluster/connection.ts';
import { listAll, readCluster } from '../../cluster/lists.ts';
import type { Scope } from '../../cluster/live-cluster.ts';
import { readServerVersion } from '../../cluster/server-version.ts';
import { createStore, type Store, type WritableStore } from '../../cluster/store.ts';
import {
  apiGroup,
  errorAt,
  manifestName,
  manifestNamespace,
  type ManifestObject,
  readPods,
} from '../../config/objects.ts';
import type { ManifestError, Path } from '../../config/yaml.ts';
import { submittedPod, type CustomPodSource } from '../../kube/controller-pod.ts';
import { setApiDefaults } from '../../kube/defaults.ts';
import type { Kind, Kinds } from '../../kube/kinds.ts';
import { matchesLabelSelector, parseLabelSelector } from '../../kube/label-selector.ts';
import { metadataProblem } from '../../kube/names.ts';
import { findKindsNamed, getApiVersion, objectName, objectPath, RESOURCES } from '../../kube/resources.ts';
import { ApiError } from '../../kube/status.ts';
import { compareBytes, quote } from '../../kube/text.ts';
import {
  draft,
  isObject,
  type JsonObject,
  type KubeObject,
  type Namespace,
  type ObjectMeta,
  type UserInfo,
} from '../../kube/types.ts';
import { UserError } from '../../kube/user-error.ts';
import type { WorkloadResource } from '../../policy/pod/index.ts';
import { type Compatibility, defaultScc, REVIEW_KINDS, SCC_MODE_LABEL } from '../../policy/scc/index.ts';
import { clusterOptions } from '../cluster.ts';
import { type Io, PROGRAM, VERSION } from '../command.ts';
import { flag, nonEmpty, option, type Values } from '../options.ts';
import { withProgress } from '../output/print.ts';
import {
  assumeBuilt,
  assumeClusterAdmin,
  assumeNamespaces,
  assumeRanges,
  assumeServiceAccounts,
  assumeStandardSccs,
} from './assumptions.ts';
import { findCustomSources, readCustomSources } from './custom-resources.ts';
import { failOnErrors, manifestOptions, readObjects } from './manifests.ts';

/** The generated policies of an installation without a server. */
export const POLICY_SCOPE: Scope = { kind: 'ValidatingAdmissionPolicy', labelSelector: POLICY_SELECTOR };

/** Options that select manifests or a cluster as the source of the objects. */
export const inventoryOptions = {
  ...manifestOptions('Manifests to read instead of a cluster'),
  ...clusterOptions,
};

/** Options of the commands that evaluate the pods in manifests against the objects in a cluster. */
export const subjectOptions = {
  ...inventoryOptions,
  ...manifestOptions('Manifests of the pods'),
  offline: flag({ help: 'Use only the manifests, and do not read a cluster' }),
};

/** Options that select namespaces. */
export const selectionOptions = {
  namespace: option('NAME', nonEmpty, undefined, {
    short: 'n',
    help: 'Only this namespace; for manifests, also the namespace of objects that do not set one',
  }),
  'all-namespaces': flag({ short: 'A', help: 'All namespaces (the default)' }),
};

/** The `-l` option. Its value is a function that returns true for matching labels. */
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

/** Returns the selected namespace, or `undefined` for all namespaces. */
export function selectedNamespace(values: Values<typeof selectionOptions>): string | undefined {
  return values['all-namespaces'] ? undefined : values.namespace;
}

export type InventoryValues = Omit<Values<typeof inventoryOptions>, 'exclude'> & {
  readonly exclude?: readonly string[];
  /** Namespace for manifests that do not set one. Defaults to `default`. */
  readonly namespace?: string | undefined;
};

export interface Inventory {
  readonly store: Store;
  readonly source: 'manifests' | 'cluster';
  /** The objects in the manifests. The store contains only one of several objects that have the same name. */
  readonly objects: readonly ManifestObject[];
  /** Pod templates of kinds that the store does not contain. */
  readonly customSources: readonly CustomPodSource[];
  /** Descriptions of missing objects and their substitutes, without a full stop. */
  readonly assumptions: readonly string[];
  /** Assumptions that have no effect without SCC admission. */
  readonly sccAssumptions: readonly string[];
  /** Optional objects that the user is not permitted to read. */
  readonly unread: readonly Scope[];
  /**
   * Namespace for objects that do not set one. This is the value of `--namespace`, or otherwise the namespace of the
   * source.
   */
  readonly namespace: string;
  /** The kubeconfig user. Absent for manifests, or if the cluster does not return the user. */
  readonly user?: UserInfo;
  /** Absent for manifests. */
  readonly connection?: Connection;
}

export interface InventoryNeeds {
  /**
   * Kinds to read from a cluster. Manifests are read completely, and missing objects of these kinds are assumed. UID
   * ranges are assumed only if the kinds include service accounts, because only pod creation requires ranges.
   */
  readonly kinds: readonly Kind[];
  /** If set, only this namespace and cluster-scoped objects are read from a cluster. */
  readonly only?: string | undefined;
  /** Namespaces to assume for manifests in addition to those of their objects. */
  readonly namespaces?: readonly string[];
  /** Optional objects, which are skipped if they do not exist or the user is not permitted to read them. */
  readonly optional?: readonly Scope[];
  /**
   * Returns the custom resources whose pod templates should be read from a cluster, based on the objects read so far.
   */
  workloadResources?(store: Store): Promise<readonly WorkloadResource[]>;
  /**
   * Adds assumed UID ranges to namespaces of a cluster that have none, because SCC enforcement allocates them. `fill`
   * also adds SCCs to a cluster that has none. Manifests always receive both.
   */
  readonly gaps?: 'fill' | 'ranges';
  /** If true and the objects do not refer to SCCs, SCC admission is assumed to be off, and no SCCs are assumed. */
  readonly areSccsOptional?: boolean;
  /** Compatibility mode of the assumed SCCs. */
  readonly compatibility?: Compatibility;
}

/**
 * Reads manifests if `--filename` is set, otherwise the kubeconfig's cluster.
 * @throws {UserError} for a source that cannot be read, or if the options select both
 */
export async function readInventory(values: InventoryValues, io: Io, needs: InventoryNeeds): Promise<Inventory> {
  const { filename, kubeconfig, context, namespace } = values;
  if (filename.length === 0) return await readFromCluster(values, io, needs);
  if (kubeconfig !== undefined || context !== undefined) {
    throw new UserError('--filename reads manifests instead of a cluster: remove --kubeconfig and --context');
  }
  return createInventory(await readObjects(values, io), namespace, needs);
}

export type SubjectValues = Values<typeof subjectOptions> & Pick<InventoryValues, 'namespace'>;

/**
 * Reads the manifests that a command evaluates, and the inventory, which comes from the cluster or, without a cluster,
 * from the same manifests.
 * @throws {UserError} for a source that cannot be read
 */
export async function readSubjects(
  values: SubjectValues,
  { io, needs }: { readonly io: Io; readonly needs: InventoryNeeds },
): Promise<{ readonly objects: readonly ManifestObject[]; readonly inventory: Inventory }> {
  const { kubeconfig, context, namespace, offline } = values;
  if (offline && (kubeconfig !== undefined || context !== undefined)) {
    throw new UserError('--offline cannot be combined with --kubeconfig and --context');
  }
  const objects = await readObjects(values, io);
  if (!offline && (await findCluster({ kubeconfig, context, env: io.env })) !== undefined) {
    const [only, ...others] = subjectNamespaces(objects, namespace);
    const scope = others.length === 0 ? { only } : {};
    return { objects, inventory: await readFromCluster(values, io, { ...needs, ...scope }) };
  }
  const namespaces = subjectNamespaces(objects, namespace ?? 'default').filter((name) => name !== undefined);
  return { objects, inventory: createInventory(objects, namespace, { ...needs, namespaces }) };
}

/** Returns the namespaces of objects. `undefined` represents the cluster's default namespace. */
function subjectNamespaces(
  objects: readonly ManifestObject[],
  fallback: string | undefined,
): readonly (string | undefined)[] {
  const namespaced = objects.filter(({ kind, value }) =>
    Object.hasOwn(RESOURCES, kind)
      ? RESOURCES[kind as Kind].scope === 'Namespaced'
      : REVIEW_KINDS.some((reviewKind) => reviewKind === kind) || readPods(value).pods.length > 0,
  );
  return [...new Set(namespaced.map(({ value }) => manifestNamespace(value) ?? fallback))];
}

/**
 * Returns a namespace in the store.
 * @throws {UserError} if it does not exist
 */
export function findNamespace(store: Store, name: string): Namespace {
  const namespace = store.get('Namespace', name);
  if (!namespace) throw new UserError(`namespace ${quote(name)} not found`);
  return namespace;
}

/**
 * Returns one namespace or all namespaces in the store, sorted by name.
 * @throws {UserError} if the namespace does not exist
 */
export function listNamespaces(store: Store, only?: string): readonly Namespace[] {
  if (only !== undefined) return [findNamespace(store, only)];
  return store.list('Namespace').toSorted((a, b) => compareBytes(objectName(a), objectName(b)));
}

async function readFromCluster(
  { kubeconfig, context, namespace }: InventoryValues,
  { env, signal, stderr }: Io,
  { kinds, only, gaps, areSccsOptional, optional = [], workloadResources }: InventoryNeeds,
): Promise<Inventory> {
  const connection = await connect({ kubeconfig, context, env, userAgent: `${PROGRAM}/${VERSION}` });
  const [{ store, unserved }, user, version] = await withProgress(stderr, (show) => {
    const onProgress = (count: number): void => show(`Reading ${connection.server}: ${count} objects`);
    const objects = readCluster(connection, kinds, { namespace: only, signal, onProgress });
    return Promise.all([objects, reviewSelf(connection, signal), readServerVersion(connection, signal)]);
  });
  store.emulationVersion = version;
  const configuration: Scope = { kind: 'PortcullisConfiguration', name: CONFIGURATION_NAME };
  const scoped = optional.map((scope) => {
    const isWide = RESOURCES[scope.kind].scope === 'Namespaced' && scope.namespace === undefined;
    return isWide && only !== undefined ? { ...scope, namespace: only } : scope;
  });
  const unread = await readOptional([configuration, POLICY_SCOPE, ...scoped], { connection, store, signal });
  const custom = await readCustomSources((await workloadResources?.(store)) ?? [], { connection, only, signal });
  const isWithoutSccs = store.list('SecurityContextConstraints').length === 0;
  const filled = [
    ...(gaps === 'fill' && isWithoutSccs ? assumeStandardSccs(store) : []),
    ...(gaps === undefined ? [] : assumeRanges(store)),
  ];
  const absent = unserved
    .filter((kind) => kind !== 'SecurityContextConstraints' || (gaps !== 'fill' && areSccsOptional !== true))
    // Missing feature gates are not reported, because only OpenShift serves them.
    .filter((kind) => kind !== 'FeatureGate')
    .map(describeUnserved);
  // If the settings object could not be read either, one note is sufficient.
  const isNoted = unread.some(({ kind }) => kind === configuration.kind);
  const notes = unread.filter(({ kind }) => !(isNoted && kind === POLICY_SCOPE.kind)).map(describeUnread);
  return {
    store,
    source: 'cluster',
    objects: [],
    customSources: custom.customSources,
    assumptions: [...filled, ...notes, ...absent, ...custom.assumptions],
    sccAssumptions: [...filled, describeUnserved('SecurityContextConstraints')],
    unread,
    namespace: namespace ?? connection.namespace,
    ...(user ? { user } : {}),
    connection,
  };
}

/**
 * Reads objects into the store, skips missing objects, and returns the objects that the user is not permitted to read.
 */
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

function describeUnserved(kind: Kind): string {
  return `no ${RESOURCES[kind].resource}.${RESOURCES[kind].group}: the cluster does not serve them`;
}

function describeUnread({ kind, namespace, name }: Scope): string {
  const where = namespace === undefined ? '' : ` of namespace ${namespace}`;
  if (name === undefined)
    return `${`${kind}s`.replace(/ys$/, 'ies')}${where} not read: the user is not allowed to list them`;
  return `no ${kind} ${namespace === undefined ? name : `${namespace}/${name}`}: the user may not read it`;
}

/**
 * Returns an inventory of the given objects and the assumed objects.
 * @throws {UserError} for objects that no API server accepts
 */
export function createInventory(
  objects: readonly ManifestObject[],
  namespace = 'default',
  { kinds, namespaces, optional = [], areSccsOptional, compatibility }: InventoryNeeds,
): Inventory {
  const store = createStore();
  failOnErrors(fillStore(store, objects, namespace));
  const { customSources, assumptions: unknown } = findCustomSources(objects, namespace);
  const used = customSources.map(({ object }) => object.metadata?.namespace ?? namespace);
  const mayUseSccs = areSccsOptional !== true || refersToSccs(store);
  const sccs =
    mayUseSccs && kinds.includes('SecurityContextConstraints') ? assumeStandardSccs(store, compatibility) : [];
  const others = [
    ...(kinds.includes('ClusterRole') ? assumeClusterAdmin(store) : []),
    ...(kinds.includes('Namespace') ? assumeNamespaces(store, [...used, ...(namespaces ?? [])]) : []),
    ...(kinds.includes('ServiceAccount') ? assumeServiceAccounts(store, customSources) : []),
  ];
  const ranges = mayUseSccs && kinds.includes('ServiceAccount') ? assumeRanges(store) : [];
  for (const { kind, value } of objects) {
    const isIn = (scope: Scope): boolean =>
      kind === scope.kind &&
      manifestNamespace(value) === scope.namespace &&
      (scope.name === undefined || manifestName(value) === scope.name);
    const scope = optional.find(isIn);
    if (scope) store.put(scope.kind, value);
  }
  store.markSynced();
  const assumptions = [...sccs, ...others, ...ranges, ...assumeBuilt(objects), ...unknown];
  const sccAssumptions = [...sccs, ...ranges];
  return { store, source: 'manifests', objects, customSources, assumptions, sccAssumptions, unread: [], namespace };
}

/** Returns true if the manifests contain SCCs, their settings, or namespaces with an SCC mode. */
function refersToSccs(store: Store): boolean {
  return (
    store.list('SecurityContextConstraints').length > 0 ||
    store.get('PortcullisConfiguration', CONFIGURATION_NAME)?.spec?.['scc'] != null ||
    store.list('Namespace').some(({ metadata }) => metadata?.labels?.[SCC_MODE_LABEL] !== undefined)
  );
}

/** Kinds that only the server uses. Commands ignore these kinds in manifests. */
const SERVER_KINDS: ReadonlySet<Kind> = new Set([
  'ConfigMap',
  'Lease',
  'MutatingWebhookConfiguration',
  'Secret',
  'ValidatingWebhookConfiguration',
]);

/** Current and former API groups of known kinds. Kinds with the same names in other groups are unrelated. */
const GROUPS: ReadonlySet<string> = new Set([...Object.values(RESOURCES).map(({ group }) => group), 'extensions']);

/**
 * Adds objects of known kinds to the store as an API server would store them, and skips other kinds. Returns errors for
 * objects that no API server accepts.
 */
function fillStore(store: WritableStore, objects: readonly ManifestObject[], namespace: string): ManifestError[] {
  // Pods are added last because their defaults depend on their service account.
  const ordered = objects.toSorted((a, b) => Number(a.kind === 'Pod') - Number(b.kind === 'Pod'));
  return ordered.flatMap((object) => {
    const { apiVersion, kind: name, value } = object;
    const kinds = findKindsNamed(name);
    const kind = kinds.find((kind) => getApiVersion(kind) === apiVersion) ?? kinds[0];
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

/**
 * Returns the metadata as an API server stores it, without nulls and with the default namespace unless it is
 * `undefined`. If an object has only `generateName`, this prefix becomes its name.
 */
function readMetadata(
  value: JsonObject,
  defaultNamespace: string | undefined,
): { readonly metadata: ObjectMeta } | { readonly path: Path; readonly message: string } {
  const stored = value['metadata'] ?? {};
  if (!isObject(stored)) return { path: ['metadata'], message: 'metadata must be an object' };
  const metadata: ObjectMeta = Object.fromEntries(Object.entries(stored).filter(([, field]) => field !== null));
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
  if (kind === 'Pod') return submittedPod(object, (name) => store.get('ServiceAccount', name, namespace));
  const complete = draft(object) as Record<string, unknown>;
  setApiDefaults(complete);
  return kind === 'SecurityContextConstraints' ? defaultScc(complete) : complete;
}
