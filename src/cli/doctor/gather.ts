import { GUARD_POLICY, isFloorPolicy, POLICY_KINDS } from '../../api/admission-policies.ts';
import {
  TEMPORARY_GRANTS_ANNOTATION,
  CONFIGURATION_NAME,
  FLOOR_SELECTOR,
  INSTALLATION,
  type OptionalFeature,
} from '../../api/names.ts';
import { isPartOfPortcullis } from '../../api/webhooks.ts';
import { type AnyObject, type ClusterClient, DEFINITIONS, readServer } from '../../cluster/client.ts';
import { createStore, type Store } from '../../cluster/store.ts';
import { decodeSettings } from '../../config/portcullis-configuration.ts';
import { CONTROLLER_NAMES } from '../../controllers/index.ts';
import {
  buildManifests,
  type Configuration,
  decodePolicy,
  defaultSettings,
  type Manifest,
  type ManifestSettings,
  PROFILES,
  readConfigurations,
} from '../../install/index.ts';
import { withApiDefaults } from '../../kube/defaults.ts';
import { deepEqual } from '../../kube/equality.ts';
import { formatFieldError } from '../../kube/field-error.ts';
import type { Kind, Kinds } from '../../kube/kinds.ts';
import type { PodSecurityException } from '../../kube/pod-security-exception.ts';
import { namespaced, objectName, resourcePath, RESOURCES } from '../../kube/resources.ts';
import { ApiError, ConnectionError } from '../../kube/status.ts';
import type {
  EndpointSlice,
  GroupVersionResource,
  JsonObject,
  Lease,
  PortcullisConfiguration,
  Secret,
} from '../../kube/types.ts';
import { POD_SECURITY_LABELS } from '../../kube/well-known.ts';
import { LOWER_LEVEL, type PodSecurityConfiguration } from '../../policy/psa/index.ts';
import { RBAC_KINDS, type RbacGrant, type RbacObjects, whoCan } from '../../policy/rbac/index.ts';
import { isTerminating } from '../../policy/rollout/index.ts';
import { STANDARD_SCCS } from '../../policy/scc/index.ts';
import { EXEMPTION_KINDS, type ExemptionProblem, findExemptionProblems } from '../../views/exemptions.ts';
import { sccGrants } from '../../views/scc-grants.ts';
import { VERSION } from '../command.ts';
import { certificateSecret, deploymentSettings, findOtherInstallations } from '../installation/deployment.ts';
import { readUpgradeProblem } from '../installation/installation.ts';
import { findObsolete } from '../installation/obsolete-objects.ts';
import { hasSettings, type InstalledPolicy, readAnnotatedSettings } from '../installation/policies.ts';
import { readServerCertificate } from '../installation/served-certificate.ts';
import { isOpenShift } from '../installation/settings.ts';
import { effectiveSpec, readRolloutState, findWeakerThanPolicies } from '../installation/weakening.ts';
import {
  type Fact,
  type Facts,
  factValue,
  type FloorObject,
  type NamespaceFact,
  type Probe,
  type ProbeRequest,
  type CheckedCertificate,
  type RemainingPolicies,
  type SuspectGrant,
} from './facts.ts';
import { namespaceTier, type Tier } from './matching.ts';

type Deployment = Kinds['Deployment'];

/** Lists the objects of a kind in all namespaces. */
type ListKind = (kind: Kind) => Promise<readonly AnyObject[]>;

/** Returns a function that lists each kind at most once, because clusters may have many namespaces and roles. */
export function createLister(client: ClusterClient): ListKind {
  const lists = new Map<Kind, ReturnType<ListKind>>();
  return (kind) => {
    const list = lists.get(kind) ?? client.list(RESOURCES[kind]);
    lists.set(kind, list);
    return list;
  };
}

/**
 * Gathers the facts about an installation and its cluster. Rejects with an ApiError if the webhook configurations
 * cannot be read, and with a UserError if the cluster cannot be reached.
 */
