/** Helpers of the commands that inspect or change an installation in a cluster. */
import { parseServerVersion } from '../cluster/server-version.ts';
import type { Version } from '../policy/pss/policy.ts';
import { posix } from 'node:path';
import { connect, type ApiRequest, type Connection } from '../cluster/connection.ts';
import { readPages } from '../cluster/lists.ts';
import { UserError } from '../config/files.ts';
import { parseFeatures, type ManifestSettings } from '../install/index.ts';
import type { JsonPatchOp } from '../kube/json-patch.ts';
import { clusterScoped, objectPath, resourcePath, RESOURCES } from '../kube/resources.ts';
import { ApiError } from '../kube/status.ts';
import type { Kind, Kinds } from '../kube/kinds.ts';
import {
  isObject,
  type GroupVersionResource,
  type JsonObject,
  type KubeObject,
  type Lease,
  type ObjectMeta,
} from '../kube/types.ts';
import { CONFIGURATION_KINDS, type ConfigurationKind, type WebhookConfiguration } from '../kube/webhooks.ts';
import { INSTALLATION } from '../kube/well-known.ts';
import { PROGRAM, VERSION, type Io } from './command.ts';
import { inventoryOptions } from './inventory/inventory.ts';
import { nonEmpty, oneOf, option, text, type Values } from './options.ts';

/** The options that select the cluster. */
export const clusterOptions = {
  kubeconfig: option('FILE', text, undefined, {
    help: 'Kubeconfig of the cluster. Default: $KUBECONFIG, then ~/.kube/config, then the service account of the pod',
  }),
  context: inventoryOptions.context,
};

const DRY_RUNS = ['none', 'client', 'server'] as const;

/** How far a command that writes objects goes. */
export type DryRun = (typeof DRY_RUNS)[number];

export const dryRunOption = {
  'dry-run': option('MODE', oneOf(DRY_RUNS), 'none', {
    help: 'client: print the changes without sending them; server: send them, and the API server stores nothing',
  }),
};

const DRY_RUN_SUFFIXES: Readonly<Record<DryRun, string>> = {
  none: '',
  client: ' (dry run)',
  server: ' (server dry run)',
};

/** The end of a message about a change, as kubectl prints it. */
export function dryRunSuffix(dryRun: DryRun): string {
  return DRY_RUN_SUFFIXES[dryRun];
}

export const namespaceOption = {
  namespace: option('NAME', nonEmpty, INSTALLATION.namespace, {
    short: 'n',
    help: 'Namespace of the installation',
  }),
};

export const DEFINITIONS = clusterScoped('apiextensions.k8s.io/v1', 'customresourcedefinitions');

/** The name of the definition of the object with the minimum kubelet version. */
export const NODES_CONFIG = 'nodes.config.openshift.io';

/** The development cluster has the webhooks of all features, since the settings may change at run time. */
export const DEV_CLUSTER_ENFORCEMENT = {
  podSecurity: true,
  rollout: true,
  kubelet: true,
  kubeletCertificates: true,
  kubeletNodeWrites: true,
  olm: true,
  defaults: [],
} as const;

/** An object of any kind. */
export interface AnyObject extends KubeObject {
  readonly metadata: ObjectMeta & { readonly name: string };
}

interface Selection {
  /** Absent: all namespaces. */
  readonly namespace?: string | undefined;
  /** Label selector. */
  readonly labels?: string;
}

/** The requests of a command to its cluster. They reject as `Connection.request` does. */
export interface ClusterClient {
  readonly connection: Connection;
  /** Aborts all requests. */
  readonly signal: AbortSignal;
  send(request: ApiRequest): Promise<JsonObject>;
  /** Resolves to `undefined` if the object does not exist. */
  get(resource: GroupVersionResource, name: string, namespace?: string): Promise<AnyObject | undefined>;
  /** Lists objects. The list is empty if the cluster does not serve the resource. */
  list(resource: GroupVersionResource, selection?: Selection): Promise<readonly AnyObject[]>;
  /** Applies a JSON patch to a cluster-scoped object. */
  patch(resource: GroupVersionResource, name: string, patch: Patch): Promise<JsonObject>;
}

