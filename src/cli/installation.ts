import { posix } from 'node:path';
import { connect, type Connection } from '../cluster/connection.ts';
import { UserError } from '../config/files.ts';
import { ApiError } from '../kube/status.ts';
import { PROGRAM, type Io, VERSION } from './command.ts';
import { objectName, option, text, type Values } from './options.ts';
import { inventoryOptions } from './inventory/inventory.ts';
import { INSTALLATION } from '../kube/well-known.ts';
import { listAll, readPages } from '../cluster/lists.ts';
import { type ObjectMeta, isObject, type JsonObject, type KubeObject, type Kinds } from '../kube/types.ts';
import { CONFIGURATION_KINDS, type ConfigurationKind, type WebhookConfiguration } from '../kube/webhooks.ts';

// * What commands have in common that look after an installation in a cluster: they read raw JSON and say in words what
// the API server refuses. Nothing here decides anything.

/** Who writes, as the fields of objects remember it. */
export const FIELD_MANAGER = PROGRAM;

/**
 * Connects to the cluster for as long as it is used.
 * Rejects with a UserError if there is none, if it cannot be reached, and for what it refuses and nobody foresaw.
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

/** What the action resolves to; `undefined` if what it asks for is not there. */
export async function ifThere<T>(action: () => Promise<T>): Promise<T | undefined> {
  try {
    return await action();
  } catch (error) {
    if (error instanceof ApiError && error.status.code === 404) return undefined;
    throw error;
  }
}

/** Which cluster a command looks after. */
export const clusterOptions = {
  kubeconfig: option('FILE', text, undefined, {
    help: 'Kubeconfig of the cluster; absent, $KUBECONFIG, ~/.kube/config, or the cluster around the process',
  }),
  context: inventoryOptions.context,
};

/** Where in the cluster the installation is. */
export const namespaceOption = {
  namespace: option('NAME', objectName, INSTALLATION.namespace, {
    short: 'n',
    help: 'Namespace of the installation',
  }),
};

export { isPartOfPortcullis as isOurs } from '../kube/webhooks.ts';

/** What webhooks of both kinds have in common. */
export type Webhook = NonNullable<WebhookConfiguration['webhooks']>[number];

/** A webhook configuration of either kind. */
export interface Configuration {
  readonly kind: ConfigurationKind;
  readonly name: string;
  readonly metadata: ObjectMeta;
  readonly webhooks: readonly Webhook[];
}

/** All webhook configurations of a cluster, by kind and name. Rejects as `request` does. */
export async function readConfigurations(
  connection: Connection,
  signal?: AbortSignal,
): Promise<readonly Configuration[]> {
  const lists = await Promise.all(
    CONFIGURATION_KINDS.map(async (kind) =>
      (await listAll(connection, { kind, signal })).map((object) =>
        configurationOf(kind, object as WebhookConfiguration),
      ),
    ),
  );
  return lists.flat();
}

/** The configuration in an object as the API server sends it. */
export function configurationOf(kind: ConfigurationKind, object: WebhookConfiguration): Configuration {
  const { metadata = {}, webhooks } = object;
  return { kind, name: metadata.name ?? '', metadata, webhooks: webhooks ?? [] };
}

/** `validating` or `mutating`, for messages. */
export function phaseOf({ kind }: Pick<Configuration, 'kind'>): string {
  return kind === 'ValidatingWebhookConfiguration' ? 'validating' : 'mutating';
}

/** A resource of the API, whether or not this program keeps objects of it; the core group is `''`. */
export interface Resource {
  readonly group: string;
  readonly version: string;
  /** The lower-case plural. */
  readonly resource: string;
}

/** An object of any kind, with what all have. */
export interface AnyObject extends KubeObject {
  readonly metadata: ObjectMeta & { readonly name: string };
}

/** Where the API server serves the objects of a resource; without a namespace those of all. */
export function collectionPath({ group, version, resource }: Resource, namespace?: string): string {
  const root = group === '' ? `/api/${version}` : `/apis/${group}/${version}`;
  return namespace === undefined
    ? `${root}/${resource}`
    : `${root}/namespaces/${encodeURIComponent(namespace)}/${resource}`;
}

/** Where the API server serves one object. */
export function objectPath(resource: Resource, name: string, namespace?: string): string {
  return `${collectionPath(resource, namespace)}/${encodeURIComponent(name)}`;
}

/** `deployments.apps/portcullis`, as kubectl names objects. */
export function printTarget({ group, resource }: Resource, name: string): string {
  return `${resource}${group === '' ? '' : `.${group}`}/${name}`;
}

interface Selection {
  readonly namespace?: string | undefined;
  readonly labels?: string | undefined;
  readonly signal: AbortSignal;
}

/** All objects of a resource, or those of a namespace, or with a label. Rejects as `request` does. */
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

/** A file of a replica and the object that it is mounted from. */
interface MountedFile {
  readonly kind: 'ConfigMap' | 'Secret';
  readonly name: string;
  /** In the object. */
  readonly key: string;
}

/** What is given for an option on the command line of the replicas. */
export function argumentOf(deployment: Deployment | undefined, option: string): string | undefined {
  const args = containersOf(deployment).flatMap((container) => container.args ?? []);
  const index = args.findLastIndex((arg) => arg === `--${option}` || arg.startsWith(`--${option}=`));
  const arg = args[index];
  return arg === `--${option}` ? args[index + 1] : arg?.slice(option.length + 3);
}

/** Where the file of an option comes from; `undefined` if the option is not given or it is mounted from nothing known. */
export function mountedFile(deployment: Deployment | undefined, option: string): MountedFile | undefined {
  const path = argumentOf(deployment, option);
  if (path === undefined) return undefined;
  const mounts = containersOf(deployment).flatMap((container) => container.volumeMounts ?? []);
  const mount = mounts.find(({ mountPath }) => path.startsWith(posix.join(mountPath, '/')));
  const volume = deployment?.spec?.template.spec?.volumes?.find(({ name }) => name === mount?.name);
  if (!mount || !volume) return undefined;
  const file = posix.relative(mount.mountPath, path);
  const { configMap, secret } = volume;
  const source = configMap ?? secret;
  const key = source?.items?.find((item) => item.path === file)?.key ?? file;
  if (configMap?.name !== undefined) return { kind: 'ConfigMap', name: configMap.name, key };
  return secret?.secretName === undefined ? undefined : { kind: 'Secret', name: secret.secretName, key };
}

function containersOf(deployment: Deployment | undefined) {
  return deployment?.spec?.template.spec?.containers ?? [];
}
