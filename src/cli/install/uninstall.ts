import { DEFAULTS_KINDS, POLICY_KINDS } from '../../api/admission-policies.ts';
import { COMPONENT_LABEL, FLOOR_LABELS, PART_OF, PART_OF_LABEL, POLICY_LABELS } from '../../api/names.ts';
import { isPartOfPortcullis } from '../../api/webhooks.ts';
import { type AnyObject, type ClusterClient, DEFINITIONS } from '../../cluster/client.ts';
import type { Kinds } from '../../kube/kinds.ts';
import { namespaced, objectName, type ResourceInfo, RESOURCES } from '../../kube/resources.ts';
import { UserError } from '../../kube/user-error.ts';
import { STANDARD_SCCS } from '../../policy/scc/index.ts';
import { clusterOptions, dryRunOption, dryRunSuffix, namespaceOption, withCluster } from '../cluster.ts';
import { defineCommand, EXIT } from '../command.ts';
import { confirm } from '../confirm.ts';
import { findOtherInstallations } from '../installation/deployment.ts';
import { durationMs, flag, option } from '../options.ts';
import { printable } from '../output/print.ts';
import { getClusterFlags } from '../output/shell.ts';
import {
  findRemainingGrants,
  findRemains,
  createRemoval,
  deleteObjects,
  type Deletion,
  endStatus,
  formatName,
  keepOwnLevels,
  pause,
  type Removal,
  removeLabels,
  removeNodeReports,
  type UninstallScope,
} from './removal.ts';

const DETAILS = `
Asks for confirmation, and ends enforcement while the replicas still respond, so the uninstallation does not
cause denials. The command then deletes the replicas, and all other objects with the label
app.kubernetes.io/part-of=portcullis, except CRDs and the namespace. The output ends with a list of the remaining
objects and the commands that remove them.

Of the Pod Security labels of namespaces, the command removes only those that managedFields attribute to a
Portcullis controller. If only portcullis.dev/enforce requires a level, the command sets the upstream label. It
does not affect running pods, and can be repeated.

Remove a Helm release with 'helm uninstall'. If a GitOps tool (Argo CD, Flux) manages the installation, remove it
there, because otherwise the tool restores it.

The exit code is 1 if objects could not be deleted.

Examples:
  portcullis uninstall --dry-run=server
  portcullis uninstall
  portcullis uninstall --keep-labels
  portcullis uninstall --keep-policies
  portcullis uninstall --yes --purge-crds
`;

export const command = defineCommand({
  details: DETAILS,
  options: {
    ...clusterOptions,
    ...namespaceOption,
    ...dryRunOption,
    yes: flag({ short: 'y', help: 'Skip the confirmation' }),
    wait: option('DURATION', durationMs, 5000, {
      help: 'Wait for API servers to observe each step that ends enforcement',
      shown: '5s',
    }),
    'keep-labels': flag({ help: 'Keep the Pod Security labels that Portcullis set on namespaces' }),
    'keep-policies': flag({
      help: 'Keep the policies in the API server and the Pod Security labels. Use this to switch to an installation without a server',
    }),
    'purge-crds': flag({
      help: 'Also delete the Portcullis CRDs with all their objects (settings, SCCs), the roles and bindings that grant the use of SCCs, and the bindings of the roles for exceptions',
    }),
  },
  async run(options, _operands, io) {
    const { namespace, 'dry-run': dryRun, wait: waitMs } = options;
    const { 'keep-labels': keepsLabels, 'keep-policies': keepsPolicies } = options;
    return await withCluster(options, io, async (client) => {
      const [other] = await findOtherInstallations(client, namespace);
      if (other !== undefined) {
        throw new UserError(
          `Portcullis is also installed in namespace ${other}, and both installations use the same roles and webhooks: run portcullis doctor for the namespace of the installation to keep, and apply its fixes`,
        );
      }
      const sccs = await readSccs(client);
      const scope: UninstallScope = {
        namespace,
        keepsLabels: keepsLabels || keepsPolicies || sccs === 'foreign',
        keepsPolicies,
        purgesDefinitions: options['purge-crds'],
        sccs,
      };
      const print = (line: string): void => void io.text.write(`${printable(line)}\n`);
      const target = { client, namespace, waitMs };
      if (dryRun === 'none') {
        const plan = createRemoval({ ...target, dryRun: 'client' }, () => undefined);
        await uninstall(plan, scope);
        if (plan.counts.reported > 0 && !options.yes) {
          const { server } = client.connection;
          if (
            !(await confirm(
              `This removes ${describeScope(scope)} from ${server}, and ends all enforcement by Portcullis.`,
              io,
            ))
          ) {
            throw new UserError('nothing was deleted: the response was not "yes"; use --yes to skip the confirmation');
          }
        }
      }
      const removal = createRemoval({ ...target, dryRun }, print);
      await uninstall(removal, scope);
      if (removal.counts.reported === 0) {
        print(`Nothing to delete: Portcullis is not installed in namespace ${namespace}.`);
      }
      const remains = await findRemains(client, scope, getClusterFlags(options));
      if (remains.length > 0) print('Remaining objects, and the commands that remove them:');
      for (const item of remains) print(`- ${item}`);
      return removal.counts.failed === 0 ? EXIT.passed : EXIT.violations;
    });
  },
});

