import { setTimeout as pause } from 'node:timers/promises';
import { type Io, defineCommand, EXIT } from '../command.ts';
import { COMPONENT_LABEL, INSTALLATION, PART_OF, PART_OF_LABEL, REPLICA, TIER_LABEL } from '../../kube/well-known.ts';
import { RESOURCES } from '../../kube/resources.ts';
import {
  type AnyObject,
  type Resource,
  listObjects,
  printTarget,
  objectPath,
  ifThere,
  FIELD_MANAGER,
  withCluster,
  clusterOptions,
  namespaceOption,
} from '../installation.ts';
import type { Connection } from '../../cluster/connection.ts';
import { ApiError } from '../../kube/status.ts';
import type { Lease, KubeObject } from '../../kube/types.ts';
import { STANDARD_CLUSTER_ROLE_BINDINGS, STANDARD_CLUSTER_ROLES, STANDARD_SCCS } from '../../policy/scc/standard.ts';
import { type JsonPatchOp, escapeKey } from '../../kube/json-patch.ts';
import { NAMESPACE_RANGE_ANNOTATIONS } from '../../kube/scc.ts';
import { SCC_MODE_LABEL } from '../../policy/scc/mode.ts';
import { UserError } from '../../config/files.ts';
import { durationMs, flag, option } from '../options.ts';
import { printable } from '../output/print.ts';

/** No answer is longer; the rest is not read. */
const MAX_ANSWER = 1000;

/** Asks a question on the error output; true if the answer on the input is `yes`. */
async function confirm(question: string, { stdin, stderr }: Io): Promise<boolean> {
  stderr.write(`${question} Type "yes" to go on:\n`);
  let answer = '';
  for await (const chunk of stdin) {
    answer += typeof chunk === 'string' ? chunk : Buffer.from(chunk).toString('utf8');
    if (answer.includes('\n') || answer.length > MAX_ANSWER) break;
  }
  return answer.split('\n', 1)[0]?.trim() === 'yes';
}

// * What an installation consists of, in the order in which it is removed: what makes API servers depend on it first, then
// what runs, then what that needed.

interface Part extends Resource {
  readonly scope: 'Cluster' | 'Namespaced';
}

/** Without them no API server asks for reviews: until they are gone, nothing else may go. */
const WEBHOOKS: readonly Part[] = [RESOURCES.ValidatingWebhookConfiguration, RESOURCES.MutatingWebhookConfiguration];

/** What runs. */
const REPLICAS: readonly Part[] = [RESOURCES.Deployment];

