import type { Connection } from '../../cluster/live/connect.ts';
import { PART_OF, PART_OF_LABEL } from '../../kube/installation.ts';
import { RESOURCES } from '../../kube/resources.ts';
import type { KubeObject } from '../../kube/types.ts';
import { STANDARD_CLUSTER_ROLE_BINDINGS, STANDARD_CLUSTER_ROLES } from '../../policy/scc/standard.ts';
import { ifThere } from '../installation/connect.ts';
import { objectPath, type AnyObject, type Resource } from '../installation/resource.ts';
import { targetOf, type Target } from './find.ts';

const DEFINITIONS: Resource = {
  group: 'apiextensions.k8s.io',
  version: 'v1',
  resource: 'customresourcedefinitions',
};

const SCC_DEFINITION = definitionOf(RESOURCES.SecurityContextConstraints);
const OUR_DEFINITIONS = [SCC_DEFINITION, definitionOf(RESOURCES.RangeAllocation)];

function definitionOf({ resource, group }: Resource): string {
  return `${resource}.${group}`;
}

/**
 * True if SCCs are somebody else's in this cluster, as they are on OpenShift: their definition is not ours.
 * Rejects as `request` does.
 */
export async function areSccsOfOthers(connection: Connection, signal: AbortSignal): Promise<boolean> {
  const definition = await get(connection, DEFINITIONS, SCC_DEFINITION, signal);
  return definition !== undefined && !isLabelled(definition);
}

/** The definitions of SCCs and of their records, with which all objects go, and the roles by which they are used. */
export async function findSccs(connection: Connection, signal: AbortSignal): Promise<readonly Target[]> {
  const names: readonly (readonly [Resource, string])[] = [
    ...STANDARD_CLUSTER_ROLE_BINDINGS.map((one) => [RESOURCES.ClusterRoleBinding, nameOf(one)] as const),
    ...STANDARD_CLUSTER_ROLES.map((one) => [RESOURCES.ClusterRole, nameOf(one)] as const),
    ...OUR_DEFINITIONS.map((name) => [DEFINITIONS, name] as const),
  ];
  const found = await Promise.all(
    names.map(async ([resource, name]) => ({ resource, object: await get(connection, resource, name, signal) })),
  );
  return found.flatMap(({ resource, object }) => {
    if (!object || (resource === DEFINITIONS && !isLabelled(object))) return [];
    return [targetOf(resource, object)];
  });
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
