import { setTimeout as sleep } from 'node:timers/promises';
import { readCluster } from '../../cluster/lists.ts';
import { UserError } from '../../config/files.ts';
import { DEFAULTS_KINDS, POLICY_KINDS } from '../../kube/admission-policies.ts';
import { escapeKey } from '../../kube/json-patch.ts';
import {
  getApiVersion,
  namespaced,
  objectName,
  objectPath,
  type ResourceInfo,
  resourceName,
  RESOURCES,
} from '../../kube/resources.ts';
import { ApiError } from '../../kube/status.ts';
import type { Kinds } from '../../kube/kinds.ts';
import type { JsonObject, Node } from '../../kube/types.ts';
import { isPartOfPortcullis } from '../../kube/webhooks.ts';
import {
  COMPONENT_LABEL,
  FLOOR_LABELS,
  INSTALLATION,
  KUBELET_CONDITION,
  KUBELET_STATE_ANNOTATION,
  KUBELET_TAINT,
  PART_OF,
  PART_OF_LABEL,
  POLICY_LABELS,
  REPLICA,
} from '../../kube/well-known.ts';
import { STANDARD_SCCS } from '../../policy/scc/standard.ts';
import { defineCommand, EXIT, type Io } from '../command.ts';
import {
  type AnyObject,
  type ClusterClient,
  clusterOptions,
  DEFINITIONS,
  type DryRun,
  dryRunOption,
  dryRunSuffix,
  ignoreNotFound,
  isCurrentLease,
  namespaceOption,
  withCluster,
} from '../installation.ts';
import { durationMs, flag, option } from '../options.ts';
import { printable } from '../output/print.ts';
import {
  findEnforcement,
  findGrants,
  findLabelManagers,
  findRangeAnnotations,
  findRemains,
  findUserLabels,
  hasForeignSccs,
  type UninstallScope,
} from './remains.ts';

const DETAILS = `
Shows which enforcement ends, and fails while something is enforced, unless --force is given. The command
then ends enforcement before it stops the replicas, so that no pod is denied because of the uninstallation:
it revokes the permission of the leader to restore policies and webhooks, and deletes the policies of the
floor, the validating webhooks, the Pod Security labels that Portcullis set, and the mutating webhooks. After
each step, it waits until API servers have observed it. It then deletes the Deployment, Service, roles, Leases,
Secret, the reports about kubelet versions on nodes, and the namespace if it contains nothing else, and lists
the objects that remain.

The command deletes only objects with the label app.kubernetes.io/part-of=portcullis, and the Secret and the
Leases that the replicas write. In namespaces, it removes the labels and annotations that managedFields
attribute to a controller of Portcullis only. It does not affect running pods, and can be repeated.

The policies of an installation without a server are also deleted. With --keep-policies, they and the Pod
Security labels remain, and API servers enforce them after the server is deleted.

Remove a Helm release with 'helm uninstall'. If a GitOps tool (Argo CD, Flux) manages the installation,
remove it there: otherwise the tool restores it.

Examples:
  portcullis uninstall --dry-run=server
  portcullis uninstall
  portcullis uninstall --force --keep-labels
  portcullis uninstall --keep-policies
  portcullis uninstall --yes --purge-crds --purge-namespaces

Exit codes:
  0  success
  1  some objects could not be deleted
  2  wrong usage, not confirmed, something is enforced, or the cluster cannot be read
`;

