/** Cluster options and the cluster connection, shared by all commands that inspect or change a cluster. */
import { INSTALLATION } from '../api/names.ts';
import { type ClusterClient, createClient } from '../cluster/client.ts';
import { connect } from '../cluster/connection.ts';
import type { Kind } from '../kube/kinds.ts';
import { objectPath, resourcePath } from '../kube/resources.ts';
import { ApiError } from '../kube/status.ts';
import type { KubeObject } from '../kube/types.ts';
import { UserError } from '../kube/user-error.ts';
import { type Io, PROGRAM, VERSION } from './command.ts';
import { nonEmpty, oneOf, option, text, type Values } from './options.ts';

export const clusterOptions = {
  kubeconfig: option('FILE', text, undefined, {
    help: 'Kubeconfig of the cluster. Default: $KUBECONFIG, then ~/.kube/config, then the service account of the pod',
  }),
  context: option('NAME', text, undefined, { help: 'Kubeconfig context. Default: the current context' }),
};

const DRY_RUNS = ['none', 'client', 'server'] as const;

/** Dry-run mode of a command that writes objects. */
export type DryRun = (typeof DRY_RUNS)[number];

export const dryRunOption = {
  'dry-run': option('MODE', oneOf(DRY_RUNS), 'none', {
    help: 'With client, only print the changes. With server, submit them without persisting them',
  }),
};

const DRY_RUN_SUFFIXES: Readonly<Record<DryRun, string>> = {
  none: '',
  client: ' (dry run)',
  server: ' (server dry run)',
};

/** Returns the suffix of a message about a change in a dry run, as kubectl prints it. */
export function dryRunSuffix(dryRun: DryRun): string {
  return DRY_RUN_SUFFIXES[dryRun];
}

export const namespaceOption = {
  namespace: option('NAME', nonEmpty, INSTALLATION.namespace, {
    short: 'n',
    help: 'Installation namespace',
  }),
};

/**
 * Connects to the cluster while `use` runs. Rejects with a UserError if the cluster cannot be found or reached, or if
 * `use` fails with an API error.
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

/** Ignores an API error, so an optional read returns `undefined`. Throws any other error. */
export function ignoreApiError(error: unknown): undefined {
  if (error instanceof ApiError) return undefined;
  throw error;
}

/**
 * Writes an object and returns the response, or returns the object unchanged in a client-side dry run. If the object
 * has a resource version, the request replaces or deletes only this version. Rejects with the errors of
 * `Connection.request`.
 */
export async function writeObject<T extends KubeObject>(
  { send }: ClusterClient,
  kind: Kind,
  object: T,
  dryRun: DryRun,
  verb?: 'DELETE',
): Promise<T> {
  if (dryRun === 'client') return object;
  const { name = '', namespace, uid, resourceVersion } = object.metadata ?? {};
  const method = verb ?? (resourceVersion === undefined ? 'POST' : 'PUT');
  const path = method === 'POST' ? resourcePath(kind, namespace) : objectPath(kind, name, namespace);
  const query = { fieldManager: PROGRAM, ...(dryRun === 'server' ? { dryRun: 'All' } : {}) };
  const deletion = {
    apiVersion: 'v1',
    kind: 'DeleteOptions',
    preconditions: { uid, resourceVersion },
    // API servers ignore the query parameters of a DELETE request that has a body.
    ...(dryRun === 'server' ? { dryRun: ['All'] } : {}),
  };
  return (await send({ method, path, query, body: method === 'DELETE' ? deletion : object })) as KubeObject as T;
}