interface Patch {
  readonly operations: readonly JsonPatchOp[];
  /** Whether the server only validates the patch. */
  readonly dryRun: boolean;
}

function createClient(connection: Connection, signal: AbortSignal): ClusterClient {
  const send: ClusterClient['send'] = (request) => connection.request({ ...request, signal });
  return {
    connection,
    signal,
    send,
    async get(resource, name, namespace) {
      const path = objectPath(resource, name, namespace);
      return (await ignoreNotFound(send({ method: 'GET', path }))) as AnyObject | undefined;
    },
    async list(resource, { namespace, labels } = {}) {
      let objects: AnyObject[] = [];
      const query = labels === undefined ? {} : { labelSelector: labels };
      const pages = readPages(connection, { path: resourcePath(resource, namespace), query, signal }, () => {
        objects = [];
        return (items) => objects.push(...items.filter(hasName));
      });
      await ignoreNotFound(pages);
      return objects;
    },
    patch: (resource, name, { operations, dryRun }) =>
      send({
        method: 'PATCH',
        path: objectPath(resource, name),
        query: { fieldManager: PROGRAM, ...(dryRun ? { dryRun: 'All' } : {}) },
        contentType: 'application/json-patch+json',
        body: operations,
      }),
  };
}

function hasName(object: JsonObject): object is JsonObject & AnyObject {
  const { metadata } = object;
  return isObject(metadata) && typeof metadata['name'] === 'string';
}

/**
 * Connects to the cluster while `use` runs. Rejects with a UserError if the cluster cannot be found or reached, and for
 * API errors that `use` does not handle.
 */
export async function withCluster<T>(
  { kubeconfig, context }: Values<typeof clusterOptions>,
  { env, signal }: Pick<Io, 'env' | 'signal'>,
  use: (client: ClusterClient) => Promise<T>,
): Promise<T> {
  const connection = await connect({ kubeconfig, context, env, userAgent: `${PROGRAM}/${VERSION}` });
  try {
    return await use(createClient(connection, signal));
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    throw new UserError(`${connection.server}: ${error.message}`, { cause: error });
  } finally {
    connection.close();
  }
}

/**
 * Writes an object as it is, unless the client only prints it, and returns the object of the response. An object with a
 * resource version is replaced. Rejects as `request` does.
 */
export async function writeObject<T extends KubeObject>(
  { send }: ClusterClient,
  kind: Kind,
  object: T,
  dryRun: DryRun,
  verb?: 'DELETE',
): Promise<T> {
  if (dryRun === 'client') return object;
  const { name = '', namespace, resourceVersion } = object.metadata ?? {};
  const method = verb ?? (resourceVersion === undefined ? 'POST' : 'PUT');
  const path = method === 'POST' ? resourcePath(kind, namespace) : objectPath(kind, name, namespace);
  const query = { fieldManager: PROGRAM, ...(dryRun === 'server' ? { dryRun: 'All' } : {}) };
  return (await send({ method, path, query, ...(method === 'DELETE' ? {} : { body: object }) })) as KubeObject as T;
}

/** Resolves to `undefined` if the requested object does not exist. */
export async function ignoreNotFound<T>(response: Promise<T>): Promise<T | undefined> {
  try {
    return await response;
  } catch (error) {
    if (error instanceof ApiError && error.status.code === 404) return undefined;
    throw error;
  }
}

/** The version of the API server, such as `v1.36.3`, and the API groups that it serves. */
export interface Server {
  readonly version: string;
  /** The version for Pod Security; `undefined` if the API server reports none. */
  readonly minor?: Version | undefined;
  readonly groups: readonly string[];
}

export async function readServer({ send }: ClusterClient): Promise<Server> {
  const [version, apis] = await Promise.all([
    send({ method: 'GET', path: '/version' }),
    send({ method: 'GET', path: '/apis' }),
  ]);
  const groups: readonly unknown[] = Array.isArray(apis['groups']) ? apis['groups'] : [];
  return {
    version: String(version['gitVersion']),
    minor: parseServerVersion(version),
    groups: groups.flatMap((group) => (isObject(group) ? [String(group['name'])] : [])),
  };
}