export const command = defineCommand({
  details: DETAILS,
  options: {
    ...clusterOptions,
    ...namespaceOption,
    ...dryRunOption,
    force: flag({ help: 'Uninstall although something is enforced' }),
    yes: flag({ short: 'y', help: 'Skip the confirmation' }),
    wait: option('DURATION', durationMs, 5000, {
      help: 'Wait for API servers to observe each step that ends enforcement',
      shown: '5s',
    }),
    'keep-labels': flag({ help: 'Keep the Pod Security labels of namespaces that Portcullis set' }),
    'keep-policies': flag({
      help: 'Keep the policies in the API server and the Pod Security labels, to change to an installation without a server',
    }),
    'purge-crds': flag({
      help: 'Also delete the CustomResourceDefinitions of Portcullis with all their objects (settings, SCCs), and the roles and bindings that grant the use of SCCs',
    }),
    'purge-namespaces': flag({
      help: 'Also remove the labels portcullis.dev/* and the ranges of Portcullis from all namespaces',
    }),
  },
  async run(options, _operands, io) {
    const { namespace, 'dry-run': dryRun, wait: waitMs } = options;
    const { 'keep-labels': keepsLabels, 'keep-policies': keepsPolicies } = options;
    const scope: UninstallScope = {
      keepsLabels: keepsLabels || keepsPolicies,
      keepsPolicies,
      purgesDefinitions: options['purge-crds'],
      purgesNamespaces: options['purge-namespaces'],
    };
    return await withCluster(options, io, async (client) => {
      const { printList, ...reporter } = createReporter(io.stdout);
      const enforcement = await findEnforcement(client, namespace, scope);
      printList('Enforcement that ends:', enforcement);
      const context = { client, namespace, dryRun, waitMs, ...reporter };
      if (dryRun === 'none' && (await hasChanges(context, scope))) {
        await checkPermission(enforcement, { ...options, scope, client, io });
      }
      await uninstall(context, scope);
      const { reported, failed } = reporter.counts;
      if (reported === 0) reporter.report(`Nothing to delete: Portcullis is not installed in namespace ${namespace}.`);
      printList('These remain:', await findRemains(client, scope));
      return failed === 0 ? EXIT.passed : EXIT.violations;
    });
  },
});

function createReporter(stdout: Io['stdout']) {
  const counts = { reported: 0, failed: 0 };
  const print = (line: string): void => void stdout.write(`${printable(line)}\n`);
  const report = (line: string): void => {
    counts.reported++;
    print(line);
  };
  return {
    counts,
    report,
    fail(line: string): void {
      counts.failed++;
      report(line);
    },
    /** Prints a title and a list; nothing for an empty list. */
    printList(title: string, items: readonly string[]): void {
      if (items.length > 0) [title, ...items.map((item) => `- ${item}`)].forEach(print);
    },
  };
}

interface Permission {
  readonly force: boolean;
  readonly yes: boolean;
  readonly scope: UninstallScope;
  readonly client: ClusterClient;
  readonly io: Io;
}

/** True if an uninstallation would change something. */
async function hasChanges(context: Context, scope: UninstallScope): Promise<boolean> {
  let count = 0;
  const report = (): void => {
    count++;
  };
  await uninstall({ ...context, dryRun: 'client', waitMs: 0, report, fail: report }, scope);
  return count > 0;
}

/** Rejects with a UserError if the options and the response of the user do not permit the uninstallation. */
async function checkPermission(
  enforcement: readonly string[],
  { force, yes, scope, client, io }: Permission,
): Promise<void> {
  if (enforcement.length > 0 && !force) {
    throw new UserError('nothing was deleted, because Portcullis enforces: end enforcement first, or use --force');
  }
  if (yes || (await confirm(formatQuestion(client.connection.server, scope), io))) return;
  throw new UserError('nothing was deleted: the response was not "yes"; use --yes to skip the confirmation');
}

