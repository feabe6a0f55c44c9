import { connect } from 'node:tls';
import { reviewAccess } from '../../cluster/access.ts';
import type { Connection } from '../../cluster/connection.ts';
import { networkError } from '../../cluster/network-error.ts';
import { listAll } from '../../cluster/lists.ts';
import { parseConfiguration } from '../../config/configuration.ts';
import { UserError } from '../../config/files.ts';
import { buildManifests, defaultSettings, type Manifest, type ManifestSettings } from '../../install/index.ts';
import { RESOURCES } from '../../kube/resources.ts';
import { ApiError } from '../../kube/status.ts';
import {
  isObject,
  type Kind,
  type Kinds,
  type KubeObject,
  type Role,
  type RoleBinding,
  type Secret,
  type UserInfo,
} from '../../kube/types.ts';
import { INJECT_CA_ANNOTATION, INSTALLATION, POD_SECURITY_LABELS } from '../../kube/well-known.ts';
import { DEFAULT_ROLLOUT, type RolloutSettings } from '../../policy/rollout/settings.ts';
import { VERSION } from '../command.ts';
import {
  collectionPath,
  deploymentArgument,
  deploymentFile,
  ignoreNotFound,
  isOwn,
  listObjects,
  objectPath,
  readConfigurations,
  type AnyObject,
  type Configuration,
  type Resource,
} from '../installation.ts';
import { serveOptions } from '../serve/options.ts';
import {
  factValue,
  type ConfigurationFile,
  type Fact,
  type Facts,
  type NamespaceFact,
  type NeededAccess,
  type Probe,
  type ProbeRequest,
  type ServedCertificate,
  type ServerFact,
} from './facts.ts';
import { namespaceTier, type Tier } from './matching.ts';

interface GatherOptions {
  /** Namespace of the installation. */
  readonly namespace: string;
  readonly now: Date;
  readonly signal: AbortSignal;
}

const DISRUPTION_BUDGETS: Resource = { group: 'policy', version: 'v1', resource: 'poddisruptionbudgets' };
const CONFIG_MAPS: Resource = { group: '', version: 'v1', resource: 'configmaps' };

/**
 * Gathers the facts about an installation and its cluster. Rejects with an ApiError if the webhook configurations cannot be
 * read, and with a UserError if the cluster cannot be reached.
 */
export async function gatherFacts(connection: Connection, options: GatherOptions): Promise<Facts> {
  const { namespace, now, signal } = options;
  const configurations = await readConfigurations(connection, signal);
  const list = <K extends Kind>(kind: K, within?: string): Promise<Fact<readonly Kinds[K][]>> =>
    readFact(async () => {
      const objects = await listAll(connection, {
        kind,
        signal,
        ...(within === undefined ? {} : { namespace: within }),
      });
      return objects as unknown as readonly Kinds[K][];
    });
  const [server, namespaces, nodes, deployment, pods, disruptionBudgets, leases] = await Promise.all([
    readServer(connection, signal),
    list('Namespace'),
    list('Node'),
    readDeployment(connection, options),
    list('Pod', namespace),
    readFact(() => listObjects(connection, DISRUPTION_BUDGETS, { namespace, signal })),
    list('Lease', namespace),
  ]);
  const running = factValue(deployment);
  const configuration = await readConfigurationFile(connection, options, running);
  const settings = deriveSettings({ namespace, configurations, deployment: running, file: factValue(configuration) });
  const known = (factValue(namespaces) ?? []).map(namespaceFact);
  const requests = planProbes({
    installation: namespace,
    configurations,
    namespaces: known,
    groups: factValue(server)?.groups ?? [],
  });
  const account = running?.spec?.template.spec?.serviceAccountName ?? INSTALLATION.name;
  const [certificate, urlCertificates, missingAccess, probes] = await Promise.all([
    readSecretCertificate(connection, namespace, running, signal),
    readUrlCertificates(configurations),
    readMissingAccess(connection, settings, account, signal),
    Promise.all(requests.map((request) => runProbe(connection, request, signal))),
  ]);
  return {
    now,
    namespace,
    settings,
    server,
    configurations,
    namespaces: 'value' in namespaces ? { value: known } : namespaces,
    nodes,
    deployment,
    pods,
    disruptionBudgets,
    leases,
    certificate,
    urlCertificates,
    configuration,
    missingAccess,
    probes,
  };
}

/** Resolves to a fact without a value if the API server rejects the request. Rejects if it cannot be reached. */
async function readFact<T>(action: () => Promise<T>): Promise<Fact<T>> {
  try {
    return { value: await action() };
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    return { unknown: error.message };
  }
}

