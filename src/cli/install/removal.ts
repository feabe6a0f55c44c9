/**
 * Deletes and changes objects for `uninstall`, and reports each change, the objects that remain, and the commands that
 * remove them.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import {
  GRANT_EXPIRY_ANNOTATION,
  TEMPORARY_GRANTS_ANNOTATION,
  TEMPORARY_GRANT_PREFIX,
  BREAK_GLASS_MANAGER,
  CONFIGURATION_NAME,
  ENFORCE_LABEL,
  INSTALLATION,
  KUBELET_CONDITION,
  KUBELET_STATE_ANNOTATION,
  KUBELET_TAINT,
  NODE_REPORTER,
  TIER_LABEL,
} from '../../api/names.ts';
import { isPartOfPortcullis } from '../../api/webhooks.ts';
import { type AnyObject, type ClusterClient, ignoreNotFound, DEFINITIONS } from '../../cluster/client.ts';
import type { Condition } from '../../kube/conditions.ts';
import { defined } from '../../kube/defined.ts';
import { getMetadataOwners } from '../../kube/managed-fields.ts';
import { objectPath, type ResourceInfo, resourceName, RESOURCES, objectName } from '../../kube/resources.ts';
import { NAMESPACE_RANGE_ANNOTATIONS } from '../../kube/scc.ts';
import { ApiError } from '../../kube/status.ts';
import { summarizeNames } from '../../kube/text.ts';
import {
  type JsonObject,
  type Namespace,
  type Node,
  type PortcullisConfiguration,
  valueAt,
  type RoleBinding,
} from '../../kube/types.ts';
import { formatTimestamp } from '../../kube/units.ts';
import {
  LABEL_SYNC_MANAGER,
  RUN_LEVEL_ZERO_MANAGER,
  POD_SECURITY_LABELS,
  RANGE_ALLOCATION_MANAGER,
} from '../../kube/well-known.ts';
import { isStricter, NO_DEFAULTS, resolvePolicies } from '../../policy/psa/index.ts';
import { isTerminating } from '../../policy/rollout/index.ts';
import { SCC_MODE_LABEL, useRoleName } from '../../policy/scc/index.ts';
import { type DryRun, dryRunSuffix } from '../cluster.ts';
import { PROGRAM } from '../command.ts';
import { readPolicyObjects } from '../installation/policies.ts';
import { kubectl, printCommand, type ShellCommand } from '../output/shell.ts';

const { enforce: ENFORCE } = POD_SECURITY_LABELS;

export interface UninstallScope {
  /** Installation namespace. */
  readonly namespace: string;
  /** True to keep the Pod Security labels that Portcullis set. */
  readonly keepsLabels: boolean;
  /** True to keep the policies of an installation without a server. */
  readonly keepsPolicies: boolean;
  /** True to delete the CRDs with all their objects, and the SCC grants. */
  readonly purgesDefinitions: boolean;
  /** Owner of the SCC CRD, which is Portcullis or another product. `none` without the SCC feature. */
  readonly sccs: 'own' | 'foreign' | 'none';
}

interface RemovalTarget {
  readonly client: ClusterClient;
  /** Installation namespace. */
  readonly namespace: string;
  readonly dryRun: DryRun;
  /** Time to wait after a step until all API servers have observed it. */
  readonly waitMs: number;
}

/** The input of every step of an uninstallation. */
export interface Removal extends RemovalTarget {
  /** Numbers of reported lines and of failures. */
  readonly counts: { readonly reported: number; readonly failed: number };
  report(line: string): void;
  /** Prints a line and counts it as a failure. */
  fail(line: string): void;
}

export function createRemoval(target: RemovalTarget, print: (line: string) => void): Removal {
  const counts = { reported: 0, failed: 0 };
  const report = (line: string): void => {
    counts.reported++;
    print(line);
  };
  const fail = (line: string): void => {
    counts.failed++;
    report(line);
  };
  return { ...target, counts, report, fail };
}

export async function pause({ client }: Removal, ms: number): Promise<void> {
  await sleep(ms, undefined, { signal: client.signal });
}

export interface Deletion {
  readonly resource: ResourceInfo;
  readonly object: AnyObject;
}

/**
 * Deletes objects one at a time, or only reports them in a dry run. Does not delete an object that another client has
 * replaced. Resolves to false if the API server rejects a deletion.
 */
