/** Joins the parts into the running server: the one place where cluster, webhooks, files and sockets meet. */
import { setTimeout as sleep } from 'node:timers/promises';
import { defineCommand, EXIT, type Io, VERSION } from '../command.ts';
import { resolveValues } from '../options.ts';
import { sccSettings } from '../scc-options.ts';
import { createSettings, loadConfiguration, type LoadedConfiguration } from '../../config/settings.ts';
import { serveOptions, type ServeValues, logLevelOf, rangeSettings } from '../serve/options.ts';
import { readSource, type Source, UserError, watchFile } from '../../config/files.ts';
import { type Logger, createLogger } from '../../telemetry/logger.ts';
import type { KeyPair } from '../../tls/certificate-pair.ts';
import { readKeyPair, watchKeyPair, type KeyPairFiles } from '../../tls/files.ts';
import { readCertificates } from '../../tls/certificate-pair.ts';
import { createClientAuthentication, type ClientAuthentication } from '../../server/server.ts';
import { createEffectivePodSecurity } from '../../cluster/rollout.ts';
import type { Features } from '../../controllers/controller.ts';
import { createControllers, enabledControllers } from '../../controllers/index.ts';
import { standardSccs } from '../../controllers/standard-sccs.ts';
import { managementSettings } from '../../policy/rollout/label-sync.ts';
import type { RolloutSettings } from '../../policy/rollout/settings.ts';
import { createMetrics } from '../../telemetry/metrics.ts';
import { type AdmissionServer, createServer } from '../../server/server.ts';
import { createServedCertificate, replicaIdentity, serverNames, trustCheck } from '../serve/certificates.ts';
import { startDevCluster } from '../serve/dev-cluster.ts';
import { isLive, reachLiveCluster } from '../serve/live-cluster.ts';
import { listen, ping, readinessChecks } from '../serve/cluster.ts';
import { canUseScc } from '../../cluster/access.ts';
import { protocolSettings } from '../../tls/protocol.ts';
import { createWebhooks } from '../../server/webhooks/index.ts';
import { buildProbes } from '../../server/probes.ts';
import { watchSccHealth } from '../../server/scc-health.ts';

const DETAILS = `
Serves the admission reviews of a cluster: of the one that --kubeconfig names, or of the one in
whose pod it runs, with --in-cluster. Without either it brings a development cluster to try it on: a
Kubernetes API in memory, on 127.0.0.1, which calls the server as a real one does.

Every option can also be set as an environment variable, PORTCULLIS_ and its name in capitals
(PORTCULLIS_LOG_LEVEL=debug), or under options: in a PortcullisConfiguration file. What is typed
wins over the environment, the environment over the file.

Ctrl-C stops at once; SIGTERM stops after --shutdown-delay-duration, having answered everything.
`;

/** The options that a configuration file may set. */
const SETTABLE_OPTIONS: readonly string[] = Object.keys(serveOptions).filter((name) => name !== 'config');

export const command = defineCommand({
  details: DETAILS,
  options: serveOptions,
  async run({ config }, _operands, io, sources) {
    const configuration = await loadConfiguration(config, SETTABLE_OPTIONS);
    return await run(resolveValues(serveOptions, { ...sources, file: configuration.options }), configuration, io);
  },
});

/** The files of the serving certificate; `undefined` if it is to be one of our own. */
export function certificateFiles(values: ServeValues): KeyPairFiles | undefined {
  const certFile = values['tls-cert-file'];
  const keyFile = values['tls-private-key-file'];
  if ((certFile === undefined) !== (keyFile === undefined)) {
    throw new UserError('--tls-cert-file and --tls-private-key-file go together: give both, or neither');
  }
  return certFile === undefined || keyFile === undefined ? undefined : { certFile, keyFile, read };
}

/** Reads the serving certificate. Rejects with a UserError that says what is wrong with it. */
export async function loadCertificate(files: KeyPairFiles): Promise<KeyPair> {
  try {
    return await readKeyPair(files, new Date());
  } catch (error) {
    throw new UserError(error instanceof Error ? error.message : String(error), { cause: error });
  }
}

export interface FollowCertificateOptions {
  readonly files: KeyPairFiles;
  readonly current: KeyPair;
  readonly logger: Logger;
  /** Told of each new pair that can be served. */
  readonly onChange: (pair: KeyPair) => void;
}

