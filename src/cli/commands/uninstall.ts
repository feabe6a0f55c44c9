import { setTimeout as sleep } from 'node:timers/promises';
import { UserError } from '../../config/files.ts';
import { escapeKey, type JsonPatchOp } from '../../kube/json-patch.ts';
import { namespaced, objectPath, resourceName, RESOURCES, type ResourceInfo } from '../../kube/resources.ts';
import { NAMESPACE_RANGE_ANNOTATIONS } from '../../kube/scc.ts';
import { ApiError } from '../../kube/status.ts';
import { COMPONENT_LABEL, INSTALLATION, PART_OF, PART_OF_LABEL, REPLICA, TIER_LABEL } from '../../kube/well-known.ts';
import { isPartOfPortcullis } from '../../kube/webhooks.ts';
import { SCC_MODE_LABEL } from '../../policy/scc/mode.ts';
import { STANDARD_CLUSTER_ROLE_BINDINGS, STANDARD_CLUSTER_ROLES, STANDARD_SCCS } from '../../policy/scc/standard.ts';
import { defineCommand, EXIT, type Io } from '../command.ts';
import {
  clusterOptions,
  DEFINITIONS,
  ignoreNotFound,
  isCurrentLease,
  namespaceOption,
  withCluster,
  type AnyObject,
  type ClusterClient,
  dryRunOption,
  dryRunSuffix,
  type DryRun,
} from '../installation.ts';
import { durationMs, flag, option } from '../options.ts';
import { printable } from '../output/print.ts';

const DETAILS = `
Deletes the webhook configurations first, with the permission of the replicas to restore them, waits until
API servers have observed it, and then deletes the Deployment, Service, roles, Leases, Secret, and the namespace if it contains nothing else. The command
deletes only objects with the label app.kubernetes.io/part-of=portcullis, and the Secret and the Leases
that the replicas write. It can be repeated.

The command keeps SCCs, their definitions, the roles for their use, and labels and annotations of
namespaces, unless a purge option requests their removal. It does not affect running pods.

Remove a Helm release with 'helm uninstall'. If a GitOps tool (Argo CD, Flux) manages the installation,
remove it there: otherwise the tool restores it.

Examples:
  portcullis uninstall --dry-run=server
  portcullis uninstall
  portcullis uninstall --yes --purge-sccs --purge-namespaces

Exit codes:
  0  success
  1  some objects could not be deleted
  2  wrong usage, not confirmed, or the cluster cannot be reached
`;

export const command = defineCommand({
  details: DETAILS,
  options: {
    ...clusterOptions,
    ...namespaceOption,
    ...dryRunOption,
    yes: flag({ short: 'y', help: 'Skip the confirmation' }),
    wait: option('DURATION', durationMs, 5000, {
      help: 'Wait for API servers to observe the deletion of the webhooks',
      shown: '5s',
    }),
    'purge-sccs': flag({
      help: 'Also delete all SCCs, the CustomResourceDefinitions of Portcullis, and the roles for the use of SCCs',
    }),
    'purge-namespaces': flag({ help: 'Also remove the labels and annotations of Portcullis from all namespaces' }),
  },
  async run(options, _operands, io) {
    const { namespace, 'dry-run': dryRun, wait: waitMs } = options;
    const purge = { sccs: options['purge-sccs'], namespaces: options['purge-namespaces'] };
    return await withCluster(options, io, async (client) => {
      if (dryRun === 'none' && !options.yes && !(await confirm(formatQuestion(client.connection.server, purge), io))) {
        throw new UserError('nothing was deleted: the response was not "yes"; use --yes to skip the confirmation');
      }
      let [reported, failures] = [0, 0];
      const report = (line: string): void => {
        reported++;
        io.stdout.write(`${printable(line)}\n`);
      };
      const fail = (line: string): void => {
        failures++;
        report(line);
      };
      await uninstall({ client, namespace, dryRun, report, fail }, { waitMs, purge });
      if (reported === 0) report(`Nothing to delete: Portcullis is not installed in namespace ${namespace}.`);
      return failures === 0 ? EXIT.passed : EXIT.violations;
    });
  },
});

