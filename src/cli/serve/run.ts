/** Joins the parts into the running server: the one place where cluster, webhooks, files and sockets meet. */
import { EXIT, type Io } from '../command.ts';
import { certificateFiles, followCertificate, loadCertificate } from './certificate.ts';
import { certificateControllers } from './certificate-controllers.ts';
import { callersOf, followClientAuthorities, loadClientAuthorities } from './client-authorities.ts';
import { followConfiguration, type LoadedConfiguration } from './configuration.ts';
import { controllersOf } from './controllers.ts';
import { startEmbeddedCluster } from './embedded-cluster.ts';
import { isLive, reachLiveCluster } from './live-cluster.ts';
import { listen } from './listen.ts';
import { logLevelOf, type ServeValues } from './options.ts';
import { ping, readinessChecks } from './readiness.ts';
import { managementOf, rolloutAnnouncement, rolloutControllers } from './rollout-controllers.ts';
import { sccSettingsOf } from './scc-settings.ts';
import { createServedCertificate, trustCheck } from './served-certificate.ts';
import { drain } from './shutdown.ts';
import { VERSION } from '../version.ts';
import { STANDARD_SCC_CONTROLLER } from '../../controllers/standard-sccs.ts';
import { createPodSecurityInForce } from '../../cluster/rollout.ts';
import { canUseScc } from '../../cluster/select.ts';
import { DEFAULT_ROLLOUT, type RolloutSettings } from '../../policy/rollout/rollout-settings.ts';
import { createLogger } from '../../telemetry/logger.ts';
import { createMetrics } from '../../telemetry/metrics.ts';
import { protocolSettings } from '../../tls/secure-context.ts';
import { createWebhooks } from '../../server/webhooks/index.ts';
import { buildProbes } from '../../server/probes.ts';
import { watchSccProblems } from '../../server/scc-problems.ts';
import { buildServer } from '../../server/server.ts';

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

    const clientAuthorities = await loadClientAuthorities(values);

    const live = isLive(values);
    const served = live
      ? await reachLiveCluster({ values, rollout: configuration.rollout, env: io.env, logger, metrics })
      : await startEmbeddedCluster({ values, scc, rollout: configuration.rollout, logger, metrics });
    closing.push(() => served.stop());
    const { cluster } = served;
    const { store } = cluster;
    // Roles and bindings are indexed as they come in; the first review would have to wait for all of them.
    if (scc.mode !== 'off') canUseScc(store);

    const configured = followConfiguration({
      file: values.config,
      loaded: configuration,
      logger,
      metrics: metrics.config,
      signal: stopping.signal,
    });
    // Without the objects that it needs, a rollout that is switched on later has to wait for the next start.
    const rollout = (): RolloutSettings =>
      configuration.rollout.phase === 'Disabled' ? DEFAULT_ROLLOUT : configured().rollout;
    const place = { store, namespace: served.service.namespace, version: VERSION };
    const podSecurity = createPodSecurityInForce(place, rollout, () => configured().podSecurity);
    const certificate = createServedCertificate({
      pair: ownCertificate ?? served.certificate.serving,
      state: live && !ownCertificate ? 'temporary' : 'lasting',
      protocol,
      clientAuthorities: clientAuthorities?.text,
      logger,
      metrics,
    });
    const server = buildServer({
      webhooks: createWebhooks({
        podSecurity,
        scc,
        rollout: { place, settings: rollout, management: managementOf(scc) },
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
      tls: certificate.tls(),
      callers: callersOf(values),
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
      scc.mode === 'off' ? undefined : watchSccProblems({ store, settings: scc, logger, metrics: metrics.scc });
    closing.push(() => sccProblems?.stop());
    const { service } = served;
    const date = (): Date => new Date();
    const trust = live ? [trustCheck({ store, served: certificate, service, logger, metrics, date })] : [];
    const probes = buildProbes({
      livez: [ping],
      readyz: readinessChecks({ checks: [...served.checks, ...trust], connections: server.connections, sccProblems }),
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
    const own =
      live || rollout().phase !== 'Disabled'
        ? certificateControllers({
            values,
            cluster,
            service,
            served: certificate,
            certificates: live && !files ? 'self-managed' : 'given',
            port,
            announcement: rolloutAnnouncement(place, rollout),
            logger,
            metrics,
          })
        : undefined;
    closing.push(() => own?.leave());
    await served.open({ host: reachable(host), port, authority }, [
      ...(own?.controllers ?? []),
      ...controllers,
      ...rolloutControllers({
        values,
        scc,
        place,
        settings: rollout,
        exemptions: () => configured().podSecurity.configuration.exemptions,
        metrics,
      }),
    ]);
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
