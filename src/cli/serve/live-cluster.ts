import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import { INSTALLATION } from '../../api/names.ts';
import { systemClock } from '../../cluster/clock.ts';
import { connect, type Connection } from '../../cluster/connection.ts';
import { createLiveCluster, type LiveCluster } from '../../cluster/live-cluster.ts';
import { createServerVersion, type ServerVersion } from '../../cluster/server-version.ts';
import type { Settings } from '../../config/settings.ts';
import type { Controller } from '../../controllers/controller.ts';
import { type LeaseTimes, runWithLeadership } from '../../controllers/leadership.ts';
import { startControllers } from '../../controllers/runtime.ts';
import { type WatchedKind, watchedKinds } from '../../controllers/watched-kinds.ts';
import type { Kind } from '../../kube/kinds.ts';
import { UserError } from '../../kube/user-error.ts';
import type { HealthCheck } from '../../server/probes.ts';
import { createAuthority, createServing, type Service } from '../../tls/index.ts';
import { POD_SOURCES } from '../../views/workloads.ts';
import { PROGRAM, VERSION } from '../command.ts';
import type { ServeValues } from '../serve-options.ts';
import { serverNames } from './certificates.ts';
import { type ClusterOptions, type RunningCluster, urlHost, type WebhookAddress } from './cluster.ts';

/** Returns true if the options or `KUBECONFIG` select a live cluster. Throws a UserError for contradictory options. */
export function isLive(values: ServeValues, env: ClusterOptions['env']): boolean {
  const { kubeconfig, context, 'in-cluster': inCluster, 'dev-cluster': isDevelopment, manifests } = values;
  if (isDevelopment && (kubeconfig !== undefined || context !== undefined || inCluster))
    throw new UserError('--dev-cluster cannot be combined with --kubeconfig, --context and --in-cluster');
  if (kubeconfig !== undefined && inCluster) throw new UserError('--kubeconfig and --in-cluster cannot be combined');
  const isNamed = kubeconfig !== undefined || Boolean(env['KUBECONFIG']);
  if (context !== undefined && !isNamed) throw new UserError('--context requires --kubeconfig or KUBECONFIG');
  const live = !isDevelopment && (isNamed || inCluster);
  if (live && manifests !== undefined)
    throw new UserError('--manifests requires --dev-cluster: apply manifests to a live cluster with kubectl');
  if (values.authorizer && !live) throw new UserError('--authorizer requires --kubeconfig, KUBECONFIG or --in-cluster');
  // With `--authorizer`, a certificate is required, because no controller runs that could create the managed
  // certificate.
  if (values.authorizer && values['tls-cert-file'] === undefined)
    throw new UserError('--authorizer requires --tls-cert-file');
  return live;
}

/**
 * Creates the client of a live cluster. The client sends no requests before `open`. Rejects with a UserError for an
 * invalid kubeconfig.
 */
export async function connectLiveCluster(options: ClusterOptions): Promise<RunningCluster> {
  const { values, env, logger, metrics, heap, parser } = options;
  const connection = await connect({
    kubeconfig: values.kubeconfig,
    context: values.context,
    inCluster: values['in-cluster'],
    env,
    userAgent: `${PROGRAM}/${VERSION}`,
    requests: metrics.cluster.requests,
  });
  const version = createServerVersion(connection, {
    clock: systemClock,
    logger: logger.child({ logger: 'cluster' }),
  });
  const namespace = values.namespace ?? (values['in-cluster'] ? connection.namespace : INSTALLATION.namespace);
  const cluster = createLiveCluster({
    connection,
    parser,
    clock: systemClock,
    random: Math.random,
    onRecovered: () => void version.refresh(),
    isMemoryFull: heap.isNearlyFull,
    now: () => new Date(),
    logger: logger.child({ logger: 'cluster' }),
    metrics: metrics.cluster,
  });
  return createRunningCluster({
    ...options,
    connection,
    cluster,
    version,
    service: { namespace, name: INSTALLATION.name },
  });
}

interface LiveOptions extends ClusterOptions {
  readonly connection: Connection;
  readonly cluster: LiveCluster;
  readonly version: ServerVersion;
  readonly service: Service;
}

/** Starts the controllers. With leader election, leader controllers run only while this replica leads. */
function runControllers(controllers: readonly Controller[], options: LiveOptions) {
  const { values, cluster, logger, metrics, service } = options;
  const services = { cluster, logger, metrics, clock: systemClock };
  if (!values['leader-elect'] || values.authorizer) return startControllers(controllers, services);
  const prefix = `${hostname()}_`;
  return runWithLeadership(controllers, {
    ...services,
    ...service,
    ...leaseTimes(values['leader-elect-lease-duration']),
    identity: `${prefix}${randomUUID()}`,
    // Host names of pods are unique, so a holder with the same host name was an earlier container of this pod.
    isEnded: (holder) => values['in-cluster'] && holder.startsWith(prefix),
  });
}

