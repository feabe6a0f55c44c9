import { USE_SCC } from '../../cluster/access.ts';
import type { ClusterClient } from '../../cluster/client.ts';
import { getApiVersion, objectName, RESOURCES } from '../../kube/resources.ts';
import type { SecurityContextConstraints } from '../../kube/scc.ts';
import { ApiError } from '../../kube/status.ts';
import { quote } from '../../kube/text.ts';
import type { ClusterRole, ClusterRoleBinding, RoleBinding } from '../../kube/types.ts';
import { UserError } from '../../kube/user-error.ts';
import { readRules, type Rule, ruleAllows } from '../../policy/rbac/rules.ts';
import { createUseBinding, createUseRole, useRoleName } from '../../policy/scc/standard.ts';
import { clusterOptions, dryRunOption, dryRunSuffix, withCluster, writeObject } from '../cluster.ts';
import { type Command, defineCommand, EXIT, type Io } from '../command.ts';
import { list, namespaceName, nonEmpty, option, UsageError, type Values } from '../options.ts';
import { printObjects, referenceName, writtenOutputOption } from '../output/print.ts';

type Binding = ClusterRoleBinding | RoleBinding;
/** A written or deleted object. */
interface Written {
  readonly object: Binding | ClusterRole | SecurityContextConstraints;
  readonly verb: 'created' | 'configured' | 'deleted';
}
type Subject = NonNullable<Binding['subjects']>[number];

const grantOptions = {
  user: list('USER', nonEmpty, { short: 'u', help: 'Users' }),
  group: list('GROUP', nonEmpty, { short: 'g', help: 'Groups' }),
  serviceaccount: list('NAME', nonEmpty, { short: 'z', help: 'Service accounts' }),
  namespace: option('NAME', namespaceName, undefined, {
    short: 'n',
    help: 'Namespace of the grant and its service accounts. Default: a grant for all namespaces, with the service accounts in the kubeconfig namespace',
  }),
  ...dryRunOption,
  output: writtenOutputOption,
  ...clusterOptions,
};

/** The change to a grant. */
interface Change {
  readonly client: ClusterClient;
  readonly scc: string;
  readonly subjects: readonly Subject[];
  readonly values: Values<typeof grantOptions>;
}

const RBAC = RESOURCES.ClusterRoleBinding.group;
const SERVICE_ACCOUNT = /^system:serviceaccount:([^:]+):([^:]+)$/;

/**
 * Returns the subjects of a binding. A user whose name is that of a service account is treated as the service account.
 */
function readSubjects({ user, group, serviceaccount }: Change['values'], namespace: string): readonly Subject[] {
  return [
    ...user.map((name): Subject => {
      const [, scope, account] = SERVICE_ACCOUNT.exec(name) ?? [];
      return scope === undefined || account === undefined
        ? { apiGroup: RBAC, kind: 'User', name }
        : { kind: 'ServiceAccount', name: account, namespace: scope };
    }),
    ...group.map((name): Subject => ({ apiGroup: RBAC, kind: 'Group', name })),
    ...serviceaccount.map((name): Subject => ({ kind: 'ServiceAccount', name, namespace })),
  ];
}

function includes(subjects: readonly Subject[], { kind, name, namespace }: Subject): boolean {
  return subjects.some((one) => one.kind === kind && one.name === name && one.namespace === namespace);
}

/** Prints a warning for each service account that does not exist, as oc does. */
async function warnAboutAccounts({ client, subjects }: Change, { stderr }: Io): Promise<void> {
  for (const { kind, name, namespace } of subjects) {
    if (kind !== 'ServiceAccount') continue;
    // Without permission to read service accounts, no warning is printed.
    const account = await client.get(RESOURCES.ServiceAccount, name, namespace).catch((error: unknown) => {
      if (error instanceof ApiError) return null;
      throw error;
    });
    if (account === undefined) {
      stderr.write(`Warning: ServiceAccount ${quote(name)} not found in namespace ${namespace}\n`);
    }
  }
}

/** @throws {UserError} if the binding refers to another role */
async function readBinding({ client, scc, values: { namespace } }: Change): Promise<Binding | undefined> {
  const name = useRoleName(scc);
  const resource = namespace === undefined ? RESOURCES.ClusterRoleBinding : RESOURCES.RoleBinding;
  const binding = (await client.get(resource, name, namespace)) as Binding | undefined;
  if (binding === undefined) return undefined;
  const { kind, name: role } = binding.roleRef;
  if (role !== name) throw new UserError(`rolebinding ${name} found for role ${role}, not ${name}`);
  if (kind === 'ClusterRole') return binding;
  throw new UserError(`rolebinding ${name} found for ${quote(kind)}, not "ClusterRole"`);
}

