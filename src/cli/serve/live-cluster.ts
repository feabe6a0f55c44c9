import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import { systemClock, createTokenBucket } from '../../cluster/clock.ts';
import { connect, type Connection } from '../../cluster/connection.ts';
import { createLiveCluster, type LiveCluster } from '../../cluster/live-cluster.ts';
import type { Scope } from '../../cluster/live-cluster.ts';
import { UserError } from '../../config/files.ts';
import type { Controller } from '../../controllers/controller.ts';
import { runWithLeadership, checkLeaseTimes } from '../../controllers/leadership.ts';
import { startControllers } from '../../controllers/runtime.ts';
import { INSTALLATION, POD_SECURITY_CONFIG_MAP } from '../../kube/well-known.ts';
import type { Kind } from '../../kube/types.ts';
import type { RolloutSettings } from '../../policy/rollout/settings.ts';
import type { Logger } from '../../telemetry/logger.ts';
import type { Metrics } from '../../telemetry/metrics.ts';
import { createAuthority, createServing } from '../../tls/issue.ts';
import type { Service } from '../../tls/trust.ts';
import { PROGRAM, type Io, VERSION } from '../command.ts';
import { serverNames } from './certificates.ts';
import type { ServeValues } from './options.ts';
import { newsCheck, readCheck, printHost, type RunningCluster, type WebhookAddress } from './cluster.ts';

export interface LiveOptions {
  readonly values: ServeValues;
  /** As it is at start. */
  readonly rollout: RolloutSettings;
  readonly env: Io['env'];
  readonly logger: Logger;
  readonly metrics: Metrics;
}

/** True if the options name a cluster. Throws a UserError if they name two, or ask of it what only the development cluster does. */
export function isLive(values: ServeValues): boolean {
  const { kubeconfig, context, 'in-cluster': inCluster, manifests } = values;
  if (kubeconfig !== undefined && inCluster)
    throw new UserError('--kubeconfig and --in-cluster name two clusters: leave one of them out');
  if (context !== undefined && kubeconfig === undefined)
    throw new UserError('--context chooses from a kubeconfig: name one with --kubeconfig');
  const live = kubeconfig !== undefined || inCluster;
  if (live && manifests !== undefined)
    throw new UserError('--manifests fills the development cluster: leave it out, and apply them with kubectl');
  return live;
}

/** Makes the way to a cluster that runs elsewhere; nothing is asked of it yet. Rejects with a UserError if there is none. */
export async function reachLiveCluster({
  values,
  rollout,
  env,
  logger,
  metrics,
}: LiveOptions): Promise<RunningCluster> {
  const leaseTimes = leaseTimesOf(values);
  const perSecond = values['kube-api-qps'];
  const rate = { perSecond, burst: values['kube-api-burst'] };
  const connection = await connect({
    kubeconfig: values.kubeconfig,
    context: values.context,
    inCluster: values['in-cluster'],
    env,
    userAgent: `${PROGRAM}/${VERSION}`,
    requests: metrics.cluster.requests,
    ...(perSecond === 0 ? {} : { limit: createTokenBucket(rate, systemClock) }),
  });
  const namespace = values.namespace ?? (values['in-cluster'] ? connection.namespace : INSTALLATION.namespace);
  const cluster = createLiveCluster({
    connection,
    kinds: kindsFor({ values, rollout, namespace }),
    clock: systemClock,
    random: Math.random,
    now: () => new Date(),
    logger: logger.child({ logger: 'cluster' }),
    metrics: metrics.cluster,
  });
  const run = (controllers: readonly Controller[]): { stop(): Promise<void> } => {
    const options = { cluster, logger, metrics, clock: systemClock };
    if (!values['leader-elect']) return startControllers(controllers, options);
    const name = values['leader-elect-resource-name'];
    const identity = `${hostname()}_${randomUUID()}`;
    return runWithLeadership(controllers, { ...options, ...leaseTimes, name, namespace, identity });
  };
  return running({ connection, cluster, run, logger, service: { namespace, name: values['service-name'] } });
}