/** Returns the owner of the SCC CRD. Other products, such as OpenShift, set namespace labels and ranges themselves. */
async function readSccs(client: ClusterClient): Promise<UninstallScope['sccs']> {
  const { group, resource } = RESOURCES.SecurityContextConstraints;
  const definition = await client.get(DEFINITIONS, `${resource}.${group}`);
  if (definition === undefined) return 'none';
  return isPartOfPortcullis(definition) ? 'own' : 'foreign';
}

/** Describes what the command removes, for the confirmation prompt. */
function describeScope({ purgesDefinitions, sccs }: UninstallScope): string {
  if (!purgesDefinitions) return 'Portcullis';
  return sccs === 'own'
    ? 'Portcullis, and its settings and all SecurityContextConstraints'
    : 'Portcullis and its settings';
}

/** Selects the objects that belong to Portcullis. */
const OWN = { labels: `${PART_OF_LABEL}=${PART_OF}` };

/** Kinds of the policies that deny pods, in deletion order. */
const ENFORCING_KINDS: readonly ResourceInfo[] = POLICY_KINDS.toReversed().map((kind) => RESOURCES[kind]);

/**
 * Other kinds to delete, in order. Bindings are deleted before the policy that restricts the permissions of the
 * replicas, and before the Secret and Leases, which replicas that are still running would recreate.
 */
const OTHER_KINDS = [
  RESOURCES.Deployment,
  RESOURCES.ClusterRoleBinding,
  RESOURCES.RoleBinding,
  namespaced('policy/v1', 'poddisruptionbudgets'),
  namespaced('v1', 'services'),
  namespaced('networking.k8s.io/v1', 'networkpolicies'),
  namespaced('monitoring.coreos.com/v1', 'servicemonitors'),
  namespaced('monitoring.coreos.com/v1', 'prometheusrules'),
  namespaced('cert-manager.io/v1', 'certificates'),
  namespaced('cert-manager.io/v1', 'issuers'),
  ...ENFORCING_KINDS,
  ...DEFAULTS_KINDS.toReversed().map((kind) => RESOURCES[kind]),
  RESOURCES.ConfigMap,
  namespaced('v1', 'resourcequotas'),
  RESOURCES.ClusterRole,
  RESOURCES.Role,
  RESOURCES.ServiceAccount,
  RESOURCES.Lease,
  RESOURCES.Secret,
  RESOURCES.Report,
];

/** Returns true for policies to delete before the webhooks, because they deny pods that no webhook has defaulted. */
function isEndingPolicy({ metadata }: AnyObject, { keepsPolicies }: UninstallScope): boolean {
  const component = metadata.labels?.[COMPONENT_LABEL];
  return (
    component === FLOOR_LABELS[COMPONENT_LABEL] || (!keepsPolicies && component === POLICY_LABELS[COMPONENT_LABEL])
  );
}

/**
 * Ends enforcement, and then deletes all other objects. If enforcement cannot be ended, keeps the other objects.
 * Rejects with the errors of `Connection.request` if objects cannot be listed.
 */
async function uninstall(removal: Removal, scope: UninstallScope): Promise<void> {
  if (!(await endEnforcement(removal, scope))) {
    removal.fail(
      'All other objects are kept, because without them API servers would deny requests that match the webhooks.',
    );
    return;
  }
  await deleteOwnObjects(removal, OTHER_KINDS, ({ resource, object }) => {
    // Skips the policies that the dry run has already reported.
    if (removal.dryRun !== 'none' && ENFORCING_KINDS.includes(resource) && isEndingPolicy(object, scope)) return false;
    return !scope.keepsPolicies || object.metadata.labels?.[COMPONENT_LABEL] !== POLICY_LABELS[COMPONENT_LABEL];
  });
  await removeNodeReports(removal);
  await (scope.purgesDefinitions ? purgeDefinitions(removal, scope) : endStatus(removal));
}

/**
 * Ends enforcement while the replicas still respond. Policies are deleted first because they deny pods that no mutating
 * webhook has defaulted. SCCs default pods until the mutating webhooks are deleted, so the Pod Security labels, which
 * would deny pods without these defaults, are removed first. Validating webhooks are deleted before the labels, because
 * they would apply the default level to namespaces without a label. Before that, upstream labels replace the levels
 * that only Portcullis enforces. Resolves to false if a deletion fails or webhooks remain.
 */
async function endEnforcement(removal: Removal, scope: UninstallScope): Promise<boolean> {
  // Failures are ignored here, because the namespace webhook rejects these changes while no replica responds. The
  // changes are repeated after its deletion.
  if (removal.dryRun === 'none') await keepOwnLevels({ ...removal, fail: () => undefined }, scope);
  if (!(await revokeWrites(removal))) return false;
  if (!(await deleteOwnObjects(removal, ENFORCING_KINDS, ({ object }) => isEndingPolicy(object, scope)))) return false;
  if (!(await deleteWebhooks(removal, RESOURCES.ValidatingWebhookConfiguration))) return false;
  await keepOwnLevels(removal, scope);
  if (!scope.keepsLabels && (await removeLabels(removal))) await observe(removal, 'the label changes');
  return await deleteWebhooks(removal, RESOURCES.MutatingWebhookConfiguration);
}

