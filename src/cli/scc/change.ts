/** Shared code of the commands that change the grants of an SCC. */
import type { ClusterClient } from '../../cluster/client.ts';
import { parseServiceAccountUsername } from '../../kube/admission.ts';
import { RESOURCES } from '../../kube/resources.ts';
import type { SecurityContextConstraints } from '../../kube/scc.ts';
import { quote } from '../../kube/text.ts';
import type { ClusterRole, ClusterRoleBinding, RoleBinding } from '../../kube/types.ts';
import { readSubject } from '../../policy/rbac/index.ts';
import { clusterOptions, dryRunOption, dryRunSuffix, withCluster } from '../cluster.ts';
import { EXIT, type Io } from '../command.ts';
import { list, namespaceName, nonEmpty, option, UsageError, type Values } from '../options.ts';
import { printObjects, referenceName, writtenOutputOption } from '../output/print.ts';

export type Binding = ClusterRoleBinding | RoleBinding;

/** A written or deleted object. */
export interface Written {
  readonly object: Binding | ClusterRole | SecurityContextConstraints;
  readonly verb: 'created' | 'configured' | 'deleted';
}

type Subject = NonNullable<Binding['subjects']>[number];

/** Options of the commands that change grants. */
export const grantOptions = {
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

/** Input of a command that changes a grant. */
export interface GrantChange {
  readonly client: ClusterClient;
  readonly scc: string;
  readonly subjects: readonly Subject[];
  readonly values: Values<typeof grantOptions>;
}

const RBAC = RESOURCES.ClusterRoleBinding.group;

/** Returns the subjects of a binding. The user of a service account is written as the service account. */
function readSubjects({ user, group, serviceaccount }: GrantChange['values'], namespace: string): readonly Subject[] {
  return [
    ...user.map((name): Subject => {
      const account = parseServiceAccountUsername(name);
      return account ? { kind: 'ServiceAccount', ...account } : { apiGroup: RBAC, kind: 'User', name };
    }),
    ...group.map((name): Subject => ({ apiGroup: RBAC, kind: 'Group', name })),
    ...serviceaccount.map((name): Subject => ({ kind: 'ServiceAccount', name, namespace })),
  ];
}

/**
 * Returns true if the list contains the subject. A service account and its user are the same subject. A service account
 * without a namespace is in the namespace of the binding.
 */
export function includes(subjects: readonly Subject[], wanted: Subject, namespace = ''): boolean {
  const [target, ...others] = [wanted, ...subjects].map((subject) => readSubject(subject, namespace));
  return others.some((subject) => subject && subject.list === target?.list && subject.name === target.name);
}

/**
 * Prints the objects in the output format. By default, prints a line for each object, followed by the message that `oc`
 * prints, which contains the role and the SCC.
 */
export function printChange(
  io: Io,
  verb: 'added' | 'removed',
  { subjects, values }: GrantChange,
  changed: readonly Written[],
) {
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

/**
 * Runs a change in the cluster that the options select.
 * @throws {UsageError} if the options contain no subjects
 */
export async function withChange(
  values: GrantChange['values'],
  scc: string,
  io: Io,
  run: (change: GrantChange) => Promise<void>,
): Promise<number> {
  if (values.user.length + values.group.length + values.serviceaccount.length === 0) {
    throw new UsageError('at least one of --user, --group and --serviceaccount is required');
  }
  return await withCluster(values, io, async (client) => {
    const namespace = values.namespace ?? client.connection.namespace;
    await run({ client, scc, subjects: readSubjects(values, namespace), values });
    return EXIT.passed;
  });
}
