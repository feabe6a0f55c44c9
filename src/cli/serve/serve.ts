/** The composition root of the server, which connects the cluster, webhooks, controllers, files and sockets. */
import { setTimeout as sleep } from 'node:timers/promises';
import {
  ALLOW_DELETION_ANNOTATION,
  CONFIGURATION_NAME,
  INSTALLATION,
  type OptionalFeature,
  SETTINGS_EXISTED_ANNOTATION,
} from '../../api/names.ts';
import { caInjection } from '../../api/webhooks.ts';
import { systemClock } from '../../cluster/clock.ts';
import { createParser, type Parser, startParseWorker } from '../../cluster/parser.ts';
import { lastValidObject, settingsFromObject } from '../../config/configuration.ts';
import { type DecodeOptions, decodeSettings } from '../../config/portcullis-configuration.ts';
import {
  createSettings,
  type CurrentSettings,
  type LoadedSettings,
  loadSettings,
  type Settings,
  watchSettings,
} from '../../config/settings.ts';
import type { Controller, ControllerContext } from '../../controllers/controller.ts';
import { createDenialEvents } from '../../controllers/denial-events.ts';
import { CONTROLLER_NAMES, createControllerSelector } from '../../controllers/index.ts';
import type { Features } from '../../controllers/permissions.ts';
import { createFailsClosed } from '../../controllers/required-webhooks.ts';
import { watchSccHealth } from '../../controllers/scc-health.ts';
import { restoresStandardSccs } from '../../controllers/standard-sccs.ts';
import { withoutNulls } from '../../kube/equality.ts';
import { ApiError } from '../../kube/status.ts';
import type { JsonObject, KubeObject, PortcullisConfiguration } from '../../kube/types.ts';
import { UserError } from '../../kube/user-error.ts';
import { latestVersion } from '../../policy/pss/index.ts';
import { buildProbes, type HealthCheck } from '../../server/probes.ts';
import { type AdmissionServer, createServer } from '../../server/server.ts';
import { createWebhooks, WEBHOOK_REGISTRATIONS } from '../../server/webhooks/index.ts';
import { type HeapObserver, observeHeap } from '../../telemetry/heap.ts';
import { createLogger } from '../../telemetry/logger.ts';
import { createMetrics } from '../../telemetry/metrics.ts';
import { sccAccess } from '../../views/access.ts';
import type { KubeletScope } from '../../views/kubelet.ts';
import { effectivePodSecurity } from '../../views/rollout.ts';
import { defineCommand, EXIT, type Io, VERSION } from '../command.ts';
import { aborted, listen } from '../listen.ts';
import { serveOptions, type ServeValues } from '../serve-options.ts';
import {
  createServedCertificate,
  readCertificateFiles,
  replicaIdentity,
  serverNames,
  trustCheck,
  watchCertificateFiles,
} from './certificates.ts';
import { clientHost, type RunningCluster } from './cluster.ts';
import { startDevCluster } from './dev-cluster.ts';
import { connectLiveCluster, isLive } from './live-cluster.ts';

const DETAILS = `
Serves admission reviews for the cluster in --kubeconfig or KUBECONFIG, or for the cluster in which the pod runs
(--in-cluster). Without a cluster, or with --dev-cluster, it starts a development cluster, which is an in-memory
Kubernetes API on 127.0.0.1 that calls the webhooks as kube-apiserver does.

Environment variables can also set the options. Their names are PORTCULLIS_ followed by the option name in upper
case (PORTCULLIS_LOG_LEVEL=debug). Arguments take precedence. The policy settings come from the
PortcullisConfiguration "cluster", or from the --config file. Changes take effect without a restart.

Ctrl-C stops the server immediately. SIGTERM stops it after --shutdown-delay-duration, once all pending reviews
are complete.
`;

export const command = defineCommand({
  details: DETAILS,
  options: serveOptions,
  async run(values, _operands, io) {
    const live = isLive(values, io.env);
    const decode = {
      controllers: CONTROLLER_NAMES,
      namespace: values.namespace ?? INSTALLATION.namespace,
      hasSccs: optionalFeatures({ values, live }).scc,
    };
    const loaded = await loadSettings(values.config, decode);
    const initial = values['initial-settings'] ?? {};
    const object = { metadata: { name: CONFIGURATION_NAME }, spec: initial };
    const settings = values.config === undefined ? settingsFromObject(object, decode) : loaded.settings;
    const certificates = await readCertificateFiles(values);
    return await serve({ values, decode, loaded: { ...loaded, settings }, live, certificates }, io);
  },
});

