import { connect } from 'node:tls';
import { ApiError } from '../../kube/status.ts';
import type {
  Fact,
  NeededAccess,
  ServedCertificate,
  NamespaceFact,
  Probe,
  ProbeRequest,
  ConfigurationFile,
  Facts,
  ServerFact,
} from './facts.ts';
import type { Connection } from '../../cluster/connection.ts';
import { networkError } from '../../cluster/network-error.ts';
import { reviewAccess } from '../../cluster/access.ts';
import {
  type Role,
  type RoleBinding,
  type UserInfo,
  type Kinds,
  type Secret,
  isObject,
  type Kind,
  type KubeObject,
} from '../../kube/types.ts';
import { buildManifests, type Manifest, type ManifestSettings, defaultSettings } from '../../install/index.ts';
import { INSTALLATION, INJECT_CA_ANNOTATION, POD_SECURITY_LABELS } from '../../kube/well-known.ts';
import { RESOURCES } from '../../kube/resources.ts';
import {
  ifThere,
  objectPath,
  collectionPath,
  type AnyObject,
  listObjects,
  type Resource,
  mountedFile,
  argumentOf,
  type Configuration,
  isOurs,
  readConfigurations,
} from '../installation.ts';
import { UserError } from '../../config/files.ts';
import { tierOf, type Tier } from './matching.ts';
import { parseConfiguration } from '../../config/configuration.ts';
import { VERSION } from '../command.ts';
import { DEFAULT_ROLLOUT, type RolloutSettings } from '../../policy/rollout/settings.ts';
import { serveOptions } from '../serve/options.ts';
import { listAll } from '../../cluster/lists.ts';

/** The fact that something resolves to, or that the server refuses to tell. Rejects only if it cannot be reached. */
async function look<T>(action: () => Promise<T>): Promise<Fact<T>> {
  try {
    return { value: await action() };
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    return { unknown: error.message };
  }
}

/** Asked at the same time. */
const AT_ONCE = 8;

/** What the service account of an installation is not allowed although it needs it. */
async function lookAtAccess(
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
  return await look(async () => {
    const left = [...neededAccess(settings)];
    const lacking: NeededAccess[] = [];
    const ask = async (): Promise<void> => {
      for (let needed = left.shift(); needed; needed = left.shift()) {
        const { group: apiGroup, ...attributes } = needed;
        if (!(await reviewAccess(connection, user, { apiGroup, ...attributes }, signal))) lacking.push(needed);
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, ask));
    return lacking;
  });
}

/** All that the manifests grant to the service account, one by one. */
function neededAccess(settings: ManifestSettings): readonly NeededAccess[] {
  const manifests = buildManifests(settings);
  return manifests.filter(isBinding).flatMap(({ roleRef, metadata }) => {
    const role = manifests.find(({ kind, metadata: { name } }) => kind === roleRef.kind && name === roleRef.name);
    return ((role as Role | undefined)?.rules ?? []).flatMap((rule) => accessOf(rule, metadata.namespace));
  });
}

function isBinding(manifest: Manifest): manifest is Manifest & RoleBinding {
  return manifest.kind === 'RoleBinding' || manifest.kind === 'ClusterRoleBinding';
}

type Rule = NonNullable<Role['rules']>[number];