/** Number of concurrent access reviews. */
const CONCURRENCY = 8;

/** The permissions that the service account needs and lacks. */
async function readMissingAccess(
  connection: Connection,
  settings: ManifestSettings,
  serviceAccount: string,
  signal: AbortSignal,
): Promise<Fact<readonly NeededAccess[]>> {
  const { namespace } = settings;
  const user: UserInfo = {
    username: `system:serviceaccount:${namespace}:${serviceAccount}`,
    groups: ['system:serviceaccounts', `system:serviceaccounts:${namespace}`, 'system:authenticated'],
  };
  return await readFact(async () => {
    const remaining = [...neededAccess(settings)];
    const missing: NeededAccess[] = [];
    const review = async (): Promise<void> => {
      for (let needed = remaining.shift(); needed; needed = remaining.shift()) {
        const { group: apiGroup, ...attributes } = needed;
        if (!(await reviewAccess(connection, user, { apiGroup, ...attributes }, signal))) missing.push(needed);
      }
    };
    await Promise.all(Array.from({ length: CONCURRENCY }, review));
    return missing;
  });
}

/** The permissions that the manifests grant to the service account. */
function neededAccess(settings: ManifestSettings): readonly NeededAccess[] {
  const manifests = buildManifests(settings);
  return manifests.filter(isBinding).flatMap(({ roleRef, metadata }) => {
    const role = manifests.find(({ kind, metadata: { name } }) => kind === roleRef.kind && name === roleRef.name);
    return ((role as Role | undefined)?.rules ?? []).flatMap((rule) => ruleAccess(rule, metadata.namespace));
  });
}

function isBinding(manifest: Manifest): manifest is Manifest & RoleBinding {
  return manifest.kind === 'RoleBinding' || manifest.kind === 'ClusterRoleBinding';
}

type Rule = NonNullable<Role['rules']>[number];

function ruleAccess(rule: Rule, namespace: string | undefined): readonly NeededAccess[] {
  const names = rule.resourceNames ?? [undefined];
  return (rule.apiGroups ?? []).flatMap((group) =>
    (rule.resources ?? []).flatMap((resource) =>
      rule.verbs.flatMap((verb) =>
        names.map((name) => ({
          verb,
          group,
          resource,
          ...(name === undefined ? {} : { name }),
          ...(namespace === undefined ? {} : { namespace }),
        })),
      ),
    ),
  );
}

/** Reads the serving certificate from its Secret. */
async function readSecretCertificate(
  connection: Connection,
  namespace: string,
  deployment: Kinds['Deployment'] | undefined,
  signal: AbortSignal,
): Promise<Fact<ServedCertificate>> {
  const source = deploymentFile(deployment, 'tls-cert-file');
  const { name, key } = source?.kind === 'Secret' ? source : { name: INSTALLATION.certificateSecret, key: 'tls.crt' };
  const path = objectPath(RESOURCES.Secret, name, namespace);
  return await readFact(async () => {
    const secret = (await ignoreNotFound(() => connection.request({ method: 'GET', path, signal }))) as
      Secret | undefined;
    const data = secret?.data?.[key];
    return {
      source: `secrets/${name}`,
      chain: data === undefined ? undefined : Buffer.from(data, 'base64').toString('latin1'),
    };
  });
}

const TIMEOUT_MS = 5000;

/** Reads the certificate that a server sends, without verification: the connection sends no data. */
function readServerCertificate(origin: string): Promise<Fact<ServedCertificate>> {
  const { hostname, port } = new URL(origin);
  const host = hostname.replace(/^\[(.*)\]$/, '$1');
  return new Promise((resolve) => {
    const socket = connect({ host, port: Number(port || '443'), rejectUnauthorized: false, timeout: TIMEOUT_MS });
    const finish = (fact: Fact<ServedCertificate>): void => {
      socket.destroy();
      resolve(fact);
    };
    socket.once('secureConnect', () => {
      const certificates = certificateChain(socket.getPeerX509Certificate());
      finish({ value: { source: origin, chain: certificates.map(String).join('') } });
    });
    socket.once('timeout', () => finish({ unknown: `${origin}: no response within ${TIMEOUT_MS / 1000} s` }));
    socket.once('error', (error) => finish({ unknown: `${origin}: ${networkError(error, origin)}` }));
  });
}

type Certificate = NonNullable<ReturnType<ReturnType<typeof connect>['getPeerX509Certificate']>>;

/** Limits cyclic chains. */
const MAX_CHAIN_LENGTH = 10;

