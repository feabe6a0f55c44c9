/** Joins the parts into the running server: the one place where cluster, webhooks, files and sockets meet. */
import { EXIT, type Io } from '../command.ts';
import { certificateFiles, followCertificate, loadCertificate, recordExpiry } from './certificate.ts';
import { followConfiguration, type LoadedConfiguration } from './configuration.ts';
import { controllersOf } from './controllers.ts';
import { startEmbeddedCluster } from './embedded-cluster.ts';
import { isLive, reachLiveCluster } from './live-cluster.ts';
import { listen } from './listen.ts';
import { logLevelOf, type ServeValues } from './options.ts';
import { ping, readinessChecks } from './readiness.ts';
import { sccSettingsOf } from './scc-settings.ts';
import { drain } from './shutdown.ts';
import { VERSION } from '../version.ts';
import { STANDARD_SCC_CONTROLLER } from '../../controller/standard-sccs.ts';
import { canUseScc } from '../../cluster/select.ts';
import { createLogger } from '../../telemetry/logger.ts';
import { createMetrics } from '../../telemetry/metrics.ts';
import type { KeyPair } from '../../tls/key-pair.ts';
import { protocolSettings } from '../../tls/secure-context.ts';
import { createWebhooks } from '../../webhook/index.ts';
import { buildProbes } from '../../webhook/probes.ts';
import { watchSccProblems } from '../../webhook/scc-problems.ts';
import { buildServer } from '../../webhook/server.ts';

/** Serves until the signal of `io` is aborted. Resolves to the exit code; rejects with a UserError for what the user has to correct. */
export async function run(values: ServeValues, configuration: LoadedConfiguration, io: Io): Promise<number> {
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

    const served = isLive(values)
      ? await reachLiveCluster({ values, env: io.env, logger, metrics })
      : await startEmbeddedCluster({ values, scc, logger, metrics });
    closing.push(() => served.stop());
    const { cluster } = served;
    const { store } = cluster;
    // Roles and bindings are indexed as they come in; the first review would have to wait for all of them.
    if (scc.mode !== 'off') canUseScc(store);

    const podSecurity = followConfiguration({
      file: values.config,
      loaded: configuration,
      logger,
      metrics: metrics.config,
      signal: stopping.signal,
    });
    const certificate = ownCertificate ?? served.certificate.serving;
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
      const onChange = (pair: KeyPair): Promise<void> => served.trust(pair.cert);
      closing.push(followCertificate({ files, current: ownCertificate, protocol, server, logger, metrics, onChange }));
    }
    const sccProblems =
      scc.mode === 'off' ? undefined : watchSccProblems({ store, settings: scc, logger, metrics: metrics.scc });
    closing.push(() => sccProblems?.stop());
    const probes = buildProbes({
      livez: [ping],
      readyz: readinessChecks({ checks: served.checks, connections: server.connections, sccProblems }),
      asked: served.askedChecks,
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
