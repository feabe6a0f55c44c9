import type { Connection } from '../../cluster/connect.ts';
import { ApiError } from '../../kube/status.ts';
import { ifThere } from '../installation/connect.ts';
import { listObjects, printTarget, type AnyObject, type Resource } from '../installation/resource.ts';
import { BELONGINGS, isSomebodyElses } from './leftovers.ts';
import { isOurs, type Part } from './stages.ts';

/** An object that is to be removed. */
export interface Target {
  readonly part: Resource;
  readonly name: string;
  readonly namespace?: string;
  readonly uid: string | undefined;
}

/** What was found, and what could not be looked for. */
export interface Found {
  readonly targets: readonly Target[];
  readonly unknown: readonly string[];
}

export interface Where {
  /** Of the installation: what lies in others is not looked at. */
  readonly namespace: string;
  readonly signal: AbortSignal;
}

/** All objects of ours among the parts, in their order. Rejects only if the server cannot be reached. */
export async function findTargets(connection: Connection, parts: readonly Part[], where: Where): Promise<Found> {
  const found = await Promise.all(parts.map((part) => findPart(connection, part, where)));
  return { targets: found.flatMap(({ targets }) => targets), unknown: found.flatMap(({ unknown }) => unknown) };
}

async function findPart(connection: Connection, part: Part, { namespace, signal }: Where): Promise<Found> {
  const place = part.scope === 'Namespaced' ? namespace : undefined;
  try {
    // Kinds that the cluster does not serve have no objects.
    const objects = (await ifThere(() => listObjects(connection, part, { namespace: place, signal }))) ?? [];
    const ours = objects.filter((object) => isOurs(part, object));
    return { targets: ours.map((object) => targetOf(part, object, place)), unknown: [] };
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    return { targets: [], unknown: [error.message] };
  }
}

export function targetOf(part: Resource, { metadata: { name, uid } }: AnyObject, namespace?: string): Target {
  return { part, name, uid, ...(namespace === undefined ? {} : { namespace }) };
}

/** What in the namespace is not ours, as kubectl names it. Rejects as `request` does. */
export async function findBelongings(connection: Connection, { namespace, signal }: Where): Promise<readonly string[]> {
  const lists = await Promise.all(
    BELONGINGS.map(async (resource) => {
      const objects = (await ifThere(() => listObjects(connection, resource, { namespace, signal }))) ?? [];
      return objects
        .filter((object) => isSomebodyElses(resource, object))
        .map(({ metadata: { name } }) => printTarget(resource, name));
    }),
  );
  return lists.flat();
}
