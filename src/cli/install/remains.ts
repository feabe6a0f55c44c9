/** The consequences of an uninstallation: the enforcement that ends, the labels of Portcullis, and what remains. */
import { readCluster } from '../../cluster/lists.ts';
import { effectivePodSecurity } from '../../cluster/rollout.ts';
import type { Store } from '../../cluster/store.ts';
import { settingsFromObject, settingsInForce } from '../../config/configuration.ts';
import { UserError } from '../../config/files.ts';
import type { Settings } from '../../config/settings.ts';
import { CONTROLLER_NAMES } from '../../controllers/index.ts';
import { getMetadataOwners } from '../../kube/managed-fields.ts';
import { findKind, RESOURCES } from '../../kube/resources.ts';
import { NAMESPACE_RANGE_ANNOTATIONS } from '../../kube/scc.ts';
import { summarizeNames } from '../../kube/text.ts';
import type { JsonObject, Namespace, RoleBinding as RoleBindingObject } from '../../kube/types.ts';
import { CONFIGURATION_KINDS, isPartOfPortcullis, type WebhookConfiguration } from '../../kube/webhooks.ts';
import {
  BREAK_GLASS_MANAGER,
  CONFIGURATION_NAME,
  FLOOR_SELECTOR,
  INSTALLATION,
  LABEL_SYNC_MANAGER,
  POD_SECURITY_CONFIG_MAP,
  POD_SECURITY_LABELS,
  RANGE_ALLOCATION_MANAGER,
  RUN_LEVEL_ZERO_MANAGER,
  TIER_LABEL,
} from '../../kube/well-known.ts';
import { printPolicy } from '../../policy/psa/policy.ts';
import { isTerminating } from '../../policy/rollout/label-sync.ts';
import { SCC_MODE_LABEL, sccMode } from '../../policy/scc/mode.ts';
import { useRoleName } from '../../policy/scc/standard.ts';
import { VERSION } from '../command.ts';
import { type AnyObject, type ClusterClient, DEFINITIONS } from '../installation.ts';
import { POLICY_SELECTOR } from '../../kube/well-known.ts';
import { POLICIES, readServerless, serverlessConfiguration } from './policies.ts';
import { findWeakenings } from './weakening.ts';

const SCCS = RESOURCES.SecurityContextConstraints;
const { enforce: ENFORCE_LABEL } = POD_SECURITY_LABELS;

// The fields of namespaces that Portcullis set.

/** The field managers that set Pod Security labels by server-side apply. */
const LABEL_MANAGERS = [LABEL_SYNC_MANAGER, RUN_LEVEL_ZERO_MANAGER, BREAK_GLASS_MANAGER] as const;

/** The label managers that own fields of a namespace; none of a namespace that is being deleted. */
export function findLabelManagers(namespace: Namespace): readonly string[] {
  if (isTerminating(namespace)) return [];
  const owners = getMetadataOwners(namespace.metadata) ?? [];
  const isOwner = (name: string): boolean =>
    owners.some(({ manager, operation }) => manager === name && operation === 'Apply');
  return LABEL_MANAGERS.filter(isOwner);
}

/** The enforced level that ends with the labels of Portcullis; `undefined` if there is none, or another manager owns the label. */
function getOwnLevel(namespace: Namespace): string | undefined {
  const managers = findLabelManagers(namespace);
  const owners = getMetadataOwners(namespace.metadata)?.filter(({ labels }) => labels.has(ENFORCE_LABEL)) ?? [];
  const isOwn = owners.length > 0 && owners.every(({ manager }) => managers.includes(manager));
  return isOwn ? namespace.metadata?.labels?.[ENFORCE_LABEL] : undefined;
}

/** The labels for Portcullis, which users set. */
export function findUserLabels({ metadata }: Namespace): readonly string[] {
  return [SCC_MODE_LABEL, TIER_LABEL].filter((key) => metadata?.labels?.[key] !== undefined);
}

