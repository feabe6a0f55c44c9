/** Helpers of the commands that inspect or change an installation in a cluster. */
import { posix } from 'node:path';
import { connect, type Connection } from '../cluster/connection.ts';
import { listAll, readPages } from '../cluster/lists.ts';
import { UserError } from '../config/files.ts';
import { ApiError } from '../kube/status.ts';
import { isObject, type JsonObject, type Kinds, type KubeObject, type ObjectMeta } from '../kube/types.ts';
import { CONFIGURATION_KINDS, type ConfigurationKind, type WebhookConfiguration } from '../kube/webhooks.ts';
import { INSTALLATION } from '../kube/well-known.ts';
import { PROGRAM, VERSION, type Io } from './command.ts';
import { inventoryOptions } from './inventory/inventory.ts';
import { objectName, option, text, type Values } from './options.ts';

export { isPartOfPortcullis as isOwn } from '../kube/webhooks.ts';

/** The field manager of all writes. */
export const FIELD_MANAGER = PROGRAM;

/** The options that select the cluster. */
export const clusterOptions = {
  kubeconfig: option('FILE', text, undefined, {
    help: 'Kubeconfig of the cluster. Default: $KUBECONFIG, then ~/.kube/config, then the service account of the pod',
  }),
  context: inventoryOptions.context,
};

export const namespaceOption = {
  namespace: option('NAME', objectName, INSTALLATION.namespace, {
    short: 'n',
    help: 'Namespace of the installation',
  }),
};

/**
 * Connects to the cluster while `use` runs. Rejects with a UserError if the cluster cannot be found or reached, and for
 * API errors that `use` does not handle.
 */
export async function withCluster<T>(
  { kubeconfig, context }: Values<typeof clusterOptions>,
  { env }: Pick<Io, 'env'>,
  use: (connection: Connection) => Promise<T>,
): Promise<T> {
  const connection = await connect({ kubeconfig, context, env, userAgent: `${PROGRAM}/${VERSION}` });
  try {
    return await use(connection);
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    throw new UserError(`${connection.server}: ${error.message}`, { cause: error });
  } finally {
    connection.close();
  }
}

/** Resolves to `undefined` if the requested object does not exist. */
export async function ignoreNotFound<T>(action: () => Promise<T>): Promise<T | undefined> {
  try {
    return await action();
  } catch (error) {
    if (error instanceof ApiError && error.status.code === 404) return undefined;
    throw error;
  }
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
export async function readConfigurations(
  connection: Connection,
  signal?: AbortSignal,
): Promise<readonly Configuration[]> {
  const lists = await Promise.all(
    CONFIGURATION_KINDS.map(async (kind) =>
      (await listAll(connection, { kind, signal })).map((object) =>
        parseWebhookConfiguration(kind, object as WebhookConfiguration),
      ),
    ),
  );
  return lists.flat();
}

export function parseWebhookConfiguration(kind: ConfigurationKind, object: WebhookConfiguration): Configuration {
  const { metadata = {}, webhooks } = object;
  return { kind, name: metadata.name ?? '', metadata, webhooks: webhooks ?? [] };
}

/** A resource of the API. The core group is `''`. */
export interface Resource {
  readonly group: string;
  readonly version: string;
  /** Lower-case plural. */
  readonly resource: string;
}

/** An object of any kind. */
export interface AnyObject extends KubeObject {
  readonly metadata: ObjectMeta & { readonly name: string };
}

/** The path of the objects of a resource in a namespace, or in all namespaces. */
export function collectionPath({ group, version, resource }: Resource, namespace?: string): string {
  const root = group === '' ? `/api/${version}` : `/apis/${group}/${version}`;
  return namespace === undefined
    ? `${root}/${resource}`
    : `${root}/namespaces/${encodeURIComponent(namespace)}/${resource}`;
}

export function objectPath(resource: Resource, name: string, namespace?: string): string {
  return `${collectionPath(resource, namespace)}/${encodeURIComponent(name)}`;
}

/** The name of an object in the notation of kubectl: `deployments.apps/portcullis`. */
export function formatObjectName({ group, resource }: Resource, name: string): string {
  return `${resource}${group === '' ? '' : `.${group}`}/${name}`;
}

interface Selection {
  readonly namespace?: string | undefined;
  /** Label selector. */
  readonly labels?: string | undefined;
  readonly signal: AbortSignal;
}

/** Lists the objects of a resource. Rejects as `request` does. */
export async function listObjects(
  connection: Connection,
  resource: Resource,
  { namespace, labels, signal }: Selection,
): Promise<readonly AnyObject[]> {
  let objects: AnyObject[] = [];
  const query = labels === undefined ? {} : { labelSelector: labels };
  await readPages(connection, { path: collectionPath(resource, namespace), query, signal }, () => {
    objects = [];
    return (items) => objects.push(...items.filter(hasName));
  });
  return objects;
}

function hasName(object: JsonObject): object is JsonObject & AnyObject {
  const { metadata } = object;
  return isObject(metadata) && typeof metadata['name'] === 'string';
}

type Deployment = Kinds['Deployment'];

/** The value of an option on the command line of the replicas. */
export function deploymentArgument(deployment: Deployment | undefined, option: string): string | undefined {
  const args = deploymentContainers(deployment).flatMap((container) => container.args ?? []);
  const index = args.findLastIndex((arg) => arg === `--${option}` || arg.startsWith(`--${option}=`));
  const arg = args[index];
  return arg === `--${option}` ? args[index + 1] : arg?.slice(option.length + 3);
}

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