/**
 * Deletes the Portcullis webhook configurations of a kind, or only reports them in a dry run. Resolves to false if a
 * deletion fails, or if a replica outside the cluster has restored a configuration.
 */
async function deleteWebhooks(removal: Removal, resource: ResourceInfo): Promise<boolean> {
  const targets = await findOwnObjects(removal, [resource]);
  if (!(await deleteObjects(removal, targets))) return false;
  if (removal.dryRun !== 'none' || targets.length === 0) return true;
  await observe(removal, 'the deletion');
  const restored = await findOwnObjects(removal, [resource]);
  for (const { object } of restored) {
    removal.report(`Webhook configuration ${object.metadata.name} exists: stop the replicas outside the cluster.`);
  }
  return restored.length === 0;
}

/** Waits until all API servers have observed a change. Returns immediately in a dry run. */
async function observe(removal: Removal, change: string): Promise<void> {
  const { dryRun, report, waitMs } = removal;
  if (dryRun !== 'none') return;
  report(`Waiting ${waitMs / 1000} s for API servers to observe ${change}.`);
  await pause(removal, waitMs);
}

/** Maximum delay after which API servers apply role changes. */
const MAX_ROLES_DELAY_MS = 1000;

/**
 * Matches the resources whose removal ends enforcement. `WRITES` contains the verbs with which the leader would restore
 * them.
 */
const RESTORED = /webhookconfigurations$|admissionpolicies$|^namespaces$/;
const WRITES: readonly string[] = ['create', 'patch'];

/**
 * Deletes the bindings of the roles that permit the leader to restore removed objects. Resolves to false if a binding
 * cannot be deleted.
 */
async function revokeWrites(removal: Removal): Promise<boolean> {
  const { client, dryRun, waitMs } = removal;
  // In a dry run, these bindings are reported later, together with all other bindings.
  if (dryRun !== 'none') return true;
  const roles = (await client.list(RESOURCES.ClusterRole, OWN)) as readonly (AnyObject & Kinds['ClusterRole'])[];
  const isWriter = ({ rules }: Kinds['ClusterRole']): boolean =>
    rules?.some(
      ({ verbs, resources }) =>
        verbs.some((verb) => WRITES.includes(verb)) && resources?.some((name) => RESTORED.test(name)),
    ) ?? false;
  // The names of the roles are also those of their bindings.
  const names = roles.filter(isWriter).map(objectName);
  const all = await findOwnObjects(removal, [RESOURCES.ClusterRoleBinding]);
  const bindings = all.filter(({ object }) => names.includes(objectName(object)));
  const isDeleted = await deleteObjects(removal, bindings);
  if (isDeleted && bindings.length > 0) await pause(removal, Math.min(waitMs, MAX_ROLES_DELAY_MS));
  return isDeleted;
}

/** Returns the Portcullis objects in the order of the resources. Rejects with the errors of `Connection.request`. */
async function findOwnObjects({ client, namespace }: Removal, resources: readonly ResourceInfo[]) {
  const targets = resources.map(async (resource): Promise<readonly Deletion[]> => {
    // Reports are listed in all namespaces, because each report is in the namespace that it describes.
    const objects = await client.list(resource, resource === RESOURCES.Report ? OWN : { namespace, ...OWN });
    return objects.map((object) => ({ resource, object }));
  });
  return (await Promise.all(targets)).flat();
}

async function deleteOwnObjects(
  removal: Removal,
  resources: readonly ResourceInfo[],
  isDeleted: (target: Deletion) => boolean = () => true,
): Promise<boolean> {
  return await deleteObjects(removal, (await findOwnObjects(removal, resources)).filter(isDeleted));
}

/** Deletes the Portcullis CRDs with all their objects, and the roles and bindings that grant SCCs. */
async function purgeDefinitions(removal: Removal, { sccs }: UninstallScope): Promise<void> {
  const { client, dryRun, report } = removal;
  if (sccs === 'foreign') report('SCCs and their roles are kept, because the SCC CRD belongs to another product.');
  const grants = await findRemainingGrants(client, sccs);
  const definitions = (await client.list(DEFINITIONS)).filter(isPartOfPortcullis);
  const standard = STANDARD_SCCS.map(({ scc }) => scc.metadata?.name);
  const objects = sccs === 'own' ? await client.list(RESOURCES.SecurityContextConstraints) : [];
  for (const { metadata } of objects.filter(({ metadata }) => !standard.includes(metadata.name))) {
    const name = formatName(RESOURCES.SecurityContextConstraints, metadata.name);
    report(`${name} is deleted with its CRD${dryRunSuffix(dryRun)}`);
  }
  await deleteObjects(removal, [...grants, ...definitions.map((object) => ({ resource: DEFINITIONS, object }))]);
}