export async function gatherFacts(
  client: ClusterClient,
  {
    namespace,
    now,
    policyObjects,
  }: Pick<Facts, 'namespace' | 'now'> & { readonly policyObjects: readonly InstalledPolicy[] },
): Promise<Facts> {
  const configurations = await readConfigurations(client);
  const list = createLister(client);
  const { namespaces, deployment, ...objects } = await readClusterObjects(client, list, namespace);
  const { server, settingsObject } = objects;
  const running = factValue(deployment);
  const groups = factValue(server)?.groups ?? [];
  const spec = specInForce(settingsObject, namespace);
  const installed = { namespace, configurations, groups, spec: factValue(spec), deployment: running };
  const settings = deriveSettings({ ...installed, roles: running ? [] : await readFeatureRoles(client) });
  const policies = await readFact(() => readFloor(client));
  // Terminating namespaces are ignored, because API servers reject new pods in them.
  const known = (factValue(namespaces) ?? [])
    .filter((namespace) => !isTerminating(namespace))
    .map(({ metadata: { name, labels = {} } }) => ({ name, labels }));
  const requests = planProbes(installed, settings, known);
  const [
    otherInstallations,
    certificate,
    urlCertificates,
    changedObjects,
    obsolete,
    exceptions,
    suspectGrants,
    upgradeProblem,
    guard,
    exemptionProblems,
    probes,
  ] = await Promise.all([
    readFact(() => findOtherInstallations(client, namespace)),
    readSecretCertificate(client, namespace, running),
    readUrlCertificates(configurations, settings),
    readFact(() => readChangedObjects(client, settings)),
    'value' in spec ? readFact(() => findObsolete(client, settings)) : spec,
    decodePolicy(settings).exceptions.mode === 'off'
      ? { value: [] }
      : readFact(
          async () => (await client.list(RESOURCES.PodSecurityException)) as unknown as readonly PodSecurityException[],
        ),
    readFact(() => readSuspectGrants(list)),
    readFact(() => readUpgradeProblem(client)),
    decodePolicy(settings).guard.labels === 'off' ? undefined : readFact(() => readGuard(client, list)),
    readFact(() => readExemptionProblems(list, decodePolicy(settings).podSecurity.configuration.exemptions)),
    Promise.all(requests.map((request) => runProbe(client, request))),
  ]);
  return {
    ...objects,
    now,
    namespace,
    settings,
    spec,
    webhookConfigurations: configurations,
    policies,
    remainingPolicies: await readRemainingPolicies(client, policyObjects, settings),
    namespaces: 'value' in namespaces ? { value: known } : namespaces,
    deployment,
    otherInstallations,
    certificate,
    urlCertificates,
    changedObjects,
    obsolete,
    exceptions,
    suspectGrants,
    upgradeProblem,
    guard,
    exemptionProblems,
    probes,
  };
}

/** Reads the objects that do not depend on other facts. */
async function readClusterObjects(client: ClusterClient, listKind: ListKind, namespace: string) {
  const list = <T>(resource: GroupVersionResource): Promise<Fact<readonly T[]>> =>
    readFact(async () => (await client.list(resource, { namespace })) as unknown as readonly T[]);
  const get = <T>(resource: GroupVersionResource, name: string, within?: string): Promise<Fact<T | undefined>> =>
    readFact(() => client.get(resource, name, within) as Promise<T | undefined>);
  const [server, namespaces, nodes, deployment, pods, endpointSlices, disruptionBudgets, leases, settingsObject] =
    await Promise.all([
      readFact(() => readServer(client)),
      readFact(() => listKind('Namespace')),
      readFact(async () => (await listKind('Node')) as unknown as readonly Kinds['Node'][]),
      get<Deployment>(RESOURCES.Deployment, INSTALLATION.name, namespace),
      list<Kinds['Pod']>(RESOURCES.Pod),
      list<EndpointSlice>(RESOURCES.EndpointSlice),
      list<AnyObject>(namespaced('policy/v1', 'poddisruptionbudgets')),
      list<Lease>(RESOURCES.Lease),
      get<PortcullisConfiguration>(RESOURCES.PortcullisConfiguration, CONFIGURATION_NAME),
    ]);
  return { server, namespaces, nodes, deployment, pods, endpointSlices, disruptionBudgets, leases, settingsObject };
}

/**
 * Reads the permanent grants that were created or changed while their SCC was granted temporarily. Reads roles and
 * bindings only if there was a temporary grant.
 */
async function readSuspectGrants(list: ListKind): Promise<readonly SuspectGrant[]> {
  const isRecorded = ({ metadata: { annotations } }: AnyObject): boolean =>
    annotations?.[TEMPORARY_GRANTS_ANNOTATION] !== undefined;
  if (!(await list('Namespace')).some(isRecorded)) return [];
  const store = await readStore(list, ['Namespace', 'SecurityContextConstraints', ...RBAC_KINDS]);
  return store
    .list('SecurityContextConstraints')
    .flatMap((scc) =>
      sccGrants(store, scc).flatMap((grant) => (grant.during ? [{ ...grant, scc: objectName(scc) }] : [])),
    );
}

