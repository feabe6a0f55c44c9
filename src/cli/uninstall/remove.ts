import { setTimeout as pause } from 'node:timers/promises';
import type { Connection } from '../../cluster/connect.ts';
import { ApiError } from '../../kube/status.ts';
import { ifThere } from '../installation/connect.ts';
import { objectPath, printTarget } from '../installation/resource.ts';
import type { Target } from './find.ts';

/** How things are removed. */
export interface Removal {
  readonly dryRun: boolean;
  readonly signal: AbortSignal;
  /** Tells of each step. */
  tell(line: string): void;
}

/**
 * Removes an object, unless it is another one by now; resolves to why the server refuses, `undefined` if it is gone or
 * will be. Rejects only if the server cannot be reached.
 */
export async function remove(connection: Connection, target: Target, removal: Removal): Promise<string | undefined> {
  const { part, name, namespace, uid } = target;
  const { dryRun, signal, tell } = removal;
  const body = {
    apiVersion: 'v1',
    kind: 'DeleteOptions',
    propagationPolicy: 'Background',
    ...(uid === undefined ? {} : { preconditions: { uid } }),
    ...(dryRun ? { dryRun: ['All'] } : {}),
  };
  try {
    const path = objectPath(part, name, namespace);
    const gone = await ifThere(() => connection.request({ method: 'DELETE', path, body, signal }));
    tell(`${printTarget(part, name)} ${gone ? 'deleted' : 'is gone already'}${dryRun ? ' (server dry run)' : ''}`);
    return undefined;
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    tell(`${printTarget(part, name)} stays: ${error.message}`);
    return error.message;
  }
}

/** Removes objects one after the other; resolves to how many the server refuses to remove. */
export async function removeAll(connection: Connection, targets: readonly Target[], removal: Removal): Promise<number> {
  let refused = 0;
  for (const target of targets) if ((await remove(connection, target, removal)) !== undefined) refused++;
  return refused;
}

const POLL_MS = 500;

/** Waits until nothing is left; resolves to what still is when the time is over. */
export async function waitUntilGone<T>(
  left: () => Promise<readonly T[]>,
  { timeoutMs, signal }: { readonly timeoutMs: number; readonly signal: AbortSignal },
): Promise<readonly T[]> {
  const end = performance.now() + timeoutMs;
  for (;;) {
    const still = await left();
    if (still.length === 0 || performance.now() >= end) return still;
    await pause(POLL_MS, undefined, { signal });
  }
}
