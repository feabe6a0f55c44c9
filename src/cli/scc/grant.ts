import { objectName, RESOURCES } from '../../kube/resources.ts';
import { ApiError } from '../../kube/status.ts';
import { quote } from '../../kube/text.ts';
import { formatTimestamp } from '../../kube/units.ts';
import { UserError } from '../../kube/user-error.ts';
import { createTemporaryUseRole, createUseBinding, createUseRole } from '../../policy/scc/index.ts';
import { writeObject } from '../cluster.ts';
import { defineCommand, type Io } from '../command.ts';
import { lifetimeMs, option } from '../options.ts';
import {
  type Binding,
  type GrantChange,
  grantOptions,
  includes,
  printChange,
  withChange,
  type Written,
} from './change.ts';

/** Prints a warning for each service account that does not exist, as oc does. */
async function warnAboutAccounts({ client, subjects }: GrantChange, { stderr }: Io): Promise<void> {
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

/**
 * Reads the existing binding.
 * @throws {UserError} if the binding refers to another role
 */
async function readBinding({ client, values }: GrantChange, created: Binding): Promise<Binding | undefined> {
  const { namespace } = values;
  const { name } = created.roleRef;
  const resource = namespace === undefined ? RESOURCES.ClusterRoleBinding : RESOURCES.RoleBinding;
  const binding = (await client.get(resource, objectName(created), namespace)) as Binding | undefined;
  if (binding === undefined) return undefined;
  const { kind, name: role } = binding.roleRef;
  if (role !== name) throw new UserError(`rolebinding ${name} found for role ${role}, not ${name}`);
  if (kind === 'ClusterRole') return binding;
  throw new UserError(`rolebinding ${name} found for ${quote(kind)}, not "ClusterRole"`);
}

/**
 * Adds the subjects to the binding for the SCC and expiry time. Creates missing objects. Returns the written objects.
 */
async function addSubjects(change: GrantChange, expiresAt: string | undefined): Promise<readonly Written[]> {
  const { client, scc, subjects, values } = change;
  const { 'dry-run': dryRun, namespace } = values;
  if ((await client.get(RESOURCES.SecurityContextConstraints, scc)) === undefined) {
    const sccs = (await client.list(RESOURCES.SecurityContextConstraints)).map(objectName).sort();
    throw new UserError(`SCC ${quote(scc)} not found; existing SCCs: ${sccs.join(', ') || 'none'}`);
  }
  const written: Written[] = [];
  const role = expiresAt === undefined ? createUseRole(scc) : createTemporaryUseRole(scc);
  if ((await client.get(RESOURCES.ClusterRole, objectName(role))) === undefined) {
    const object = await writeObject(client, 'ClusterRole', role, dryRun);
    written.push({ object, verb: 'created' });
  }
  const created = createUseBinding(scc, namespace, expiresAt);
  const existing = await readBinding(change, created);
  const binding = existing ?? created;
  const before = binding.subjects ?? [];
  const added = subjects.filter((subject) => !includes(before, subject, namespace));
  const kind = namespace === undefined ? 'ClusterRoleBinding' : 'RoleBinding';
  const object = await writeObject(client, kind, { ...binding, subjects: [...before, ...added] }, dryRun);
  return [...written, { object, verb: existing ? 'configured' : 'created' }];
}

const DETAILS = `
Grants the use of an SCC (SecurityContextConstraints), as "oc adm policy add-scc-to-user" and "add-scc-to-group"
do. The command adds the subjects to the binding system:openshift:scc:SCC, which refers to the ClusterRole with
the same name. It creates the binding and the ClusterRole if they are missing. With --namespace, the binding is
a RoleBinding, and the grant applies to pods in that namespace. Otherwise, the binding is a ClusterRoleBinding.
The output lists the written objects.

With --for, the subjects are added to a separate binding, which the leader deletes after this time. Running pods
are not affected. RBAC lets holders of a permission pass it on. While the temporary grant exists, a policy of the
installation prevents this for the roles of SCCs, but not for other roles that an administrator wrote. "portcullis
doctor" and "portcullis audit exemptions" list grants that were created while the temporary grant existed.

Examples:
  portcullis scc grant anyuid -z builder -n shop
  portcullis scc grant privileged -z migration -n shop --for 14d
  portcullis scc grant nonroot-v2 --group developers --dry-run=server
  portcullis scc grant anyuid --user alice -n shop --dry-run=client -o yaml
`;

export const command = defineCommand({
  operands: '<scc>',
  details: DETAILS,
  options: {
    for: option('DURATION', lifetimeMs, undefined, {
      help: 'Time until the leader deletes the grant, such as 14d or 12h. Default: the grant does not expire',
    }),
    ...grantOptions,
  },
  run: ({ for: lifetime, ...values }, [scc = ''], io) =>
    withChange(values, scc, io, async (change) => {
      const expiresAt = lifetime === undefined ? undefined : formatTimestamp(Date.now() + lifetime);
      printChange(io, 'added', change, await addSubjects(change, expiresAt));
      if (expiresAt !== undefined && values.output === undefined) {
        io.stderr.write(
          `Note: the subjects may use the SCC until ${expiresAt}. RBAC lets them pass it on: portcullis audit exemptions lists grants that were created in the meantime\n`,
        );
      }
      await warnAboutAccounts(change, io);
    }),
});
