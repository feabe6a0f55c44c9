import { join, sep, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { isIP } from 'node:net';
import { readManifests } from '../../config/manifests.ts';
import { UserError } from '../../config/files.ts';
import type { ApiObject, DevCluster, ResourceKey } from '../../dev-cluster/index.ts';
import { ApiError } from '../../kube/status.ts';
import { draft, type JsonObject, isObject } from '../../kube/types.ts';
import { DEFINITIONS, defaultSettings, webhookConfigurations, type Manifest } from '../../install/index.ts';
import type { SccMode, SccSettings } from '../../policy/scc/mode.ts';
import { VERSION, PROGRAM } from '../command.ts';
import { systemClock } from '../../cluster/clock.ts';
import { startControllers, type RunningController } from '../../controllers/runtime.ts';
import type { RolloutSettings } from '../../policy/rollout/settings.ts';
import type { Logger } from '../../telemetry/logger.ts';
import type { Metrics } from '../../telemetry/metrics.ts';
import { ensureCertificates } from '../../tls/files.ts';
import { orAddressError, printHost, type RunningCluster } from './cluster.ts';
import type { ServeValues } from './options.ts';

/** Kinds that others need, in the order in which they are needed; all other kinds come after them. */
const FIRST = [
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

/** What is to be created, and where it comes from. */
interface SeedObject {
  readonly value: JsonObject;
  readonly place: string;
}

const FIELD_MANAGER = 'portcullis-seed';

/**
 * Reads the manifests of a folder or file, in the order in which they have to be created.
 * Rejects with a UserError that names file and line of what cannot be read.
 */
export async function readSeed(path: string): Promise<readonly SeedObject[]> {
  const { objects, errors } = await readManifests([path], { stdin: nothing() });
  if (errors.length > 0) {
    throw new UserError(
      errors.map(({ file, line, column, message }) => `${file}:${line}:${column}: ${message}`).join('\n'),
    );
  }
  const rank = ({ value }: SeedObject): number => {
    const index = FIRST.indexOf((value as ApiObject).kind ?? '');
    return index < 0 ? FIRST.length : index;
  };
  const seed = objects.map(({ value, document, line }) => ({ value, place: `${document.file}:${line}` }));
  return seed.toSorted((a, b) => rank(a) - rank(b));
}

/**
 * Creates objects one after another, each when what follows from the one before is done (a namespace's service account).
 * Rejects with a UserError that names the place of what the cluster refuses.
 */
export async function createAll(cluster: DevCluster, objects: readonly SeedObject[]): Promise<void> {
  for (const { value, place } of objects) {
    const object = draft(value) as ApiObject;
    const { apiVersion = '', kind = '' } = object;
    const resource = cluster.registry.list().find((info) => info.kind === kind && groupVersion(info) === apiVersion);
    if (!resource) throw new UserError(`${place}: the development cluster does not serve ${kind} of ${apiVersion}`);
    if (resource.namespaced) object.metadata = { namespace: 'default', ...object.metadata };
    try {
      await cluster.writer.create(resource, object, { fieldManager: FIELD_MANAGER });
      await cluster.idle();
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      throw new UserError(`${place}: ${error.message}`, { cause: error });
    }
  }
}

function groupVersion({ group, version }: { readonly group: string; readonly version: string }): string {
  return group === '' ? version : `${group}/${version}`;
}

async function* nothing(): AsyncGenerator<string> {}

/** What the development cluster is filled with, in this order; each in the order in which it has to be created. */
interface ClusterManifests {
  /** The kinds of our own. */
  readonly definitions: readonly SeedObject[];
  /** What has been there before the webhooks: they do not judge it. */
  readonly seed: readonly SeedObject[];
  readonly configurations: readonly SeedObject[];
  /** SCCs are created when their webhooks listen: short ones are completed by them. */
  readonly sccs: readonly SeedObject[];
}

/** Where the examples lie: beside the folder of the sources, or that of the bundle. */
const HERE = fileURLToPath(import.meta.url);
const ROOT = HERE.slice(0, Math.max(HERE.lastIndexOf(`${sep}src${sep}`), HERE.lastIndexOf(`${sep}dist${sep}`)));

/**
 * Reads what the development cluster starts with: a folder of manifests, by default that of the examples; and what every
 * installation has.
 * Rejects with a UserError that names file and line of what cannot be read.
 */
async function readClusterManifests(folder: string | undefined, sccMode: SccMode): Promise<ClusterManifests> {
  const seed = await readSeed(folder ?? join(ROOT, 'examples/cluster'));
  return {
    definitions: DEFINITIONS.map(ours),
    seed: seed.filter((one) => !isScc(one)),
    configurations: webhookConfigurations({ ...defaultSettings(VERSION), certificates: 'others', sccMode }).map(ours),
    sccs: seed.filter(isScc),
  };
}

function ours(value: Manifest): SeedObject {
  return { value, place: `${value.kind} ${value.metadata.name}` };
}

function isScc({ value }: SeedObject): boolean {
  return isObject(value) && value['kind'] === 'SecurityContextConstraints';
}

interface DevClusterStartOptions {
  readonly values: ServeValues;
  readonly scc: SccSettings;
  /** As it is at start. */
  readonly rollout: RolloutSettings;
  readonly logger: Logger;
  readonly metrics: Metrics;
}

const HOST = '127.0.0.1';
/** Where a server of that name and namespace would be found in a cluster. */
const SERVICE = { namespace: 'portcullis', name: 'portcullis' };
const CONFIGURATIONS: ReadonlyMap<unknown, ResourceKey> = new Map(
  ['Mutating', 'Validating'].map((type) => [
    `${type}WebhookConfiguration`,
    { group: 'admissionregistration.k8s.io', resource: `${type.toLowerCase()}webhookconfigurations` },
  ]),
);
const ADMIN = { username: 'portcullis-admin', groups: ['system:masters'] };

/** Starts the development cluster and serves its API; it has no webhooks yet, and nothing in it but what every cluster has. */
export async function startDevCluster({
  values,
  scc,
  rollout,
  logger,
  metrics,
}: DevClusterStartOptions): Promise<RunningCluster> {
  const { createApiServer, createDevCluster, createHttpsCaller, writeKubeconfig } =
    await import('../../dev-cluster/index.ts');
  const folder = values['cert-dir'];
  const { definitions, seed, configurations, sccs } = await readClusterManifests(values.manifests, scc.mode);
  const certificates = await ensureCertificates({
    folder,
    dnsNames: ['localhost', `${SERVICE.name}.${SERVICE.namespace}.svc`],
    ipAddresses: [HOST, '::1', ...(isIP(values['bind-address']) === 0 ? [] : [values['bind-address']])],
    clients: new Map([['admin', ADMIN]]),
    now: () => new Date(),
  });

  let running: RunningController | undefined;
  let webhook = { host: HOST, port: 0 };
  const caller = createHttpsCaller(({ namespace, name }) =>
    namespace === SERVICE.namespace && name === SERVICE.name ? webhook : undefined,
  );
  const cluster = createDevCluster({ clock: () => new Date(), call: caller.call });
  const log = logger.child({ logger: 'cluster' });
  await cluster.start({
    rootCertificate: certificates.authority.cert,
    onError: (err, controller, key) => log.warn({ err, controller, key }, 'reconciliation failed; it will be retried'),
  });
  const server = createApiServer({
    cluster,
    tls: { ...certificates.serving, clientAuthority: certificates.authority.cert },
    onError: (err) => log.error({ err }, 'request to the development cluster failed'),
  });
  const wanted = { host: HOST, port: values['cluster-port'], option: 'cluster-port' };
  const port = await orAddressError(server.listen(wanted.port), wanted);
  const kubeconfigFile = join(folder, 'kubeconfig');
  const client = certificates.clients.get('admin');
  if (!client) throw new Error('no client certificate was made');
  await writeKubeconfig(kubeconfigFile, {
    server: `https://${HOST}:${port}`,
    authority: certificates.authority.cert,
    client,
  });

  return {
    cluster,
    service: SERVICE,
    certificate: { serving: certificates.serving, authority: certificates.authority.cert },
    checks: [{ name: 'informer-sync', check: () => undefined }],
    namedChecks: [{ name: 'cluster', check: () => undefined }],
    async open({ authority, ...address }, controllers) {
      webhook = address;
      // Where replicas say what they run, and the leader what they are to run.
      if (rollout.phase !== 'Disabled')
        await cluster.create('Namespace', { metadata: { name: SERVICE.namespace } }, { fieldManager: PROGRAM });
      const trusting = configurations.map((one) => ({ ...one, value: withBundle(one.value, authority) }));
      for (const objects of [definitions, seed, trusting, sccs]) await createAll(cluster, objects);
      running = startControllers(controllers, { cluster, logger, metrics, clock: systemClock });
      await running.idle();
    },
    async trust(authority) {
      for (const { value } of configurations) {
        const { name } = isObject(value['metadata']) ? value['metadata'] : {};
        const resource = CONFIGURATIONS.get((value as ApiObject).kind);
        const current = resource && cluster.storage.get(resource, '', String(name));
        if (current) await cluster.writer.update(resource, withBundle(current, authority));
      }
    },
    greeting: () =>
      `Portcullis answers reviews at https://${printHost(webhook.host)}:${webhook.port}, for a development cluster at https://${HOST}:${port}\n\n  export KUBECONFIG=${resolve(kubeconfigFile)}\n  kubectl get namespaces --show-labels\n\n`,
    async stop() {
      await running?.stop();
      cluster.stop();
      await server.close();
      caller.close();
    },
  };
}

/** A webhook configuration whose webhooks trust that authority. */
function withBundle(configuration: JsonObject, authority: string): ApiObject {
  const caBundle = Buffer.from(authority).toString('base64');
  const webhooks = configuration.webhooks as readonly { readonly clientConfig: object }[];
  return {
    ...configuration,
    webhooks: webhooks.map((webhook) => ({ ...webhook, clientConfig: { ...webhook.clientConfig, caBundle } })),
  };
}