function accessOf(rule: Rule, namespace: string | undefined): readonly NeededAccess[] {
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

/** The certificate that replicas read, from the Secret where it is kept. */
async function lookAtSecret(
  connection: Connection,
  namespace: string,
  deployment: Kinds['Deployment'] | undefined,
  signal: AbortSignal,
): Promise<Fact<ServedCertificate>> {
  const mounted = mountedFile(deployment, 'tls-cert-file');
  const { name, key } = mounted?.kind === 'Secret' ? mounted : { name: INSTALLATION.certificateSecret, key: 'tls.crt' };
  const path = objectPath(RESOURCES.Secret, name, namespace);
  return await look(async () => {
    const secret = (await ifThere(() => connection.request({ method: 'GET', path, signal }))) as Secret | undefined;
    const data = secret?.data?.[key];
    return {
      source: `secrets/${name}`,
      chain: data === undefined ? undefined : Buffer.from(data, 'base64').toString('latin1'),
    };
  });
}

const TIMEOUT_MS = 5000;

/** The certificate that is served at an address, whoever signed it. */
function lookAtAddress(origin: string): Promise<Fact<ServedCertificate>> {
  const { hostname, port } = new URL(origin);
  const host = hostname.replace(/^\[(.*)\]$/, '$1');
  return new Promise((resolve) => {
    // It is only looked at: nothing is sent that a stranger might not read.
    const socket = connect({ host, port: Number(port || '443'), rejectUnauthorized: false, timeout: TIMEOUT_MS });
    const end = (fact: Fact<ServedCertificate>): void => {
      socket.destroy();
      resolve(fact);
    };
    socket.once('secureConnect', () => {
      const certificates = chainOf(socket.getPeerX509Certificate());
      end({ value: { source: origin, chain: certificates.map(String).join('') } });
    });
    socket.once('timeout', () => end({ unknown: `${origin}: no answer in ${TIMEOUT_MS / 1000} s` }));
    socket.once('error', (error) => end({ unknown: `${origin}: ${networkError(error, origin)}` }));
  });
}

type Certificate = NonNullable<ReturnType<ReturnType<typeof connect>['getPeerX509Certificate']>>;

/** No chain in use is longer. */
const MAX_CHAIN = 10;

function chainOf(leaf: Certificate | undefined): readonly Certificate[] {
  const chain: Certificate[] = [];
  for (let cert = leaf; cert && chain.length < MAX_CHAIN; cert = cert.issuerCertificate) chain.push(cert);
  return chain;
}

// * Dry runs that make the API server ask our webhooks: nothing is stored, and what it answers shows whether it reached
// them.

const NAME = 'portcullis-doctor';
const IMAGE = 'registry.k8s.io/pause:3.10';

interface ProbePlan {
  readonly installation: string;
  readonly configurations: readonly Configuration[];
  readonly namespaces: readonly NamespaceFact[];
  readonly groups: readonly string[];
}

/** One request for each thing that webhooks are asked about, and for each tier of namespaces. */
export function planProbes({ installation, configurations, namespaces, groups }: ProbePlan): readonly ProbeRequest[] {
  const byTier = Map.groupBy(namespaces, (namespace) => tierOf(configurations, namespace));
  const own = namespaces.find(({ name }) => name === installation);
  const tiers: readonly Tier[] = ['fail-closed', 'fail-open'];
  const chosen = [...tiers.flatMap((tier) => choose(byTier.get(tier) ?? [])), ...(own ? [own] : [])];
  return [
    { id: 'namespace', group: '', resource: 'namespaces', body: probe('v1', 'Namespace', {}) },
    ...chosen.map((namespace) => podProbe('pod', namespace, HARMLESS)),
    ...(own && isJudged(own) ? [podProbe('violating pod', own, VIOLATING)] : []),
    ...(groups.includes('security.openshift.io') ? [SCC] : []),
  ];
}

/** One namespace of a tier: rather one that says its level, and rather `default` than one that some tool minds. */
function choose(namespaces: readonly NamespaceFact[]): readonly NamespaceFact[] {
  const found = namespaces.find(({ name }) => name === 'default') ?? namespaces.find(isJudged) ?? namespaces[0];
  return found ? [found] : [];
}

function isJudged({ labels }: NamespaceFact): boolean {
  const level = labels[POD_SECURITY_LABELS.enforce];
  return level === 'baseline' || level === 'restricted';
}

/** Violates no level. */
const HARMLESS = {
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

/** Violates every level but privileged. */
const VIOLATING = { ...HARMLESS, hostPID: true };

const SCC: ProbeRequest = {
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

/** Sends a request as a dry run. */
async function runProbe(connection: Connection, request: ProbeRequest, signal: AbortSignal): Promise<Probe> {
  const path = collectionPath({ ...request, version: 'v1' }, request.namespace?.name);
  const { body } = request;
  try {
    const object = await connection.request({ method: 'POST', path, query: { dryRun: 'All' }, body, signal });
    return { ...request, object: object as unknown as AnyObject };
  } catch (error) {
    // A server that waits too long for webhooks has answered before, and will again.
    if (!(error instanceof ApiError || error instanceof UserError)) throw error;
    return { ...request, refusal: error.message };
  }
}

const CERT_MANAGER = 'cert-manager.io/inject-';

/** What the cluster shows of an installation. */
interface Shown {
  readonly namespace: string;
  readonly configurations: readonly Configuration[];
  readonly deployment: Kinds['Deployment'] | undefined;
  readonly file: ConfigurationFile | undefined;
}

/** What an installation was made with, as far as the cluster shows it. */
function settingsOf({ namespace, configurations, deployment, file }: Shown): ManifestSettings {
  const ours = configurations.filter(isOurs);
  const annotations = ours.flatMap(({ metadata }) => Object.keys(metadata.annotations ?? {}));
  const url = ours.flatMap(({ webhooks }) => webhooks.map(({ clientConfig }) => clientConfig.url)).find(Boolean);
  return {
    ...defaultSettings(VERSION),
    namespace,
    sccMode: argumentOf(deployment, 'scc-mode') === 'off' ? 'off' : 'report',
    authorization: argumentOf(deployment, 'authorization') === 'sar' ? 'sar' : 'rbac',
    ...rolloutOf(file),
    withoutControllers: (argumentOf(deployment, 'controllers') ?? '').split(',').flatMap(leftOut),
    certificates: certificatesOf(annotations),
    ...(url != null && URL.canParse(url) ? { webhooks: { url: new URL(url).origin } } : {}),
  };
}

function certificatesOf(annotations: readonly string[]): ManifestSettings['certificates'] {
  if (annotations.includes(INJECT_CA_ANNOTATION)) return 'self-managed';
  return annotations.some((key) => key.startsWith(CERT_MANAGER)) ? 'cert-manager' : 'others';
}

/** Of what cannot be read the doctor tells elsewhere; new replicas do not start with it. */
function rolloutOf(file: ConfigurationFile | undefined): Pick<ManifestSettings, 'rollout' | 'evaluator'> {
  const { phase, evaluator } = read(file) ?? DEFAULT_ROLLOUT;
  return { rollout: phase, evaluator };
}

function read(file: ConfigurationFile | undefined): RolloutSettings | undefined {
  if (file?.text === undefined) return undefined;
  try {
    return parseConfiguration({ file: file.source, text: file.text }, Object.keys(serveOptions)).rollout;
  } catch (error) {
    if (error instanceof UserError) return undefined;
    throw error;
  }
}

function leftOut(rule: string): readonly string[] {
  return rule.startsWith('-') ? [rule.slice(1)] : [];
}

interface GatherOptions {
  /** Of the installation. */
  readonly namespace: string;
  readonly now: Date;
  readonly signal: AbortSignal;
}

const DISRUPTION_BUDGETS: Resource = { group: 'policy', version: 'v1', resource: 'poddisruptionbudgets' };
const CONFIG_MAPS: Resource = { group: '', version: 'v1', resource: 'configmaps' };

/**
 * Looks at an installation and what surrounds it. Rejects with an ApiError if the webhook configurations may not be read,
 * with a UserError if the cluster cannot be reached.
 */
export async function gatherFacts(connection: Connection, options: GatherOptions): Promise<Facts> {
  const { namespace, now, signal } = options;
  const configurations = await readConfigurations(connection, signal);
  const list = <K extends Kind>(kind: K, within?: string): Promise<Fact<readonly Kinds[K][]>> =>
    look(async () => {
      const objects = await listAll(connection, {
        kind,
        signal,
        ...(within === undefined ? {} : { namespace: within }),
      });
      return objects as unknown as readonly Kinds[K][];
    });
  const [server, namespaces, nodes, deployment, pods, disruptionBudgets, leases] = await Promise.all([
    lookAtServer(connection, signal),
    list('Namespace'),
    list('Node'),
    lookAtDeployment(connection, options),
    list('Pod', namespace),
    look(() => listObjects(connection, DISRUPTION_BUDGETS, { namespace, signal })),
    list('Lease', namespace),
  ]);
  const running = valueOf(deployment);
  const configuration = await lookAtConfiguration(connection, options, running);
  const settings = settingsOf({ namespace, configurations, deployment: running, file: valueOf(configuration) });
  const known = (valueOf(namespaces) ?? []).map(namespaceFact);
  const requests = planProbes({
    installation: namespace,
    configurations,
    namespaces: known,
    groups: valueOf(server)?.groups ?? [],
  });
  const account = running?.spec?.template.spec?.serviceAccountName ?? INSTALLATION.name;
  const [certificate, atUrls, lacking, probes] = await Promise.all([
    lookAtSecret(connection, namespace, running, signal),
    lookAtUrls(configurations),
    lookAtAccess(connection, settings, account, signal),
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
    atUrls,
    configuration,
    lacking,
    probes,
  };
}

function valueOf<T>(fact: Fact<T>): T | undefined {
  return 'value' in fact ? fact.value : undefined;
}

function namespaceFact({ metadata }: KubeObject): NamespaceFact {
  return { name: metadata?.name ?? '', labels: metadata?.labels ?? {} };
}

async function lookAtServer(connection: Connection, signal: AbortSignal): Promise<Fact<ServerFact>> {
  return await look(async () => {
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

async function lookAtDeployment(
  connection: Connection,
  { namespace, signal }: GatherOptions,
): Promise<Fact<Kinds['Deployment'] | undefined>> {
  const path = objectPath(RESOURCES.Deployment, INSTALLATION.name, namespace);
  return await look(() =>
    ifThere(() => connection.request({ method: 'GET', path, signal }) as Promise<Kinds['Deployment']>),
  );
}

async function lookAtUrls(configurations: readonly Configuration[]): Promise<Facts['atUrls']> {
  const urls = configurations
    .filter(isOurs)
    .flatMap(({ webhooks }) => webhooks.flatMap(({ clientConfig: { url } }) => url ?? []));
  const origins = [...new Set(urls.filter((url) => URL.canParse(url)).map((url) => new URL(url).origin))];
  const facts = await Promise.all(
    origins.map(async (origin): Promise<[string, Fact<ServedCertificate>]> => [origin, await lookAtAddress(origin)]),
  );
  return new Map(facts);
}

async function lookAtConfiguration(
  connection: Connection,
  { namespace, signal }: GatherOptions,
  deployment: Kinds['Deployment'] | undefined,
): Promise<Fact<ConfigurationFile | undefined>> {
  const mounted = mountedFile(deployment, 'config');
  if (mounted?.kind !== 'ConfigMap') return { value: undefined };
  const { name, key } = mounted;
  return await look(async () => {
    const path = objectPath(CONFIG_MAPS, name, namespace);
    const map = await ifThere(() => connection.request({ method: 'GET', path, signal }));
    return { source: `configmaps/${name} ${key}`, text: textAt(map?.['data'], key) };
  });
}

function textAt(data: unknown, key: string): string | undefined {
  const text = isObject(data) && Object.hasOwn(data, key) ? data[key] : undefined;
  return typeof text === 'string' ? text : undefined;
}