interface Purge {
  readonly sccs: boolean;
  readonly namespaces: boolean;
}

function formatQuestion(server: string, { sccs, namespaces }: Purge): string {
  const items = [
    'Portcullis',
    ...(sccs ? ['all SecurityContextConstraints'] : []),
    ...(namespaces ? ['the labels and annotations of Portcullis on all namespaces'] : []),
  ];
  return `This removes ${items.join(', and ')} from ${server}.`;
}

/** The limit of a response in characters. */
const MAX_RESPONSE = 1000;

/** Prints a question to stderr. Resolves to true if the response on stdin is `yes`. */
async function confirm(question: string, { stdin, stderr }: Io): Promise<boolean> {
  stderr.write(`${question} Type "yes" to continue:\n`);
  let response = '';
  for await (const chunk of stdin) {
    response += typeof chunk === 'string' ? chunk : Buffer.from(chunk).toString('utf8');
    if (response.includes('\n') || response.length > MAX_RESPONSE) break;
  }
  return response.split('\n', 1)[0]?.trim() === 'yes';
}

/** The input of every step. */
interface Context {
  readonly client: ClusterClient;
  /** Namespace of the installation. */
  readonly namespace: string;
  readonly dryRun: DryRun;
  /** Prints a line about a step. */
  report(line: string): void;
  /** Prints a line about a step that failed. */
  fail(line: string): void;
}

/** Deleted first: without the replicas, API servers would deny requests that match them. */
const WEBHOOKS = [RESOURCES.ValidatingWebhookConfiguration, RESOURCES.MutatingWebhookConfiguration];

/** Deleted after the replicas, which recreate their Secret and Leases. */
const DEPENDENCIES = [
  namespaced('policy/v1', 'poddisruptionbudgets'),
  namespaced('v1', 'services'),
  namespaced('networking.k8s.io/v1', 'networkpolicies'),
  namespaced('monitoring.coreos.com/v1', 'servicemonitors'),
  namespaced('monitoring.coreos.com/v1', 'prometheusrules'),
  namespaced('cert-manager.io/v1', 'certificates'),
  namespaced('cert-manager.io/v1', 'issuers'),
  RESOURCES.ConfigMap,
  namespaced('v1', 'resourcequotas'),
  RESOURCES.ClusterRoleBinding,
  RESOURCES.RoleBinding,
  RESOURCES.ClusterRole,
  RESOURCES.Role,
  RESOURCES.ServiceAccount,
  RESOURCES.Lease,
  RESOURCES.Secret,
];

/** Deletes an installation. Rejects only if the server cannot be reached. */
async function uninstall(
  context: Context,
  { waitMs, purge }: { readonly waitMs: number; readonly purge: Purge },
): Promise<void> {
  if (!(await deleteWebhooks(context, waitMs))) {
    context.fail('All other objects are kept: without them, API servers would deny requests that match the webhooks.');
    return;
  }
  await deleteReplicas(context);
  await deleteOwnObjects(context, DEPENDENCIES);
  await purgeSccsAndNamespaces(context, purge);
  await deleteNamespace(context);
}

const WEBHOOKS_TIMEOUT_MS = 60_000;
/** Longer than the termination grace period of the replicas. */
const REPLICAS_TIMEOUT_MS = 90_000;

