/** Joins the parts into the running server: the one place where cluster, webhooks, files and sockets meet. */
import { readArguments } from '../arguments.ts';
import { checkOperands, EXIT, type Command, type Io } from '../command.ts';
import { resolveValues } from '../options.ts';
import { certificateFiles, followCertificate, loadCertificate, recordExpiry } from '../serve/certificate.ts';
import { followConfiguration, loadConfiguration, type LoadedConfiguration } from '../serve/configuration.ts';
import { controllersOf } from '../serve/controllers.ts';
import { startEmbeddedCluster } from '../serve/embedded-cluster.ts';
import { listen } from '../serve/listen.ts';
import { checkVerbosity, logLevelOf, serveOptions, type ServeValues } from '../serve/options.ts';
import { ping, readinessChecks } from '../serve/readiness.ts';
import { sccSettingsOf } from '../serve/scc-settings.ts';
import { drain } from '../serve/shutdown.ts';
import { VERSION } from '../version.ts';
import { systemClock } from '../../controller/clock.ts';
import { startControllers } from '../../controller/runtime.ts';
import { STANDARD_SCC_CONTROLLER } from '../../controller/standard-sccs.ts';
import { createLogger } from '../../telemetry/logger.ts';
import { createMetrics } from '../../telemetry/metrics.ts';
import type { KeyPair } from '../../tls/key-pair.ts';
import { protocolSettings } from '../../tls/secure-context.ts';
import { createWebhooks } from '../../webhook/index.ts';
import { buildProbes } from '../../webhook/probes.ts';
import { watchSccProblems } from '../../webhook/scc-problems.ts';
import { buildServer } from '../../webhook/server.ts';

const DETAILS = `
Serves admission reviews, with an embedded cluster to try it on: a Kubernetes API in memory, on
127.0.0.1, which calls the server as a real one does. Nothing here touches a real cluster.

Every option can also be set as an environment variable, PORTCULLIS_ and its name in capitals
(PORTCULLIS_LOG_LEVEL=debug), or under options: in a PortcullisConfiguration file. What is typed
wins over the environment, the environment over the file.

Ctrl-C stops at once; SIGTERM stops after --shutdown-delay-duration, having answered everything.
`;

const description = {
  name: 'serve',
  summary: 'Serve admission reviews, with an embedded cluster to try them on',
  details: DETAILS,
  options: serveOptions,
};

export const serve: Command = {
  ...description,
  async prepare(args, env) {
    const { typed, operands } = readArguments(args, serveOptions);
    checkOperands(description, operands);
    checkVerbosity(typed);
    const { config } = resolveValues({ config: serveOptions.config }, { typed, env });
    const configuration = await loadConfiguration(config);
    const values = resolveValues(serveOptions, { typed, env, file: configuration.options });
    return (io) => run(values, configuration, io);
  },
};

async function run(values: ServeValues, configuration: LoadedConfiguration, io: Io): Promise<number> {
  const output = createLogger({ level: logLevelOf(values), format: values['logging-format'] });
  const stopping = new AbortController();
  const closing: (() => unknown)[] = [() => output.flush(), () => stopping.abort()];
  try {
    const { logger } = output;
    const metrics = createMetrics({ version: VERSION });
    const now = (): number => performance.now();
    const scc = sccSettingsOf(values);
    const controllers = controllersOf(values);
    const protocol = protocolSettings(values['tls-min-version'], values['tls-cipher-suites']);
    const files = certificateFiles(values);
    const ownCertificate = files && (await loadCertificate(files));

    const embedded = await startEmbeddedCluster({ values, scc, logger });
    closing.push(() => embedded.stop());
    const { cluster } = embedded;
    const { store } = cluster;

    const podSecurity = followConfiguration({
      file: values.config,
      loaded: configuration,
      logger,
      metrics: metrics.config,
      signal: stopping.signal,
    });
    const certificate = ownCertificate ?? embedded.certificates.serving;
    recordExpiry(metrics, certificate);
    const server = buildServer({
      webhooks: createWebhooks({
        podSecurity,
        scc,
        authorization: values.authorization,
        standardSccs: controllers.some(({ name }) => name === STANDARD_SCC_CONTROLLER) ? 'kept' : 'left alone',
        cluster,
        logger,
        metrics,
        now,
      }),
      store,
      logger,
      metrics,
      now,
      tls: { ...certificate, ...protocol },
    });
    if (files && ownCertificate) {
      // The chain in the file ends with the authority, or the certificate is its own.
      const onChange = (pair: KeyPair): Promise<void> => embedded.trust(pair.cert);
      closing.push(followCertificate({ files, current: ownCertificate, protocol, server, logger, metrics, onChange }));
    }
    const sccProblems =
      scc.mode === 'off' ? undefined : watchSccProblems({ store, settings: scc, logger, metrics: metrics.scc });
    closing.push(() => sccProblems?.stop());
    const probes = buildProbes({
      livez: [ping],
      readyz: readinessChecks({ store, connections: server.connections, sccProblems }),
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
    await embedded.open({
      host: reachable(host),
      port,
      authority: (ownCertificate ?? embedded.certificates.authority).cert,
    });
    const running = startControllers(controllers, { cluster, logger, metrics, clock: systemClock });
    closing.push(() => running.stop());
    await running.idle();
    logger.info({ host, port, probesPort, version: VERSION }, 'serving');
    io.stdout.write(embedded.greeting());

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
