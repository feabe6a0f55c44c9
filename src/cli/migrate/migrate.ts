import { CONFIGURATION_NAME, ENFORCE_LABEL } from '../../api/names.ts';
import type { Connection } from '../../cluster/connection.ts';
import { readPages } from '../../cluster/lists.ts';
import type { PodCreator } from '../../kube/controller-pod.ts';
import { objectName, typeMeta } from '../../kube/resources.ts';
import { ApiError } from '../../kube/status.ts';
import { finishSteps } from '../../kube/steps.ts';
import { plural, printable, printCount, sortedSet, summarizeNames } from '../../kube/text.ts';
import { type JsonObject, type KubeObject, type Namespace, objectsIn, stringsIn } from '../../kube/types.ts';
import { DAY_MS, formatTimestamp } from '../../kube/units.ts';
import { UserError } from '../../kube/user-error.ts';
import { POD_SECURITY_LABELS } from '../../kube/well-known.ts';
import { decodePod } from '../../policy/pod/index.ts';
import { isSamePolicy, isStricter, type Mode, MODES } from '../../policy/psa/index.ts';
import { isLevel, PRIVILEGED, splitEntries, suggestEntries } from '../../policy/pss/index.ts';
import { admitTemplatePod, getTemplatePod } from '../../policy/rollout/index.ts';
import { templateContext } from '../../views/evaluation.ts';
import { listPodCreators, POD_SOURCES } from '../../views/workloads.ts';
import { defineCommand, EXIT, type Io } from '../command.ts';
import { preferredVersion } from '../inventory/custom-resources.ts';
import { type Inventory, inventoryOptions, readInventory } from '../inventory/inventory.ts';
import { ROLLOUT_COMMAND_KINDS } from '../inventory/rollout.ts';
import { expectedSettings, findSettings } from '../inventory/settings.ts';
import { lifetimeMs, oneOf, option, UsageError } from '../options.ts';
import { printData, printObjects } from '../output/print.ts';
import { GATEKEEPER_GROUP, readGatekeeper } from './gatekeeper.ts';
import { KYVERNO_GROUPS, readKyverno } from './kyverno.ts';
import { convertPodSecurityPolicy } from './pod-security-policy.ts';
import {
  type Exclusion,
  exclusionsFor,
  type ForeignPolicies,
  levelOf,
  type LevelRule,
  type MigratedPolicy,
  type MigratedWorkload,
  type Remainder,
  type PolicyScope,
} from './policies.ts';

const DETAILS = `
Converts the pod security policies of Kyverno (ClusterPolicies, ValidatingPolicies, their namespaced kinds and
PolicyExceptions), the constraints of Gatekeeper, or PodSecurityPolicies in manifests. The command changes
nothing. It prints the settings, the labels of namespaces, and an exception for each workload that the policies
admit but a level would deny. PodSecurityPolicies become security context constraints (SCCs).

Policies without a counterpart and the checks that a level adds are printed to standard error. The exit code is 1
if a policy or a part of it has no counterpart, or if there are no policies.

Policies that Kyverno publishes are recognized by the names of their rules. Exceptions are printed only for
workloads that were read, so the manifests should contain the workloads and the namespaces.

Examples:
  portcullis migrate kyverno > portcullis.yaml
  portcullis migrate kyverno -f policies/ -f workloads/
  portcullis migrate gatekeeper -o json
  portcullis migrate psp -f psp.yaml
`;

const SYSTEMS = ['kyverno', 'gatekeeper', 'psp'] as const;
const DEFAULT_LIFETIME_MS = 90 * DAY_MS;

interface Migration {
  /** Number of policies that were read. */
  readonly count: number;
  readonly objects: readonly KubeObject[];
  readonly remainders: readonly Remainder[];
  /** Differences from the converted policies, such as the checks that a level adds. */
  readonly notes: readonly string[];
}