/** The annotations with the ranges of the namespace, and whether Portcullis is their only owner. */
export function findRangeAnnotations({
  metadata,
}: Namespace): readonly { readonly key: string; readonly isOwn: boolean }[] {
  const owners = getMetadataOwners(metadata) ?? [];
  return Object.values(NAMESPACE_RANGE_ANNOTATIONS)
    .filter((key) => metadata?.annotations?.[key] !== undefined)
    .map((key) => {
      const managers = owners.flatMap(({ manager, annotations }) => (annotations.has(key) ? manager : []));
      return { key, isOwn: managers.length > 0 && managers.every((manager) => manager === RANGE_ALLOCATION_MANAGER) };
    });
}

/** True if the definition of SCCs belongs to another product, such as OpenShift, which sets labels and ranges itself. */
export async function hasForeignSccs(client: ClusterClient): Promise<boolean> {
  const definition = await client.get(DEFINITIONS, `${SCCS.resource}.${SCCS.group}`);
  return definition !== undefined && !isPartOfPortcullis(definition);
}

// The enforcement that ends.

/** The state of an installation that enforces. */
interface Installation {
  readonly store: Store;
  readonly namespace: string;
  readonly configurations: readonly WebhookConfiguration[];
  /** The settings of the policies to keep. */
  readonly policies: JsonObject | undefined;
}

/**
 * Describes what the cluster no longer denies after the uninstallation; empty if nothing is enforced.
 * @throws {UserError} if the cluster cannot be read
 */
export async function findEnforcement(
  client: ClusterClient,
  namespace: string,
  { keepsLabels, keepsPolicies }: Pick<UninstallScope, 'keepsLabels' | 'keepsPolicies'>,
): Promise<readonly string[]> {
  const { store } = await readCluster(
    client.connection,
    ['Namespace', 'PSAEnforcementConfig', 'FeatureGate', 'PortcullisConfiguration', ...CONFIGURATION_KINDS],
    { signal: client.signal },
  );
  const configMap = await client.get(RESOURCES.ConfigMap, POD_SECURITY_CONFIG_MAP, namespace);
  if (configMap) store.put('ConfigMap', configMap);
  const configurations = CONFIGURATION_KINDS.flatMap((kind): readonly WebhookConfiguration[] =>
    store.list(kind),
  ).filter(isPartOfPortcullis);
  const policies = keepsPolicies ? readServerless(await client.list(POLICIES, { labels: POLICY_SELECTOR })) : undefined;
  const installation = { store, namespace, configurations, policies: policies?.spec };
  const byWebhooks = configurations.length === 0 ? [] : describeWebhooks(installation);
  const byLabels = keepsLabels || (await hasForeignSccs(client)) ? [] : describeLabels(store);
  const byPolicies = keepsPolicies ? [] : await describePolicies(client);
  const floor = await client.list(POLICIES, { labels: FLOOR_SELECTOR });
  const byFloor = describeNames(floor, 'policies that API servers evaluate (spec.floor.mode: enforce)');
  return [...byWebhooks, ...byLabels, ...byPolicies, ...byFloor];
}

function describeNames(objects: readonly AnyObject[], description: string): readonly string[] {
  return objects.length === 0
    ? []
    : [`${description}: ${summarizeNames(objects.map(({ metadata }) => metadata.name))}`];
}

/** The policies deny by labels, too, unless the plugin PodSecurity does. */
async function describePolicies(client: ClusterClient): Promise<readonly string[]> {
  const settings = readServerless(await client.list(POLICIES, { labels: POLICY_SELECTOR }));
  if (!settings) return [];
  const { enforce } = settingsFromObject(serverlessConfiguration(settings), {
    controllers: CONTROLLER_NAMES,
    namespace: INSTALLATION.namespace,
  }).podSecurity.defaults;
  const byDefault = enforce.level === 'privileged' ? '' : `, and ${printPolicy(enforce)} in all others`;
  return [`policies in the API server: the levels of namespaces with the label ${ENFORCE_LABEL}${byDefault}`];
}

