/** The composition root of the server: connects the cluster, the webhooks, the controllers, the files and the sockets. */
import { setTimeout as sleep } from 'node:timers/promises';
import { canUseScc } from '../../cluster/access.ts';
import { createEffectivePodSecurity } from '../../cluster/rollout.ts';
import type { DecodeOptions } from '../../config/portcullis-configuration.ts';
import { createSettings, loadSettings, type LoadedSettings, type Settings } from '../../config/settings.ts';
import type { Features } from '../../controllers/controller.ts';
import { CONTROLLER_NAMES, createControllers, enabledControllers } from '../../controllers/index.ts';
import { standardSccs } from '../../controllers/standard-sccs.ts';
import { INSTALLATION } from '../../kube/well-known.ts';
import { managementSettings } from '../../policy/rollout/label-sync.ts';
import { buildProbes, type HealthCheck } from '../../server/probes.ts';
import { watchSccHealth } from '../../server/scc-health.ts';
import { createServer, type AdmissionServer } from '../../server/server.ts';
import { createWebhooks } from '../../server/webhooks/index.ts';
import { createLogger } from '../../telemetry/logger.ts';
import { createMetrics } from '../../telemetry/metrics.ts';
import { defineCommand, EXIT, VERSION, type Io } from '../command.ts';
import {
  createServedCertificate,
  readCertificateFiles,
  replicaIdentity,
  serverNames,
  trustCheck,
  watchCertificateFiles,
} from '../serve/certificates.ts';
import { clientHost, listen, type RunningCluster } from '../serve/cluster.ts';
import { startDevCluster } from '../serve/dev-cluster.ts';
import { connectLiveCluster, isLive } from '../serve/live-cluster.ts';
import { logLevel, serveOptions, type ServeValues } from '../serve/options.ts';

const DETAILS = `
Serves the admission reviews of the cluster of --kubeconfig, of the cluster that the pod runs in
(--in-cluster), or of the cluster of KUBECONFIG. Without these, and with --dev-cluster, it starts a
development cluster: a Kubernetes API in memory on 127.0.0.1 that calls the webhooks as kube-apiserver
does.

Every option can also be set by an environment variable, PORTCULLIS_ and its name in capitals
(PORTCULLIS_LOG_LEVEL=debug). Arguments take precedence. The policy settings are in the file of --config.

Ctrl-C stops the server at once. SIGTERM stops it after --shutdown-delay-duration and all pending reviews.
`;

export const command = defineCommand({
  details: DETAILS,
  options: serveOptions,
  async run(values, _operands, io) {
    const decode = { controllers: CONTROLLER_NAMES, namespace: values.namespace ?? INSTALLATION.namespace };
    return await serve({ values, decode, loaded: await loadSettings(values.config, decode) }, io);
  },
});

/** The options, the settings at start, and how to read later settings. */
interface Given {
  readonly values: ServeValues;
  readonly decode: DecodeOptions;
  readonly loaded: LoadedSettings;
}

/** Everything that is read from the options and their files before the server starts. */
async function readInputs({ values, loaded, decode }: Given, env: Io['env']) {
  const live = isLive(values, env);
  const { settings } = loaded;
  const features = serverFeatures(values, settings, live);
  return {
    values,
    loaded,
    decode,
    live,
    features,
    definitions: enabledControllers(features, settings.disabledControllers),
    certificates: await readCertificateFiles(values),
  };
}

type Inputs = Awaited<ReturnType<typeof readInputs>>;

/** The features that decide which controllers run. */
function serverFeatures(values: ServeValues, { scc, rollout }: Settings, live: boolean): Features {
  return {
    scc: scc.mode !== 'off',
    rollout: rollout.phase !== 'Disabled',
    dryRun: rollout.evaluator === 'DryRun',
    standardSccs: scc.standardSccs === 'install',
    managedCertificate: live && values['tls-cert-file'] === undefined,
    replicas: live || rollout.phase !== 'Disabled',
  };
}