export async function deleteObjects(removal: Removal, targets: readonly Deletion[]): Promise<boolean> {
  let isDone = true;
  for (const { resource, object } of targets) {
    const { name, namespace, uid } = object.metadata;
    const path = objectPath(resource, name, namespace);
    const body = {
      apiVersion: 'v1',
      kind: 'DeleteOptions',
      propagationPolicy: 'Background',
      ...(uid === undefined ? {} : { preconditions: { uid } }),
      ...(removal.dryRun === 'server' ? { dryRun: ['All'] } : {}),
    };
    const send = () => removal.client.send({ method: 'DELETE', path, body });
    const elsewhere = namespace === undefined || namespace === removal.namespace ? '' : ` in namespace ${namespace}`;
    isDone = (await reportChange(removal, `${formatName(resource, name)}${elsewhere}`, 'deleted', send)) && isDone;
  }
  return isDone;
}

/**
 * Sends a change, except in a client-side dry run, and reports the result. Resolves to false if the API server rejects
 * it.
 */
async function reportChange(
  { dryRun, report, fail }: Removal,
  title: string,
  change: string,
  send: () => Promise<unknown>,
): Promise<boolean> {
  try {
    const isChanged = dryRun === 'client' || (await ignoreNotFound(send())) !== undefined;
    report(`${title} ${isChanged ? '' : 'already '}${change}${dryRunSuffix(dryRun)}`);
    return true;
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    fail(`${title} not ${change}: ${error.message}`);
    return false;
  }
}

/** Returns the name of an object in kubectl notation, such as `deployments.apps/portcullis`. */
export function formatName(resource: ResourceInfo, name: string): string {
  return `${resourceName(resource)}/${name}`;
}

/** Applies an object as a field manager. The API server removes all other fields that only this manager owns. */
function applyFields({ client, dryRun }: Removal, manager: string, path: string, object: JsonObject, isForced = false) {
  const force = isForced ? { force: 'true' } : {};
  return client.send({
    method: 'PATCH',
    path,
    query: { fieldManager: manager, ...force, ...(dryRun === 'server' ? { dryRun: 'All' } : {}) },
    contentType: 'application/apply-patch+yaml',
    body: object,
  });
}

/** Field managers that set Pod Security labels through server-side apply. */
const LABEL_MANAGERS = [LABEL_SYNC_MANAGER, RUN_LEVEL_ZERO_MANAGER, BREAK_GLASS_MANAGER] as const;

/** Returns the label managers that own fields of a namespace, or none for a terminating namespace. */
function findLabelManagers(namespace: Namespace): readonly string[] {
  if (isTerminating(namespace)) return [];
  const owners = getMetadataOwners(namespace.metadata) ?? [];
  const isOwner = (name: string): boolean =>
    owners.some(({ manager, operation }) => manager === name && operation === 'Apply');
  return LABEL_MANAGERS.filter(isOwner);
}

/** Removes labels and annotations that only the Portcullis label controllers own. Resolves to true if there are any. */
export async function removeLabels(removal: Removal): Promise<boolean> {
  let isFound = false;
  for (const namespace of await removal.client.list(RESOURCES.Namespace)) {
    const { name, uid } = namespace.metadata;
    const object = { apiVersion: 'v1', kind: 'Namespace', metadata: { name, ...defined({ uid }) } };
    const path = objectPath(RESOURCES.Namespace, name);
    for (const manager of findLabelManagers(namespace)) {
      const send = () => applyFields(removal, manager, path, object);
      await reportChange(removal, `namespaces/${name} labels owned by ${manager}`, 'removed', send);
      isFound = true;
    }
  }
  return isFound;
}

/**
 * Sets the upstream label to the level of the label `portcullis.dev/enforce`, which only Portcullis enforces, unless the
 * upstream label that remains requires at least this level, or the settings exempt the namespace.
 */
export async function keepOwnLevels(removal: Removal, { keepsLabels }: UninstallScope): Promise<void> {
  const configuration: PortcullisConfiguration | undefined = await removal.client.get(
    RESOURCES.PortcullisConfiguration,
    CONFIGURATION_NAME,
  );
  const exempt = valueAt(configuration?.spec, ['podSecurity', 'exemptions', 'namespaces']);
  for (const namespace of await removal.client.list(RESOURCES.Namespace)) {
    const { name, labels = {} } = namespace.metadata;
    const { [ENFORCE_LABEL]: own, ...others } = labels;
    const { [ENFORCE]: _removed, ...withoutLevel } = others;
    const isRemoved = !keepsLabels && findLabelManagers(namespace).length > 0;
    const level = resolvePolicies(own === undefined ? {} : { [ENFORCE_LABEL]: own }, NO_DEFAULTS).enforce.level;
    const remaining = resolvePolicies(isRemoved ? withoutLevel : others, NO_DEFAULTS).enforce.level;
    if (isTerminating(namespace) || !isStricter(level, remaining)) continue;
    if (Array.isArray(exempt) && exempt.includes(name)) continue;
    const object = { apiVersion: 'v1', kind: 'Namespace', metadata: { name, labels: { [ENFORCE]: level } } };
    const send = () => applyFields(removal, INSTALLATION.name, objectPath(RESOURCES.Namespace, name), object, true);
    const title = `namespaces/${name} label ${ENFORCE}=${level}, because ${ENFORCE_LABEL}=${own} no longer applies,`;
    await reportChange(removal, title, 'set', send);
  }
}