function certificateChain(leaf: Certificate | undefined): readonly Certificate[] {
  const chain: Certificate[] = [];
  for (let cert = leaf; cert && chain.length < MAX_CHAIN_LENGTH; cert = cert.issuerCertificate) chain.push(cert);
  return chain;
}

// Probes are server-side dry runs. The response of the API server shows whether it reached the webhooks.

const NAME = 'portcullis-doctor';
const IMAGE = 'registry.k8s.io/pause:3.10';

interface ProbePlan {
  readonly installation: string;
  readonly configurations: readonly Configuration[];
  readonly namespaces: readonly NamespaceFact[];
  readonly groups: readonly string[];
}

/** One request for each kind of object that webhooks review, and for each tier of namespaces. */
export function planProbes({ installation, configurations, namespaces, groups }: ProbePlan): readonly ProbeRequest[] {
  const byTier = Map.groupBy(namespaces, (namespace) => namespaceTier(configurations, namespace));
  const own = namespaces.find(({ name }) => name === installation);
  const tiers: readonly Tier[] = ['fail-closed', 'fail-open'];
  const selected = [...tiers.flatMap((tier) => selectNamespace(byTier.get(tier) ?? [])), ...(own ? [own] : [])];
  return [
    { id: 'namespace', group: '', resource: 'namespaces', body: probe('v1', 'Namespace', {}) },
    ...selected.map((namespace) => podProbe('pod', namespace, RESTRICTED_POD)),
    ...(own && hasEnforceLevel(own) ? [podProbe('violating pod', own, VIOLATING_POD)] : []),
    ...(groups.includes('security.openshift.io') ? [SCC_PROBE] : []),
  ];
}

/** One namespace of a tier: `default`, or a namespace with an enforce level, or the first. */
function selectNamespace(namespaces: readonly NamespaceFact[]): readonly NamespaceFact[] {
  const namespace =
    namespaces.find(({ name }) => name === 'default') ?? namespaces.find(hasEnforceLevel) ?? namespaces[0];
  return namespace ? [namespace] : [];
}

function hasEnforceLevel({ labels }: NamespaceFact): boolean {
  const level = labels[POD_SECURITY_LABELS.enforce];
  return level === 'baseline' || level === 'restricted';
}

/** Complies with every level. */
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

/** Violates the levels baseline and restricted. */
const VIOLATING_POD = { ...RESTRICTED_POD, hostPID: true };

const SCC_PROBE: ProbeRequest = {
  id: 'scc',
  group: 'security.openshift.io',
  resource: 'securitycontextconstraints',
  body: probe('security.openshift.io/v1', 'SecurityContextConstraints', {
    runAsUser: { type: 'MustRunAsNonRoot' },
    seLinuxContext: { type: 'RunAsAny' },
    fsGroup: { type: 'RunAsAny' },
    supplementalGroups: { type: 'RunAsAny' },
    allowHostDirVolumePlugin: false,
    allowHostIPC: false,
    allowHostNetwork: false,
    allowHostPID: false,
    allowHostPorts: false,
    allowPrivilegedContainer: false,
    readOnlyRootFilesystem: true,
    allowedCapabilities: [],
    defaultAddCapabilities: [],
    requiredDropCapabilities: ['ALL'],
    volumes: ['emptyDir'],
    priority: 0,
  }),
};

function podProbe(id: ProbeRequest['id'], namespace: NamespaceFact, spec: object): ProbeRequest {
  return { id, namespace, group: '', resource: 'pods', body: probe('v1', 'Pod', { spec }) };
}

function probe(apiVersion: string, kind: string, content: object): object {
  return { apiVersion, kind, metadata: { generateName: `${NAME}-` }, ...content };
}

async function runProbe(connection: Connection, request: ProbeRequest, signal: AbortSignal): Promise<Probe> {
  const path = collectionPath({ ...request, version: 'v1' }, request.namespace?.name);
  const { body } = request;
  try {
    const object = await connection.request({ method: 'POST', path, query: { dryRun: 'All' }, body, signal });
    return { ...request, object: object as unknown as AnyObject };
  } catch (error) {
    // The API server responded before: a UserError is a timeout of this request.
    if (!(error instanceof ApiError || error instanceof UserError)) throw error;
    return { ...request, refusal: error.message };
  }
}

const CERT_MANAGER = 'cert-manager.io/inject-';

/** The objects from which the settings of an installation are derived. */
interface InstalledObjects {
  readonly namespace: string;
  readonly configurations: readonly Configuration[];
  readonly deployment: Kinds['Deployment'] | undefined;
  readonly file: ConfigurationFile | undefined;
}