export const command = defineCommand({
  operands: '<system>',
  details: DETAILS,
  options: {
    ...inventoryOptions,
    for: option('DURATION', lifetimeMs, DEFAULT_LIFETIME_MS, {
      help: 'Time until the exceptions expire, such as 14d, unless the converted exception expires earlier',
      shown: '90d',
    }),
    output: option('FORMAT', oneOf(['yaml', 'json'] as const), 'yaml', { short: 'o', help: 'Output format' }),
  },
  async run(values, [operand = ''], io) {
    const system = SYSTEMS.find((name) => name === operand);
    if (system === undefined) throw new UsageError(`the system must be one of ${SYSTEMS.join(', ')}`);
    const inventory = await readInventory(values, io, { kinds: ROLLOUT_COMMAND_KINDS, areSccsOptional: true });
    const objects = await readForeignObjects(inventory, system, io);
    const nowMs = Date.now();
    const migration =
      system === 'psp'
        ? convertPodSecurityPolicies(objects)
        : await migrate(system === 'kyverno' ? readKyverno(objects, nowMs) : readGatekeeper(objects), inventory, {
            nowMs,
            lifetimeMs: values.for,
          });
    if (values.output === 'json') io.stdout.write(printData('json', migration));
    else if (migration.objects.length > 0) printObjects(io, 'yaml', migration.objects);
    printSummary(migration, system, io);
    return migration.remainders.length === 0 && migration.count > 0 ? EXIT.passed : EXIT.violations;
  },
});

async function readForeignObjects(
  { connection, objects }: Inventory,
  system: (typeof SYSTEMS)[number],
  { signal }: Io,
): Promise<readonly JsonObject[]> {
  if (connection === undefined) return objects.map(({ value }) => value);
  if (system === 'psp') throw new UsageError('clusters no longer serve PodSecurityPolicies: -f is required');
  const groups = system === 'kyverno' ? KYVERNO_GROUPS : [GATEKEEPER_GROUP];
  return (await Promise.all(groups.map((group) => listGroup(connection, group, signal)))).flat();
}

/**
 * Lists all objects of an API group, or none if the cluster does not serve the group. Rejects with the errors of
 * `Connection.request`, and with a UserError if the user may not list a resource.
 */
async function listGroup(
  connection: Pick<Connection, 'read' | 'request'>,
  group: string,
  signal: AbortSignal,
): Promise<readonly JsonObject[]> {
  const version = await preferredVersion(group, connection, signal).catch((error: unknown) => {
    if (error instanceof ApiError && error.status.code === 404) return undefined;
    throw error;
  });
  if (version === undefined) return [];
  const apiVersion = `${group}/${version}`;
  const { resources } = await connection.request({ method: 'GET', path: `/apis/${apiVersion}`, signal });
  const listed = objectsIn(resources).filter(
    ({ name, verbs }) => !String(name).includes('/') && stringsIn(verbs).includes('list'),
  );
  const lists = await Promise.all(
    listed.map(async ({ name, kind }) => {
      let objects: JsonObject[] = [];
      const request = { path: `/apis/${apiVersion}/${String(name)}`, signal };
      const reading = readPages(connection, request, () => {
        objects = [];
        return (items) => objects.push(...items.map((item) => ({ ...item, apiVersion, kind })));
      });
      await reading.catch((error: unknown) => {
        if (!(error instanceof ApiError) || error.status.code !== 403) throw error;
        throw new UserError(`this requires the "list" verb on ${String(name)}.${group}: ${error.message}`);
      });
      return objects;
    }),
  );
  return lists.flat();
}

function convertPodSecurityPolicies(objects: readonly JsonObject[]): Migration {
  const policies = objects.filter(({ kind }) => kind === 'PodSecurityPolicy').map(convertPodSecurityPolicy);
  return {
    count: policies.length,
    objects: policies.map(({ scc }) => scc),
    remainders: policies.flatMap(({ remainders }) => remainders),
    notes:
      policies.length === 0
        ? []
        : ['SCCs require an installation with --scc', 'SCCs do not restrict procMount, but the baseline level does'],
  };
}

