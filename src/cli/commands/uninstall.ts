import { setTimeout as sleep } from 'node:timers/promises';
import type { Connection } from '../../cluster/connection.ts';
import { UserError } from '../../config/files.ts';
import { escapeKey, type JsonPatchOp } from '../../kube/json-patch.ts';
import { RESOURCES } from '../../kube/resources.ts';
import { NAMESPACE_RANGE_ANNOTATIONS } from '../../kube/scc.ts';
import { ApiError } from '../../kube/status.ts';
import type { KubeObject, Lease } from '../../kube/types.ts';
import { COMPONENT_LABEL, INSTALLATION, PART_OF, PART_OF_LABEL, REPLICA, TIER_LABEL } from '../../kube/well-known.ts';
import { SCC_MODE_LABEL } from '../../policy/scc/mode.ts';
import { STANDARD_CLUSTER_ROLE_BINDINGS, STANDARD_CLUSTER_ROLES, STANDARD_SCCS } from '../../policy/scc/standard.ts';
import { defineCommand, EXIT, type Io } from '../command.ts';
import {
  clusterOptions,
  FIELD_MANAGER,
  formatObjectName,
  ignoreNotFound,
  listObjects,
  namespaceOption,
  objectPath,
  withCluster,
  type AnyObject,
  type Resource,
} from '../installation.ts';
import { durationMs, flag, option } from '../options.ts';
import { printable } from '../output/print.ts';