/** The inputs that must be valid before the server starts. */
interface Inputs {
  readonly values: ServeValues;
  readonly decode: DecodeOptions;
  /** Settings at startup, and the function that reads later changes. */
  readonly loaded: LoadedSettings;
  /** False for the development cluster. */
  readonly live: boolean;
  readonly certificates: Awaited<ReturnType<typeof readCertificateFiles>>;
}

/** Returns the installed optional features. The development cluster has all of them. */
function optionalFeatures({ values, live }: Pick<Inputs, 'values' | 'live'>): Pick<Features, OptionalFeature> {
  const has = (name: OptionalFeature): boolean => !live || values.features.includes(name);
  return { scc: has('scc'), kubelet: has('kubelet') || values.authorizer, olm: has('olm') };
}

/** Returns the features that determine which controllers run. */
function serverFeatures({ values, live }: Inputs, settings: Settings): Features {
  const { scc, rollout, kubelet, webhooks, defaults } = settings;
  return {
    ...optionalFeatures({ values, live }),
    scc: scc.mode !== 'off',
    rollout: rollout.phase !== 'Disabled',
    evaluation: !live || values.features.includes('rollout') || rollout.phase !== 'Disabled',
    managedCertificate: live && values['tls-cert-file'] === undefined,
    settingsObject: values.config === undefined,
    replicas: live || rollout.phase !== 'Disabled',
    managedWebhooks: live && webhooks.management === 'managed',
    kubeletTaint: kubelet.taint,
    podDefaults: defaults.mode !== 'off',
  };
}

/** The inputs of the command, and the services that all components share. */
interface Context extends Inputs {
  readonly logger: ReturnType<typeof createLogger>['logger'];
  readonly metrics: ReturnType<typeof createMetrics>;
  readonly heap: HeapObserver;
  /** Parses large objects and reviews in a worker thread. */
  readonly parser: Parser;
  /** Aborted when the server stops. */
  readonly signal: AbortSignal;
  /** Adds a shutdown action. Actions run in reverse order. */
  defer(close: () => unknown): void;
}

/** Runs the server until the signal in `io` is aborted. Resolves to the exit code. */
async function serve(inputs: Inputs, io: Io): Promise<number> {
  const { values } = inputs;
  const isTerminal = io.stderr.isTTY === true;
  const format = values['logging-format'] ?? (isTerminal ? 'text' : 'json');
  const level = values['log-level'] ?? (isTerminal && !inputs.live ? 'warn' : 'info');
  const { logger, flush, close } = createLogger({ level, format });
  const stopping = new AbortController();
  const closing: (() => unknown)[] = [close];
  const metrics = createMetrics({ version: VERSION });
  const { signal } = stopping;
  const defer = (close: () => unknown): void => void closing.push(close);
  try {
    const heap = observeHeap(logger);
    defer(heap.stop);
    const parser = createParser(startParseWorker);
    defer(parser.close);
    const context = { ...inputs, logger, metrics, heap, parser, signal, defer };
    const served = await startCluster(context, io.env);
    const settings = createCurrentSettings(context, served);
    const certificate = createCertificate(context, served);
    const parts = { ...context, served, settings, certificate };
    followVersion(parts);
    const server = createAdmission(parts);
    const probes = createProbes(parts, server);
    const addresses = await listenAll(context, server, probes);
    const authority = context.certificates.serving?.pair.cert ?? served.certificate.authority;
    await served.open({ host: clientHost(addresses.host), port: addresses.port, authority });
    const started = start(parts, addresses.port);
    // Does not wait for a live cluster, which may not be reachable yet. The replica is not ready until it is.
    if (!context.live) await started;
    logger.info({ ...addresses, version: VERSION }, 'serving');
    // The log is flushed so that the startup message follows the log lines of the startup.
    await flush();
    io.stdout.write(served.greeting());
    // If the startup fails, this rejects and stops the server.
    await Promise.race([aborted(io.signal), started.then(() => aborted(io.signal))]);
    logger.info({ signal: io.signal.reason as unknown }, 'stopping');
    await drain(server, io.signal.reason === 'SIGTERM' ? values['shutdown-delay-duration'] : 0);
    return EXIT.passed;
  } finally {
    // Aborts the parts that wait for the cluster, because they must not continue while other parts are being closed.
    stopping.abort();
    // Actions run in reverse order, so the log is closed last.
    for (const close of closing.reverse()) await closeLogged(close, logger);
  }
}