async function readStore(list: ListKind, kinds: readonly Kind[]): Promise<Store> {
  const store = createStore();
  await Promise.all(
    kinds.map(async (kind) => {
      for (const object of await list(kind)) store.put(kind, object);
    }),
  );
  return store;
}

/** Finds problems with exemptions. Reads roles and bindings only if the settings contain exemptions. */
export async function readExemptionProblems(
  list: ListKind,
  exemptions: PodSecurityConfiguration['exemptions'],
): Promise<readonly ExemptionProblem[]> {
  if (Object.values(exemptions).every((names) => names.length === 0)) return [];
  return findExemptionProblems(await readStore(list, EXEMPTION_KINDS), exemptions, true);
}

async function readGuard(client: ClusterClient, list: ListKind) {
  const kinds = POLICY_KINDS.map(async (kind) => ((await client.get(RESOURCES[kind], GUARD_POLICY)) ? [kind] : []));
  return { objects: (await Promise.all(kinds)).flat(), grants: await readLowerGrants(list) };
}

/** Reads the grants of the permission to lower the level of all namespaces. The guard ignores RoleBindings. */
export async function readLowerGrants(list: ListKind): Promise<readonly RbacGrant[]> {
  const [clusterRoles, clusterRoleBindings] = (await Promise.all([
    list('ClusterRole'),
    list('ClusterRoleBinding'),
  ])) as unknown as [RbacObjects['clusterRoles'], RbacObjects['clusterRoleBindings']];
  return whoCan({ roles: [], roleBindings: [], clusterRoles, clusterRoleBindings }, LOWER_LEVEL);
}

/** Reads the floor policies and their bindings. Sets their kinds, because the items of a list have none. */
async function readFloor(client: ClusterClient): Promise<readonly FloorObject[]> {
  const lists = POLICY_KINDS.map(async (kind) => {
    const objects = await client.list(RESOURCES[kind], { labels: FLOOR_SELECTOR });
    return objects.filter(({ metadata }) => isFloorPolicy(kind, metadata.name)).map((object) => ({ ...object, kind }));
  });
  return (await Promise.all(lists)).flat();
}

/** Compares the policies of an installation without a server with the server settings. */
async function readRemainingPolicies(
  client: ClusterClient,
  policies: readonly InstalledPolicy[],
  settings: ManifestSettings,
): Promise<RemainingPolicies | undefined> {
  if (!policies.some(hasSettings)) return undefined;
  const spec = readAnnotatedSettings(policies)?.spec ?? {};
  const { namespace, policy } = settings;
  // The state is read only during a rollout, because only a rollout sets a default level that is not in the settings.
  const isRollout = decodePolicy(settings).rollout.phase !== 'Disabled';
  const weaker = await readFact(async () => {
    const effective = isRollout ? effectiveSpec(await readRolloutState(client, namespace), namespace, policy) : policy;
    return findWeakerThanPolicies(namespace, spec, effective);
  });
  return { policies, weaker };
}

/**
 * Resolves to a fact without a value if the API server rejects the request. Rejects if the API server cannot be
 * reached.
 */
async function readFact<T>(action: () => Promise<T>): Promise<Fact<T>> {
  try {
    return { value: await action() };
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    return { unknown: error.message };
  }
}

/**
 * Kinds in the manifests to compare with the cluster, and the fields that must be equal. CRDs and service accounts only
 * need to exist, because the versions of CRDs may be newer, and users customize service accounts.
 */
const COMPARED_FIELDS: Readonly<Record<string, readonly [GroupVersionResource, ...fields: readonly string[]]>> = {
  CustomResourceDefinition: [DEFINITIONS],
  ServiceAccount: [namespaced('v1', 'serviceaccounts')],
  ClusterRole: [RESOURCES.ClusterRole, 'rules'],
  Role: [RESOURCES.Role, 'rules'],
  ClusterRoleBinding: [RESOURCES.ClusterRoleBinding, 'roleRef', 'subjects'],
  RoleBinding: [RESOURCES.RoleBinding, 'roleRef', 'subjects'],
  ValidatingAdmissionPolicy: [RESOURCES.ValidatingAdmissionPolicy, 'spec'],
  ValidatingAdmissionPolicyBinding: [RESOURCES.ValidatingAdmissionPolicyBinding, 'spec'],
};