/** Derives the settings of an installation from its objects. */
function deriveSettings({ namespace, configurations, deployment, file }: InstalledObjects): ManifestSettings {
  const own = configurations.filter(isOwn);
  const annotations = own.flatMap(({ metadata }) => Object.keys(metadata.annotations ?? {}));
  const url = own.flatMap(({ webhooks }) => webhooks.map(({ clientConfig }) => clientConfig.url)).find(Boolean);
  return {
    ...defaultSettings(VERSION),
    namespace,
    sccMode: deploymentArgument(deployment, 'scc-mode') === 'off' ? 'off' : 'report',
    authorization: deploymentArgument(deployment, 'authorization') === 'sar' ? 'sar' : 'rbac',
    ...rolloutSettings(file),
    withoutControllers: (deploymentArgument(deployment, 'controllers') ?? '').split(',').flatMap(disabledController),
    certificates: certificateSource(annotations),
    ...(url != null && URL.canParse(url) ? { webhooks: { url: new URL(url).origin } } : {}),
  };
}

function certificateSource(annotations: readonly string[]): ManifestSettings['certificates'] {
  if (annotations.includes(INJECT_CA_ANNOTATION)) return 'self-managed';
  return annotations.some((key) => key.startsWith(CERT_MANAGER)) ? 'cert-manager' : 'others';
}

/** The rollout in the configuration file. An invalid file is reported by the check of the configuration. */
function rolloutSettings(file: ConfigurationFile | undefined): Pick<ManifestSettings, 'rollout' | 'evaluator'> {
  const { phase, evaluator } = parseRollout(file) ?? DEFAULT_ROLLOUT;
  return { rollout: phase, evaluator };
}

function parseRollout(file: ConfigurationFile | undefined): RolloutSettings | undefined {
  if (file?.text === undefined) return undefined;
  try {
    return parseConfiguration({ file: file.source, text: file.text }, Object.keys(serveOptions)).rollout;
  } catch (error) {
    if (error instanceof UserError) return undefined;
    throw error;
  }
}

function disabledController(rule: string): readonly string[] {
  return rule.startsWith('-') ? [rule.slice(1)] : [];
}

function namespaceFact({ metadata }: KubeObject): NamespaceFact {
  return { name: metadata?.name ?? '', labels: metadata?.labels ?? {} };
}

async function readServer(connection: Connection, signal: AbortSignal): Promise<Fact<ServerFact>> {
  return await readFact(async () => {
    const [version, apis] = await Promise.all(
      ['/version', '/apis'].map((path) => connection.request({ method: 'GET', path, signal })),
    );
    const groups: readonly unknown[] = Array.isArray(apis?.['groups']) ? apis['groups'] : [];
    return {
      version: String(version?.['gitVersion']),
      groups: groups.flatMap((group) => (isObject(group) ? [String(group['name'])] : [])),
    };
  });
}

async function readDeployment(
  connection: Connection,
  { namespace, signal }: GatherOptions,
): Promise<Fact<Kinds['Deployment'] | undefined>> {
  const path = objectPath(RESOURCES.Deployment, INSTALLATION.name, namespace);
  return await readFact(() =>
    ignoreNotFound(() => connection.request({ method: 'GET', path, signal }) as Promise<Kinds['Deployment']>),
  );
}

async function readUrlCertificates(configurations: readonly Configuration[]): Promise<Facts['urlCertificates']> {
  const urls = configurations
    .filter(isOwn)
    .flatMap(({ webhooks }) => webhooks.flatMap(({ clientConfig: { url } }) => url ?? []));
  const origins = [...new Set(urls.filter((url) => URL.canParse(url)).map((url) => new URL(url).origin))];
  const facts = await Promise.all(
    origins.map(async (origin): Promise<[string, Fact<ServedCertificate>]> => [
      origin,
      await readServerCertificate(origin),
    ]),
  );
  return new Map(facts);
}

async function readConfigurationFile(
  connection: Connection,
  { namespace, signal }: GatherOptions,
  deployment: Kinds['Deployment'] | undefined,
): Promise<Fact<ConfigurationFile | undefined>> {
  const source = deploymentFile(deployment, 'config');
  if (source?.kind !== 'ConfigMap') return { value: undefined };
  const { name, key } = source;
  return await readFact(async () => {
    const path = objectPath(CONFIG_MAPS, name, namespace);
    const map = await ignoreNotFound(() => connection.request({ method: 'GET', path, signal }));
    return { source: `configmaps/${name} ${key}`, text: textAt(map?.['data'], key) };
  });
}

function textAt(data: unknown, key: string): string | undefined {
  const text = isObject(data) && Object.hasOwn(data, key) ? data[key] : undefined;
  return typeof text === 'string' ? text : undefined;
}
