import { isIP } from 'node:net';
import { hostname } from 'node:os';
import { randomUUID } from 'node:crypto';
import { systemClock, inTime } from '../../cluster/clock.ts';
import type { Cluster } from '../../cluster/cluster.ts';
import type { Controller } from '../../controllers/controller.ts';
import { createReplica, type Announcement, type ServedPair } from '../../controllers/replica.ts';
import { createServingCertificate } from '../../controllers/serving-certificate.ts';
import { INSTALLATION } from '../../kube/well-known.ts';
import type { Logger } from '../../telemetry/logger.ts';
import type { Metrics } from '../../telemetry/metrics.ts';
import type { ServerNames } from '../../tls/self-signed.ts';
import type { Service } from '../../tls/served-trust.ts';
import { isEnabled } from './controllers.ts';
import type { ServeValues } from './options.ts';

export interface CertificateControllersOptions {
  readonly values: ServeValues;
  readonly cluster: Cluster;
  readonly service: Service;
  readonly served: ServedPair;
  /** Whether they are made here for the cluster, or come from elsewhere. */
  readonly certificates: 'self-managed' | 'given';
  /** On which reviews are answered. */
  readonly port: number;
  /** What the replica says of itself beside its certificate. */
  readonly announcement: Announcement;
  readonly logger: Logger;
  readonly metrics: Pick<Metrics, 'certificates'>;
}

export interface CertificateControllers {
  readonly controllers: readonly Controller[];
  /** Takes back what this replica has said of itself, if the API server can be told in time. */
  leave(): Promise<void>;
}

/** For that, at the end of a process. */
const LEAVE_MS = 2_000;

/** The controllers of the certificates of a live cluster; with files for the certificate, replicas say only that they are there. */
export function certificateControllers(options: CertificateControllersOptions): CertificateControllers {
  const { values, cluster, service, served, port, announcement, logger, metrics } = options;
  const date = (): Date => new Date();
  const isManaged = options.certificates === 'self-managed';
  const secret = { namespace: service.namespace, name: INSTALLATION.certificateSecret };
  const replica = createReplica({
    cluster,
    name: replicaName(values, port),
    identity: `${hostname()}_${randomUUID()}`,
    namespace: service.namespace,
    service,
    served,
    date,
    announcement,
    ...(isManaged ? { secret } : {}),
  });
  const names = serverNames(service, values['tls-extra-names']);
  const keeper = createServingCertificate({ secret, names, date, metrics: metrics.certificates });
  const controllers = [...(isManaged ? [keeper] : []), replica.controller];
  return {
    controllers: controllers.filter(({ name }) => isEnabled(name, values.controllers)),
    async leave() {
      try {
        await inTime(systemClock, LEAVE_MS, () => replica.leave());
      } catch (err) {
        logger.debug({ err }, 'Lease of this replica not removed, it runs out');
      }
    },
  };
}

/** By what names the server is called: those of its service, of this machine, and further ones. */
export function serverNames({ name, namespace }: Service, extra: readonly string[]): ServerNames {
  const service = `${name}.${namespace}`;
  const own = [`${service}.svc`, service, `${service}.svc.cluster.local`, 'localhost', '127.0.0.1', '::1'];
  const names = [...new Set([...own, ...extra])];
  return {
    dnsNames: names.filter((one) => isIP(one) === 0),
    ipAddresses: names.filter((one) => isIP(one) !== 0),
  };
}

/** A pod has its host name alone; other processes share it, but not their port. */
function replicaName(values: ServeValues, port: number): string {
  const host = hostname()
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, '-')
    .replace(/^-|-$/g, '');
  const unique = values['in-cluster'] ? host : `${host}-${port}`;
  return `${INSTALLATION.name}-replica-${unique}`;
}