/** Follows the files of the certificate. Returns a stop. */
export function followCertificate({ files, current, logger, onChange }: FollowCertificateOptions): () => void {
  const log = logger.child({ logger: 'tls', file: files.certFile });
  return watchKeyPair({
    ...files,
    current,
    now: () => new Date(),
    onReload: onChange,
    onError(error) {
      log.error({ reason: error.message }, 'serving certificate not loaded, the last good one stays');
    },
  });
}

async function read(file: string): Promise<string> {
  return (await readSource(file)).text;
}

/** Reads the file of `--client-ca-file`; `undefined` if there is none. Rejects with a UserError that says what is wrong. */
export async function loadClientAuthorities(values: ServeValues): Promise<Source | undefined> {
  const file = values['client-ca-file'];
  if (file !== undefined) return checked(await readSource(file));
  if (values['client-allowed-names'].length > 0)
    throw new UserError('--client-allowed-names needs --client-ca-file: without it nobody shows a client certificate');
  return undefined;
}

/** Who may send reviews; `undefined` if nobody is asked. */
export function clientAuthentication(values: ServeValues): ClientAuthentication | undefined {
  return values['client-ca-file'] === undefined
    ? undefined
    : createClientAuthentication(values['client-allowed-names']);
}

export interface FollowClientAuthoritiesOptions {
  readonly initial: Source;
  readonly logger: Logger;
  readonly signal: AbortSignal;
  /** Told of each new content that is right, in PEM. */
  readonly onChange: (authorities: string) => void;
}

/** Follows the file until the signal aborts; what is wrong is logged, and the last right one stays. */
export function followClientAuthorities(options: FollowClientAuthoritiesOptions): void {
  const { initial, logger, signal } = options;
  const { file } = initial;
  const log = logger.child({ logger: 'tls', file });
  const refuse = (error: unknown): void => {
    const reason = error instanceof Error ? error.message : String(error);
    log.error({ reason }, 'authorities of clients not loaded, the last good ones stay');
  };
  const onChange = (source: Source): void => {
    try {
      options.onChange(checked(source).text);
    } catch (error) {
      refuse(error);
    }
  };
  void watchFile({ read: () => readSource(file), initial, onChange, onError: refuse, signal });
}

function checked(source: Source): Source {
  if (readCertificates(source.text).length === 0) throw new UserError(`${source.file} contains no PEM certificate`);
  return source;
}

/** The features that decide which controllers run. */
function featuresOf(values: ServeValues, { rollout }: LoadedConfiguration, live: boolean): Features {
  return {
    scc: values['scc-mode'] !== 'off',
    rollout: rollout.phase !== 'Disabled',
    dryRun: rollout.evaluator === 'DryRun',
    standardSccs: values['standard-sccs'] === 'install',
    managedCertificate: live && values['tls-cert-file'] === undefined,
    replicas: live || rollout.phase !== 'Disabled',
  };
}

/** How long answers under way may take once the server takes no more; the API server waits no longer than 30 s. */
const GRACE_MS = 25_000;

/** Whoever has opened a connection to ask something has done so by then. */
const UNUSED_MS = 1000;

/**
 * Ends an admission server without losing a review: for the delay it serves on, unready, and lets every connection end
 * with its next answer; then it takes no more connections and waits for what is under way. Nobody waits on connections that
 * clients have opened in advance.
 */
export async function drain({ app, connections }: AdmissionServer, delayMs: number): Promise<void> {
  connections.drain();
  await sleep(delayMs);
  const impatient = setTimeout(() => app.server.closeAllConnections(), GRACE_MS);
  const tidy = setTimeout(() => connections.closeUnused(), UNUSED_MS);
  await app.close();
  clearTimeout(tidy);
  clearTimeout(impatient);
}

