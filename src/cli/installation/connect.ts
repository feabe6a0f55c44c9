/**
 * What commands have in common that look after an installation in a cluster: they read raw JSON and say in words what
 * the API server refuses. Nothing here decides anything.
 */
import { connect, type Connection } from '../../cluster/connection.ts';
import { UserError } from '../../config/files.ts';
import { ApiError } from '../../kube/status.ts';
import { PROGRAM, type Io } from '../command.ts';
import type { Values } from '../options.ts';
import { VERSION } from '../version.ts';
import type { clusterOptions } from './options.ts';

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