/** Resolves to true if no webhook of Portcullis is left. */
async function deleteWebhooks(context: Context, waitMs: number): Promise<boolean> {
  const { report, dryRun, client } = context;
  if (!(await endManagement(context))) return false;
  const { targets, errors } = await findOwnObjects(context, WEBHOOKS);
  for (const message of errors) report(`Webhook configurations cannot be listed: ${message}`);
  if (errors.length > 0 || !(await deleteObjects(context, targets))) return false;
  if (dryRun !== 'none' || targets.length === 0) return true;
  const list = async () => (await findOwnObjects(context, WEBHOOKS)).targets;
  const remaining = await waitUntilEmpty(list, WEBHOOKS_TIMEOUT_MS, client.signal);
  for (const { object } of remaining) report(`Webhook configuration ${object.metadata.name} still exists.`);
  if (remaining.length > 0) return false;
  report(`Waiting ${waitMs / 1000} s for API servers to observe the deletion.`);
  await sleep(waitMs, undefined, { signal: client.signal });
  const restored = await list();
  for (const { object } of restored) {
    report(`Webhook configuration ${object.metadata.name} was restored: stop the replicas outside of the cluster.`);
  }
  return restored.length === 0;
}

/** API servers apply a change of roles after a short delay. */
const ROLES_DELAY_MS = 1000;

/** Removes the permission of the leader to restore webhook configurations. Resolves to false if that is not possible. */
async function endManagement(context: Context): Promise<boolean> {
  const { client, dryRun } = context;
  // The dry run reports it with the other bindings.
  if (dryRun !== 'none') return true;
  const { targets } = await findOwnObjects(context, [RESOURCES.ClusterRoleBinding]);
  const bindings = targets.filter(({ object }) => object.metadata.name === INSTALLATION.webhookRole);
  const isDeleted = await deleteObjects(context, bindings);
  if (isDeleted && bindings.length > 0) await sleep(ROLES_DELAY_MS, undefined, { signal: client.signal });
  return isDeleted;
}

async function deleteReplicas(context: Context): Promise<void> {
  const { client, namespace, report } = context;
  await reportProcesses(context);
  const isDeleted = await deleteOwnObjects(context, [RESOURCES.Deployment]);
  if (context.dryRun !== 'none' || !isDeleted) return;
  const list = async () => (await client.list(RESOURCES.Pod, { namespace })).filter(isPartOfPortcullis);
  const remaining = await waitUntilEmpty(list, REPLICAS_TIMEOUT_MS, client.signal);
  for (const { metadata } of remaining) report(`pods/${metadata.name} still runs; continuing.`);
}

const POLL_MS = 500;

/** Polls until the list is empty or the time is over. Resolves to the last list. */
async function waitUntilEmpty<T>(
  list: () => Promise<readonly T[]>,
  timeoutMs: number,
  signal: AbortSignal,
): Promise<readonly T[]> {
  const end = performance.now() + timeoutMs;
  for (;;) {
    const items = await list();
    if (items.length === 0 || performance.now() >= end) return items;
    await sleep(POLL_MS, undefined, { signal });
  }
}

const REPLICA_PREFIX = `${INSTALLATION.name}-replica-`;

/** Reports replicas that run outside of the cluster: they have a current Lease and are not pods. */
async function reportProcesses({ client, namespace, report }: Context): Promise<void> {
  try {
    const [leases, pods] = await Promise.all([
      client.list(RESOURCES.Lease, { namespace, labels: `${COMPONENT_LABEL}=${REPLICA}` }),
      client.list(RESOURCES.Pod, { namespace }),
    ]);
    const podNames = new Set(pods.map(({ metadata }) => metadata.name));
    const current = leases.filter((lease) => isCurrentLease(lease, new Date()));
    for (const { metadata } of current) {
      const host = metadata.name.replace(REPLICA_PREFIX, '');
      if (podNames.has(host)) continue;
      report(`The replica ${host} is not a pod of this cluster and continues to run: stop its process.`);
    }
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    report(`Replicas outside of the cluster cannot be found: ${error.message}`);
  }
}

/** An object to delete. */
interface Target {
  readonly resource: ResourceInfo;
  readonly object: AnyObject;
}

/**
 * The objects of Portcullis, in the order of the resources, and the errors of the resources that could not be listed.
 * Rejects only if the server cannot be reached.
 */