function createRunningCluster(options: LiveOptions): RunningCluster {
  const { values, connection, cluster, version, service } = options;
  const certificate = temporaryCertificate(service);
  let running: ReturnType<typeof runControllers> | undefined;
  const stopping = new AbortController();
  let address: WebhookAddress | undefined;
  let followed: readonly WatchedKind[] = [];
  const follow = (kinds: readonly WatchedKind[]): Promise<void> => cluster.follow(kinds.map(({ scope }) => scope));
  const isForReviews = (kind: Kind): boolean =>
    followed.some(({ scope, isForControllers }) => scope.kind === kind && !isForControllers);
  return {
    cluster,
    version,
    service,
    certificate,
    checks: [syncCheck(cluster, isForReviews)],
    namedChecks: [watchCheck(cluster)],
    open(served) {
      address = served;
      void version.follow(stopping.signal);
      return Promise.resolve();
    },
    follow(settings) {
      followed = listWatched(values, service.namespace, settings);
      cluster.abandonOthers(followed.map(({ scope }) => scope.kind));
      void follow(followed.filter(isReadFirst));
      return follow(followed.filter(({ isForControllers }) => !isForControllers));
    },
    markSynced: () => cluster.markSynced(),
    complete() {
      void follow(followed);
      return follow(followed.filter(isReadFirst));
    },
    unsyncedKinds: () => cluster.unsyncedKinds(),
    run(controllers) {
      return Promise.resolve((running = runControllers(controllers, options)));
    },
    greeting: () =>
      address
        ? `Portcullis serves reviews at https://${urlHost(address.host)}:${address.port} for the cluster at ${connection.server}\n`
        : '',
    async stop() {
      stopping.abort();
      await running?.stop();
      await cluster.stop();
      connection.close();
    },
  };
}

/**
 * Kinds with the most objects. They are read last, so the time until a replica is ready does not depend on the size of
 * the cluster.
 */
const LARGE_KINDS: ReadonlySet<Kind> = new Set(POD_SOURCES);

function isReadFirst({ scope }: WatchedKind): boolean {
  return !LARGE_KINDS.has(scope.kind);
}

/** Returns the kinds that the replica watches with the given settings. */
function listWatched(values: ServeValues, namespace: string, settings: Settings | undefined): readonly WatchedKind[] {
  const watched = watchedKinds(
    {
      settings,
      features: values.features,
      hasSettingsObject: values.config === undefined,
      hasManagedCertificate: values['tls-cert-file'] === undefined,
      hasService: values['webhook-url'] === undefined,
    },
    namespace,
  );
  if (!values.authorizer) return watched;
  // The PortcullisConfiguration is watched because its status contains the enforced minimum.
  const settingsObject = watched.filter(({ scope }) => scope.kind === 'PortcullisConfiguration');
  return [...settingsObject, { scope: { kind: 'Node' }, isForControllers: false }];
}

/** Returns lease times in the same ratio as the Kubernetes defaults of 15, 10 and 2 seconds. */
function leaseTimes(leaseDurationMs: number): LeaseTimes {
  return {
    leaseDurationMs,
    renewDeadlineMs: (leaseDurationMs * 2) / 3,
    retryPeriodMs: Math.min((leaseDurationMs * 2) / 15, 2_000),
  };
}

/** Creates a certificate to serve until the managed certificate is available. No API server trusts this certificate. */
function temporaryCertificate(service: Service): RunningCluster['certificate'] {
  const validity = { now: new Date(), days: 1 };
  const authority = createAuthority(validity);
  return {
    serving: createServing(authority, serverNames(service, []), validity),
    authority: authority.cert,
  };
}

/**
 * Creates the readiness check for the initial lists of all kinds that reviews read. A later outage of the API server
 * does not affect readiness.
 */
function syncCheck(
  { store, unsyncedKinds, failures }: Pick<LiveCluster, 'store' | 'unsyncedKinds' | 'failures'>,
  isForReviews: (kind: Kind) => boolean,
): HealthCheck {
  const format = (kinds: readonly Kind[]): string => printKinds(kinds.map((kind) => [kind, failures().get(kind)]));
  const note = (): string | undefined =>
    store.synced() && unsyncedKinds().length > 0
      ? `the controllers are waiting for ${format(unsyncedKinds())}`
      : undefined;
  const check = (): string | undefined => {
    if (store.synced()) return undefined;
    const missing = unsyncedKinds().filter(isForReviews);
    return missing.length === 0 ? 'the settings are not in force' : `not synced: ${format(missing)}`;
  };
  return { name: 'informer-sync', check, note };
}

/** Maximum time without an event. The API server sends a bookmark for each watch at least once a minute. */
const MAX_AGE_MS = 120_000;

/** Creates the check for failed and stale watches. */
export function watchCheck({
  lastEventAgesMs,
  failures,
}: Pick<LiveCluster, 'lastEventAgesMs' | 'failures'>): HealthCheck {
  const check = (): string | undefined => {
    const reasons = [...lastEventAgesMs()].map(([kind, ageMs]) => {
      const silence = ageMs > MAX_AGE_MS ? `no event for ${Math.round(ageMs / 1000)} s` : undefined;
      return [kind, failures().get(kind) ?? silence] as const;
    });
    const failing = reasons.filter(([, reason]) => reason !== undefined);
    return failing.length === 0
      ? undefined
      : `watches are failing, so decisions use the last known state: ${printKinds(failing)}`;
  };
  return { name: 'cluster', check };
}

/** Lists the kinds by the reason of their failure, for example `Namespace, Pod: Unauthorized; Lease`. */
function printKinds(kinds: readonly (readonly [kind: Kind, reason: string | undefined])[]): string {
  const byReason = Map.groupBy(kinds, ([, reason]) => reason);
  return [...byReason]
    .map(([reason, group]) => {
      const names = group.map(([kind]) => kind).join(', ');
      return reason === undefined ? names : `${names}: ${reason}`;
    })
    .join('; ');
}