function formatQuestion(server: string, { purgesDefinitions, purgesNamespaces }: UninstallScope): string {
  const items = [
    'Portcullis',
    ...(purgesDefinitions ? ['its settings and all SecurityContextConstraints'] : []),
    ...(purgesNamespaces ? ['its labels and annotations on all namespaces'] : []),
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
  /** Time for API servers to observe a step. */
  readonly waitMs: number;
  /** Prints a line about a step. */
  report(line: string): void;
  /** Prints a line about a step that failed. */
  fail(line: string): void;
}

/** Deleted after the replicas, which recreate their Secret and Leases. */
const DEPENDENCIES = [
  namespaced('policy/v1', 'poddisruptionbudgets'),
  namespaced('v1', 'services'),
  namespaced('networking.k8s.io/v1', 'networkpolicies'),
  namespaced('monitoring.coreos.com/v1', 'servicemonitors'),
  namespaced('monitoring.coreos.com/v1', 'prometheusrules'),
  namespaced('cert-manager.io/v1', 'certificates'),
  namespaced('cert-manager.io/v1', 'issuers'),
  // The policies that deny pods without defaults are deleted before the defaults.
  ...[...DEFAULTS_KINDS, ...POLICY_KINDS].toReversed().map((kind) => RESOURCES[kind]),
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

/** The component of policies and their bindings. */
const POLICIES = POLICY_LABELS[COMPONENT_LABEL];

/** Deletes an installation. Rejects only if the server cannot be reached. */
async function uninstall(context: Context, scope: UninstallScope): Promise<void> {
  const isForeign = await hasForeignSccs(context.client);
  const keepsLabels = scope.keepsLabels || isForeign;
  if (!(await endEnforcement(context, keepsLabels))) {
    context.fail('All other objects are kept: without them, API servers would deny requests that match the webhooks.');
    return;
  }
  await deleteReplicas(context);
  // The leader may have labeled a new namespace before it lost the permission.
  if (!keepsLabels && context.dryRun === 'none') await removeLabels(context);
  const isPolicy = ({ metadata }: AnyObject): boolean => metadata.labels?.[COMPONENT_LABEL] === POLICIES;
  await deleteOwnObjects(context, DEPENDENCIES, (object) => !(scope.keepsPolicies && isPolicy(object)));
  await deleteReports(context);
  await removeNodeReports(context);
  await purge(context, scope, isForeign);
  await deleteNamespace(context);
}

/**
 * Ends enforcement while the replicas still respond, and first that of the floor, which denies pods that no mutating webhook
 * has completed. Until mutating webhooks are deleted, SCCs complete pods, so that the
 * Pod Security labels are removed first: they would deny pods that are not completed. Validating webhooks are deleted
 * before the labels: they would apply the default level to namespaces without a label, and deny pods that are not
 * completed. Resolves to true if no webhook of Portcullis is left.
 */
async function endEnforcement(context: Context, keepsLabels: boolean): Promise<boolean> {
  if (!(await revoke(context, 'create', ['webhookconfigurations', 'admissionpolicies']))) return false;
  const isFloor = ({ metadata }: AnyObject): boolean =>
    metadata.labels?.[COMPONENT_LABEL] === FLOOR_LABELS[COMPONENT_LABEL];
  const floor = POLICY_KINDS.toReversed().map((kind) => RESOURCES[kind]);
  if (!(await deleteOwnObjects(context, floor, isFloor))) return false;
  if (!(await deleteWebhooks(context, RESOURCES.ValidatingWebhookConfiguration))) return false;
  if (!keepsLabels) await endLabels(context);
  return await deleteWebhooks(context, RESOURCES.MutatingWebhookConfiguration);
}

/** Removes the Pod Security labels of Portcullis, after the leader has lost the permission to restore them. */
async function endLabels(context: Context): Promise<void> {
  const namespaces = await context.client.list(RESOURCES.Namespace);
  if (!namespaces.some((one) => findLabelManagers(one).length > 0)) return;
  await revoke(context, 'patch', ['namespaces']);
  await removeLabels(context);
  await observe(context, 'the change of the labels');
}

const WEBHOOKS_TIMEOUT_MS = 60_000;
/** Longer than the termination grace period of the replicas. */
const REPLICAS_TIMEOUT_MS = 90_000;

/** Resolves to true if no webhook configuration of Portcullis of the kind is left. */
async function deleteWebhooks(context: Context, resource: ResourceInfo): Promise<boolean> {
  const { report, dryRun, client } = context;
  const { targets, errors } = await findOwnObjects(context, [resource]);
  for (const message of errors) report(`Webhook configurations cannot be listed: ${message}`);
  if (errors.length > 0 || !(await deleteObjects(context, targets))) return false;
  if (dryRun !== 'none' || targets.length === 0) return true;
  const list = async () => (await findOwnObjects(context, [resource])).targets;
  const remaining = await waitUntilEmpty(list, WEBHOOKS_TIMEOUT_MS, client.signal);
  for (const { object } of remaining) report(`Webhook configuration ${object.metadata.name} still exists.`);
  if (remaining.length > 0) return false;
  await observe(context, 'the deletion');
  const restored = await list();
  for (const { object } of restored) {
    report(`Webhook configuration ${object.metadata.name} was restored: stop the replicas outside of the cluster.`);
  }
  return restored.length === 0;
}

/** Waits until all API servers have observed a change. */
async function observe({ client, dryRun, report, waitMs }: Context, change: string): Promise<void> {
  if (dryRun !== 'none') return;
  report(`Waiting ${waitMs / 1000} s for API servers to observe ${change}.`);
  await sleep(waitMs, undefined, { signal: client.signal });
}

/** API servers apply a change of roles after a short delay. */
const MAX_ROLES_DELAY_MS = 1000;

/**
 * Deletes the bindings of the roles with which the leader would restore what is removed: those that permit the verb on
 * resources with one of the endings. Resolves to false if that is not possible.
 */
async function revoke(context: Context, verb: string, endings: readonly string[]): Promise<boolean> {
  const { client, dryRun, waitMs } = context;
  // The dry run reports them with the other bindings.
  if (dryRun !== 'none') return true;
  const { store } = await readCluster(client.connection, ['ClusterRole'], { signal: client.signal });
  const isNamed = (name: string): boolean => endings.some((ending) => name.endsWith(ending));
  const isPermitting = ({ rules }: Kinds['ClusterRole']): boolean =>
    rules?.some(({ verbs, resources }) => verbs.includes(verb) && resources?.some(isNamed)) ?? false;
  // A binding has the name of its role.
  const names = store.list('ClusterRole').filter(isPermitting).map(objectName);
  const { targets } = await findOwnObjects(context, [RESOURCES.ClusterRoleBinding]);
  const bindings = targets.filter(({ object }) => names.includes(object.metadata.name));
  const isDeleted = await deleteObjects(context, bindings);
  const delayMs = Math.min(waitMs, MAX_ROLES_DELAY_MS);
  if (isDeleted && bindings.length > 0) await sleep(delayMs, undefined, { signal: client.signal });
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

async function deleteOwnObjects(
  context: Context,
  resources: readonly ResourceInfo[],
  isDeleted: (object: AnyObject) => boolean = () => true,
): Promise<boolean> {
  const { targets, errors } = await findOwnObjects(context, resources);
  for (const message of errors) context.fail(`Cannot be listed: ${message}`);
  const deleted = targets.filter(({ object }) => isDeleted(object));
  return (await deleteObjects(context, deleted)) && errors.length === 0;
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
    const elsewhere = namespace === undefined || namespace === context.namespace ? '' : ` in namespace ${namespace}`;
    isDone = (await reportChange(context, `${formatName(resource, name)}${elsewhere}`, 'deleted', send)) && isDone;
  }
  return isDone;
}

/** Sends a change, unless the client only prints it, and reports the result. Resolves to false if the server rejects it. */
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
function formatName(resource: ResourceInfo, name: string): string {
  return `${resourceName(resource)}/${name}`;
}

/** Removes the labels and annotations that only the label controllers of Portcullis own, as their managers. */
async function removeLabels(context: Context): Promise<void> {
  const { client, dryRun } = context;
  for (const namespace of await client.list(RESOURCES.Namespace)) {
    const { name, uid } = namespace.metadata;
    for (const manager of findLabelManagers(namespace)) {
      // The API server removes the fields of the last apply, except those that other managers own, too.
      const send = () =>
        client.send({
          method: 'PATCH',
          path: objectPath(RESOURCES.Namespace, name),
          query: { fieldManager: manager, ...(dryRun === 'server' ? { dryRun: 'All' } : {}) },
          contentType: 'application/apply-patch+yaml',
          body: { apiVersion: getApiVersion('Namespace'), kind: 'Namespace', metadata: { name, uid } },
        });
      await reportChange(context, `namespaces/${name} labels of ${manager}`, 'removed', send);
    }
  }
}

const { Node: NODES } = RESOURCES;
/** The field manager of the reports on nodes. */
const NODE_REPORTER = 'kubelet-reporter';

/** Removes the condition, the annotation and the taint about the kubelet version from all nodes. */
async function removeNodeReports(context: Context): Promise<void> {
  const { client, dryRun } = context;
  const query = { fieldManager: NODE_REPORTER, ...(dryRun === 'server' ? { dryRun: 'All' } : {}) };
  for (const node of (await client.list(NODES)) as readonly (AnyObject & Node)[]) {
    const { name, annotations } = node.metadata;
    // The API server removes the fields of the last apply, as from namespaces.
    const release = (path: string, status: JsonObject) => () =>
      client.send({
        method: 'PATCH',
        path,
        query,
        contentType: 'application/apply-patch+yaml',
        body: { apiVersion: 'v1', kind: 'Node', metadata: { name }, ...status },
      });
    const path = objectPath(NODES, name);
    if (node.status?.conditions?.some(({ type }) => type === KUBELET_CONDITION)) {
      await reportChange(
        context,
        `nodes/${name} condition ${KUBELET_CONDITION}`,
        'removed',
        release(`${path}/status`, { status: { conditions: [] } }),
      );
    }
    if (annotations?.[KUBELET_STATE_ANNOTATION] !== undefined) {
      await reportChange(context, `nodes/${name} annotation ${KUBELET_STATE_ANNOTATION}`, 'removed', release(path, {}));
    }
    const index = node.spec?.taints?.findIndex(({ key }) => key === KUBELET_TAINT) ?? -1;
    if (index < 0) continue;
    const operations = [
      { op: 'test', path: `/spec/taints/${index}/key`, value: KUBELET_TAINT },
      { op: 'remove', path: `/spec/taints/${index}` },
    ] as const;
    const send = () => client.patch(NODES, name, { operations, dryRun: dryRun === 'server' });
    await reportChange(context, `nodes/${name} taint ${KUBELET_TAINT}`, 'removed', send);
  }
}

/** Deletes the reports about Pod Security in all namespaces. */
async function deleteReports(context: Context): Promise<void> {
  const resource = RESOURCES.Report;
  const reports = await context.client.list(resource, { labels: `${PART_OF_LABEL}=${PART_OF}` });
  await deleteObjects(
    context,
    reports.map((object) => ({ resource, object })),
  );
}

async function purge(
  context: Context,
  { purgesDefinitions, purgesNamespaces }: UninstallScope,
  isForeign: boolean,
): Promise<void> {
  if (purgesDefinitions) await purgeDefinitions(context, isForeign);
  if (purgesNamespaces) await purgeNamespaces(context, isForeign);
}

/** Deletes the CRDs of Portcullis with all their objects, and the roles and bindings that grant the use of SCCs. */
async function purgeDefinitions(context: Context, isForeign: boolean): Promise<void> {
  const { client, dryRun, report } = context;
  if (isForeign) report('SCCs and their roles are kept: the definition of SCCs belongs to another product.');
  const grants = isForeign ? [] : await findGrants(client);
  const definitions = (await client.list(DEFINITIONS)).filter(isPartOfPortcullis);
  const targets = [...grants, ...definitions.map((object) => ({ resource: DEFINITIONS, object }))];
  const standard = STANDARD_SCCS.map(({ scc }) => scc.metadata?.name);
  const sccs = isForeign || definitions.length === 0 ? [] : await client.list(RESOURCES.SecurityContextConstraints);
  for (const { metadata } of sccs.filter(({ metadata }) => !standard.includes(metadata.name))) {
    const name = formatName(RESOURCES.SecurityContextConstraints, metadata.name);
    report(`${name} is deleted with its definition${dryRunSuffix(dryRun)}`);
  }
  await deleteObjects(context, targets);
}

/** Removes the labels for Portcullis from all namespaces, and the ranges that it allocated. */
async function purgeNamespaces(context: Context, isForeign: boolean): Promise<void> {
  const { client, dryRun } = context;
  for (const namespace of await client.list(RESOURCES.Namespace)) {
    const { name, resourceVersion } = namespace.metadata;
    const ranges = isForeign ? [] : findRangeAnnotations(namespace).filter(({ isOwn }) => isOwn);
    const paths = [
      ...findUserLabels(namespace).map((key) => `/metadata/labels/${escapeKey(key)}`),
      ...ranges.map(({ key }) => `/metadata/annotations/${escapeKey(key)}`),
    ];
    if (paths.length === 0) continue;
    const operations = [
      { op: 'replace', path: '/metadata/resourceVersion', value: resourceVersion } as const,
      ...paths.map((path) => ({ op: 'remove', path }) as const),
    ];
    const send = () => client.patch(RESOURCES.Namespace, name, { operations, dryRun: dryRun === 'server' });
    await reportChange(context, `namespaces/${name} labels and annotations`, 'removed', send);
  }
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
      .map(({ metadata: { name } }) => formatName(resource, name));
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