/** Returns the CRDs, policies, roles and bindings in the manifests that are missing or different in the cluster. */
async function readChangedObjects(client: ClusterClient, settings: ManifestSettings): Promise<readonly Manifest[]> {
  const changed = buildManifests(settings).map(async (manifest) => {
    const [resource, ...fields] = COMPARED_FIELDS[manifest.kind] ?? [];
    if (!resource) return [];
    const { name, namespace } = manifest.metadata;
    const current = (await client.get(resource, name, namespace)) as unknown as JsonObject | undefined;
    const required = withApiDefaults(manifest) as unknown as JsonObject;
    return current && fields.every((field) => deepEqual(current[field], required[field])) ? [] : [manifest];
  });
  return (await Promise.all(changed)).flat();
}

/** Reads the serving certificate from its Secret. */
async function readSecretCertificate(
  client: ClusterClient,
  namespace: string,
  deployment: Deployment | undefined,
): Promise<Fact<CheckedCertificate>> {
  const { name, key } = certificateSecret(deployment) ?? { name: INSTALLATION.certificateSecret, key: 'tls.crt' };
  return await readFact(async () => {
    const secret = (await client.get(RESOURCES.Secret, name, namespace)) as Secret | undefined;
    const data = secret?.data?.[key];
    return {
      source: `secrets/${name}`,
      chain: data === undefined ? undefined : Buffer.from(data, 'base64').toString('latin1'),
    };
  });
}

// Probes are server-side dry runs. The response shows whether the API server called the webhooks.

const NAME = 'portcullis-doctor';
const IMAGE = 'registry.k8s.io/pause:3.10';

/** Plans one request for each kind of object that webhooks review, in each tier of namespaces. */
function planProbes(
  { namespace: installation, configurations, groups }: InstalledObjects,
  { features }: ManifestSettings,
  namespaces: readonly NamespaceFact[],
): readonly ProbeRequest[] {
  const byTier = Map.groupBy(namespaces, (namespace) => namespaceTier(configurations, namespace));
  const own = namespaces.find(({ name }) => name === installation);
  const tiers: readonly Tier[] = ['fail-closed', 'fail-open'];
  const selected = [...tiers.flatMap((tier) => selectNamespace(byTier.get(tier) ?? [])), ...(own ? [own] : [])];
  return [
    ...selected.map((namespace) => podProbe('a pod', namespace, RESTRICTED_POD)),
    ...(own && hasEnforceLevel(own) ? [podProbe('a violating pod', own, VIOLATING_POD)] : []),
    ...(features.scc && groups.includes('security.openshift.io') ? [SCC_PROBE] : []),
  ];
}

/** Selects one namespace of a tier. Prefers `default`, and then namespaces with an enforce level. */
function selectNamespace(namespaces: readonly NamespaceFact[]): readonly NamespaceFact[] {
  const namespace =
    namespaces.find(({ name }) => name === 'default') ?? namespaces.find(hasEnforceLevel) ?? namespaces[0];
  return namespace ? [namespace] : [];
}

function hasEnforceLevel({ labels }: NamespaceFact): boolean {
  const level = labels[POD_SECURITY_LABELS.enforce];
  return level === 'baseline' || level === 'restricted';
}

/** A pod that complies with every level. */
const RESTRICTED_POD = {
  automountServiceAccountToken: false,
  securityContext: { runAsNonRoot: true, seccompProfile: { type: 'RuntimeDefault' } },
  containers: [
    {
      name: 'pause',
      image: IMAGE,
      resources: { requests: { cpu: '1m', memory: '1Mi' }, limits: { cpu: '1m', memory: '1Mi' } },
      securityContext: { allowPrivilegeEscalation: false, capabilities: { drop: ['ALL'] } },
    },
  ],
};

/** A pod that violates the baseline and restricted levels. */
export const VIOLATING_POD = { ...RESTRICTED_POD, hostPID: true };

const SCC_PROBE: ProbeRequest = {
  id: 'an SCC',
  group: 'security.openshift.io',
  resource: 'securitycontextconstraints',
  body: probe('security.openshift.io/v1', 'SecurityContextConstraints', {
    ...STANDARD_SCCS.find(({ scc }) => scc.metadata?.name === 'restricted-v2')?.scc,
  }),
};

export function podProbe(id: ProbeRequest['id'], namespace: NamespaceFact, spec: object): ProbeRequest {
  return { id, namespace, group: '', resource: 'pods', body: probe('v1', 'Pod', { spec }) };
}

function probe(apiVersion: string, kind: string, content: object): object {
  return { ...content, apiVersion, kind, metadata: { generateName: `${NAME}-` } };
}