function describeWebhooks(installation: Installation): readonly string[] {
  const { store, namespace, configurations, policies } = installation;
  try {
    const object = store.get('PortcullisConfiguration', CONFIGURATION_NAME);
    const { settings } = settingsInForce(object, { controllers: CONTROLLER_NAMES, namespace });
    const lines = [...describeSccs(installation, settings), ...describePodSecurity(installation, settings)];
    if (lines.length > 0) return lines;
  } catch (error) {
    if (!(error instanceof UserError)) throw error;
    return [`the last valid settings: ${error.message}`];
  }
  // Replicas outside of the cluster may have other settings.
  const isCovered = (name: string): boolean => policies !== undefined && name.endsWith('psa.portcullis.dev');
  const closed = configurations.flatMap(({ webhooks }) =>
    (webhooks ?? []).flatMap(({ name, failurePolicy }) => (failurePolicy === 'Ignore' || isCovered(name) ? [] : name)),
  );
  return closed.length === 0 ? [] : [`webhooks with failurePolicy Fail: ${summarizeNames(closed)}`];
}

function describeSccs({ store, configurations }: Installation, { scc }: Settings): readonly string[] {
  if (!configurations.some(({ metadata }) => metadata?.name?.endsWith('scc.portcullis.dev'))) return [];
  const labeled = store
    .list('Namespace')
    .filter((one) => one.metadata?.labels?.[SCC_MODE_LABEL] !== undefined && sccMode(one, scc).mode === 'enforce');
  return [
    ...(scc.mode === 'enforce'
      ? [`SCCs in namespaces without the label ${SCC_MODE_LABEL} (spec.scc.mode: enforce)`]
      : []),
    ...describeNamespaces(labeled, (list) => `SCCs in ${list} with the label ${SCC_MODE_LABEL}`),
  ];
}

function describePodSecurity(
  { store, namespace, configurations, policies }: Installation,
  settings: Settings,
): readonly string[] {
  if (!configurations.some(({ metadata }) => metadata?.name === 'psa.portcullis.dev')) return [];
  const { rollout, podSecurity } = settings;
  const scope = { store, namespace, version: VERSION };
  const effective = effectivePodSecurity(scope, { rollout, podSecurity });
  const level = effective.configuration.defaults.enforce;
  if (level === 'privileged') return [];
  const { defaults, exemptions } = effective.configuration;
  const server = {
    podSecurity: { defaults: { enforce: level, enforceVersion: defaults['enforce-version'] }, exemptions },
  };
  const weaker = policies ? findWeakenings(namespace, server, policies) : [];
  if (policies) return weaker.length === 0 ? [] : [`the policies enforce less: ${weaker.join('; ')}`];
  const field = rollout.phase === 'Disabled' ? 'spec.podSecurity.defaults.enforce' : 'spec.rollout';
  return [`the level ${level} in namespaces without the label ${ENFORCE_LABEL} (${field})`];
}

function describeLabels(store: Store): readonly string[] {
  const isDenying = (one: Namespace): boolean => !['privileged', undefined].includes(getOwnLevel(one));
  return describeNamespaces(
    store.list('Namespace').filter(isDenying),
    (list) => `the levels of ${list} by labels that Portcullis set`,
    getOwnLevel,
  );
}

/** A line about namespaces, with their names and values; none without namespaces. */
function describeNamespaces(
  namespaces: readonly Namespace[],
  describe: (count: string) => string,
  value: (namespace: Namespace) => string | undefined = () => undefined,
): readonly string[] {
  if (namespaces.length === 0) return [];
  const names = namespaces.map((one) =>
    [one.metadata?.name, value(one)].filter((text) => text !== undefined).join('='),
  );
  const count = namespaces.length === 1 ? 'one namespace' : `${namespaces.length} namespaces`;
  return [`${describe(count)}: ${summarizeNames(names)}`];
}

// What remains.

/** What an uninstallation deletes or keeps in addition to the installation. */
export interface UninstallScope {
  /** Deletes the CustomResourceDefinitions, and with them all their objects. */
  readonly purgesDefinitions: boolean;
  /** Removes labels for Portcullis, and ranges, from namespaces. */
  readonly purgesNamespaces: boolean;
  /** Keeps the Pod Security labels that Portcullis set. */
  readonly keepsLabels: boolean;
  /** Keeps the policies in the API server. */
  readonly keepsPolicies: boolean;
}