/** Adds the subjects to the binding for the SCC, and creates missing objects. Returns the written objects. */
async function addSubjects(change: Change): Promise<readonly Written[]> {
  const { client, scc, subjects, values } = change;
  const { 'dry-run': dryRun, namespace } = values;
  if ((await client.get(RESOURCES.SecurityContextConstraints, scc)) === undefined) {
    const sccs = (await client.list(RESOURCES.SecurityContextConstraints)).map(objectName).sort();
    throw new UserError(`SCC ${quote(scc)} not found; existing SCCs: ${sccs.join(', ') || 'none'}`);
  }
  const written: Written[] = [];
  if ((await client.get(RESOURCES.ClusterRole, useRoleName(scc))) === undefined) {
    const object = await writeObject(client, 'ClusterRole', createUseRole(scc), dryRun);
    written.push({ object, verb: 'created' });
  }
  const existing = await readBinding(change);
  const binding = existing ?? createUseBinding(scc, namespace);
  const before = binding.subjects ?? [];
  const added = subjects.filter((subject) => !includes(before, subject));
  const kind = namespace === undefined ? 'ClusterRoleBinding' : 'RoleBinding';
  const object = await writeObject(client, kind, { ...binding, subjects: [...before, ...added] }, dryRun);
  return [...written, { object, verb: existing ? 'configured' : 'created' }];
}

const AUTO_UPDATE = 'rbac.authorization.kubernetes.io/autoupdate';

/**
 * Returns the rules of the role that a binding refers to. The role that grants the SCC is not read, because users may
 * lack permission to read it.
 */
async function readRole({ client, scc }: Change, { roleRef, metadata }: Binding): Promise<readonly Rule[]> {
  const { kind, name } = roleRef;
  if (kind === 'ClusterRole' && name === useRoleName(scc)) return readRules(createUseRole(scc).rules);
  const resource = kind === 'ClusterRole' ? RESOURCES.ClusterRole : RESOURCES.Role;
  const role = await client.get(resource, name, kind === 'ClusterRole' ? undefined : metadata?.namespace);
  return readRules((role as ClusterRole | undefined)?.rules);
}

/** A binding or an SCC with a subject, and the same object without it. */
interface Removal {
  readonly kind: 'ClusterRoleBinding' | 'RoleBinding' | 'SecurityContextConstraints';
  readonly object: Binding | SecurityContextConstraints;
  readonly isDeleted: boolean;
}

/**
 * Finds the bindings that grant the SCC to the subjects in the namespace or in all namespaces.
 * @throws {UserError} if a role also grants other permissions, which the subjects would lose
 */
async function findBindings(change: Change): Promise<readonly Removal[]> {
  const { client, scc, subjects, values } = change;
  const { namespace } = values;
  const kind = namespace === undefined ? 'ClusterRoleBinding' : 'RoleBinding';
  const all = (await client.list(RESOURCES[kind], { namespace })) as unknown as readonly Binding[];
  const removals: Removal[] = [];
  for (const binding of all) {
    const before = binding.subjects ?? [];
    const after = before.filter((subject) => !includes(subjects, subject));
    if (after.length === before.length) continue;
    const rules = await readRole(change, binding);
    if (!rules.some((rule) => ruleAllows(rule, { ...USE_SCC, name: scc }))) continue;
    const { name } = binding.roleRef;
    if (!rules.every((rule) => grantsOnly(rule, scc))) {
      const command = `kubectl${namespace === undefined ? '' : ` -n ${namespace}`} edit ${kind.toLowerCase()} ${objectName(binding)}`;
      throw new UserError(`role ${name} also grants other permissions: remove the subjects with ${command}`);
    }
    const isDeleted = after.length === 0 && binding.metadata?.annotations?.[AUTO_UPDATE] !== 'false';
    removals.push({ kind, object: { ...binding, apiVersion: getApiVersion(kind), kind, subjects: after }, isDeleted });
  }
  return removals;
}

function grantsOnly({ verbs, apiGroups, resources, resourceNames, nonResourceURLs }: Rule, scc: string): boolean {
  const isOnly = (list: readonly string[], name: string | undefined): boolean => list.every((one) => one === name);
  const { verb, apiGroup, resource } = USE_SCC;
  const isUse = isOnly(verbs, verb) && isOnly(apiGroups, apiGroup) && isOnly(resources, resource);
  return isUse && nonResourceURLs.length === 0 && resourceNames.length > 0 && isOnly(resourceNames, scc);
}

/** The user and group lists in the SCC apply to all namespaces. */
async function findLists({ client, scc: name, subjects }: Change): Promise<readonly Removal[]> {
  const scc = (await client.get(RESOURCES.SecurityContextConstraints, name)) as SecurityContextConstraints | undefined;
  if (!scc) return [];
  const removed = subjects.map(({ kind, name, namespace = '' }) =>
    kind === 'ServiceAccount' ? `User system:serviceaccount:${namespace}:${name}` : `${kind} ${name}`,
  );
  const users = (scc.users ?? []).filter((one) => !removed.includes(`User ${one}`));
  const groups = (scc.groups ?? []).filter((one) => !removed.includes(`Group ${one}`));
  const isChanged = users.length !== (scc.users ?? []).length || groups.length !== (scc.groups ?? []).length;
  const kind = 'SecurityContextConstraints';
  return isChanged ? [{ kind, object: { ...scc, users, groups }, isDeleted: false }] : [];
}

