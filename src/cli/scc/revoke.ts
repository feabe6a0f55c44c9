import { getApiVersion, objectName, RESOURCES } from '../../kube/resources.ts';
import type { SecurityContextConstraints } from '../../kube/scc.ts';
import type { ClusterRole } from '../../kube/types.ts';
import { UserError } from '../../kube/user-error.ts';
import { readRules, type VerifiedRule, ruleAllows, USE_SCC } from '../../policy/rbac/index.ts';
import { createTemporaryUseRole, createUseRole, HOLD_TEMPORARY_GRANT } from '../../policy/scc/index.ts';
import { writeObject } from '../cluster.ts';
import { defineCommand, PROGRAM } from '../command.ts';
import { getClusterFlags, kubectl, printCommand } from '../output/shell.ts';
import {
  type Binding,
  type GrantChange,
  grantOptions,
  includes,
  printChange,
  withChange,
  type Written,
} from './change.ts';

const AUTO_UPDATE = 'rbac.authorization.kubernetes.io/autoupdate';

/**
 * Returns the rules of a binding's role. The rules of the SCC's own ClusterRole are known, so users need no permission
 * to read this role.
 */
async function readRole(
  { client, scc }: GrantChange,
  { roleRef, metadata }: Binding,
): Promise<readonly VerifiedRule[]> {
  const { kind, name } = roleRef;
  const known = [createUseRole(scc), createTemporaryUseRole(scc)].find((role) => objectName(role) === name);
  if (kind === 'ClusterRole' && known !== undefined) return readRules(known.rules);
  const resource = kind === 'ClusterRole' ? RESOURCES.ClusterRole : RESOURCES.Role;
  const role = await client.get(resource, name, kind === 'ClusterRole' ? undefined : metadata?.namespace);
  return readRules((role as ClusterRole | undefined)?.rules);
}

/** A binding or an SCC without the removed subjects, to be updated or deleted. */
interface Removal {
  readonly kind: 'ClusterRoleBinding' | 'RoleBinding' | 'SecurityContextConstraints';
  readonly object: Binding | SecurityContextConstraints;
  readonly isDeleted: boolean;
}

/**
 * Finds the bindings that grant the SCC to the subjects in the namespace or in all namespaces.
 * @throws {UserError} if a role also grants other permissions, which the subjects would lose
 */
async function findBindings(change: GrantChange): Promise<readonly Removal[]> {
  const { client, scc, subjects, values } = change;
  const { namespace } = values;
  const kind = namespace === undefined ? 'ClusterRoleBinding' : 'RoleBinding';
  const all = (await client.list(RESOURCES[kind], { namespace })) as unknown as readonly Binding[];
  const removals: Removal[] = [];
  for (const binding of all) {
    const before = binding.subjects ?? [];
    const after = before.filter((subject) => !includes(subjects, subject, namespace));
    if (after.length === before.length) continue;
    const rules = await readRole(change, binding);
    if (!rules.some((rule) => ruleAllows(rule, { ...USE_SCC, name: scc }))) continue;
    const { name } = binding.roleRef;
    if (!rules.every((rule) => grantsOnly(rule, scc))) {
      const scope = namespace === undefined ? [] : ['-n', namespace];
      const edit = kubectl(...scope, 'edit', kind.toLowerCase(), objectName(binding));
      const command = printCommand(edit, getClusterFlags(values));
      throw new UserError(`role ${name} also grants other permissions: remove the subjects with ${command}`);
    }
    const { annotations, finalizers = [] } = binding.metadata ?? {};
    // A binding with finalizers is updated instead, because it would remain after the deletion and still grant the SCC.
    const isDeleted = after.length === 0 && finalizers.length === 0 && annotations?.[AUTO_UPDATE] !== 'false';
    removals.push({ kind, object: { ...binding, apiVersion: getApiVersion(kind), kind, subjects: after }, isDeleted });
  }
  return removals;
}

function grantsOnly(
  { verbs, apiGroups, resources, resourceNames, nonResourceURLs }: VerifiedRule,
  scc: string,
): boolean {
  const isOnly = (list: readonly string[], name: string | undefined): boolean => list.every((item) => item === name);
  const isRule = ({ verb, apiGroup, resource }: Pick<typeof USE_SCC, 'verb' | 'apiGroup' | 'resource'>): boolean =>
    isOnly(verbs, verb) && isOnly(apiGroups, apiGroup) && isOnly(resources, resource);
  if (nonResourceURLs.length === 0 && resourceNames.length === 0 && isRule(HOLD_TEMPORARY_GRANT)) return true;
  return isRule(USE_SCC) && nonResourceURLs.length === 0 && resourceNames.length > 0 && isOnly(resourceNames, scc);
}

/** Returns the SCC without the subjects in its user and group lists, or nothing if the lists contain none of them. */
async function findLists({ client, scc: name, subjects }: GrantChange): Promise<readonly Removal[]> {
  const scc = (await client.get(RESOURCES.SecurityContextConstraints, name)) as SecurityContextConstraints | undefined;
  if (!scc) return [];
  const removed = subjects.map(({ kind, name, namespace = '' }) =>
    kind === 'ServiceAccount' ? `User system:serviceaccount:${namespace}:${name}` : `${kind} ${name}`,
  );
  const users = (scc.users ?? []).filter((user) => !removed.includes(`User ${user}`));
  const groups = (scc.groups ?? []).filter((group) => !removed.includes(`Group ${group}`));
  const isChanged = users.length !== (scc.users ?? []).length || groups.length !== (scc.groups ?? []).length;
  const kind = 'SecurityContextConstraints';
  return isChanged ? [{ kind, object: { ...scc, users, groups }, isDeleted: false }] : [];
}

/**
 * Removes the subjects from all grants of the SCC in the scope, and deletes bindings that have no subjects left.
 * Returns the changed objects.
 */
async function removeSubjects(change: GrantChange): Promise<readonly Written[]> {
  const { client, scc, subjects, values } = change;
  const { 'dry-run': dryRun, namespace } = values;
  const removals = [...(await findBindings(change)), ...(namespace === undefined ? await findLists(change) : [])];
  if (removals.length === 0) {
    const names = subjects.map(({ name }) => name).join(' ');
    const scope = namespace === undefined ? 'for all namespaces' : `in namespace ${namespace}`;
    const command = printCommand({ program: PROGRAM, args: ['scc', 'who-can', scc] }, getClusterFlags(values));
    throw new UserError(
      `unable to find target [${names}] in the grants of ${scc} ${scope}; see all grants with: ${command}`,
    );
  }
  const changed: Written[] = [];
  for (const { kind, object, isDeleted } of removals) {
    const written = await writeObject(client, kind, object, dryRun, isDeleted ? 'DELETE' : undefined);
    changed.push(isDeleted ? { object, verb: 'deleted' } : { object: written, verb: 'configured' });
  }
  return changed;
}

const DETAILS = `
Removes subjects from all grants of an SCC that "portcullis scc who-can SCC" lists. With --namespace, it removes
them from the RoleBindings in that namespace. Otherwise, it removes them from the ClusterRoleBindings, and from
the users and groups of the SCC. A binding without subjects is deleted, unless it has finalizers. A role that
also grants other permissions is not changed.

Examples:
  portcullis scc revoke anyuid -z builder -n shop
  portcullis scc revoke nonroot-v2 --group developers
`;

export const command = defineCommand({
  operands: '<scc>',
  details: DETAILS,
  options: grantOptions,
  run: (values, [scc = ''], io) =>
    withChange(values, scc, io, async (change) => printChange(io, 'removed', change, await removeSubjects(change))),
});