/** Serves until the signal of `io` is aborted. Resolves to the exit code; rejects with a UserError for what the user has to correct. */
export async function run(values: ServeValues, configuration: LoadedConfiguration, io: Io): Promise<number> {
  const output = createLogger({ level: logLevelOf(values), format: values['logging-format'] });
  const stopping = new AbortController();
  const closing: (() => unknown)[] = [() => output.close(), () => stopping.abort()];
  try {
    const { logger } = output;
    const metrics = createMetrics({ version: VERSION });
    const now = (): number => performance.now();
    const scc = sccSettings(values);
    const ranges = rangeSettings(values);
    const protocol = protocolSettings(values['tls-min-version'], values['tls-cipher-suites']);
    const files = certificateFiles(values);
    const ownCertificate = files && (await loadCertificate(files));

    const clientAuthorities = await loadClientAuthorities(values);

    const live = isLive(values);
    const features = featuresOf(values, configuration, live);
    const definitions = enabledControllers(features, values.controllers);
    const served = live
      ? await reachLiveCluster({ values, rollout: configuration.rollout, env: io.env, logger, metrics })
      : await startDevCluster({ values, scc, rollout: configuration.rollout, logger, metrics });
    closing.push(() => served.stop());
    const { cluster } = served;
    const { store } = cluster;
    // Roles and bindings are indexed as they come in; the first review would have to wait for all of them.
    if (scc.mode !== 'off') canUseScc(store);

    const settings = createSettings({
      file: values.config,
      loaded: configuration,
      optionNames: SETTABLE_OPTIONS,
      scc,
      logger,
      metrics: metrics.config,
      signal: stopping.signal,
    });
    const rollout = (): RolloutSettings => settings.value.rollout;
    const place = { store, namespace: served.service.namespace, version: VERSION };
    const podSecurity = createEffectivePodSecurity(place, rollout, () => settings.value.podSecurity);
    const certificate = createServedCertificate({
      pair: ownCertificate ?? served.certificate.serving,
      state: live && !ownCertificate ? 'temporary' : 'lasting',
      protocol,
      clientAuthorities: clientAuthorities?.text,
      logger,
      metrics,
    });
    const server = createServer({
      webhooks: createWebhooks({
        podSecurity,
        scc,
        rollout: { place, settings: rollout, management: managementSettings(scc) },
        authorization: values.authorization,
        restoresStandardSccs: definitions.includes(standardSccs),
        cluster,
        logger,
        metrics,
        now,
      }),
      store,
      logger,
      metrics,
      now,
      tls: certificate.tls(),
      clientAuthentication: clientAuthentication(values),
    });
    certificate.follow(server);
    if (files && ownCertificate) {
      const stop = followCertificate({
        files,
        current: ownCertificate,
        logger,
        onChange(pair) {
          certificate.use(pair);
          // The chain in the file ends with the authority, or the certificate is its own.
          served.trust(pair.cert).catch((err: unknown) => logger.error({ err }, 'serving certificate not made known'));
        },
      });
      closing.push(stop);
    }
    if (clientAuthorities) {
      const onChange = certificate.trustClients;
      followClientAuthorities({ initial: clientAuthorities, logger, signal: stopping.signal, onChange });
    }
    const sccProblems =
      scc.mode === 'off' ? undefined : watchSccHealth({ store, settings: scc, logger, metrics: metrics.scc });
    closing.push(() => sccProblems?.stop());
    const { service } = served;
    const date = (): Date => new Date();
    const trust = live ? [trustCheck({ store, served: certificate, service, logger, metrics, date })] : [];
    const probes = buildProbes({
      livez: [ping],
      readyz: readinessChecks({ checks: [...served.checks, ...trust], connections: server.connections, sccProblems }),
      named: served.namedChecks,
      metrics,
    });

    const host = values['bind-address'];
    const port = await listen(server.app, {
      host,
      port: values['secure-port'],
      option: 'secure-port',
      hostOption: 'bind-address',
    });
    closing.push(() => server.app.close());
    const probesPort = await listen(probes, {
      ...values['health-probe-bind-address'],
      option: 'health-probe-bind-address',
    });
    closing.push(() => probes.close());
    const authority = ownCertificate?.cert ?? served.certificate.authority;
    const controllers = createControllers(definitions, {
      settings,
      service,
      version: VERSION,
      ranges,
      replica: replicaIdentity(values, port),
      certificate: {
        served: certificate,
        names: serverNames(service, values['tls-extra-names']),
        source: features.managedCertificate ? 'managed' : 'provided',
      },
      metrics,
      date,
      random: Math.random,
    });
    await served.open({ host: reachable(host), port, authority }, controllers);
    logger.info({ host, port, probesPort, version: VERSION }, 'serving');
    io.stdout.write(served.greeting());

    await stopped(io.signal);
    logger.info({ signal: io.signal.reason as unknown }, 'stopping');
    const delayMs = io.signal.reason === 'SIGTERM' ? values['shutdown-delay-duration'] : 0;
    await drain(server, delayMs);
    return EXIT.passed;
  } finally {
    for (const close of closing.reverse()) await close();
  }
}

/** Where this machine reaches a server that listens on that address. */
function reachable(host: string): string {
  if (host === '0.0.0.0') return '127.0.0.1';
  return host === '::' ? '::1' : host;
}

function stopped(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener('abort', () => resolve(), { once: true });
  });
}