async function findOwnObjects({ client, namespace }: Context, resources: readonly ResourceInfo[]) {
  const errors: string[] = [];
  const targets = resources.map(async (resource): Promise<readonly Target[]> => {
    try {
      const objects = await client.list(resource, { namespace });
      return objects.filter((object) => isOwnObject(resource, object)).map((object) => ({ resource, object }));
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      errors.push(error.message);
      return [];
    }
  });
  return { targets: (await Promise.all(targets)).flat(), errors };
}

/** True for objects with the label of Portcullis, and for the Secret and Leases that the replicas write. */
function isOwnObject({ resource }: ResourceInfo, object: AnyObject): boolean {
  const { name, labels = {} } = object.metadata;
  if (isPartOfPortcullis(object)) return true;
  if (resource === 'secrets') return name === INSTALLATION.certificateSecret;
  return resource === 'leases' && (name === INSTALLATION.name || labels[COMPONENT_LABEL] === REPLICA);
}

async function deleteOwnObjects(context: Context, resources: readonly ResourceInfo[]): Promise<boolean> {
  const { targets, errors } = await findOwnObjects(context, resources);
  for (const message of errors) context.fail(`Cannot be listed: ${message}`);
  return (await deleteObjects(context, targets)) && errors.length === 0;
}

/** Deletes objects one after another, unless they were replaced. Resolves to true if all are deleted. */
async function deleteObjects(context: Context, targets: readonly Target[]): Promise<boolean> {
  let isDone = true;
  for (const { resource, object } of targets) {
    const { name, namespace, uid } = object.metadata;
    const path = objectPath(resource, name, namespace);
    const body = {
      apiVersion: 'v1',
      kind: 'DeleteOptions',
      propagationPolicy: 'Background',
      ...(uid === undefined ? {} : { preconditions: { uid } }),
      ...(context.dryRun === 'server' ? { dryRun: ['All'] } : {}),
    };
    const send = () => context.client.send({ method: 'DELETE', path, body });
    isDone = (await reportChange(context, objectName(resource, name), 'deleted', send)) && isDone;
  }
  return isDone;
}

