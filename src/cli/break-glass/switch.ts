import type { Connection } from '../../cluster/connection.ts';
import { pathOf } from '../../cluster/lists.ts';
import type { JsonPatchOp } from '../../kube/json-patch.ts';
import { ApiError } from '../../kube/status.ts';
import { FIELD_MANAGER, ifThere } from '../installation/connect.ts';
import { configurationOf, type Configuration } from '../installation/own-webhooks.ts';

/** Decides what to change in a configuration as it is now. */
export type Plan = (configuration: Configuration) => readonly JsonPatchOp[];

/** What became of a configuration; `gone` if somebody removed it meanwhile. */
export type Outcome =
  | { readonly kind: 'changed' | 'unchanged'; readonly configuration: Configuration }
  | { readonly kind: 'gone' }
  | { readonly kind: 'refused'; readonly message: string };

/** How often a configuration is looked at again because somebody else changes it all the time. */
const MAX_TRIES = 5;

/**
 * Changes a configuration by a patch that fails if the webhooks have changed since they were read; then it is read again.
 * Rejects only if the server cannot be reached.
 */
export async function change(
  connection: Connection,
  read: Configuration,
  plan: Plan,
  options: { readonly dryRun: boolean; readonly signal: AbortSignal },
): Promise<Outcome> {
  let configuration = read;
  for (let tries = 1; ; tries++) {
    const ops = plan(configuration);
    if (ops.length === 0) return { kind: 'unchanged', configuration };
    try {
      return { kind: 'changed', configuration: await patch(connection, configuration, ops, options) };
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      const { code, message } = error.status;
      if (code === 404) return { kind: 'gone' };
      const again = tries < MAX_TRIES && (code === 422 || code === 409);
      const current = again ? await readAgain(connection, configuration, options.signal) : configuration;
      if (!current) return { kind: 'gone' };
      // What the server refuses although nobody has changed anything, it would refuse again.
      if (!again || current.metadata.resourceVersion === configuration.metadata.resourceVersion) {
        return { kind: 'refused', message };
      }
      configuration = current;
    }
  }
}

async function patch(
  connection: Connection,
  { kind, name }: Configuration,
  ops: readonly JsonPatchOp[],
  { dryRun, signal }: { readonly dryRun: boolean; readonly signal: AbortSignal },
): Promise<Configuration> {
  const answer = await connection.request({
    method: 'PATCH',
    path: pathTo(kind, name),
    query: { fieldManager: FIELD_MANAGER, ...(dryRun ? { dryRun: 'All' } : {}) },
    contentType: 'application/json-patch+json',
    body: ops,
    signal,
  });
  return configurationOf(kind, answer);
}

async function readAgain(
  connection: Connection,
  { kind, name }: Configuration,
  signal: AbortSignal,
): Promise<Configuration | undefined> {
  const object = await ifThere(() => connection.request({ method: 'GET', path: pathTo(kind, name), signal }));
  return object && configurationOf(kind, object);
}

function pathTo(kind: Configuration['kind'], name: string): string {
  return `${pathOf(kind, undefined)}/${encodeURIComponent(name)}`;
}