interface MigrationOptions {
  readonly nowMs: number;
  /** Maximum lifetime of the exceptions. */
  readonly lifetimeMs: number;
}

/** Represents the namespaces that no policy names or selects. */
const OTHERS: PolicyScope = { name: undefined, labels: {} };

/** Policies by mode. A mode is absent if no rule applies in it. */
type ModePolicies = Partial<Record<Mode, MigratedPolicy>>;

/** A namespace, and the policies that correspond to the rules for this namespace. */
interface PlannedNamespace {
  readonly namespace: Namespace;
  readonly scope: PolicyScope;
  readonly policies: ModePolicies;
}

async function migrate(
  { count, rules, remainders }: ForeignPolicies,
  inventory: Inventory,
  options: MigrationOptions,
): Promise<Migration> {
  const defaults = modePolicies(rules, OTHERS);
  const planned = listNamespaces(inventory).map((namespace): PlannedNamespace => {
    const scope = { name: objectName(namespace), labels: namespace.metadata?.labels ?? {} };
    return { namespace, scope, policies: modePolicies(rules, scope) };
  });
  const isExempt = ({ namespace, policies }: PlannedNamespace): boolean =>
    isEmpty(policies) && !isEmpty(defaults) && !hasOwnLevel(namespace);
  const exempt = planned.filter(isExempt).map(({ namespace }) => objectName(namespace));
  const evaluated = planned.filter((one) => !isExempt(one));
  const createExceptions = await exceptionCreator(rules, inventory, options);
  const exceptions = evaluated.map(createExceptions);
  const drafts = exceptions.flatMap(({ objects }) => objects);
  const used = new Set(exceptions.flatMap((created) => created.used));
  const usernames = exemptUsers(rules);
  const podSecurity = {
    ...(isEmpty(defaults) ? {} : { defaults: printDefaults(defaults) }),
    ...(exempt.length + usernames.length === 0
      ? {}
      : {
          exemptions: {
            ...(usernames.length === 0 ? {} : { usernames }),
            ...(exempt.length === 0 ? {} : { namespaces: exempt }),
          },
        }),
    ...(drafts.length === 0 ? {} : { exceptions: { mode: 'approved' } }),
  };
  const configuration = {
    ...typeMeta('PortcullisConfiguration'),
    metadata: { name: CONFIGURATION_NAME },
    spec: { podSecurity },
  };
  const labelled = evaluated.flatMap(({ namespace, policies }) => {
    const labels = printLabels(namespace, policies, defaults);
    return isEmpty(labels) ? [] : [{ ...typeMeta('Namespace'), metadata: { name: objectName(namespace), labels } }];
  });
  return {
    count,
    objects: [...(isEmpty(podSecurity) ? [] : [configuration]), ...labelled, ...drafts],
    remainders: [
      ...remainders,
      ...rules
        .filter(({ exemptUsers: users }) => users.some((user) => !usernames.includes(user)))
        .map(({ source, exemptUsers: users }) => ({
          source,
          reason: `exemptions apply to all checks, but other rules evaluate the pods of ${users.join(', ')}`,
        })),
    ],
    notes: [
      ...sortedSet(rules.flatMap(({ source, isSelective }) => (isSelective ? source : []))).map(
        (source) => `${source} applies only to some namespaces, so label new namespaces when you create them`,
      ),
      ...(usernames.length === 0 ? [] : ['user exemptions apply even in namespaces whose own labels set a level']),
      ...(drafts.length === 0 ? [] : ['exceptions apply to all tags of an image']),
      ...(rules.some(({ checks }) => checks.some((check) => RELAXED.includes(check)))
        ? ['the levels allow unmasked procMount and user 0 in pods with hostUsers: false']
        : []),
      ...describeAdditions([defaults, ...planned.map(({ policies }) => policies)]),
      ...sortedSet(
        rules.flatMap(({ exclusions }) =>
          exclusions
            .filter((exclusion) => !used.has(exclusion))
            .map(({ source, checks }) => `the exclusion of ${checks.join(', ')} in ${source}`),
        ),
      ).map((exclusion) => `no workload that was read needs ${exclusion}`),
    ],
  };
}

