import { isIP } from 'node:net';
import { join, resolve } from 'node:path';
import { createHttpsCaller } from '../../dev-cluster/admission/index.ts';
import { createEmbeddedCluster } from '../../dev-cluster/cluster.ts';
import { writeKubeconfig } from '../../dev-cluster/http/kubeconfig.ts';
import { createApiServer } from '../../dev-cluster/http/server.ts';
import { metadataOf, type ApiObject, type ResourceKey } from '../../dev-cluster/types.ts';
import { systemClock } from '../../cluster/clock.ts';
import { startControllers, type RunningController } from '../../controllers/runtime.ts';
import type { JsonObject } from '../../kube/types.ts';
import type { SccSettings } from '../../policy/scc/mode.ts';
import type { RolloutSettings } from '../../policy/rollout/rollout-settings.ts';
import type { Logger } from '../../telemetry/logger.ts';
import type { Metrics } from '../../telemetry/metrics.ts';
import { keepCertificates } from '../../tls/certificate-folder.ts';
import { PROGRAM } from '../command.ts';
import { orAddressError } from './listen.ts';
import { readClusterManifests } from './cluster-manifests.ts';
import type { ServeValues } from './options.ts';
import { printHost, type RunningCluster } from './running-cluster.ts';
import { createAll } from './seed.ts';

export interface EmbeddedOptions {
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

/** Starts the embedded cluster and serves its API; it has no webhooks yet, and nothing in it but what every cluster has. */
export async function startEmbeddedCluster({
  values,
  scc,
  rollout,
  logger,
  metrics,
}: EmbeddedOptions): Promise<RunningCluster> {
  const folder = values['cert-dir'];
  const { definitions, seed, configurations, sccs } = await readClusterManifests(values.manifests, scc.mode);
  const certificates = await keepCertificates({
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
  const cluster = createEmbeddedCluster({ clock: () => new Date(), call: caller.call });
  const log = logger.child({ logger: 'cluster' });
  await cluster.start({
    rootCertificate: certificates.authority.cert,
    onError: (err, chore, key) => log.warn({ err, chore, key }, 'chore failed, it is tried again'),
  });
  const server = createApiServer({
    cluster,
    tls: { ...certificates.serving, clientAuthority: certificates.authority.cert },
    onError: (err) => log.error({ err }, 'request to the embedded cluster failed'),
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
    askedChecks: [{ name: 'cluster', check: () => undefined }],
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
        const name = metadataOf(value).name ?? '';
        const resource = CONFIGURATIONS.get((value as ApiObject).kind);
        const current = resource && cluster.storage.get(resource, '', name);
        if (current) await cluster.writer.update(resource, withBundle(current, authority));
      }
    },
    greeting: () =>
      `Portcullis answers reviews at https://${printHost(webhook.host)}:${webhook.port}, for an embedded cluster at https://${HOST}:${port}\n\n  export KUBECONFIG=${resolve(kubeconfigFile)}\n  kubectl get namespaces --show-labels\n\n`,
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