/** The inputs, and the services that all parts use. */
interface Context extends Inputs {
  readonly logger: ReturnType<typeof createLogger>['logger'];
  readonly metrics: ReturnType<typeof createMetrics>;
  /** Aborted when the server stops. */
  readonly signal: AbortSignal;
  /** Adds an action for the shutdown. The last action runs first. */
  defer(close: () => unknown): void;
}

/**
 * Runs the server until the signal of `io` is aborted. Resolves to the exit code. Rejects with a UserError for invalid
 * options or files.
 */
async function serve(given: Given, io: Io): Promise<number> {
  const { values, loaded, decode } = given;
  const format = values['logging-format'] ?? (io.stderr.isTTY === true ? 'text' : 'json');
  const { logger, flush, close } = createLogger({ level: logLevel(values), format });
  const stopping = new AbortController();
  const closing: (() => unknown)[] = [close, () => stopping.abort()];
  const metrics = createMetrics({ version: VERSION });
  const { signal } = stopping;
  const defer = (close: () => unknown): void => void closing.push(close);
  try {
    const context = { ...(await readInputs(given, io.env)), logger, metrics, signal, defer };
    const served = await startCluster(context, io.env);
    const options = { file: values.config, loaded, decode, logger, metrics: metrics.config, signal };
    const settings = createSettings(options);
    const certificate = createCertificate(context, served);
    const server = createAdmission(context, { served, settings, certificate });
    const probes = createProbes(context, { served, certificate, server });
    const addresses = await listenAll(context, { server, probes });
    const controllers = createServerControllers(context, { served, settings, certificate, port: addresses.port });
    const authority = context.certificates.serving?.pair.cert ?? served.certificate.authority;
    await served.open({ host: clientHost(addresses.host), port: addresses.port, authority }, controllers);
    logger.info({ ...addresses, version: VERSION }, 'serving');
    // The greeting follows the log lines of the start.
    await flush();
    io.stdout.write(served.greeting());
    await aborted(io.signal);
    logger.info({ signal: io.signal.reason as unknown }, 'stopping');
    await drain(server, io.signal.reason === 'SIGTERM' ? values['shutdown-delay-duration'] : 0);
    return EXIT.passed;
  } finally {
    for (const close of closing.reverse()) await close();
  }
}

/** Connects to the live cluster, or starts the development cluster. */
async function startCluster(
  { values, loaded, live, logger, metrics, defer }: Context,
  env: Io['env'],
): Promise<RunningCluster> {
  const { settings } = loaded;
  const options = { values, settings, env, logger, metrics };
  const served = await (live ? connectLiveCluster(options) : startDevCluster(options));
  defer(() => served.stop());
  // Builds the index of roles and bindings before the first review.
  if (settings.scc.mode !== 'off') canUseScc(served.cluster.store);
  return served;
}

/** The certificate from files, or the certificate of the cluster. */
function createCertificate({ live, certificates, logger, metrics, signal }: Context, served: RunningCluster) {
  const { serving, clientAuthorities, protocol } = certificates;
  const certificate = createServedCertificate({
    pair: serving?.pair ?? served.certificate.serving,
    isTemporary: live && !serving,
    protocol,
    clientAuthorities: clientAuthorities?.text,
    logger,
    metrics,
  });
  watchCertificateFiles(certificates, {
    certificate,
    logger,
    signal,
    // The last certificate in the file is the authority, or the only certificate is self-signed.
    onServingCertificate(cert) {
      served.trust(cert).catch((err: unknown) => logger.error({ err }, 'cannot update the caBundle of the webhooks'));
    },
  });
  return certificate;
}

interface Parts {
  readonly served: RunningCluster;
  readonly settings: ReturnType<typeof createSettings>;
  readonly certificate: ReturnType<typeof createCertificate>;
}