/** The common fields of validating and mutating webhooks. */
export type Webhook = NonNullable<WebhookConfiguration['webhooks']>[number];

/** A webhook configuration of either kind. */
export interface Configuration {
  readonly kind: ConfigurationKind;
  readonly name: string;
  readonly metadata: ObjectMeta;
  readonly webhooks: readonly Webhook[];
}

/** Lists all webhook configurations of a cluster. Rejects as `request` does. */
export async function readConfigurations(client: ClusterClient): Promise<readonly Configuration[]> {
  const lists = CONFIGURATION_KINDS.map(async (kind) =>
    (await client.list(RESOURCES[kind])).map((object) => parseWebhookConfiguration(kind, object)),
  );
  return (await Promise.all(lists)).flat();
}

export function parseWebhookConfiguration(kind: ConfigurationKind, object: WebhookConfiguration): Configuration {
  const { metadata = {}, webhooks } = object;
  return { kind, name: metadata.name ?? '', metadata, webhooks: webhooks ?? [] };
}

/** True if the holder renewed the Lease in time, by the clock of this machine. */
export function isCurrentLease({ spec }: Lease, now: Date, toleranceMs = 0): boolean {
  const renewedMs = Date.parse(spec?.renewTime ?? '');
  return renewedMs + (spec?.leaseDurationSeconds ?? 0) * 1000 + toleranceMs >= now.getTime();
}

type Deployment = Kinds['Deployment'];

/** The value of an option on the command line of the replicas. */
export function deploymentArgument(deployment: Deployment | undefined, option: string): string | undefined {
  return deploymentArguments(deployment, option).at(-1);
}

/** Returns all values of an option on the command line of the replicas. */
function deploymentArguments(deployment: Deployment | undefined, option: string): readonly string[] {
  const args = deploymentContainers(deployment).flatMap((container) => container.args ?? []);
  return args.flatMap((arg, index) => {
    if (arg === `--${option}`) return args[index + 1] ?? [];
    return arg.startsWith(`--${option}=`) ? arg.slice(option.length + 3) : [];
  });
}

/** Returns the features of the installation, which its Deployment passes to the replicas. */
export function deploymentFeatures(deployment: Deployment): ManifestSettings['features'] {
  return parseFeatures(deploymentArguments(deployment, 'features'));
}

/** The consequence of SCC CRDs without enforcement. Charts detect OpenShift by the API group of SCCs. */
export const CHART_CONSEQUENCE =
  'charts that detect OpenShift by this group omit runAsUser and fsGroup, which SCC admission sets only while it enforces SCCs';

/** The object that a file of the replicas is mounted from. */
interface FileSource {
  readonly kind: 'ConfigMap' | 'Secret';
  readonly name: string;
  /** Key in the object. */
  readonly key: string;
}

/** The source of the file that an option names; `undefined` if the option or the mount is absent. */
export function deploymentFile(deployment: Deployment | undefined, option: string): FileSource | undefined {
  const path = deploymentArgument(deployment, option);
  if (path === undefined) return undefined;
  const mounts = deploymentContainers(deployment).flatMap((container) => container.volumeMounts ?? []);
  const mount = mounts.find(({ mountPath }) => path.startsWith(posix.join(mountPath, '/')));
  const volume = deployment?.spec?.template.spec?.volumes?.find(({ name }) => name === mount?.name);
  if (!mount || !volume) return undefined;
  const file = posix.relative(mount.mountPath, path);
  const { configMap, secret } = volume;
  const key = (configMap ?? secret)?.items?.find((item) => item.path === file)?.key ?? file;
  if (configMap?.name !== undefined) return { kind: 'ConfigMap', name: configMap.name, key };
  return secret?.secretName === undefined ? undefined : { kind: 'Secret', name: secret.secretName, key };
}

function deploymentContainers(deployment: Deployment | undefined) {
  return deployment?.spec?.template.spec?.containers ?? [];
}
