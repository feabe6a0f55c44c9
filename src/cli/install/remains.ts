/** Finds objects, labels and annotations that remain after an uninstallation, and the commands that remove them. */
import { type AnyObject, type ClusterClient, DEFINITIONS } from '../../cluster/client.ts';
import { getMetadataOwners } from '../../kube/managed-fields.ts';
import { objectName, type ResourceInfo, RESOURCES } from '../../kube/resources.ts';
import { GRANT_EXPIRY_ANNOTATION, NAMESPACE_RANGE_ANNOTATIONS, TEMPORARY_GRANT_PREFIX } from '../../kube/scc.ts';
import { summarizeNames } from '../../kube/text.ts';
import type { Namespace, RoleBinding } from '../../kube/types.ts';
import { isPartOfPortcullis } from '../../kube/webhooks.ts';
import { ENFORCE_LABEL, INSTALLATION, RANGE_ALLOCATION_MANAGER, TIER_LABEL } from '../../kube/well-known.ts';
import { isTerminating } from '../../policy/rollout/index.ts';
import { SCC_MODE_LABEL, useRoleName } from '../../policy/scc/index.ts';
import { PROGRAM } from '../command.ts';
import { readPolicyObjects } from '../installed/serverless.ts';
import { kubectl, printCommand, type ShellCommand } from '../output/shell.ts';
import { findLabelManagers, type UninstallScope } from './removal.ts';

/** Roles of the installation that administrators bind to users. */
const EXCEPTION_ROLES = ['propose', 'approve'].map((verb) => `${INSTALLATION.name}-${verb}-exceptions`);

const PURGE = uninstall('--purge-crds');

function uninstall(...options: readonly string[]): ShellCommand {
  return { program: PROGRAM, args: ['uninstall', ...options] };
}

/**
 * Describes the remaining items, each with the command that removes it. In a dry run, describes the items that would
 * remain.
 */
export async function findRemains(
  client: ClusterClient,
  { namespace, keepsLabels, keepsPolicies, purgesDefinitions, hasForeignSccs }: UninstallScope,
): Promise<readonly string[]> {
  const policies = keepsPolicies ? await readPolicyObjects(client) : [];
  const definitions = purgesDefinitions ? [] : (await client.list(DEFINITIONS)).filter(isPartOfPortcullis);
  const grants = purgesDefinitions ? [] : await findRemainingGrants(client, hasForeignSccs);
  const temporary = purgesDefinitions && !hasForeignSccs ? [] : await findTemporaryGrants(client);
  const namespaces = (await client.list(RESOURCES.Namespace)).filter((object) => !isTerminating(object));
  const isInstallation = (object: AnyObject): boolean => objectName(object) === namespace && isPartOfPortcullis(object);
  const others = namespaces.filter((namespace) => !isInstallation(namespace));
  const managed = keepsLabels && !hasForeignSccs ? others.filter((other) => findLabelManagers(other).length > 0) : [];
  const policyRemains = [
    ...(policies.length === 0 ? [] : ['policies in the API server']),
    ...(managed.length === 0 ? [] : [`Pod Security labels that Portcullis set on ${listNames(managed)}`]),
  ];
  const labels = [SCC_MODE_LABEL, TIER_LABEL, ENFORCE_LABEL].map((key) => ({
    key,
    labeled: others.filter(({ metadata }) => metadata.labels?.[key] !== undefined),
  }));
  const ranges = hasForeignSccs ? [] : others.filter(hasOwnRanges);
  const rangeKeys = Object.values(NAMESPACE_RANGE_ANNOTATIONS).map((key) => `${key}-`);
  const remains: readonly (readonly [objects: readonly AnyObject[], title: string, command: ShellCommand])[] = [
    [definitions, 'CustomResourceDefinitions with all their objects, such as settings and SCCs', PURGE],
    [
      grants.map(({ object }) => object),
      `${grants.length} roles and bindings that grant the use of SCCs or of exceptions`,
      PURGE,
    ],
    ...temporary.map(
      ({ resource, object }) =>
        [
          [object],
          `temporary grant ${objectName(object)}, which no longer ends at ${object.metadata.annotations?.[GRANT_EXPIRY_ANNOTATION]}`,
          deleteObject(resource, object),
        ] as const,
    ),
    [[...policies, ...managed], policyRemains.join(', and '), uninstall()],
    ...labels.map(
      ({ key, labeled }) =>
        [
          labeled,
          `labels ${key} of ${listNames(labeled)}`,
          kubectl('label', 'namespaces', '-l', key, `${key}-`),
        ] as const,
    ),
    [
      ranges,
      `annotations openshift.io/sa.scc.* that Portcullis set on ${listNames(ranges)}`,
      kubectl('annotate', 'namespaces', ...ranges.map(objectName), ...rangeKeys),
    ],
    [namespaces.filter(isInstallation), `namespace ${namespace}`, kubectl('delete', 'namespace', namespace)],
  ];
  return remains.flatMap(([objects, title, command]) =>
    objects.length === 0 ? [] : [`${title}: ${printCommand(command)}`],
  );
}