/** Returns the namespaces that were read, and those of workloads, sorted by name. */
function listNamespaces({ store, customSources }: Inventory): readonly Namespace[] {
  const workloads = [...POD_SOURCES.flatMap((kind) => store.list(kind)), ...customSources.map(({ object }) => object)];
  const names = [
    ...store.list('Namespace').map(objectName),
    ...workloads.map(({ metadata }) => metadata?.namespace ?? ''),
  ];
  return sortedSet(names.filter((name) => name !== '')).map(
    (name) => store.get('Namespace', name) ?? { metadata: { name } },
  );
}

/** Checks that do not apply to pods with a user namespace. */
const RELAXED: readonly string[] = ['procMount', 'runAsNonRoot', 'runAsUser'];

function isEmpty(value: object): boolean {
  return Object.keys(value).length === 0;
}

/** Returns the users whose pods are exempt from all rules. */
function exemptUsers(rules: readonly LevelRule[]): readonly string[] {
  const [first, ...rest] = rules;
  return sortedSet(
    first?.exemptUsers.filter((user) => rest.every(({ exemptUsers: users }) => users.includes(user))) ?? [],
  );
}

function modePolicies(rules: readonly LevelRule[], scope: PolicyScope): ModePolicies {
  return Object.fromEntries(
    MODES.flatMap((mode) => {
      const policy = levelOf(rules, scope, mode);
      return policy.level === 'privileged' ? [] : [[mode, policy]];
    }),
  );
}

function hasOwnLevel({ metadata }: Namespace): boolean {
  const names = [...MODES.map((mode) => POD_SECURITY_LABELS[mode]), ENFORCE_LABEL];
  return names.some((name) => metadata?.labels?.[name] !== undefined);
}

/** Returns the labels to set, for each mode in which the namespace differs from the default or has a weaker label. */
function printLabels(
  { metadata }: Namespace,
  policies: ModePolicies,
  defaults: ModePolicies,
): Readonly<Record<string, string>> {
  const printed: Record<string, string> = {};
  for (const mode of MODES) {
    const { level, version } = policies[mode] ?? PRIVILEGED;
    const current = metadata?.labels?.[POD_SECURITY_LABELS[mode]];
    const isNeeded =
      current === undefined
        ? !isSamePolicy({ level, version }, defaults[mode] ?? PRIVILEGED)
        : !isLevel(current) ||
          isStricter(level, current) ||
          (level === current && version !== (metadata?.labels?.[POD_SECURITY_LABELS[`${mode}Version`]] ?? 'latest'));
    if (!isNeeded) continue;
    printed[POD_SECURITY_LABELS[mode]] = level;
    // Overwrites a version label that may exist.
    if (version !== 'latest' || current !== undefined) printed[POD_SECURITY_LABELS[`${mode}Version`]] = version;
  }
  return printed;
}

function printDefaults(policies: ModePolicies): Readonly<Record<string, string>> {
  const printed: Record<string, string> = {};
  for (const mode of MODES) {
    const policy = policies[mode];
    if (policy === undefined) continue;
    printed[mode] = policy.level;
    if (policy.version !== 'latest') printed[`${mode}Version`] = policy.version;
  }
  return printed;
}

function describeAdditions(planned: readonly ModePolicies[]): readonly string[] {
  const texts = planned.flatMap((policies) =>
    Object.values(policies).flatMap(({ level, additional }) =>
      additional.length === 0 ? [] : `${level} also checks ${additional.join(', ')}, which the policies did not check`,
    ),
  );
  return [...new Set(texts)];
}