const DETAILS = `
Deletes the webhook configurations first, waits until API servers have observed it, and then deletes the
Deployment, Service, roles, Leases, Secret, and the namespace if it contains nothing else. The command
deletes only objects with the label app.kubernetes.io/part-of=portcullis, and the Secret and the Leases
that the replicas write. It can be repeated.

The command keeps SCCs, their definitions, the roles for their use, and labels and annotations of
namespaces, unless a purge option requests their removal. It does not affect running pods.

Remove a Helm release with 'helm uninstall'. If a GitOps tool (Argo CD, Flux) manages the installation,
remove it there: otherwise the tool restores it.

Examples:
  portcullis uninstall --dry-run
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
    'dry-run': flag({ help: 'Send server-side dry runs, and change nothing' }),
    yes: flag({ short: 'y', help: 'Do not ask for confirmation' }),
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
    return await withCluster(options, io, async (connection) => {
      if (!dryRun && !options.yes && !(await confirm(formatQuestion(connection.server, purge), io))) {
        throw new UserError('nothing was deleted: the response was not "yes"; use --yes to skip the confirmation');
      }
      let reported = 0;
      const report = (line: string): void => {
        reported++;
        io.stdout.write(`${printable(line)}\n`);
      };
      const failures = await uninstall({ connection, namespace, dryRun, signal: io.signal, report }, { waitMs, purge });
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

/** What every step needs. */
interface Context {
  readonly connection: Connection;
  /** Namespace of the installation. */
  readonly namespace: string;
  readonly dryRun: boolean;
  readonly signal: AbortSignal;
  /** Prints a line about a step. */
  report(line: string): void;
}

interface Kind extends Resource {
  readonly scope: 'Cluster' | 'Namespaced';
}

function namespaced(group: string, version: string, resource: string): Kind {
  return { group, version, resource, scope: 'Namespaced' };
}

/** Deleted first: without the replicas, API servers would deny requests that match them. */
const WEBHOOKS: readonly Kind[] = [RESOURCES.ValidatingWebhookConfiguration, RESOURCES.MutatingWebhookConfiguration];

/** Deleted after the replicas, which recreate their Secret and Leases. */
const DEPENDENCIES: readonly Kind[] = [
  namespaced('policy', 'v1', 'poddisruptionbudgets'),
  namespaced('', 'v1', 'services'),
  namespaced('networking.k8s.io', 'v1', 'networkpolicies'),
  namespaced('monitoring.coreos.com', 'v1', 'servicemonitors'),
  namespaced('monitoring.coreos.com', 'v1', 'prometheusrules'),
  namespaced('cert-manager.io', 'v1', 'certificates'),
  namespaced('cert-manager.io', 'v1', 'issuers'),
  namespaced('', 'v1', 'configmaps'),
  namespaced('', 'v1', 'resourcequotas'),
  RESOURCES.ClusterRoleBinding,
  RESOURCES.RoleBinding,
  RESOURCES.ClusterRole,
  RESOURCES.Role,
  RESOURCES.ServiceAccount,
  RESOURCES.Lease,
  RESOURCES.Secret,
];

/**
 * Deletes an installation. Resolves to the number of objects that could not be deleted. Rejects only if the server cannot
 * be reached.
 */
async function uninstall(
  context: Context,
  { waitMs, purge }: { readonly waitMs: number; readonly purge: Purge },
): Promise<number> {
  if (!(await deleteWebhooks(context, waitMs))) {
    context.report(
      'All other objects are kept: without them, API servers would deny requests that match the webhooks.',
    );
    return 1;
  }
  const failures = [
    await deleteReplicas(context),
    await deleteOwnObjects(context, DEPENDENCIES),
    purge.sccs || purge.namespaces ? await purgeSccsAndNamespaces(context, purge) : 0,
    await deleteNamespace(context),
  ];
  return failures.reduce((sum, count) => sum + count, 0);
}

const WEBHOOKS_TIMEOUT_MS = 60_000;
/** Longer than the termination grace period of the replicas. */
const REPLICAS_TIMEOUT_MS = 90_000;

/** Resolves to true if no webhook of Portcullis is left. */
async function deleteWebhooks(context: Context, waitMs: number): Promise<boolean> {
  const { report, dryRun, signal } = context;
  const { targets, errors } = await findOwnObjects(context, WEBHOOKS);
  for (const message of errors) report(`Webhook configurations cannot be listed: ${message}`);
  if (errors.length > 0 || (await deleteObjects(context, targets)) > 0) return false;
  if (dryRun || targets.length === 0) return true;
  const remaining = await waitUntilEmpty(
    async () => (await findOwnObjects(context, WEBHOOKS)).targets,
    WEBHOOKS_TIMEOUT_MS,
    signal,
  );
  for (const { name } of remaining) report(`Webhook configuration ${name} still exists.`);
  if (remaining.length > 0) return false;
  report(`Waiting ${waitMs / 1000} s for API servers to observe the deletion.`);
  await sleep(waitMs, undefined, { signal });
  return true;
}

async function deleteReplicas(context: Context): Promise<number> {
  const { connection, namespace, signal, report } = context;
  await reportProcesses(context);
  const failures = await deleteOwnObjects(context, [RESOURCES.Deployment]);
  if (context.dryRun || failures > 0) return failures;
  const remaining = await waitUntilEmpty(
    async () => {
      const pods = await ignoreNotFound(() => listObjects(connection, RESOURCES.Pod, { namespace, signal }));
      return (pods ?? []).filter((pod) => isOwnObject(RESOURCES.Pod, pod));
    },
    REPLICAS_TIMEOUT_MS,
    signal,
  );
  for (const { metadata } of remaining) report(`pods/${metadata.name} still runs; continuing.`);
  return 0;
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

/** Reports replicas that run outside of the cluster. */
async function reportProcesses(context: Context): Promise<void> {
  try {
    for (const host of await findProcesses(context)) {
      context.report(`The replica ${host} is not a pod of this cluster and continues to run: stop its process.`);
    }
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    context.report(`Replicas outside of the cluster cannot be found: ${error.message}`);
  }
}

const REPLICA_PREFIX = `${INSTALLATION.name}-replica-`;

/** The host names of replicas with a current Lease that are not pods. Rejects as `request` does. */
async function findProcesses({ connection, namespace, signal }: Context): Promise<readonly string[]> {
  const labels = `${COMPONENT_LABEL}=${REPLICA}`;
  const [leases = [], pods = []] = await Promise.all([
    ignoreNotFound(() => listObjects(connection, RESOURCES.Lease, { namespace, labels, signal })),
    ignoreNotFound(() => listObjects(connection, RESOURCES.Pod, { namespace, signal })),
  ]);
  const podNames = new Set(pods.map(({ metadata }) => metadata.name));
  return leases
    .filter((lease) => isCurrent(lease, new Date()))
    .map(({ metadata: { name } }) => (name.startsWith(REPLICA_PREFIX) ? name.slice(REPLICA_PREFIX.length) : name))
    .filter((host) => !podNames.has(host));
}

function isCurrent({ spec }: Lease, now: Date): boolean {
  return Date.parse(spec?.renewTime ?? '') + (spec?.leaseDurationSeconds ?? 0) * 1000 >= now.getTime();
}

/** An object to delete. */
interface Target {
  readonly resource: Resource;
  readonly name: string;
  readonly namespace?: string;
  readonly uid: string | undefined;
}

function createTarget(resource: Resource, { metadata: { name, uid } }: AnyObject, namespace?: string): Target {
  return { resource, name, uid, ...(namespace === undefined ? {} : { namespace }) };
}

interface FoundObjects {
  readonly targets: readonly Target[];
  /** Errors of the kinds that could not be listed. */
  readonly errors: readonly string[];
}

/** The objects of Portcullis, in the order of the kinds. Rejects only if the server cannot be reached. */
async function findOwnObjects(context: Context, kinds: readonly Kind[]): Promise<FoundObjects> {
  const found = await Promise.all(kinds.map((kind) => findOwnObjectsOfKind(context, kind)));
  return { targets: found.flatMap(({ targets }) => targets), errors: found.flatMap(({ errors }) => errors) };
}

async function findOwnObjectsOfKind({ connection, ...context }: Context, kind: Kind): Promise<FoundObjects> {
  const namespace = kind.scope === 'Namespaced' ? context.namespace : undefined;
  try {
    // 404: the cluster does not serve the kind.
    const objects = await ignoreNotFound(() => listObjects(connection, kind, { namespace, signal: context.signal }));
    const own = (objects ?? []).filter((object) => isOwnObject(kind, object));
    return { targets: own.map((object) => createTarget(kind, object, namespace)), errors: [] };
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    return { targets: [], errors: [error.message] };
  }
}

/** True for objects with the label of Portcullis, and for the Secret and Leases that the replicas write. */
function isOwnObject({ resource }: Resource, { metadata: { name, labels = {} } }: AnyObject): boolean {
  if (labels[PART_OF_LABEL] === PART_OF) return true;
  if (resource === 'secrets') return name === INSTALLATION.certificateSecret;
  return resource === 'leases' && (name === INSTALLATION.name || labels[COMPONENT_LABEL] === REPLICA);
}

async function deleteOwnObjects(context: Context, kinds: readonly Kind[]): Promise<number> {
  const { targets, errors } = await findOwnObjects(context, kinds);
  for (const message of errors) context.report(`Cannot be listed: ${message}`);
  return errors.length + (await deleteObjects(context, targets));
}

/** Deletes objects one after another. Resolves to the number of objects that the server refuses to delete. */
async function deleteObjects(context: Context, targets: readonly Target[]): Promise<number> {
  let failures = 0;
  for (const target of targets) if (!(await deleteObject(context, target))) failures++;
  return failures;
}

/** Deletes an object, unless it was replaced. Resolves to false if the server refuses. */
async function deleteObject({ connection, dryRun, signal, report }: Context, target: Target): Promise<boolean> {
  const { resource, name, namespace, uid } = target;
  const path = objectPath(resource, name, namespace);
  const body = {
    apiVersion: 'v1',
    kind: 'DeleteOptions',
    propagationPolicy: 'Background',
    ...(uid === undefined ? {} : { preconditions: { uid } }),
    ...(dryRun ? { dryRun: ['All'] } : {}),
  };
  const title = formatObjectName(resource, name);
  try {
    const deleted = await ignoreNotFound(() => connection.request({ method: 'DELETE', path, body, signal }));
    report(`${title} ${deleted ? 'deleted' : 'already deleted'}${formatDryRun(dryRun)}`);
    return true;
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    report(`${title} not deleted: ${error.message}`);
    return false;
  }
}

function formatDryRun(dryRun: boolean): string {
  return dryRun ? ' (server dry run)' : '';
}

const DEFINITIONS: Resource = {
  group: 'apiextensions.k8s.io',
  version: 'v1',
  resource: 'customresourcedefinitions',
};
const SCCS = RESOURCES.SecurityContextConstraints;

async function purgeSccsAndNamespaces(context: Context, purge: Purge): Promise<number> {
  const definition = await get(context, DEFINITIONS, `${SCCS.resource}.${SCCS.group}`);
  if (definition !== undefined && definition.metadata.labels?.[PART_OF_LABEL] !== PART_OF) {
    // OpenShift, for example.
    context.report('SCCs are kept: their definition has no label of Portcullis.');
    return 1;
  }
  return (purge.sccs ? await purgeSccs(context) : 0) + (purge.namespaces ? await purgeNamespaces(context) : 0);
}

const STANDARD_NAMES: ReadonlySet<string> = new Set(STANDARD_SCCS.map(({ scc }) => objectName(scc)));

/** Deletes the roles for the standard SCCs, and the definitions of Portcullis with all their objects. */
async function purgeSccs(context: Context): Promise<number> {
  const { connection, signal } = context;
  const roles = [
    ...STANDARD_CLUSTER_ROLE_BINDINGS.map((one) => [RESOURCES.ClusterRoleBinding, objectName(one)] as const),
    ...STANDARD_CLUSTER_ROLES.map((one) => [RESOURCES.ClusterRole, objectName(one)] as const),
  ];
  const found = await Promise.all(
    roles.map(async ([resource, name]) => {
      const object = await get(context, resource, name);
      return object ? [createTarget(resource, object)] : [];
    }),
  );
  const definitions = await listObjects(connection, DEFINITIONS, { labels: `${PART_OF_LABEL}=${PART_OF}`, signal });
  const targets = [...found.flat(), ...definitions.map((definition) => createTarget(DEFINITIONS, definition))];
  const sccs = targets.length === 0 ? [] : await ignoreNotFound(() => listObjects(connection, SCCS, { signal }));
  for (const { metadata } of sccs ?? []) {
    if (STANDARD_NAMES.has(metadata.name)) continue;
    const title = formatObjectName(SCCS, metadata.name);
    context.report(`${title} is deleted with its definition${formatDryRun(context.dryRun)}`);
  }
  return await deleteObjects(context, targets);
}

async function get({ connection, signal }: Context, resource: Resource, name: string): Promise<AnyObject | undefined> {
  const path = objectPath(resource, name);
  return (await ignoreNotFound(() => connection.request({ method: 'GET', path, signal }))) as AnyObject | undefined;
}

function objectName({ metadata: { name = '' } = {} }: KubeObject): string {
  return name;
}

/** Removes the labels and annotations of Portcullis from all namespaces. Resolves to the number of failures. */
async function purgeNamespaces({ connection, dryRun, signal, report }: Context): Promise<number> {
  let failures = 0;
  for (const namespace of await listObjects(connection, RESOURCES.Namespace, { signal })) {
    const body = planPurge(namespace);
    if (body.length === 0) continue;
    const { name } = namespace.metadata;
    const path = objectPath(RESOURCES.Namespace, name);
    const query = { fieldManager: FIELD_MANAGER, ...(dryRun ? { dryRun: 'All' } : {}) };
    const contentType = 'application/json-patch+json';
    try {
      await ignoreNotFound(() => connection.request({ method: 'PATCH', path, query, contentType, body, signal }));
      report(`namespaces/${name} labels and annotations removed${formatDryRun(dryRun)}`);
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      report(`namespaces/${name} labels and annotations not removed: ${error.message}`);
      failures++;
    }
  }
  return failures;
}

const LABELS: readonly string[] = [SCC_MODE_LABEL, TIER_LABEL];
const ANNOTATIONS: readonly string[] = Object.values(NAMESPACE_RANGE_ANNOTATIONS);

/** The patch that removes the labels and annotations of Portcullis from a namespace. */
function planPurge({ metadata: { labels, annotations } }: AnyObject): JsonPatchOp[] {
  const removals = (
    field: 'labels' | 'annotations',
    present: Readonly<Record<string, string>> = {},
    keys: readonly string[],
  ): JsonPatchOp[] =>
    keys
      .filter((key) => Object.hasOwn(present, key))
      .map((key) => ({ op: 'remove', path: `/metadata/${field}/${escapeKey(key)}` }));
  return [...removals('labels', labels, LABELS), ...removals('annotations', annotations, ANNOTATIONS)];
}

/** Deletes the namespace of the installation if it contains no other objects. */
async function deleteNamespace(context: Context): Promise<number> {
  const { namespace: name, report } = context;
  const namespace = await get(context, RESOURCES.Namespace, name);
  if (!namespace || namespace.metadata.deletionTimestamp != null) return 0;
  if (!isOwnObject(RESOURCES.Namespace, namespace)) {
    report(`namespaces/${name} kept: it has no label ${PART_OF_LABEL}=${PART_OF}.`);
    return 0;
  }
  const others = await findOtherObjects(context);
  if (others.length === 0) return await deleteObjects(context, [createTarget(RESOURCES.Namespace, namespace)]);
  report(`namespaces/${name} kept: it contains ${others.join(', ')}.`);
  return 0;
}

/** Kinds of user objects. A namespace that contains one of them is kept. */
const USER_KINDS: readonly Resource[] = [
  { group: '', version: 'v1', resource: 'pods' },
  { group: '', version: 'v1', resource: 'persistentvolumeclaims' },
  { group: '', version: 'v1', resource: 'services' },
  { group: '', version: 'v1', resource: 'configmaps' },
  { group: '', version: 'v1', resource: 'secrets' },
  { group: 'apps', version: 'v1', resource: 'deployments' },
  { group: 'apps', version: 'v1', resource: 'statefulsets' },
  { group: 'apps', version: 'v1', resource: 'daemonsets' },
  { group: 'batch', version: 'v1', resource: 'jobs' },
  { group: 'batch', version: 'v1', resource: 'cronjobs' },
];

/** Names of the user objects in the namespace. Rejects as `request` does. */
async function findOtherObjects({ connection, namespace, signal }: Context): Promise<readonly string[]> {
  const lists = await Promise.all(
    USER_KINDS.map(async (resource) => {
      const objects = await ignoreNotFound(() => listObjects(connection, resource, { namespace, signal }));
      return (objects ?? [])
        .filter((object) => isUserObject(resource, object))
        .map(({ metadata: { name } }) => formatObjectName(resource, name));
    }),
  );
  return lists.flat();
}

/** ConfigMaps that some clusters create in every namespace. */
const GENERATED_CONFIG_MAPS = new Set(['kube-root-ca.crt', 'openshift-service-ca.crt', 'istio-ca-root-cert']);

/** Types of Secrets that controllers create. */
const GENERATED_SECRET_TYPES = new Set([
  'kubernetes.io/service-account-token',
  'kubernetes.io/dockercfg',
  'kubernetes.io/dockerconfigjson',
]);

function isUserObject(resource: Resource, object: AnyObject): boolean {
  const { name, annotations = {}, ownerReferences = [] } = object.metadata;
  if (isOwnObject(resource, object) || GENERATED_CONFIG_MAPS.has(name) || ownerReferences.length > 0) return false;
  const type = 'type' in object ? object.type : undefined;
  return (
    !(typeof type === 'string' && GENERATED_SECRET_TYPES.has(type)) &&
    !Object.hasOwn(annotations, 'cert-manager.io/certificate-name')
  );
}