/** Closes one part. Logs a failure instead of throwing it, so the server can close the other parts. */
async function closeLogged(close: () => unknown, logger: Context['logger']): Promise<void> {
  try {
    await close();
  } catch (err) {
    logger.error({ err }, 'failed to close a server component');
  }
}

/** Connects to the live cluster, or starts the development cluster. */
async function startCluster(
  { values, loaded, live, logger, metrics, heap, parser, defer }: Context,
  env: Io['env'],
): Promise<RunningCluster> {
  const { settings } = loaded;
  const options = { values, settings, env, logger, metrics, heap, parser };
  const served = await (live ? connectLiveCluster(options) : startDevCluster(options));
  defer(() => served.stop());
  return served;
}

function createCurrentSettings({ loaded, logger, metrics }: Context, served: RunningCluster): CurrentSettings {
  return createSettings({
    initial: loaded.settings,
    async prepare(next) {
      await served.follow(next);
      // Builds the index of roles and bindings now, so that the first review does not have to wait for it.
      if (next.scc.mode !== 'off') sccAccess(served.cluster.store);
    },
    logger,
    metrics: metrics.config,
  });
}

/**
 * Loads the settings from the `--config` file or from the object in the cluster, at startup and after changes. If the
 * object has existed, the initial settings take effect only after a confirmed deletion. After any other deletion, the
 * leader restores the object, and a replica that starts waits for it.
 */
function followSettings({ values, loaded, decode, signal, logger, served, settings }: Parts, hadObject: boolean): void {
  const { store } = served.cluster;
  if (values.config !== undefined) {
    void settings.load(() => loaded.settings);
    watchSettings({ file: values.config, loaded, decode, settings, signal });
    return;
  }
  const find = () => store.get('PortcullisConfiguration', CONFIGURATION_NAME);
  const loadObject = (object: PortcullisConfiguration): void => {
    const { generation } = object.metadata ?? {};
    const spec = withoutNulls(object.spec ?? {}) as JsonObject;
    void settings.load(() => settingsFromObject(object, decode), { generation, spec });
  };
  let [isMissed, last] = [hadObject, ''];
  const load = (removed?: KubeObject): void => {
    const object = find();
    const { uid = '', generation } = object?.metadata ?? {};
    // Skips status writes, which do not change the generation.
    if (object && last === `${uid} ${generation}`) return;
    last = `${uid} ${generation}`;
    if (object) {
      isMissed = true;
      loadObject(object);
      return;
    }
    if (isMissed && removed?.metadata?.annotations?.[ALLOW_DELETION_ANNOTATION] !== 'true') {
      void settings.load(() => {
        throw new UserError(DELETED);
      });
      return;
    }
    if (isMissed) logger.warn('the PortcullisConfiguration was deleted, and the initial settings take effect');
    isMissed = false;
    void settings.load(() => loaded.settings, { spec: values['initial-settings'] ?? {} });
  };
  // Loads the last valid settings first, so they take effect if the current settings are invalid.
  const lastValid = lastValidObject(find());
  if (lastValid) loadObject(lastValid);
  store.subscribe(({ kind, type, object }) => {
    if (kind === 'PortcullisConfiguration') load(type === 'remove' ? object : undefined);
  });
  load();
}

const DELETED = `PortcullisConfiguration "${CONFIGURATION_NAME}" does not exist, and its deletion was not confirmed with the annotation ${ALLOW_DELETION_ANNOTATION}=true: create it again. If its spec is empty, the initial settings take effect`;

