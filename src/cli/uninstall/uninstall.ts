/**
 * Takes an installation out of a cluster. Webhooks go first, and nothing else before API servers have forgotten them:
 * webhooks that nobody answers keep pods from starting. What is gone already is no error, so that it can be done again
 * after it was interrupted.
 */
import { setTimeout as pause } from 'node:timers/promises';
import type { Connection } from '../../cluster/connect.ts';
import { PART_OF, PART_OF_LABEL } from '../../kube/installation.ts';
import { RESOURCES } from '../../kube/resources.ts';
import { ApiError } from '../../kube/status.ts';
import { ifThere } from '../installation/connect.ts';
import { listObjects, objectPath, printTarget, type AnyObject } from '../installation/resource.ts';
import { findBelongings, findTargets, targetOf, type Where } from './find.ts';
import { findProcesses } from './processes.ts';
import { areSccsOfOthers, findOwnSccs, findSccs } from './purge-sccs.ts';
import { purgeNamespaces } from './purge-namespaces.ts';
import { removeAll, waitUntilGone, type Removal } from './remove.ts';
import { isOurs, NAMESPACES, PODS, REPLICAS, SURROUNDINGS, WEBHOOKS } from './stages.ts';

export interface UninstallOptions {
  readonly where: Where;
  readonly removal: Removal;
  /** By the clock of this machine. */
  readonly now: Date;
  /** How long API servers get to notice that webhooks are gone. */
  readonly waitMs: number;
  /** What goes although the cluster could do without its removal. */
  readonly purge: readonly ('sccs' | 'namespaces')[];
}

const WEBHOOKS_TIMEOUT_MS = 60_000;
/** Longer than replicas are given to stop. */
const REPLICAS_TIMEOUT_MS = 90_000;

/** Resolves to how many things could not be removed. Rejects only if the server cannot be reached. */
export async function uninstall(connection: Connection, options: UninstallOptions): Promise<number> {
  const { removal, where } = options;
  let told = 0;
  const tell = (line: string): void => {
    told++;
    removal.tell(line);
  };
  const failures = await uninstallAll(connection, { ...options, removal: { ...removal, tell } });
  if (told === 0) removal.tell(`Nothing to remove: Portcullis is not installed in namespace ${where.namespace}.`);
  return failures;
}

async function uninstallAll(connection: Connection, options: UninstallOptions): Promise<number> {
  const { removal, purge } = options;
  if (!(await removeWebhooks(connection, options))) {
    removal.tell('The rest stays: without it, API servers would refuse what they ask these webhooks about.');
    return 1;
  }
  const failures = [
    await removeReplicas(connection, options),
    await removeSurroundings(connection, options),
    purge.length > 0 ? await purgeSccsAndNamespaces(connection, options) : 0,
    await removeNamespace(connection, options),
  ];
  return failures.reduce((sum, count) => sum + count, 0);
}

/** True if API servers ask none of our webhooks any more. */
async function removeWebhooks(connection: Connection, { where, removal, waitMs }: UninstallOptions): Promise<boolean> {
  const { signal, dryRun, tell } = removal;
  const { targets, unknown } = await findTargets(connection, WEBHOOKS, where);
  for (const message of unknown) tell(`Webhook configurations cannot be looked for: ${message}`);
  if (unknown.length > 0 || (await removeAll(connection, targets, removal)) > 0) return false;
  if (dryRun || targets.length === 0) return true;
  const left = async () => (await findTargets(connection, WEBHOOKS, where)).targets;
  const still = await waitUntilGone(left, { timeoutMs: WEBHOOKS_TIMEOUT_MS, signal });
  for (const { name } of still) tell(`Webhook configuration ${name} is still there.`);
  if (still.length > 0) return false;
  tell(`Waiting ${waitMs / 1000} s for API servers to notice.`);
  await pause(waitMs, undefined, { signal });
  return true;
}

async function removeReplicas(connection: Connection, options: UninstallOptions): Promise<number> {
  const { where, removal } = options;
  await tellProcesses(connection, options);
  const failures = await removeFound(connection, REPLICAS, where, removal);
  if (removal.dryRun || failures > 0) return failures;
  const { namespace, signal } = where;
  const left = async (): Promise<readonly AnyObject[]> => {
    const pods = await ifThere(() => listObjects(connection, PODS, { namespace, signal }));
    return (pods ?? []).filter((pod) => isOurs(PODS, pod));
  };
  const still = await waitUntilGone(left, { timeoutMs: REPLICAS_TIMEOUT_MS, signal });
  for (const { metadata } of still) removal.tell(`pods/${metadata.name} still runs; going on without waiting for it.`);
  return 0;
}

async function tellProcesses(connection: Connection, { where, removal, now }: UninstallOptions): Promise<void> {
  try {
    for (const host of await findProcesses(connection, where, now)) {
      removal.tell(`The replica ${host} is no pod of this cluster and goes on running: stop its process there.`);
    }
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    removal.tell(`Replicas outside of the cluster cannot be looked for: ${error.message}`);
  }
}

async function removeSurroundings(connection: Connection, { where, removal }: UninstallOptions): Promise<number> {
  return await removeFound(connection, SURROUNDINGS, where, removal);
}

async function removeFound(
  connection: Connection,
  parts: Parameters<typeof findTargets>[1],
  where: Where,
  removal: Removal,
): Promise<number> {
  const { targets, unknown } = await findTargets(connection, parts, where);
  for (const message of unknown) removal.tell(`Not looked for: ${message}`);
  return unknown.length + (await removeAll(connection, targets, removal));
}

async function purgeSccsAndNamespaces(connection: Connection, options: UninstallOptions): Promise<number> {
  const { removal, purge } = options;
  if (await areSccsOfOthers(connection, removal.signal)) {
    removal.tell(
      'SCCs and what belongs to them stay: in this cluster they are not ours (their definition lacks our label).',
    );
    return 1;
  }
  const sccs = purge.includes('sccs') ? await findSccs(connection, removal.signal) : [];
  for (const name of sccs.length > 0 ? await findOwnSccs(connection, removal.signal) : []) {
    const suffix = removal.dryRun ? ' (server dry run)' : '';
    removal.tell(`${printTarget(RESOURCES.SecurityContextConstraints, name)} goes with its definition${suffix}`);
  }
  const kept = await removeAll(connection, sccs, removal);
  return kept + (purge.includes('namespaces') ? await purgeNamespaces(connection, removal) : 0);
}

/** The namespace goes if it is ours and nobody would miss anything in it. */
async function removeNamespace(connection: Connection, { where, removal }: UninstallOptions): Promise<number> {
  const { namespace: name, signal } = where;
  const path = objectPath(NAMESPACES, name);
  const namespace = (await ifThere(() => connection.request({ method: 'GET', path, signal }))) as AnyObject | undefined;
  if (!namespace || namespace.metadata.deletionTimestamp != null) return 0;
  if (!isOurs(NAMESPACES, namespace)) {
    removal.tell(`namespaces/${name} stays: it has no label ${PART_OF_LABEL}=${PART_OF}.`);
    return 0;
  }
  const belongings = await findBelongings(connection, where);
  if (belongings.length > 0) {
    removal.tell(`namespaces/${name} stays: it also holds ${belongings.join(', ')}.`);
    return 0;
  }
  return await removeAll(connection, [targetOf(NAMESPACES, namespace)], removal);
}
