import type { Connection } from '../../cluster/connect.ts';
import { PART_OF, PART_OF_LABEL } from '../../kube/installation.ts';
import { RESOURCES } from '../../kube/resources.ts';
import type { KubeObject } from '../../kube/types.ts';
import { STANDARD_CLUSTER_ROLE_BINDINGS, STANDARD_CLUSTER_ROLES, STANDARD_SCCS } from '../../policy/scc/standard.ts';
import { ifThere } from '../installation/connect.ts';
import { listObjects, objectPath, type AnyObject, type Resource } from '../installation/resource.ts';
import { targetOf, type Target } from './find.ts';

const DEFINITIONS: Resource = {
  group: 'apiextensions.k8s.io',
  version: 'v1',
  resource: 'customresourcedefinitions',
};

const { resource, group } = RESOURCES.SecurityContextConstraints;
const SCC_DEFINITION = `${resource}.${group}`;

/**
 * True if SCCs are somebody else's in this cluster, as they are on OpenShift: their definition is not ours.
 * Rejects as `request` does.
 */
export async function areSccsOfOthers(connection: Connection, signal: AbortSignal): Promise<boolean> {
  const definition = await get(connection, DEFINITIONS, SCC_DEFINITION, signal);
  return definition !== undefined && !isLabelled(definition);
}

/** The roles by which the standard SCCs are used, and our definitions, with which all their objects go. */
export async function findSccs(connection: Connection, signal: AbortSignal): Promise<readonly Target[]> {
  const roles = [
    ...STANDARD_CLUSTER_ROLE_BINDINGS.map((one) => ({ part: RESOURCES.ClusterRoleBinding, name: nameOf(one) })),
    ...STANDARD_CLUSTER_ROLES.map((one) => ({ part: RESOURCES.ClusterRole, name: nameOf(one) })),
  ];
  const found = await Promise.all(
    roles.map(async ({ part, name }) => ({ part, object: await get(connection, part, name, signal) })),
  );
  const definitions = await listObjects(connection, DEFINITIONS, { labels: `${PART_OF_LABEL}=${PART_OF}`, signal });
  return [
    ...found.flatMap(({ part, object }) => (object ? [targetOf(part, object)] : [])),
    ...definitions.map((definition) => targetOf(DEFINITIONS, definition)),
  ];
}

const STANDARD: ReadonlySet<string> = new Set(STANDARD_SCCS.map(({ scc }) => nameOf(scc)));

/** The names of SCCs that do not ship with the platform: nobody makes them again. Rejects as `request` does. */
export async function findOwnSccs(connection: Connection, signal: AbortSignal): Promise<readonly string[]> {
  const sccs = await ifThere(() => listObjects(connection, RESOURCES.SecurityContextConstraints, { signal }));
  return (sccs ?? []).map(({ metadata }) => metadata.name).filter((name) => !STANDARD.has(name));
}

async function get(
  connection: Connection,
  resource: Resource,
  name: string,
  signal: AbortSignal,
): Promise<AnyObject | undefined> {
  const object = await ifThere(() => connection.request({ method: 'GET', path: objectPath(resource, name), signal }));
  return object as AnyObject | undefined;
}

function isLabelled({ metadata }: AnyObject): boolean {
  return metadata.labels?.[PART_OF_LABEL] === PART_OF;
}

function nameOf({ metadata: { name = '' } = {} }: KubeObject): string {
  return name;
}