/** Returns true if the settings object does not exist, but existed while an earlier replica was the leader. */
async function findLostSettings({ values, served, signal }: Parts): Promise<boolean> {
  const { cluster, service } = served;
  const { store } = cluster;
  if (values.config !== undefined || store.get('PortcullisConfiguration', CONFIGURATION_NAME)) return false;
  for (;;) {
    try {
      const lease = await cluster.get('Lease', service.name, service.namespace, signal);
      return lease.metadata?.annotations?.[SETTINGS_EXISTED_ANNOTATION] === 'true';
    } catch (error) {
      // If there is no Lease or no permission to read it, there was no leader.
      if (error instanceof ApiError && (error.status.code === 404 || error.status.code === 403)) return false;
      signal.throwIfAborted();
      await sleep(1000);
    }
  }
}

/**
 * Reads the cluster and the settings, and starts the controllers. Controllers that read pods and workloads start later.
 */
async function start(parts: Parts, port: number): Promise<void> {
  const { logger, signal, served, settings } = parts;
  const startedMs = performance.now();
  await served.follow();
  followSettings(parts, await findLostSettings(parts));
  await settings.loaded;
  if (signal.aborted) return;
  served.markSynced();
  logger.info({ durationMs: Math.round(performance.now() - startedMs) }, 'cluster synced');
  await served.complete();
  if (signal.aborted) return;
  const select = createSelector(parts, port);
  const selectStartable = (): readonly Controller[] => {
    const unsynced = served.unsyncedKinds();
    return select().filter(({ create }) => {
      const { sources } = create(served.cluster.store);
      return !sources.some((source) => 'kind' in source && unsynced.includes(source.kind));
    });
  };
  const running = await served.run(selectStartable());
  const update = (): void => {
    void served.complete().then(() => {
      if (!signal.aborted) running.update(selectStartable());
    });
  };
  settings.subscribe(update);
  served.cluster.store.onSynced(update);
  update();
}

/**
 * Sets the version at which Pod Security is evaluated to the version in the settings, otherwise to the API server
 * version.
 */
function followVersion({ metrics, served, settings }: Parts): void {
  const { cluster, version } = served;
  const { store } = cluster;
  const update = (): void => {
    store.emulationVersion = settings.value.emulationVersion ?? version.value;
    metrics.cluster.version.reset();
    metrics.cluster.version.set({ server: version.value ?? '', evaluated: latestVersion(store.emulationVersion) }, 1);
  };
  version.subscribe(update);
  settings.subscribe(update);
  update();
}

/** Creates the served certificate, which comes from the files or, without files, from the cluster. */
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
  watchCertificateFiles(certificates, { certificate, logger, signal });
  return certificate;
}

/** The context, and the components on which the webhooks and controllers depend. */
interface Parts extends Context {
  readonly served: RunningCluster;
  readonly settings: CurrentSettings;
  readonly certificate: ReturnType<typeof createCertificate>;
}

/** Creates all webhooks, which use the current settings for each review. */
function createAdmissionWebhooks(parts: Parts) {
  const { values, logger, metrics, served, settings } = parts;
  const { cluster, service } = served;
  const installation = { namespace: service.namespace, version: VERSION };
  const scope = { store: cluster.store, ...installation };
  return createWebhooks({
    settings: () => settings.value,
    podSecurity: () => effectivePodSecurity(scope, settings.value),
    readSettings(object) {
      // If the settings come from a file, the settings object has no effect.
      if (values.config !== undefined) return undefined;
      const decoded = decodeSettings(object, { ...parts.decode, namespace: service.namespace });
      return 'settings' in decoded ? decoded.settings : undefined;
    },
    createFailsClosed: (value) =>
      createFailsClosed(WEBHOOK_REGISTRATIONS, value, {
        store: cluster.store,
        service,
        version: VERSION,
        features: optionalFeatures(parts),
      }),
    installation,
    kubelet: kubeletScope(parts),
    restoresStandardSccs: () => restoresStandardSccs(settings.value),
    cluster,
    logger,
    metrics,
    areClientsKnown: values['client-ca-file'] !== undefined,
    now: () => performance.now(),
  });
}

/** Returns the input of kubelet decisions, or `undefined` without the feature. */
function kubeletScope(parts: Parts): KubeletScope | undefined {
  if (!optionalFeatures(parts).kubelet) return undefined;
  const { values, served, settings } = parts;
  const { store } = served.cluster;
  return { store, settings: () => settings.value.kubelet, hasSettingsObject: values.config === undefined };
}