export async function runProbe(client: ClusterClient, request: ProbeRequest): Promise<Probe> {
  const path = resourcePath({ ...request, version: 'v1' }, request.namespace?.name);
  try {
    const object = await client.send({ method: 'POST', path, query: { dryRun: 'All' }, body: request.body });
    return { ...request, object: object as unknown as AnyObject };
  } catch (error) {
    // A ConnectionError means that this request timed out, because the API server responded to earlier requests.
    if (!(error instanceof ApiError || error instanceof ConnectionError)) throw error;
    return { ...request, rejection: error.message };
  }
}

/** Objects from which the settings of an installation are derived. */
interface InstalledObjects {
  readonly namespace: string;
  readonly configurations: readonly Configuration[];
  /** API groups that the cluster serves. */
  readonly groups: readonly string[];
  /** Spec that the replicas apply, if it is known. */
  readonly spec: JsonObject | undefined;
  readonly deployment: Deployment | undefined;
}

/** Returns the features whose ClusterRole exists. Considers only features that have no CRDs. */
async function readFeatureRoles(client: ClusterClient): Promise<readonly OptionalFeature[]> {
  const read = async (feature: OptionalFeature): Promise<readonly OptionalFeature[]> => {
    const role = await readFact(() => client.get(RESOURCES.ClusterRole, `${INSTALLATION.name}-${feature}`));
    return factValue(role) === undefined ? [] : [feature];
  };
  return (await Promise.all((['kubelet', 'olm'] as const).map(read))).flat();
}

/** Derives the settings of an installation from its objects. */
function deriveSettings(
  installed: InstalledObjects & { readonly roles: readonly OptionalFeature[] },
): ManifestSettings {
  const { namespace, configurations, groups, spec, deployment, roles } = installed;
  const [url] = webhookUrls(configurations);
  // The groups prove nothing on OpenShift, which serves them even if the features are not installed.
  const serves = (group: string): boolean => groups.includes(group) && !isOpenShift({ groups });
  // Without a Deployment, CRDs and roles determine the features, even though an earlier installation may have left them.
  const scc = serves(RESOURCES.RangeAllocation.group);
  const rollout = serves(RESOURCES.PSAEnforcementConfig.group);
  return {
    ...defaultSettings(VERSION),
    namespace,
    // Before the leader registers webhooks, an installation without a Deployment is assumed to use this profile.
    ...(deployment || configurations.some(isPartOfPortcullis) ? {} : PROFILES.local),
    ...(url === undefined ? {} : { webhooks: { url } }),
    ...(deployment
      ? deploymentSettings(deployment)
      : { features: { rollout, scc, kubelet: roles.includes('kubelet'), olm: roles.includes('olm') } }),
    policy: spec ?? {},
  };
}

/**
 * Returns the spec that the replicas apply. The spec is unknown if neither the object nor its status contains a valid
 * one.
 */
function specInForce(configuration: Facts['settingsObject'], namespace: string): Fact<JsonObject> {
  if (!('value' in configuration)) return configuration;
  const specs = [configuration.value?.spec ?? {}, configuration.value?.status?.applied?.spec];
  const valid = specs.find((spec) => spec !== undefined && invalidReason(spec, namespace) === undefined);
  return valid ? { value: valid } : { unknown: 'not compared with the settings, which are invalid' };
}

/** Returns the origins of the URLs at which API servers call Portcullis webhooks. */
function webhookUrls(configurations: readonly Configuration[]): readonly string[] {
  const webhooks = configurations.filter(isPartOfPortcullis).flatMap((configuration) => configuration.webhooks);
  const urls = webhooks.flatMap(({ clientConfig: { url } }) => (url != null && URL.canParse(url) ? new URL(url) : []));
  return [...new Set(urls.map(({ origin }) => origin))];
}

/** Returns the reason why a PortcullisConfiguration spec is invalid, or `undefined` if it is valid. */
export function invalidReason(spec: JsonObject, namespace: string): string | undefined {
  const decoded = decodeSettings({ spec }, { controllers: CONTROLLER_NAMES, namespace });
  return 'errors' in decoded ? decoded.errors.map(formatFieldError).join('; ') : undefined;
}

async function readUrlCertificates(
  configurations: readonly Configuration[],
  { webhooks }: ManifestSettings,
): Promise<Facts['urlCertificates']> {
  const origins = new Set([...webhookUrls(configurations), ...(webhooks === 'service' ? [] : [webhooks.url])]);
  const facts = [...origins].map(async (origin): Promise<[string, Fact<CheckedCertificate>]> => {
    const result = await readServerCertificate(origin);
    return [origin, 'chain' in result ? { value: { source: origin, ...result } } : result];
  });
  return new Map(await Promise.all(facts));
}