/**
 * Returns the function that creates an exception for each workload in a namespace that the rules admit and the level of
 * the namespace would deny.
 */
async function exceptionCreator(
  rules: readonly LevelRule[],
  { store, customSources }: Inventory,
  { nowMs, lifetimeMs: lifetime }: MigrationOptions,
) {
  const found = await findSettings({ config: undefined, store });
  const admission = { defaults: found.settings.defaults, scc: expectedSettings(found, undefined) };
  return ({ namespace, scope, policies }: PlannedNamespace) => {
    const used: Exclusion[] = [];
    if (policies.enforce === undefined) return { objects: [], used };
    const { level, version } = policies.enforce;
    const name = objectName(namespace);
    const enforced = rules.filter((rule) => rule.modes(scope).includes('enforce'));
    const context = templateContext(namespace, store, admission);
    const taken = new Set<string>();
    const objects = finishSteps(listPodCreators(store, name, customSources)).flatMap(
      (source): readonly KubeObject[] => {
        const bare = source.kind === 'Pod' ? decodePod(source.object).pod : undefined;
        const pod = bare ? admitTemplatePod(bare, context) : getTemplatePod(source, context)?.pod.pod;
        if (pod === undefined) return [];
        const { entries, uncovered } = suggestEntries(pod, {
          level,
          version,
          emulationVersion: store.emulationVersion,
        });
        const workload = describeWorkload(source, name, pod.containers);
        const exclusions = entries.map((entry) => exclusionsFor(entry, workload, enforced));
        if (entries.length === 0 || uncovered.length > 0 || exclusions.includes(undefined)) return [];
        const own = exclusions.flatMap((needed) => needed ?? []);
        used.push(...own);
        const ends = own.flatMap(({ expiresAt }) => (expiresAt === undefined ? [] : [Date.parse(expiresAt)]));
        const sources = own.map((exclusion) => exclusion.source);
        const base = taken.has(workload.name) ? `${workload.name}-${workload.kind.toLowerCase()}` : workload.name;
        return splitEntries(entries).map((allow, index) => ({
          ...typeMeta('PodSecurityException'),
          metadata: { name: uniqueName(index === 0 ? base : `${base}-${index + 1}`, taken), namespace: name },
          spec: {
            serviceAccountName: pod.serviceAccountName || 'default',
            allow,
            expiresAt: formatTimestamp(Math.min(nowMs + lifetime, ...ends)),
            reason:
              sources.length === 0 ? 'not checked by the migrated policies' : `excluded by ${summarizeNames(sources)}`,
          },
        }));
      },
    );
    return { objects, used };
  };
}

/** Adds a name to the taken names, with a number if it is taken already. */
function uniqueName(name: string, taken: Set<string>): string {
  let unique = name;
  for (let number = 2; taken.has(unique); number++) unique = `${name}-${number}`;
  taken.add(unique);
  return unique;
}

function describeWorkload(
  { kind, object }: PodCreator,
  namespace: string,
  containers: readonly { readonly name: string; readonly image: string; readonly list: string }[],
): MigratedWorkload {
  return {
    kind,
    namespace,
    name: objectName(object),
    containers: new Map(containers.map((container) => [container.name, container])),
  };
}

function printSummary({ count, objects, remainders, notes }: Migration, system: string, { stderr }: Io): void {
  const lines = [
    `${count} ${plural(count, 'policy', 'policies')} read, ${printCount(objects.length, 'object')} printed`,
    ...notes.map((note) => `note: ${note}`),
    ...remainders.map(({ source, reason }) => `no counterpart: ${source}: ${reason}`),
  ];
  stderr.write(`${lines.map(printable).join('\n')}\n`);
  if (count === 0) stderr.write(`no policies of ${system} found\n`);
}