/** Conditions that would remain true after the replicas are deleted. */
const ENDED_CONDITIONS = [
  [RESOURCES.PortcullisConfiguration, 'Applied'],
  [RESOURCES.PSAEnforcementConfig, 'Enforcing'],
] as const;

/** Records in the status of the settings and of the rollout that nothing is enforced. */
export async function endStatus(removal: Removal): Promise<void> {
  const { client, dryRun } = removal;
  for (const [resource, type] of ENDED_CONDITIONS) {
    const object: (AnyObject & PortcullisConfiguration) | undefined = await client.get(resource, CONFIGURATION_NAME);
    const conditions = object?.status?.conditions ?? [];
    if (!conditions.some((condition) => condition.type === type && condition.status === 'True')) continue;
    const ended: Partial<Condition> = {
      status: 'False',
      reason: 'Uninstalled',
      message: 'Portcullis is not installed',
      lastTransitionTime: formatTimestamp(Date.now()),
    };
    const send = () =>
      client.send({
        method: 'PATCH',
        path: `${objectPath(resource, CONFIGURATION_NAME)}/status`,
        query: { fieldManager: INSTALLATION.name, ...(dryRun === 'server' ? { dryRun: 'All' } : {}) },
        contentType: 'application/merge-patch+json',
        body: {
          status: {
            conditions: conditions.map((condition) =>
              condition.type === type ? { ...condition, ...ended } : condition,
            ),
          },
        },
      });
    await reportChange(removal, `${formatName(resource, CONFIGURATION_NAME)} condition ${type}`, 'set to False', send);
  }
}

/** Removes the kubelet version condition, annotation and taint from all nodes. */
export async function removeNodeReports(removal: Removal): Promise<void> {
  const { client, dryRun } = removal;
  for (const node of (await client.list(RESOURCES.Node)) as readonly (AnyObject & Node)[]) {
    const { name, annotations } = node.metadata;
    const path = objectPath(RESOURCES.Node, name);
    const object = { apiVersion: 'v1', kind: 'Node', metadata: { name } };
    const hasCondition = node.status?.conditions?.some(({ type }) => type === KUBELET_CONDITION) === true;
    if (hasCondition || annotations?.[KUBELET_STATE_ANNOTATION] !== undefined) {
      await reportChange(removal, `nodes/${name} kubelet version report`, 'removed', async () => {
        await applyFields(removal, NODE_REPORTER, `${path}/status`, { ...object, status: { conditions: [] } });
        return await applyFields(removal, NODE_REPORTER, path, object);
      });
    }
    const index = node.spec?.taints?.findIndex(({ key }) => key === KUBELET_TAINT) ?? -1;
    if (index < 0) continue;
    const operations = [
      { op: 'test', path: `/spec/taints/${index}/key`, value: KUBELET_TAINT },
      { op: 'remove', path: `/spec/taints/${index}` },
    ] as const;
    const send = () => client.patch(RESOURCES.Node, name, { operations, dryRun: dryRun === 'server' });
    await reportChange(removal, `nodes/${name} taint ${KUBELET_TAINT}`, 'removed', send);
  }
}

/** Roles of the installation that administrators bind to users. */
const USER_ROLES = ['propose-exceptions', 'approve-exceptions', 'lower-levels'].map(
  (role) => `${INSTALLATION.name}-${role}`,
);

const PURGE = uninstall('--purge-crds');

function uninstall(...options: readonly string[]): ShellCommand {
  return { program: PROGRAM, args: ['uninstall', ...options] };
}

