import { randomUUID } from 'node:crypto';
import { isIP } from 'node:net';
import { hostname } from 'node:os';
import { join, resolve, sep } from 'node:path';
import { getAsset, isSea } from 'node:sea';
import { Readable } from 'node:stream';
import { fileURLToPath } from 'node:url';
import { systemClock } from '../../cluster/clock.ts';
import { failureReason } from '../../config/files.ts';
import { readManifests } from '../../config/manifests.ts';
import { createObservable, type Settings } from '../../config/settings.ts';
import { createLeaderElection, type LeaderElection, type LeaderElectionOptions } from '../../controllers/leadership.ts';
import { type RunningControllers, startControllers } from '../../controllers/runtime.ts';
import type { ApiObject, DevCluster } from '../../dev-cluster/index.ts';
import {
  ALL_FEATURES,
  CRDS,
  defaultSettings,
  DEV_CLUSTER_ENFORCEMENT,
  type Manifest,
  type ManifestSettings,
  namespaceObjects,
  staticWebhookConfigurations,
} from '../../install/index.ts';
import { errorCode } from '../../kube/error-code.ts';
import { ApiError } from '../../kube/status.ts';
import { draft, isObject, type JsonObject } from '../../kube/types.ts';
import { UserError } from '../../kube/user-error.ts';
import type { Version } from '../../policy/pss/index.ts';
import { ensureCertificates } from '../../tls/index.ts';
import { VERSION } from '../command.ts';
import { failOnErrors } from '../inventory/manifests.ts';
import { explainAddressError } from '../listen.ts';
import { type ClusterOptions, type RunningCluster, urlHost } from './cluster.ts';

/** Kinds on which other kinds depend, in creation order. All other kinds are created afterwards. */
const CREATION_ORDER = [
  'CustomResourceDefinition',
  'Namespace',
  'PriorityClass',
  'RuntimeClass',
  'ServiceAccount',
  'Secret',
  'ConfigMap',
  'ClusterRole',
  'Role',
  'ClusterRoleBinding',
  'RoleBinding',
];

interface SeedObject {
  readonly value: JsonObject;
  /** File and line of the object, or its kind and name if it comes from no file. */
  readonly origin: string;
}

const FIELD_MANAGER = 'portcullis-seed';

const HERE = fileURLToPath(import.meta.url);
/** Directory of the package, which contains `examples`, and `src` or `dist`. */
const ROOT = HERE.slice(0, Math.max(HERE.lastIndexOf(`${sep}src${sep}`), HERE.lastIndexOf(`${sep}dist${sep}`)));

/** Examples that are embedded in a single executable. */
const EXAMPLES_ASSET = 'examples.yaml';

/**
 * Reads the manifests in a directory or file, by default the examples, and sorts them in creation order. Rejects with a
 * UserError that lists the file and line of each invalid document.
 */
export async function readSeed(path?: string): Promise<readonly SeedObject[]> {
  const embedded = path === undefined && isSea() ? [getAsset(EXAMPLES_ASSET, 'utf8')] : [];
  const source = embedded.length === 0 ? (path ?? join(ROOT, 'examples/cluster')) : '-';
  const { objects, errors } = await readManifests([source], { stdin: Readable.from(embedded) });
  failOnErrors(errors);
  const rank = ({ value }: SeedObject): number => {
    const index = CREATION_ORDER.indexOf((value as ApiObject).kind ?? '');
    return index < 0 ? CREATION_ORDER.length : index;
  };
  const seed = objects.map(({ value, document, line }) => ({ value, origin: `${document.file}:${line}` }));
  return seed.toSorted((a, b) => rank(a) - rank(b));
}

/**
 * Creates objects one at a time. After each object, waits for the controllers, for example until a namespace has its
 * default service account. If the cluster rejects an object, rejects with a UserError that contains the origin of the
 * object.
 */
export async function createAll(cluster: DevCluster, objects: readonly SeedObject[]): Promise<void> {
  for (const { value, origin } of objects) {
    const object = draft(value) as ApiObject;
    const { apiVersion = '', kind = '' } = object;
    const [version = '', group = ''] = apiVersion.split('/').reverse();
    const resource = cluster.registry
      .list()
      .find((info) => info.kind === kind && info.group === group && info.version === version);
    if (!resource) throw new UserError(`${origin}: the development cluster does not serve ${kind} of ${apiVersion}`);
    if (resource.namespaced) object.metadata = { namespace: 'default', ...object.metadata };
    try {
      await cluster.writer.create(resource, object, { fieldManager: FIELD_MANAGER });
      await cluster.idle();
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      throw new UserError(`${origin}: ${error.message}`, { cause: error });
    }
  }
}