interface Parts {
  readonly connection: Connection;
  readonly cluster: LiveCluster;
  run(controllers: readonly Controller[]): { stop(): Promise<void> };
  readonly logger: Logger;
  readonly service: Service;
}

function running({ connection, cluster, run, logger, service }: Parts): RunningCluster {
  const certificate = temporaryCertificate(service);
  let work: { stop(): Promise<void> } | undefined;
  let isStopped = false;
  let address: WebhookAddress | undefined;
  return {
    cluster,
    service,
    certificate,
    checks: [readCheck(cluster)],
    namedChecks: [newsCheck(cluster)],
    open(served, controllers) {
      address = served;
      const startedMs = performance.now();
      void cluster.start().then(() => {
        if (isStopped) return;
        logger.info({ durationMs: Math.round(performance.now() - startedMs) }, 'cluster read');
        work = run(controllers);
      });
      return Promise.resolve();
    },
    trust: () => Promise.resolve(),
    greeting: () =>
      address
        ? `Portcullis answers reviews at https://${printHost(address.host)}:${address.port}, for the cluster at ${connection.server}\n`
        : '',
    async stop() {
      isStopped = true;
      await work?.stop();
      await cluster.stop();
      connection.close();
    },
  };
}

/** What the rollout of enforcement looks at beside. */
const ROLLOUT_KINDS: readonly Kind[] = [
  'ServiceAccount',
  'PodTemplate',
  'ReplicationController',
  'ReplicaSet',
  'Deployment',
  'StatefulSet',
  'DaemonSet',
  'Job',
  'CronJob',
  'PSAEnforcementConfig',
  'FeatureGate',
];

/** What decisions and controllers read. */
function kindsFor({
  values,
  rollout,
  namespace,
}: Pick<LiveOptions, 'values' | 'rollout'> & { namespace: string }): readonly (Kind | Scope)[] {
  const scc: readonly Kind[] = [
    'SecurityContextConstraints',
    'Role',
    'RoleBinding',
    'ClusterRole',
    'ClusterRoleBinding',
  ];
  const published: Scope = { kind: 'ConfigMap', namespace, name: POD_SECURITY_CONFIG_MAP };
  const certificate: Scope = { kind: 'Secret', namespace, name: INSTALLATION.certificateSecret };
  return [
    'Namespace',
    'Pod',
    'MutatingWebhookConfiguration',
    'ValidatingWebhookConfiguration',
    ...(values['tls-cert-file'] === undefined ? [certificate] : []),
    { kind: 'Lease', namespace },
    ...(values['scc-mode'] === 'off' && rollout.phase === 'Disabled' ? [] : scc),
    ...(rollout.phase === 'Disabled' ? [] : [...ROLLOUT_KINDS, published]),
  ];
}

function leaseTimesOf(values: ServeValues): Required<Parameters<typeof checkLeaseTimes>[0]> {
  try {
    return checkLeaseTimes({
      leaseDurationMs: values['leader-elect-lease-duration'],
      renewDeadlineMs: values['leader-elect-renew-deadline'],
      retryPeriodMs: values['leader-elect-retry-period'],
    });
  } catch (error) {
    if (!(error instanceof UserError)) throw error;
    const options = '--leader-elect-lease-duration, --leader-elect-renew-deadline, --leader-elect-retry-period';
    throw new UserError(`${options}: ${error.message}`, { cause: error });
  }
}

/** Served until there is a better one: nobody trusts it. */
function temporaryCertificate(service: Service): RunningCluster['certificate'] {
  const validity = { now: new Date(), days: 1 };
  const authority = createAuthority(validity);
  return {
    serving: createServing(authority, serverNames(service, []), validity),
    authority: authority.cert,
  };
}