/** What the replicas needed. They make their Secret and their Leases themselves, as long as they may. */
const SURROUNDINGS: readonly Part[] = [
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

const PODS = RESOURCES.Pod;
const NAMESPACES = RESOURCES.Namespace;

function namespaced(group: string, version: string, resource: string): Part {
  return { group, version, resource, scope: 'Namespaced' };
}

/** True for what belongs to this program: what is labelled so, and what the replicas write under their own names. */
function isOurs({ resource }: Resource, { metadata: { name, labels = {} } }: AnyObject): boolean {
  if (labels[PART_OF_LABEL] === PART_OF) return true;
  if (resource === 'secrets') return name === INSTALLATION.certificateSecret;
  return resource === 'leases' && (name === INSTALLATION.name || labels[COMPONENT_LABEL] === 'replica');
}

/** Where people keep what they would miss. */
const BELONGINGS: readonly Resource[] = [
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

/** In every namespace of some clusters. */
const EVERYWHERE = new Set(['kube-root-ca.crt', 'openshift-service-ca.crt', 'istio-ca-root-cert']);

/** What others have made for an installation, and nobody needs without it. */
const MADE_FOR_US = new Set([
  'kubernetes.io/service-account-token',
  'kubernetes.io/dockercfg',
  'kubernetes.io/dockerconfigjson',
]);

/** True for an object whose loss somebody would regret if its namespace went. */
function isSomebodyElses(resource: Resource, object: AnyObject): boolean {
  const { name, annotations = {}, ownerReferences = [] } = object.metadata;
  if (isOurs(resource, object) || EVERYWHERE.has(name) || ownerReferences.length > 0) return false;
  const type = 'type' in object ? object.type : undefined;
  return (
    !(typeof type === 'string' && MADE_FOR_US.has(type)) &&
    !Object.hasOwn(annotations, 'cert-manager.io/certificate-name')
  );
}

/** An object that is to be removed. */
interface Target {
  readonly part: Resource;
  readonly name: string;
  readonly namespace?: string;
  readonly uid: string | undefined;
}

/** What was found, and what could not be looked for. */
interface Found {
  readonly targets: readonly Target[];
  readonly unknown: readonly string[];
}

interface Where {
  /** Of the installation: what lies in others is not looked at. */
  readonly namespace: string;
  readonly signal: AbortSignal;
}

/** All objects of ours among the parts, in their order. Rejects only if the server cannot be reached. */
async function findTargets(connection: Connection, parts: readonly Part[], where: Where): Promise<Found> {
  const found = await Promise.all(parts.map((part) => findPart(connection, part, where)));
  return { targets: found.flatMap(({ targets }) => targets), unknown: found.flatMap(({ unknown }) => unknown) };
}

async function findPart(connection: Connection, part: Part, { namespace, signal }: Where): Promise<Found> {
  const place = part.scope === 'Namespaced' ? namespace : undefined;
  try {
    // Kinds that the cluster does not serve have no objects.
    const objects = (await ifThere(() => listObjects(connection, part, { namespace: place, signal }))) ?? [];
    const ours = objects.filter((object) => isOurs(part, object));
    return { targets: ours.map((object) => targetOf(part, object, place)), unknown: [] };
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    return { targets: [], unknown: [error.message] };
  }
}

function targetOf(part: Resource, { metadata: { name, uid } }: AnyObject, namespace?: string): Target {
  return { part, name, uid, ...(namespace === undefined ? {} : { namespace }) };
}

/** What in the namespace is not ours, as kubectl names it. Rejects as `request` does. */
async function findBelongings(connection: Connection, { namespace, signal }: Where): Promise<readonly string[]> {
  const lists = await Promise.all(
    BELONGINGS.map(async (resource) => {
      const objects = (await ifThere(() => listObjects(connection, resource, { namespace, signal }))) ?? [];
      return objects
        .filter((object) => isSomebodyElses(resource, object))
        .map(({ metadata: { name } }) => printTarget(resource, name));
    }),
  );
  return lists.flat();
}

const PREFIX = `${INSTALLATION.name}-replica-`;

/**
 * The hosts of replicas that live, by their Leases, and are no pods: nothing that is done to the cluster ends them.
 * Rejects as `request` does.
 */
async function findProcesses(
  connection: Connection,
  { namespace, signal }: Where,
  now: Date,
): Promise<readonly string[]> {
  const labels = `${COMPONENT_LABEL}=${REPLICA}`;
  const [leases = [], pods = []] = await Promise.all([
    ifThere(() => listObjects(connection, RESOURCES.Lease, { namespace, labels, signal })),
    ifThere(() => listObjects(connection, PODS, { namespace, signal })),
  ]);
  const ours = new Set(pods.map(({ metadata }) => metadata.name));
  return leases
    .filter((lease) => isFresh(lease, now))
    .map(({ metadata: { name } }) => (name.startsWith(PREFIX) ? name.slice(PREFIX.length) : name))
    .filter((host) => !ours.has(host));
}

function isFresh({ spec }: Lease, now: Date): boolean {
  return Date.parse(spec?.renewTime ?? '') + (spec?.leaseDurationSeconds ?? 0) * 1000 >= now.getTime();
}

const DEFINITIONS: Resource = {
  group: 'apiextensions.k8s.io',
  version: 'v1',
  resource: 'customresourcedefinitions',
};

const { resource, group } = RESOURCES.SecurityContextConstraints;
const SCC_DEFINITION = `${resource}.${group}`;

/**
 * True if SCCs are somebody else's in this cluster, as they are on OpenShift: their definition is not ours.
 * Rejects as `request` does.
 */
async function areSccsOfOthers(connection: Connection, signal: AbortSignal): Promise<boolean> {
  const definition = await get(connection, DEFINITIONS, SCC_DEFINITION, signal);
  return definition !== undefined && !isLabelled(definition);
}

/** The roles by which the standard SCCs are used, and our definitions, with which all their objects go. */
async function findSccs(connection: Connection, signal: AbortSignal): Promise<readonly Target[]> {
  const roles = [
    ...STANDARD_CLUSTER_ROLE_BINDINGS.map((one) => ({ part: RESOURCES.ClusterRoleBinding, name: nameOf(one) })),
    ...STANDARD_CLUSTER_ROLES.map((one) => ({ part: RESOURCES.ClusterRole, name: nameOf(one) })),
  ];
  const found = await Promise.all(
    roles.map(async ({ part, name }) => ({ part, object: await get(connection, part, name, signal) })),
  );
  const definitions = await listObjects(connection, DEFINITIONS, { labels: `${PART_OF_LABEL}=${PART_OF}`, signal });
  return [
    ...found.flatMap(({ part, object }) => (object ? [targetOf(part, object)] : [])),
    ...definitions.map((definition) => targetOf(DEFINITIONS, definition)),
  ];
}

const STANDARD: ReadonlySet<string> = new Set(STANDARD_SCCS.map(({ scc }) => nameOf(scc)));

/** The names of SCCs that do not ship with the platform: nobody makes them again. Rejects as `request` does. */
async function findOwnSccs(connection: Connection, signal: AbortSignal): Promise<readonly string[]> {
  const sccs = await ifThere(() => listObjects(connection, RESOURCES.SecurityContextConstraints, { signal }));
  return (sccs ?? []).map(({ metadata }) => metadata.name).filter((name) => !STANDARD.has(name));
}

async function get(
  connection: Connection,
  resource: Resource,
  name: string,
  signal: AbortSignal,
): Promise<AnyObject | undefined> {
  const object = await ifThere(() => connection.request({ method: 'GET', path: objectPath(resource, name), signal }));
  return object as AnyObject | undefined;
}

function isLabelled({ metadata }: AnyObject): boolean {
  return metadata.labels?.[PART_OF_LABEL] === PART_OF;
}

function nameOf({ metadata: { name = '' } = {} }: KubeObject): string {
  return name;
}

const LABELS: readonly string[] = [SCC_MODE_LABEL, TIER_LABEL];
const ANNOTATIONS: readonly string[] = Object.values(NAMESPACE_RANGE_ANNOTATIONS);

/** The operations that take our labels and annotations off a namespace; none if it has none. */
export function planPurge({ metadata: { labels, annotations } }: AnyObject): JsonPatchOp[] {
  return [...removals('labels', labels, LABELS), ...removals('annotations', annotations, ANNOTATIONS)];
}

function removals(
  field: 'labels' | 'annotations',
  present: Readonly<Record<string, string>> = {},
  keys: readonly string[],
): JsonPatchOp[] {
  return keys
    .filter((key) => Object.hasOwn(present, key))
    .map((key) => ({ op: 'remove', path: `/metadata/${field}/${escapeKey(key)}` }));
}

/** Takes our labels and annotations off all namespaces; resolves to how many the server refuses to change. */
async function purgeNamespaces(connection: Connection, { dryRun, signal, tell }: Removal): Promise<number> {
  let refused = 0;
  for (const namespace of await listObjects(connection, RESOURCES.Namespace, { signal })) {
    const ops = planPurge(namespace);
    if (ops.length === 0) continue;
    const { name } = namespace.metadata;
    try {
      await ifThere(() =>
        connection.request({
          method: 'PATCH',
          path: objectPath(RESOURCES.Namespace, name),
          query: { fieldManager: FIELD_MANAGER, ...(dryRun ? { dryRun: 'All' } : {}) },
          contentType: 'application/json-patch+json',
          body: ops,
          signal,
        }),
      );
      tell(`namespaces/${name} cleared of labels and annotations${dryRun ? ' (server dry run)' : ''}`);
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      tell(`namespaces/${name} keeps its labels and annotations: ${error.message}`);
      refused++;
    }
  }
  return refused;
}

/** How things are removed. */
interface Removal {
  readonly dryRun: boolean;
  readonly signal: AbortSignal;
  /** Tells of each step. */
  tell(line: string): void;
}

/**
 * Removes an object, unless it is another one by now; resolves to why the server refuses, `undefined` if it is gone or
 * will be. Rejects only if the server cannot be reached.
 */
async function remove(connection: Connection, target: Target, removal: Removal): Promise<string | undefined> {
  const { part, name, namespace, uid } = target;
  const { dryRun, signal, tell } = removal;
  const body = {
    apiVersion: 'v1',
    kind: 'DeleteOptions',
    propagationPolicy: 'Background',
    ...(uid === undefined ? {} : { preconditions: { uid } }),
    ...(dryRun ? { dryRun: ['All'] } : {}),
  };
  try {
    const path = objectPath(part, name, namespace);
    const gone = await ifThere(() => connection.request({ method: 'DELETE', path, body, signal }));
    tell(`${printTarget(part, name)} ${gone ? 'deleted' : 'is gone already'}${dryRun ? ' (server dry run)' : ''}`);
    return undefined;
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    tell(`${printTarget(part, name)} stays: ${error.message}`);
    return error.message;
  }
}

/** Removes objects one after the other; resolves to how many the server refuses to remove. */
async function removeAll(connection: Connection, targets: readonly Target[], removal: Removal): Promise<number> {
  let refused = 0;
  for (const target of targets) if ((await remove(connection, target, removal)) !== undefined) refused++;
  return refused;
}

const POLL_MS = 500;

/** Waits until nothing is left; resolves to what still is when the time is over. */
async function waitUntilGone<T>(
  left: () => Promise<readonly T[]>,
  { timeoutMs, signal }: { readonly timeoutMs: number; readonly signal: AbortSignal },
): Promise<readonly T[]> {
  const end = performance.now() + timeoutMs;
  for (;;) {
    const still = await left();
    if (still.length === 0 || performance.now() >= end) return still;
    await pause(POLL_MS, undefined, { signal });
  }
}

// * Takes an installation out of a cluster. Webhooks go first, and nothing else before API servers have forgotten them:
// webhooks that nobody answers keep pods from starting. What is gone already is no error, so that it can be done again
// after it was interrupted.

interface UninstallOptions {
  readonly where: Where;
  readonly removal: Removal;
  /** By the clock of this machine. */
  readonly now: Date;
  /** How long API servers get to notice that webhooks are gone. */
  readonly waitMs: number;
  /** What goes although the cluster could do without its removal. */
  readonly purge: readonly ('sccs' | 'namespaces')[];
}

const WEBHOOKS_TIMEOUT_MS = 60_000;
/** Longer than replicas are given to stop. */
const REPLICAS_TIMEOUT_MS = 90_000;

/** Resolves to how many things could not be removed. Rejects only if the server cannot be reached. */
async function uninstall(connection: Connection, options: UninstallOptions): Promise<number> {
  const { removal, where } = options;
  let told = 0;
  const tell = (line: string): void => {
    told++;
    removal.tell(line);
  };
  const failures = await uninstallAll(connection, { ...options, removal: { ...removal, tell } });
  if (told === 0) removal.tell(`Nothing to remove: Portcullis is not installed in namespace ${where.namespace}.`);
  return failures;
}

async function uninstallAll(connection: Connection, options: UninstallOptions): Promise<number> {
  const { removal, purge } = options;
  if (!(await removeWebhooks(connection, options))) {
    removal.tell('The rest stays: without it, API servers would refuse what they ask these webhooks about.');
    return 1;
  }
  const failures = [
    await removeReplicas(connection, options),
    await removeSurroundings(connection, options),
    purge.length > 0 ? await purgeSccsAndNamespaces(connection, options) : 0,
    await removeNamespace(connection, options),
  ];
  return failures.reduce((sum, count) => sum + count, 0);
}

/** True if API servers ask none of our webhooks any more. */
async function removeWebhooks(connection: Connection, { where, removal, waitMs }: UninstallOptions): Promise<boolean> {
  const { signal, dryRun, tell } = removal;
  const { targets, unknown } = await findTargets(connection, WEBHOOKS, where);
  for (const message of unknown) tell(`Webhook configurations cannot be looked for: ${message}`);
  if (unknown.length > 0 || (await removeAll(connection, targets, removal)) > 0) return false;
  if (dryRun || targets.length === 0) return true;
  const left = async () => (await findTargets(connection, WEBHOOKS, where)).targets;
  const still = await waitUntilGone(left, { timeoutMs: WEBHOOKS_TIMEOUT_MS, signal });
  for (const { name } of still) tell(`Webhook configuration ${name} is still there.`);
  if (still.length > 0) return false;
  tell(`Waiting ${waitMs / 1000} s for API servers to notice.`);
  await pause(waitMs, undefined, { signal });
  return true;
}

async function removeReplicas(connection: Connection, options: UninstallOptions): Promise<number> {
  const { where, removal } = options;
  await tellProcesses(connection, options);
  const failures = await removeFound(connection, REPLICAS, where, removal);
  if (removal.dryRun || failures > 0) return failures;
  const { namespace, signal } = where;
  const left = async (): Promise<readonly AnyObject[]> => {
    const pods = await ifThere(() => listObjects(connection, PODS, { namespace, signal }));
    return (pods ?? []).filter((pod) => isOurs(PODS, pod));
  };
  const still = await waitUntilGone(left, { timeoutMs: REPLICAS_TIMEOUT_MS, signal });
  for (const { metadata } of still) removal.tell(`pods/${metadata.name} still runs; going on without waiting for it.`);
  return 0;
}

async function tellProcesses(connection: Connection, { where, removal, now }: UninstallOptions): Promise<void> {
  try {
    for (const host of await findProcesses(connection, where, now)) {
      removal.tell(`The replica ${host} is no pod of this cluster and goes on running: stop its process there.`);
    }
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    removal.tell(`Replicas outside of the cluster cannot be looked for: ${error.message}`);
  }
}

async function removeSurroundings(connection: Connection, { where, removal }: UninstallOptions): Promise<number> {
  return await removeFound(connection, SURROUNDINGS, where, removal);
}

async function removeFound(
  connection: Connection,
  parts: Parameters<typeof findTargets>[1],
  where: Where,
  removal: Removal,
): Promise<number> {
  const { targets, unknown } = await findTargets(connection, parts, where);
  for (const message of unknown) removal.tell(`Not looked for: ${message}`);
  return unknown.length + (await removeAll(connection, targets, removal));
}

async function purgeSccsAndNamespaces(connection: Connection, options: UninstallOptions): Promise<number> {
  const { removal, purge } = options;
  if (await areSccsOfOthers(connection, removal.signal)) {
    removal.tell(
      'SCCs and what belongs to them stay: in this cluster they are not ours (their definition lacks our label).',
    );
    return 1;
  }
  const sccs = purge.includes('sccs') ? await findSccs(connection, removal.signal) : [];
  for (const name of sccs.length > 0 ? await findOwnSccs(connection, removal.signal) : []) {
    const suffix = removal.dryRun ? ' (server dry run)' : '';
    removal.tell(`${printTarget(RESOURCES.SecurityContextConstraints, name)} goes with its definition${suffix}`);
  }
  const kept = await removeAll(connection, sccs, removal);
  return kept + (purge.includes('namespaces') ? await purgeNamespaces(connection, removal) : 0);
}

/** The namespace goes if it is ours and nobody would miss anything in it. */
async function removeNamespace(connection: Connection, { where, removal }: UninstallOptions): Promise<number> {
  const { namespace: name, signal } = where;
  const path = objectPath(NAMESPACES, name);
  const namespace = (await ifThere(() => connection.request({ method: 'GET', path, signal }))) as AnyObject | undefined;
  if (!namespace || namespace.metadata.deletionTimestamp != null) return 0;
  if (!isOurs(NAMESPACES, namespace)) {
    removal.tell(`namespaces/${name} stays: it has no label ${PART_OF_LABEL}=${PART_OF}.`);
    return 0;
  }
  const belongings = await findBelongings(connection, where);
  if (belongings.length > 0) {
    removal.tell(`namespaces/${name} stays: it also holds ${belongings.join(', ')}.`);
    return 0;
  }
  return await removeAll(connection, [targetOf(NAMESPACES, namespace)], removal);
}

const DETAILS = `
Removes the webhook configurations first, waits until API servers have forgotten them, and only then
removes the rest: Deployment, Service, rights, Leases, Secret, and the namespace if nobody keeps anything
else in it. Only what has the label app.kubernetes.io/part-of=portcullis is removed, and the Secret and
the Leases that the replicas write. What is gone already is no error: it can be repeated.

What stays, unless it is asked for: SCCs, their definitions, the rights to use them, and the labels and
annotations of namespaces. Running pods are not touched.

What was installed with Helm is removed with 'helm uninstall', and what a tool keeps installed (Argo CD,
Flux) where that tool is told to; else it comes back.

Examples:
  portcullis uninstall --dry-run
  portcullis uninstall
  portcullis uninstall --yes --purge-sccs --purge-namespaces

Exit codes:
  0  done
  1  something could not be removed
  2  wrong usage, not confirmed, or the cluster cannot be reached
`;

/** Takes an installation out of a cluster, in an order that stops nobody from working. */
export const command = defineCommand({
  details: DETAILS,
  options: {
    ...clusterOptions,
    ...namespaceOption,
    'dry-run': flag({ help: 'Let the API server say what it would do, and change nothing' }),
    yes: flag({ short: 'y', help: 'Do not ask' }),
    wait: option('DURATION', durationMs, 5000, {
      help: 'How long API servers get to notice that the webhooks are gone',
      shown: '5s',
    }),
    'purge-sccs': flag({ help: 'Remove all SCCs, too, the definitions of Portcullis, and the rights to use SCCs' }),
    'purge-namespaces': flag({ help: 'Take the labels and annotations of Portcullis off all namespaces, too' }),
  },
  async run(options, _operands, io) {
    const { namespace, 'dry-run': dryRun } = options;
    const purge = [
      ...(options['purge-sccs'] ? (['sccs'] as const) : []),
      ...(options['purge-namespaces'] ? (['namespaces'] as const) : []),
    ];
    return await withCluster(options, io, async (connection) => {
      if (!dryRun && !options.yes) {
        const isSure = await confirm(printQuestion(connection.server, purge), io);
        if (!isSure) throw new UserError('nothing was removed: the answer was not "yes"; --yes goes on without asking');
      }
      const { signal } = io;
      const tell = (line: string): void => void io.stdout.write(`${printable(line)}\n`);
      const failures = await uninstall(connection, {
        where: { namespace, signal },
        now: new Date(),
        removal: { dryRun, signal, tell },
        waitMs: options.wait,
        purge,
      });
      return failures === 0 ? EXIT.passed : EXIT.violations;
    });
  },
});

function printQuestion(server: string, purge: readonly ('sccs' | 'namespaces')[]): string {
  const more = {
    sccs: 'all SecurityContextConstraints',
    namespaces: 'the labels and annotations of Portcullis on all namespaces',
  };
  return `This removes ${['Portcullis', ...purge.map((one) => more[one])].join(', and ')} from ${server}.`;
}