/** Describes the objects, labels and annotations that remain. A dry run describes those that would remain. */
export async function findRemains(client: ClusterClient, scope: UninstallScope): Promise<readonly string[]> {
  const isForeign = await hasForeignSccs(client);
  const all = await client.list(RESOURCES.Namespace);
  const namespaces = all.filter((one) => !isTerminating(one) && !isPartOfPortcullis(one));
  return [
    ...(scope.purgesDefinitions ? [] : await describeDefinitions(client, isForeign)),
    ...(scope.keepsPolicies ? await describePolicies(client) : []),
    ...(isForeign ? [] : describeNamespaceFields(namespaces, scope)),
    ...describeNamespaces(
      namespaces.filter((one) => getRemainingLevel(one, scope.keepsLabels || isForeign) !== undefined),
      (list) => `labels ${ENFORCE_LABEL} of ${list}, which the plugin PodSecurity of API servers enforces`,
      (one) => one.metadata?.labels?.[ENFORCE_LABEL],
    ),
  ];
}

async function describeDefinitions(client: ClusterClient, isForeign: boolean): Promise<readonly string[]> {
  const definitions = (await client.list(DEFINITIONS)).filter(isPartOfPortcullis);
  const counts = definitions.map(async ({ metadata: { name } }) => {
    const [resource = '', ...group] = name.split('.');
    const kind = findKind({ resource, group: group.join('.') });
    return kind === undefined ? name : `${name} (${(await client.list(RESOURCES[kind])).length})`;
  });
  const names = await Promise.all(counts);
  const grants = isForeign ? [] : await findGrants(client);
  return [
    ...(names.length === 0
      ? []
      : [
          `CustomResourceDefinitions, and the number of their objects: ${summarizeNames(names)}. A new installation uses these settings and SCCs; --purge-crds deletes them`,
        ]),
    ...(grants.length === 0
      ? []
      : [`${grants.length} roles system:openshift:scc:* and their bindings; --purge-crds deletes them`]),
  ];
}

/** The ClusterRoles that grant the use of SCCs and all their bindings, including those of `scc grant` and `scc plan`. Bindings come first. */
export async function findGrants(client: ClusterClient) {
  const { ClusterRole, ClusterRoleBinding, RoleBinding } = RESOURCES;
  const lists = [ClusterRoleBinding, RoleBinding, ClusterRole].map(async (resource) => {
    const objects = (await client.list(resource)) as readonly (AnyObject &
      Pick<Partial<RoleBindingObject>, 'roleRef'>)[];
    const isGrant = ({ roleRef, metadata }: (typeof objects)[number]): boolean => {
      if (roleRef !== undefined && roleRef.kind !== 'ClusterRole') return false;
      return (roleRef?.name ?? metadata.name).startsWith(useRoleName(''));
    };
    return objects.filter(isGrant).map((object) => ({ resource, object }));
  });
  return (await Promise.all(lists)).flat();
}

function describeNamespaceFields(
  namespaces: readonly AnyObject[],
  { purgesNamespaces }: UninstallScope,
): readonly string[] {
  const labeled = purgesNamespaces ? [] : namespaces.filter((one) => findUserLabels(one).length > 0);
  const hasRange = (one: AnyObject): boolean =>
    findRangeAnnotations(one).some(({ isOwn }) => !purgesNamespaces || !isOwn);
  const ending = purgesNamespaces ? 'that others set' : 'which --purge-namespaces removes if Portcullis set them';
  return [
    ...describeNamespaces(
      labeled,
      (list) => `labels portcullis.dev/* of ${list}, which a new installation follows and --purge-namespaces removes`,
    ),
    ...describeNamespaces(
      namespaces.filter(hasRange),
      (list) => `annotations openshift.io/sa.scc.* of ${list}, ${ending}`,
    ),
  ];
}

function getRemainingLevel(namespace: AnyObject, keepsLabels: boolean): string | undefined {
  const level = namespace.metadata.labels?.[ENFORCE_LABEL];
  return keepsLabels || getOwnLevel(namespace) === undefined ? level : undefined;
}