/** The HTTPS server with all webhooks. */
function createAdmission(
  { values, loaded, definitions, logger, metrics }: Context,
  { served, settings, certificate }: Parts,
): AdmissionServer {
  const { scc } = loaded.settings;
  const { cluster, service } = served;
  const { store } = cluster;
  const now = (): number => performance.now();
  const rollout = () => settings.value.rollout;
  const place = { store, namespace: service.namespace, version: VERSION };
  const webhooks = createWebhooks({
    podSecurity: createEffectivePodSecurity(place, rollout, () => settings.value.podSecurity),
    workloadResources: () => settings.value.workloadResources,
    scc,
    rollout: { place, settings: rollout, management: managementSettings(scc) },
    authorization: scc.authorization,
    restoresStandardSccs: definitions.includes(standardSccs),
    cluster,
    logger,
    metrics,
    now,
  });

  const server = createServer({
    webhooks,
    store,
    logger,
    metrics,
    now,
    tls: certificate.tls(),
    clientNames: values['client-ca-file'] === undefined ? undefined : values['client-allowed-names'],
  });
  certificate.attach(server);
  return server;
}

/** The process responds. */
const PING: HealthCheck = { name: 'ping', check: () => undefined };

/** The HTTP server for probes and metrics. */
function createProbes(
  { live, loaded, logger, metrics, defer }: Context,
  { served, certificate, server }: Omit<Parts, 'settings'> & { readonly server: AdmissionServer },
) {
  const { store } = served.cluster;
  const { service } = served;
  const { scc } = loaded.settings;
  const date = (): Date => new Date();
  const sccProblems =
    scc.mode === 'off' ? undefined : watchSccHealth({ store, settings: scc, logger, metrics: metrics.scc });
  defer(() => sccProblems?.stop());
  const { connections } = server;
  return buildProbes({
    livez: [PING],
    readyz: [
      PING,
      ...served.checks,
      ...(live ? [trustCheck({ store, served: certificate, service, logger, metrics, date })] : []),
      ...(sccProblems ? [{ name: 'scc', check: () => undefined, note: () => sccProblems.summary() }] : []),
      { name: 'shutdown', check: () => (connections.isDraining() ? 'the server is draining' : undefined) },
    ],
    named: served.namedChecks,
    metrics,
  });
}

/** Opens both ports. Resolves to the ports in use. */
async function listenAll(
  { values, defer }: Context,
  { server, probes }: { readonly server: AdmissionServer; readonly probes: ReturnType<typeof createProbes> },
) {
  const host = values['bind-address'];
  const reviews = { host, port: values['secure-port'], option: 'secure-port', hostOption: 'bind-address' };
  const port = await listen(server.app, reviews);
  defer(() => server.app.close());
  const probesPort = await listen(probes, {
    ...values['health-probe-bind-address'],
    option: 'health-probe-bind-address',
  });
  defer(() => probes.close());
  return { host, port, probesPort };
}

function createServerControllers(
  { values, loaded, features, definitions, metrics }: Context,
  { served, settings, certificate, port }: Parts & { readonly port: number },
) {
  const { service } = served;
  return createControllers(definitions, {
    settings,
    service,
    version: VERSION,
    ranges: loaded.settings.ranges,
    replica: replicaIdentity(values, port),
    certificate: {
      served: certificate,
      names: serverNames(service, values['tls-extra-names']),
      source: features.managedCertificate ? 'managed' : 'provided',
    },
    metrics,
    date: () => new Date(),
    random: Math.random,
  });
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener('abort', () => resolve(), { once: true });
  });
}

/** The limit for pending responses during shutdown. The API server waits for at most 30 s. */
const PENDING_TIMEOUT_MS = 25_000;

/** Connections without a request after this time were opened in advance. */
const UNUSED_TIMEOUT_MS = 1000;

/**
 * Stops an admission server without losing reviews. During the delay, the server is unready, still responds, and closes
 * each connection with its next response. Afterwards it accepts no connections and waits for pending responses.
 */
export async function drain({ app, connections }: AdmissionServer, delayMs: number): Promise<void> {
  connections.drain();
  await sleep(delayMs);
  const forceClose = setTimeout(() => app.server.closeAllConnections(), PENDING_TIMEOUT_MS);
  const closeUnused = setTimeout(() => connections.closeUnused(), UNUSED_TIMEOUT_MS);
  await app.close();
  clearTimeout(closeUnused);
  clearTimeout(forceClose);
}