/**
 * Removes the subjects from all grants of the SCC in the scope, and deletes bindings that have no subjects left.
 * Returns the changed objects.
 */
async function removeSubjects(change: Change): Promise<readonly Written[]> {
  const { client, scc, subjects, values } = change;
  const { 'dry-run': dryRun, namespace } = values;
  const removals = [...(await findBindings(change)), ...(namespace === undefined ? await findLists(change) : [])];
  if (removals.length === 0) {
    const names = subjects.map(({ name }) => name).join(' ');
    const scope = namespace === undefined ? 'for all namespaces' : `in namespace ${namespace}`;
    throw new UserError(
      `unable to find target [${names}] in the grants of ${scc} ${scope}; see all grants with: portcullis scc who-can ${scc}`,
    );
  }
  const changed: Written[] = [];
  for (const { kind, object, isDeleted } of removals) {
    const written = await writeObject(client, kind, object, dryRun, isDeleted ? 'DELETE' : undefined);
    changed.push(isDeleted ? { object, verb: 'deleted' } : { object: written, verb: 'configured' });
  }
  return changed;
}

/** Prints the objects, or a line for each of them and oc's message, which names roles and SCCs. */
function printChange(io: Io, verb: 'added' | 'removed', { subjects, values }: Change, changed: readonly Written[]) {
  const { output, 'dry-run': dryRun } = values;
  if (output !== undefined) {
    printObjects(
      io,
      output,
      changed.map(({ object }) => object),
    );
    return;
  }
  const names = subjects.map(({ name }) => quote(name));
  const targets = names.length === 1 ? names.join('') : `[${names.join(' ')}]`;
  const suffix = dryRunSuffix(dryRun);
  for (const { object, verb: done } of changed) {
    const namespace = object.metadata?.namespace;
    const scope = namespace === undefined ? '' : ` ${done === 'deleted' ? 'from' : 'in'} namespace ${namespace}`;
    io.stdout.write(`${referenceName(object)} ${done}${scope}${suffix}\n`);
  }
  for (const { object } of changed) {
    const isBinding = 'roleRef' in object;
    const title = isBinding
      ? `${object.roleRef.kind.toLowerCase()}.${RBAC}/${object.roleRef.name}`
      : referenceName(object);
    if (isBinding || !('rules' in object)) io.stdout.write(`${title} ${verb}: ${targets}${suffix}\n`);
  }
}

const GRANT_DETAILS = `
Grants the use of an SCC (SecurityContextConstraints), as "oc adm policy add-scc-to-user" and
"add-scc-to-group" do. The subjects are added to the binding system:openshift:scc:SCC of the ClusterRole of
the same name. Both are created if they are missing. With --namespace, the binding is a RoleBinding, and
the grant applies to pods of that namespace; otherwise it is a ClusterRoleBinding. The output lists the
objects that were written.

Examples:
  portcullis scc grant anyuid -z builder -n shop
  portcullis scc grant nonroot-v2 --group developers --dry-run=server
  portcullis scc grant anyuid --user alice -n shop --dry-run=client -o yaml
`;

const REVOKE_DETAILS = `
Removes subjects from all grants of an SCC that "portcullis scc who-can SCC" lists: with --namespace, from the
RoleBindings of that namespace; otherwise from the ClusterRoleBindings, and from the users and groups of the
SCC. A binding without subjects is deleted. A role that also grants other permissions is not changed.

Examples:
  portcullis scc revoke anyuid -z builder -n shop
  portcullis scc revoke nonroot-v2 --group developers
`;

function defineChange(
  details: string,
  verb: 'added' | 'removed',
  apply: (change: Change) => Promise<readonly Written[]>,
): Command {
  return defineCommand({
    operands: '<scc>',
    details,
    options: grantOptions,
    async run(values, [scc = ''], io) {
      if (values.user.length + values.group.length + values.serviceaccount.length === 0) {
        throw new UsageError('at least one of --user, --group and --serviceaccount is required');
      }
      return await withCluster(values, io, async (client) => {
        const namespace = values.namespace ?? client.connection.namespace;
        const change = { client, scc, subjects: readSubjects(values, namespace), values };
        printChange(io, verb, change, await apply(change));
        if (verb === 'added') await warnAboutAccounts(change, io);
        return EXIT.passed;
      });
    },
  });
}

export const grant = defineChange(GRANT_DETAILS, 'added', addSubjects);
export const revoke = defineChange(REVOKE_DETAILS, 'removed', removeSubjects);