/** Returns the bindings from `scc grant --for`, which only the leader deletes. */
async function findTemporaryGrants(client: ClusterClient) {
  const lists = [RESOURCES.ClusterRoleBinding, RESOURCES.RoleBinding].map(async (resource) => {
    const objects: readonly AnyObject[] = await client.list(resource);
    const isTemporary = (object: AnyObject): boolean => objectName(object).startsWith(TEMPORARY_GRANT_PREFIX);
    return objects.filter(isTemporary).map((object) => ({ resource, object }));
  });
  return (await Promise.all(lists)).flat();
}

function deleteObject({ resource }: ResourceInfo, { metadata: { name, namespace } }: AnyObject): ShellCommand {
  return kubectl(...(namespace === undefined ? [] : ['-n', namespace]), 'delete', resource, name);
}

function listNames(objects: readonly AnyObject[]): string {
  return summarizeNames(objects.map(objectName));
}

/** True if Portcullis is the only owner of a namespace's range annotations. */
function hasOwnRanges({ metadata }: Namespace): boolean {
  const keys = Object.values(NAMESPACE_RANGE_ANNOTATIONS).filter((key) => metadata?.annotations?.[key] !== undefined);
  const owners = getMetadataOwners(metadata) ?? [];
  const managers = keys.map((key) =>
    owners.flatMap(({ manager, annotations }) => (annotations.has(key) ? manager : [])),
  );
  const isOwn = (names: readonly string[]): boolean =>
    names.length > 0 && names.every((name) => name === RANGE_ALLOCATION_MANAGER);
  return keys.length > 0 && managers.every(isOwn);
}

/**
 * Returns all bindings of the ClusterRoles that grant SCCs, including bindings from `scc grant` and `scc plan`,
 * followed by these ClusterRoles, and the bindings of the roles for exceptions. Without the roles, users could grant
 * themselves permissions by creating roles with these names.
 */
export async function findRemainingGrants(client: ClusterClient, hasForeignSccs: boolean) {
  const { ClusterRole, ClusterRoleBinding, RoleBinding: Binding } = RESOURCES;
  const lists = [ClusterRoleBinding, Binding, ClusterRole].map(async (resource) => {
    const objects = (await client.list(resource)) as readonly (AnyObject & Pick<Partial<RoleBinding>, 'roleRef'>)[];
    const isGrant = ({ roleRef, metadata }: (typeof objects)[number]): boolean => {
      if (roleRef !== undefined && roleRef.kind !== 'ClusterRole') return false;
      if (roleRef !== undefined && EXCEPTION_ROLES.includes(roleRef.name)) return true;
      return !hasForeignSccs && (roleRef?.name ?? metadata.name).startsWith(useRoleName(''));
    };
    return objects.filter(isGrant).map((object) => ({ resource, object }));
  });
  return (await Promise.all(lists)).flat();
}