/** Creates the HTTPS server with all webhooks. */
function createAdmission(parts: Parts): AdmissionServer {
  const { values, logger, metrics, parser, served, certificate } = parts;
  const { cluster } = served;
  const server = createServer({
    webhooks: values.authorizer ? [] : createAdmissionWebhooks(parts),
    kubelet: kubeletScope(parts),
    store: cluster.store,
    parser,
    logger,
    metrics,
    ...(values.authorizer ? {} : { onDenied: createDenialEvents({ cluster, clock: systemClock, logger }) }),
    now: () => performance.now(),
    tls: certificate.tls(),
    clientNames: values['client-ca-file'] === undefined ? undefined : values['client-allowed-names'],
  });
  certificate.attach(server);
  return server;
}

/** Health check that always succeeds, so it fails only if the process does not respond. */
const PING: HealthCheck = { name: 'ping', check: () => undefined };

/** Creates the HTTP server for probes and metrics. */
function createProbes(parts: Parts, { connections }: AdmissionServer) {
  const { values, live, logger, metrics, served, settings, certificate } = parts;
  const { service, cluster } = served;
  const { store } = cluster;
  const date = (): Date => new Date();
  const settingsProblem = (): string | undefined => settings.status().problem;
  return buildProbes({
    livez: [PING],
    readyz: [
      PING,
      ...served.checks,
      ...(live && !values.authorizer
        ? [trustCheck({ store, served: certificate, service, logger, metrics, date })]
        : []),
      { name: 'settings', check: () => (store.synced() ? undefined : settingsProblem()), note: settingsProblem },
      ...(optionalFeatures(parts).scc ? [sccCheck(parts)] : []),
      { name: 'connections', check: () => undefined, note: () => connections.saturation() },
      { name: 'shutdown', check: () => (connections.isDraining() ? 'the server is draining' : undefined) },
    ],
    named: served.namedChecks,
    metrics,
  });
}

/** Creates a check that only adds notes about problems of SCCs. It never makes the replica unready. */
function sccCheck({ served, settings, logger, metrics, defer }: Parts): HealthCheck {
  const { store } = served.cluster;
  const problems = watchSccHealth({ store, settings, logger, metrics: metrics.scc });
  defer(() => problems.stop());
  return { name: 'scc', check: () => undefined, note: () => problems.summary() };
}

/** Opens both ports. Resolves to the ports in use. */
async function listenAll({ values, defer }: Context, server: AdmissionServer, probes: ReturnType<typeof createProbes>) {
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

/** Creates the function that returns the controllers for the current settings. */
function createSelector(parts: Parts, port: number): () => readonly Controller[] {
  const { values, metrics, served, settings, certificate } = parts;
  if (values.authorizer) return () => [];
  const { service } = served;
  const features = (value: Settings): Features => serverFeatures(parts, value);
  const controllerContext: Omit<ControllerContext, 'removedGrants' | 'evaluations'> = {
    settings,
    settingsStatus: settings.status,
    initialSettings: values['initial-settings'] ?? {},
    service,
    version: VERSION,
    apiServerVersion: served.version,
    replica: replicaIdentity(values, port),
    certificate: {
      served: certificate,
      names: serverNames(service, values['tls-extra-names']),
      source: features(settings.value).managedCertificate ? 'managed' : 'provided',
    },
    webhooks: {
      registrations: WEBHOOK_REGISTRATIONS,
      url: values['webhook-url'],
      annotations: {
        ...(features(settings.value).managedCertificate ? caInjection(service.namespace) : {}),
        ...Object.fromEntries(values['webhook-annotations']),
      },
    },
    features: optionalFeatures(parts),
    metrics,
    date: () => new Date(),
    random: Math.random,
  };
  return createControllerSelector(controllerContext, features, served.cluster.store);
}

/** Maximum time for pending responses during shutdown. The API server waits for at most 30 s. */
const PENDING_TIMEOUT_MS = 25_000;

/** Time after which a connection without a request is considered unused. API servers open connections in advance. */
const UNUSED_TIMEOUT_MS = 1000;

/**
 * Stops an admission server without losing reviews. During the delay, the server is unready but still responds, and
 * closes each connection after its next response. Afterwards, it accepts no connections and waits for pending
 * responses.
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