/**
 * Returns the initial objects in creation order. They consist of the manifests in a directory, by default the examples,
 * and the objects of an installation. Rejects with a UserError that lists the file and line of each invalid document.
 */
async function readClusterManifests(
  folder: string | undefined,
  { workloadResources }: Settings,
  olmDefinitions: readonly Manifest[],
) {
  const seed = await readSeed(folder);
  const defaults = defaultSettings(VERSION);
  const installation: ManifestSettings = { ...defaults, features: ALL_FEATURES, certificates: 'others' };
  const enforcement = { ...DEV_CLUSTER_ENFORCEMENT, workloads: workloadResources };
  return {
    // Namespace of the Leases and of the published default.
    namespace: namespaceObjects(installation).slice(0, 1).map(seedObject),
    definitions: [...CRDS, ...olmDefinitions]
      .map(seedObject)
      .filter((definition) => !seed.some(isSameObject(definition))),
    // These objects are created before the webhooks are registered, so they are not reviewed.
    seed: seed.filter((object) => !isScc(object)),
    configurations: staticWebhookConfigurations(installation, enforcement).map(seedObject),
    // SCCs are created after the webhooks are registered, because the webhooks set the fields that the manifests omit.
    sccs: seed.filter(isScc),
  };
}

function seedObject(value: Manifest): SeedObject {
  return { value, origin: `${value.kind} ${value.metadata.name}` };
}

/**
 * Returns a function that returns true for objects with the same kind and name. Manifests may contain CRDs that are
 * also built in, such as the OLM CRDs.
 */
function isSameObject({ value: { kind, metadata } }: SeedObject): (other: SeedObject) => boolean {
  const name = isObject(metadata) ? metadata['name'] : undefined;
  return ({ value }) => value['kind'] === kind && isObject(value['metadata']) && value['metadata']['name'] === name;
}

function isScc({ value }: SeedObject): boolean {
  return isObject(value) && value['kind'] === 'SecurityContextConstraints';
}

const HOST = '127.0.0.1';
const SERVICE = { namespace: 'portcullis', name: 'portcullis' };
const ADMIN = { username: 'portcullis-admin', groups: ['system:masters'] };

/** Parts of an inventory that are empty for a development cluster. */
const UNREAD = { source: 'cluster', objects: [], customSources: [], assumptions: [], unread: [] } as const;

/** Starts the development cluster and its API server. `open` registers the webhooks and creates the initial objects. */
export async function startDevCluster(options: ClusterOptions): Promise<RunningCluster> {
  const { values, settings, logger, metrics } = options;
  // These modules are loaded here because a live cluster does not need them.
  const { openDashboard } = await import('../report/dashboard-server.ts');
  const { KUBERNETES_VERSION, OLM_DEFINITIONS } = await import('../../dev-cluster/index.ts');
  const manifests = await readClusterManifests(values.manifests, settings, OLM_DEFINITIONS);
  const { definitions, namespace, seed, configurations, sccs } = manifests;
  const certificates = await createCertificates(values['cert-dir'], values['bind-address']);
  const authority = certificates.authority.cert;
  const { cluster, webhook, caller } = await startCluster(authority, logger);
  const api = await serveApi(cluster, certificates, options);
  let running: RunningControllers | undefined;
  let election: LeaderElection | undefined;
  const stopping = new AbortController();
  const dashboard = await openDashboard({
    port: 0,
    server: api.url,
    inventory: () => ({ ...UNREAD, store: cluster.store }),
    values: { config: values.config, 'installation-namespace': SERVICE.namespace, 'scc-mode': undefined },
    signal: stopping.signal,
  });

  return {
    cluster,
    version: createObservable<Version | undefined>(KUBERNETES_VERSION),
    service: SERVICE,
    certificate: { serving: certificates.serving, authority },
    checks: [{ name: 'informer-sync', check: () => undefined }],
    namedChecks: [{ name: 'cluster', check: () => undefined }],
    async open({ authority, ...address }) {
      Object.assign(webhook, address);
      const trusted = configurations.map((configuration) => ({
        ...configuration,
        value: withBundle(configuration.value, authority),
      }));
      for (const objects of [definitions, namespace, seed, trusted, sccs]) await createAll(cluster, objects);
    },
    follow: () => Promise.resolve(),
    markSynced() {},
    complete: () => Promise.resolve(),
    unsyncedKinds: () => [],
    async run(controllers) {
      const services = { cluster, logger, metrics, clock: systemClock };
      election = await elect(services);
      running = startControllers(controllers, services);
      await running.idle();
      return running;
    },
    greeting: () =>
      `Portcullis serves reviews at https://${urlHost(webhook.host)}:${webhook.port} for a development cluster at ${api.url}

  export KUBECONFIG=${resolve(api.kubeconfigFile)}
  kubectl get namespaces --show-labels
  kubectl apply -n baseline -f examples/pods/privileged.yaml   # denied
  kubectl get events -A

Dashboard: ${dashboard.url}
Reviews are logged with --log-level=info.

`,
    async stop() {
      stopping.abort();
      await dashboard.close();
      await election?.stop();
      await running?.stop();
      cluster.stop();
      await api.close();
      caller.close();
    },
  };
}