/** Describes the items that remain (in a dry run, that would remain), each with the command that removes it. */
export async function findRemains(
  client: ClusterClient,
  { namespace, keepsLabels, keepsPolicies, purgesDefinitions, sccs }: UninstallScope,
  clusterFlags: readonly string[],
): Promise<readonly string[]> {
  const policies = keepsPolicies ? await readPolicyObjects(client) : [];
  const definitions = purgesDefinitions ? [] : (await client.list(DEFINITIONS)).filter(isPartOfPortcullis);
  const grants = purgesDefinitions ? [] : await findRemainingGrants(client, sccs);
  const granted = [
    ...(grants.every(isUserGrant) ? [] : ['of SCCs']),
    ...(grants.some(isUserGrant) ? ['of exceptions or of lower levels'] : []),
  ];
  const temporary = purgesDefinitions && sccs !== 'foreign' ? [] : await findTemporaryGrants(client);
  const namespaces = (await client.list(RESOURCES.Namespace)).filter((object) => !isTerminating(object));
  const isInstallation = (object: AnyObject): boolean => objectName(object) === namespace && isPartOfPortcullis(object);
  const others = namespaces.filter((namespace) => !isInstallation(namespace));
  const managed =
    keepsLabels && sccs !== 'foreign' ? others.filter((other) => findLabelManagers(other).length > 0) : [];
  const policyRemains = [
    ...(policies.length === 0 ? [] : ['policies in the API server']),
    ...(managed.length === 0 ? [] : [`Pod Security labels that Portcullis set on ${listNames(managed)}`]),
  ];
  const labels = [SCC_MODE_LABEL, TIER_LABEL, ENFORCE_LABEL].map((key) => ({
    key,
    labeled: others.filter(({ metadata }) => metadata.labels?.[key] !== undefined),
  }));
  const ranges = sccs === 'foreign' ? [] : others.filter(hasOwnRanges);
  const recorded = others.filter(({ metadata }) => metadata.annotations?.[TEMPORARY_GRANTS_ANNOTATION] !== undefined);
  const rangeKeys = Object.values(NAMESPACE_RANGE_ANNOTATIONS).map((key) => `${key}-`);
  const remains: readonly (readonly [objects: readonly AnyObject[], title: string, command: ShellCommand])[] = [
    [
      definitions,
      `CustomResourceDefinitions with all their objects, such as settings${sccs === 'own' ? ' and SCCs' : ''}`,
      PURGE,
    ],
    [
      grants.map(({ object }) => object),
      grants.length === 1
        ? `1 role or binding that grants the use ${granted.join(' or ')}`
        : `${grants.length} roles and bindings that grant the use ${granted.join(' or ')}`,
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
      recorded,
      `annotation ${TEMPORARY_GRANTS_ANNOTATION} of ${listNames(recorded)}`,
      kubectl('annotate', 'namespaces', ...recorded.map(objectName), `${TEMPORARY_GRANTS_ANNOTATION}-`),
    ],
    [
      ranges,
      `annotations openshift.io/sa.scc.* that Portcullis set on ${listNames(ranges)}`,
      kubectl('annotate', 'namespaces', ...ranges.map(objectName), ...rangeKeys),
    ],
    [namespaces.filter(isInstallation), `namespace ${namespace}`, kubectl('delete', 'namespace', namespace)],
  ];
  return remains.flatMap(([objects, title, command]) =>
    objects.length === 0 ? [] : [`${title}: ${printCommand(command, clusterFlags)}`],
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

/** Returns true if Portcullis is the only owner of a namespace's range annotations. */
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
 * followed by these ClusterRoles and the bindings of the roles for exceptions. Bindings must not remain after their
 * roles are deleted, because users could then grant themselves permissions by creating roles with these names.
 */
export async function findRemainingGrants(client: ClusterClient, sccs: UninstallScope['sccs']) {
  const { ClusterRole, ClusterRoleBinding, RoleBinding: Binding } = RESOURCES;
  const lists = [ClusterRoleBinding, Binding, ClusterRole].map(async (resource) => {
    const objects = (await client.list(resource)) as readonly (AnyObject & Pick<Partial<RoleBinding>, 'roleRef'>)[];
    const isGrant = (object: (typeof objects)[number]): boolean => {
      const { roleRef, metadata } = object;
      if (roleRef !== undefined && roleRef.kind !== 'ClusterRole') return false;
      if (isUserGrant({ object })) return true;
      return sccs !== 'foreign' && (roleRef?.name ?? metadata.name).startsWith(useRoleName(''));
    };
    return objects.filter(isGrant).map((object) => ({ resource, object }));
  });
  return (await Promise.all(lists)).flat();
}

/** Returns true for a binding of a role that administrators bind to users. */
function isUserGrant({ object }: { readonly object: AnyObject }): boolean {
  const { roleRef } = object as Pick<Partial<RoleBinding>, 'roleRef'>;
  return roleRef?.kind === 'ClusterRole' && USER_ROLES.includes(roleRef.name);
}
