import { UserError } from '../../config/files.ts';
import { objectName, RESOURCES } from '../../kube/resources.ts';
import { quote } from '../../kube/text.ts';
import type { ClusterRoleBinding, RoleBinding } from '../../kube/types.ts';
import { createUseBinding, createUseRole, useRoleName } from '../../policy/scc/standard.ts';
import { defineCommand, EXIT, type Command, type Io } from '../command.ts';
import {
  clusterOptions,
  dryRunOption,
  dryRunSuffix,
  withCluster,
  writeObject,
  type ClusterClient,
} from '../installation.ts';
import { list, nonEmpty, option, UsageError, type Values } from '../options.ts';
import { printObjects, writtenOutputOption } from '../output/print.ts';
import { namespaceName } from '../scc-options.ts';

type Binding = ClusterRoleBinding | RoleBinding;
type Subject = NonNullable<Binding['subjects']>[number];

const grantOptions = {
  user: list('USER', nonEmpty, { short: 'u', help: 'Users' }),
  group: list('GROUP', nonEmpty, { short: 'g', help: 'Groups' }),
  serviceaccount: list('NAME', nonEmpty, { short: 'z', help: 'Service accounts' }),
  namespace: option('NAME', namespaceName, undefined, {
    short: 'n',
    help: 'Namespace of the grant and of its service accounts. Default: a grant for all namespaces, with the service accounts of the namespace of the kubeconfig',
  }),
  ...dryRunOption,
  output: writtenOutputOption,
  ...clusterOptions,
};

/** The change of a grant. */
interface Change {
  readonly client: ClusterClient;
  readonly scc: string;
  readonly subjects: readonly Subject[];
  readonly values: Values<typeof grantOptions>;
}

const RBAC = RESOURCES.ClusterRoleBinding.group;
const SERVICE_ACCOUNT = /^system:serviceaccount:([^:]+):([^:]+)$/;

/** Returns the subjects of a binding. A user with the name of a service account is that service account. */
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

/** @throws {UserError} for a binding of another role */
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

/** Adds the subjects to the binding of the SCC, and creates what is missing. Returns the binding. */
async function addSubjects(change: Change): Promise<Binding> {
  const { client, scc, subjects, values } = change;
  const { 'dry-run': dryRun, namespace } = values;
  if ((await client.get(RESOURCES.SecurityContextConstraints, scc)) === undefined) {
    const sccs = (await client.list(RESOURCES.SecurityContextConstraints)).map(objectName).sort();
    throw new UserError(`SCC ${quote(scc)} not found; existing SCCs: ${sccs.join(', ') || 'none'}`);
  }
  if ((await client.get(RESOURCES.ClusterRole, useRoleName(scc))) === undefined) {
    await writeObject(client, 'ClusterRole', createUseRole(scc), dryRun);
  }
  const binding = (await readBinding(change)) ?? createUseBinding(scc, namespace);
  const before = binding.subjects ?? [];
  const added = subjects.filter((subject) => !includes(before, subject));
  const kind = namespace === undefined ? 'ClusterRoleBinding' : 'RoleBinding';
  return await writeObject(client, kind, { ...binding, subjects: [...before, ...added] }, dryRun);
}

const AUTO_UPDATE = 'rbac.authorization.kubernetes.io/autoupdate';

/** Removes the subjects from the binding of the SCC, and deletes a binding without subjects. Returns the binding. */
async function removeSubjects(change: Change): Promise<Binding> {
  const { client, scc, subjects, values } = change;
  const { 'dry-run': dryRun, namespace } = values;
  const binding = await readBinding(change);
  const before = binding?.subjects ?? [];
  const after = before.filter((subject) => !includes(subjects, subject));
  if (binding === undefined || after.length === before.length) {
    const names = subjects.map(({ name }) => name).join(' ');
    throw new UserError(
      `unable to find target [${names}] in the binding ${useRoleName(scc)}; see all grants with: portcullis scc who-can ${scc}`,
    );
  }
  const kind = namespace === undefined ? 'ClusterRoleBinding' : 'RoleBinding';
  const isKept = after.length > 0 || binding.metadata?.annotations?.[AUTO_UPDATE] === 'false';
  const changed = { ...binding, subjects: after };
  if (isKept) return await writeObject(client, kind, changed, dryRun);
  await writeObject(client, kind, changed, dryRun, 'DELETE');
  return changed;
}

/** Prints the binding, or the message of oc, which names the role. */
function printChange(io: Io, verb: 'added' | 'removed', { scc, subjects, values }: Change, binding: Binding): void {
  const { output, 'dry-run': dryRun } = values;
  if (output !== undefined) {
    printObjects(io, output, [binding]);
    return;
  }
  const names = subjects.map(({ name }) => quote(name));
  const targets = names.length === 1 ? names.join('') : `[${names.join(' ')}]`;
  io.stdout.write(`clusterrole.${RBAC}/${useRoleName(scc)} ${verb}: ${targets}${dryRunSuffix(dryRun)}\n`);
}

const GRANT_DETAILS = `
Grants the use of an SCC (SecurityContextConstraints), as "oc adm policy add-scc-to-user" and
"add-scc-to-group" do: the subjects are added to the binding system:openshift:scc:SCC of the ClusterRole of
the same name. Both are created if they are missing. With --namespace, the binding is a RoleBinding, and
the grant applies to pods of that namespace; otherwise it is a ClusterRoleBinding.

Examples:
  portcullis scc grant anyuid -z builder -n shop
  portcullis scc grant nonroot-v2 --group developers --dry-run=server
  portcullis scc grant anyuid --user alice -n shop --dry-run=client -o yaml
`;

const REVOKE_DETAILS = `
Removes subjects from the binding that "portcullis scc grant" writes, as "oc adm policy
remove-scc-from-user" and "remove-scc-from-group" do. A binding without subjects is deleted.
Other grants remain: "portcullis scc who-can SCC" lists them all.

Examples:
  portcullis scc revoke anyuid -z builder -n shop
  portcullis scc revoke nonroot-v2 --group developers
`;

function defineChange(
  details: string,
  verb: 'added' | 'removed',
  apply: (change: Change) => Promise<Binding>,
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
        return EXIT.passed;
      });
    },
  });
}

export const grant = defineChange(GRANT_DETAILS, 'added', addSubjects);
export const revoke = defineChange(REVOKE_DETAILS, 'removed', removeSubjects);