/** Starts a cluster that calls the webhooks at the address of `webhook`. */
async function startCluster(rootCertificate: string, logger: ClusterOptions['logger']) {
  const { createDevCluster, createHttpsCaller } = await import('../../dev-cluster/index.ts');
  const webhook = { host: HOST, port: 0 };
  const caller = createHttpsCaller(({ namespace, name }) =>
    namespace === SERVICE.namespace && name === SERVICE.name ? webhook : undefined,
  );
  const cluster = createDevCluster({ clock: () => new Date(), call: caller.call });
  const log = logger.child({ logger: 'cluster' });
  await cluster.start({
    rootCertificate,
    onError: (err, controller, key) => log.warn({ err, controller, key }, 'reconciliation failed, retrying'),
  });
  return { cluster, webhook, caller };
}

/** Creates or reads the certificates of the API server, the webhooks and the administrator. */
async function createCertificates(folder: string, bindAddress: string) {
  // Removes the IPv6 zone, which certificates cannot contain.
  const [address = ''] = bindAddress.split('%');
  const certificates = ensureCertificates({
    folder,
    dnsNames: ['localhost', `${SERVICE.name}.${SERVICE.namespace}.svc`],
    ipAddresses: [HOST, '::1', ...(isIP(address) === 0 ? [] : [address])],
    clients: new Map([['admin', ADMIN]]),
    now: () => new Date(),
  });
  const { clients, ...created } = await explainFolderError(folder, certificates);
  const client = clients.get('admin');
  if (!client) throw new Error('failed to create a client certificate');
  return { ...created, client };
}

/** Serves the cluster's API and writes the administrator's kubeconfig. */
async function serveApi(
  cluster: DevCluster,
  { authority, serving, client }: Awaited<ReturnType<typeof createCertificates>>,
  { values, logger }: ClusterOptions,
) {
  const { createApiServer, writeKubeconfig } = await import('../../dev-cluster/index.ts');
  const log = logger.child({ logger: 'cluster' });
  const server = createApiServer({
    cluster,
    tls: { ...serving, clientAuthority: authority.cert },
    onError: (err) => log.error({ err }, 'request to the development cluster failed'),
  });
  const wanted = { host: HOST, port: values['cluster-port'], option: 'cluster-port' };
  const url = `https://${HOST}:${await explainAddressError(server.listen(wanted.port), wanted)}`;
  const folder = values['cert-dir'];
  const kubeconfigFile = join(folder, 'kubeconfig');
  const writing = writeKubeconfig(kubeconfigFile, { server: url, authority: authority.cert, client });
  await explainFolderError(folder, writing);
  return { url, kubeconfigFile, close: () => server.close() };
}

/** Starts the leader election. Resolves once this process holds the Lease and is the leader. */
async function elect(
  services: Pick<LeaderElectionOptions, 'cluster' | 'logger' | 'metrics' | 'clock'>,
): Promise<LeaderElection> {
  const identity = `${hostname()}_${randomUUID()}`;
  const onStopped = () => Promise.resolve();
  return await new Promise((resolve) => {
    const onStarted = (): void => resolve(election);
    const election = createLeaderElection({ ...services, ...SERVICE, identity, onStarted, onStopped });
    election.start();
  });
}

/** Converts system errors about the certificate directory to a UserError with its path. */
async function explainFolderError<T>(folder: string, done: Promise<T>): Promise<T> {
  try {
    return await done;
  } catch (error) {
    const code = errorCode(error);
    if (typeof code !== 'string') throw error;
    const isFile = code === 'EEXIST' || code === 'ENOTDIR';
    const reason = isFile ? 'it is not a directory' : failureReason(error);
    throw new UserError(`--cert-dir: cannot write to ${folder}: ${reason}`, { cause: error });
  }
}

/** Returns the webhook configuration with the CA as the caBundle. */
function withBundle(configuration: JsonObject, authority: string): ApiObject {
  const caBundle = Buffer.from(authority).toString('base64');
  const webhooks = configuration.webhooks as readonly { readonly clientConfig: object }[];
  return {
    ...configuration,
    webhooks: webhooks.map((webhook) => ({ ...webhook, clientConfig: { ...webhook.clientConfig, caBundle } })),
  };
}