/** Sends a change, unless the client only prints it, and reports the result. Resolves to false if the server refuses it. */
async function reportChange(
  { dryRun, report, fail }: Context,
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

/** The name of an object in the notation of kubectl: `deployments.apps/portcullis`. */
function objectName(resource: ResourceInfo, name: string): string {
  return `${resourceName(resource)}/${name}`;
}

const SCCS = RESOURCES.SecurityContextConstraints;

async function purgeSccsAndNamespaces(context: Context, purge: Purge): Promise<void> {
  if (!purge.sccs && !purge.namespaces) return;
  const definition = await context.client.get(DEFINITIONS, `${SCCS.resource}.${SCCS.group}`);
  if (definition !== undefined && !isPartOfPortcullis(definition)) {
    // OpenShift, for example.
    context.fail('SCCs are kept: their definition has no label of Portcullis.');
    return;
  }
  if (purge.sccs) await purgeSccs(context);
  if (purge.namespaces) await purgeNamespaces(context);
}

/** Deletes the roles for the standard SCCs, and the definitions of Portcullis with all their objects. */
async function purgeSccs(context: Context): Promise<void> {
  const { client, dryRun, report } = context;
  const roles = [...STANDARD_CLUSTER_ROLE_BINDINGS, ...STANDARD_CLUSTER_ROLES].map(({ metadata }) => metadata?.name);
  const lists = [RESOURCES.ClusterRoleBinding, RESOURCES.ClusterRole, DEFINITIONS].map(async (resource) => {
    const objects = await client.list(resource);
    const isPurged = (object: AnyObject): boolean =>
      resource === DEFINITIONS ? isPartOfPortcullis(object) : roles.includes(object.metadata.name);
    return objects.filter(isPurged).map((object) => ({ resource, object }));
  });
  const targets = (await Promise.all(lists)).flat();
  const standard = STANDARD_SCCS.map(({ scc }) => scc.metadata?.name);
  const sccs = targets.length === 0 ? [] : await client.list(SCCS);
  for (const { metadata } of sccs.filter(({ metadata }) => !standard.includes(metadata.name))) {
    report(`${objectName(SCCS, metadata.name)} is deleted with its definition${dryRunSuffix(dryRun)}`);
  }
  await deleteObjects(context, targets);
}

/** Removes the labels and annotations of Portcullis from all namespaces. */
async function purgeNamespaces(context: Context): Promise<void> {
  const { client, dryRun } = context;
  for (const { metadata } of await client.list(RESOURCES.Namespace)) {
    const operations = [
      ...removals('labels', metadata.labels, [SCC_MODE_LABEL, TIER_LABEL]),
      ...removals('annotations', metadata.annotations, Object.values(NAMESPACE_RANGE_ANNOTATIONS)),
    ];
    if (operations.length === 0) continue;
    const patch = { operations, dryRun: dryRun === 'server' };
    const send = () => client.patch(RESOURCES.Namespace, metadata.name, patch);
    await reportChange(context, `namespaces/${metadata.name} labels and annotations`, 'removed', send);
  }
}

/** The operations that remove keys from the labels or annotations of an object. */
function removals(
  field: 'labels' | 'annotations',
  present: Readonly<Record<string, string>> = {},
  keys: readonly string[],
): readonly JsonPatchOp[] {
  return keys
    .filter((key) => Object.hasOwn(present, key))
    .map((key) => ({ op: 'remove', path: `/metadata/${field}/${escapeKey(key)}` }));
}

/** Deletes the namespace of the installation if it contains no other objects. */
async function deleteNamespace(context: Context): Promise<void> {
  const { client, namespace: name, report } = context;
  const object = await client.get(RESOURCES.Namespace, name);
  if (!object || object.metadata.deletionTimestamp != null) return;
  if (!isPartOfPortcullis(object)) {
    report(`namespaces/${name} kept: it has no label ${PART_OF_LABEL}=${PART_OF}.`);
    return;
  }
  const others = await findOtherObjects(context);
  if (others.length > 0) report(`namespaces/${name} kept: it contains ${others.join(', ')}.`);
  else await deleteObjects(context, [{ resource: RESOURCES.Namespace, object }]);
}

/** Resources of user objects. A namespace that contains one of them is kept. */
const USER_RESOURCES = [
  RESOURCES.Pod,
  namespaced('v1', 'persistentvolumeclaims'),
  namespaced('v1', 'services'),
  RESOURCES.ConfigMap,
  RESOURCES.Secret,
  RESOURCES.Deployment,
  RESOURCES.StatefulSet,
  RESOURCES.DaemonSet,
  RESOURCES.Job,
  RESOURCES.CronJob,
];

/** Names of the user objects in the namespace. Rejects as `request` does. */
async function findOtherObjects({ client, namespace }: Context): Promise<readonly string[]> {
  const lists = USER_RESOURCES.map(async (resource) => {
    const objects = await client.list(resource, { namespace });
    return objects
      .filter((object) => isUserObject(resource, object))
      .map(({ metadata: { name } }) => objectName(resource, name));
  });
  return (await Promise.all(lists)).flat();
}

/** ConfigMaps that some clusters create in every namespace. */
const GENERATED_CONFIG_MAPS = new Set(['kube-root-ca.crt', 'openshift-service-ca.crt', 'istio-ca-root-cert']);

/** Types of Secrets that controllers create. */
const GENERATED_SECRET_TYPES = new Set([
  'kubernetes.io/service-account-token',
  'kubernetes.io/dockercfg',
  'kubernetes.io/dockerconfigjson',
]);

function isUserObject(resource: ResourceInfo, object: AnyObject): boolean {
  const { name, annotations = {}, ownerReferences = [] } = object.metadata;
  if (isOwnObject(resource, object) || GENERATED_CONFIG_MAPS.has(name) || ownerReferences.length > 0) return false;
  const type = 'type' in object ? object.type : undefined;
  return (
    !(typeof type === 'string' && GENERATED_SECRET_TYPES.has(type)) &&
    !Object.hasOwn(annotations, 'cert-manager.io/certificate-name')
  );
}
