import type { SecureContextOptions } from 'node:tls';
import { isIP } from 'node:net';
import { hostname } from 'node:os';
import { randomUUID } from 'node:crypto';
import type { Store } from '../../cluster/store.ts';
import { foreignConfigurations, installedConfigurations } from '../../controllers/replica.ts';
import type { ReplicaIdentity, ServedPair } from '../../controllers/controller.ts';
import { getWebhooks, type WebhookConfiguration } from '../../kube/webhooks.ts';
import type { Logger } from '../../telemetry/logger.ts';
import type { Metrics } from '../../telemetry/metrics.ts';
import { distinctCertificates, decodeBundle } from '../../tls/trust.ts';
import type { KeyPair } from '../../tls/certificate-pair.ts';
import { fingerprint, pemFingerprint, readCertificates } from '../../tls/certificate-pair.ts';
import type { ProtocolSettings } from '../../tls/protocol.ts';
import { findOtherTrustProblems, findTrustProblems, type Service } from '../../tls/trust.ts';
import type { HealthCheck } from '../../server/probes.ts';
import type { AdmissionServer } from '../../server/server.ts';
import { INSTALLATION } from '../../kube/well-known.ts';
import type { ServerNames } from '../../tls/issue.ts';
import type { ServeValues } from './options.ts';

/** The certificate of the server, and whom it trusts; it can change both while it serves. */
export interface ServedCertificate extends ServedPair {
  /** What TLS needs now. */
  tls(): SecureContextOptions;
  /** Trusts client certificates of other authorities from now on, in PEM. */
  trustClients(authorities: string): void;
  /** Lets a server follow from now on. */
  follow(server: Pick<AdmissionServer, 'useCertificate'>): void;
}

interface ServedOptions {
  /** What is served first. */
  readonly pair: KeyPair;
  readonly state: 'lasting' | 'temporary';
  readonly protocol: ProtocolSettings;
  /** Whose client certificates are good, in PEM; absent: nobody is asked for one. */
  readonly clientAuthorities: string | undefined;
  readonly logger: Logger;
  readonly metrics: Pick<Metrics, 'certificates'>;
}

/** Holds what the server shows and whom it trusts. */
export function createServedCertificate(options: ServedOptions): ServedCertificate {
  const { protocol, metrics } = options;
  const log = options.logger.child({ logger: 'tls' });
  let { pair, clientAuthorities } = options;
  let isTemporary = options.state === 'temporary';
  let server: Pick<AdmissionServer, 'useCertificate'> | undefined;

  // A new context inherits nothing.
  const tls = (): SecureContextOptions => ({
    ...pair,
    ...protocol,
    ...(clientAuthorities === undefined ? {} : { ca: clientAuthorities }),
  });
  const record = (): void => {
    const [leaf] = readCertificates(pair.cert);
    if (leaf) metrics.certificates.servingExpiry.set(leaf.validToDate.getTime() / 1000);
  };
  record();
  return {
    tls,
    current: () => pair,
    isTemporary: () => isTemporary,
    use(next) {
      pair = next;
      isTemporary = false;
      server?.useCertificate(tls());
      metrics.certificates.reloads.cell({}).count++;
      record();
      const [leaf] = readCertificates(pair.cert);
      log.info(
        { notAfter: leaf?.validToDate.toISOString(), sha256: pemFingerprint(pair.cert) },
        'serving certificate loaded',
      );
    },
    trustClients(authorities) {
      clientAuthorities = authorities;
      server?.useCertificate(tls());
      log.info('authorities of clients loaded');
    },
    follow(one) {
      server = one;
    },
  };
}

interface TrustCheckOptions {
  readonly store: Store;
  readonly served: ServedPair;
  readonly service: Service;
  readonly logger: Logger;
  readonly metrics: Pick<Metrics, 'certificates'>;
  readonly date: () => Date;
}

/** However little changes: certificates expire. */
const LOOK_AGAIN_MS = 10_000;

/**
 * Whether API servers take what is served, as far as the store knows: an API server that is away changes nothing. It is
 * looked at when something has changed, and every few seconds. Webhooks that are not what counts are told of.
 */
export function trustCheck({ store, served, service, logger, metrics, date }: TrustCheckOptions): HealthCheck {
  const { trusted, distrusting, authorityExpiry } = metrics.certificates;
  const log = logger.child({ logger: 'tls' });
  let told = '';
  const tell = (others: readonly string[]): void => {
    const text = others.join('; ');
    if (text !== '' && text !== told) {
      log.warn({ webhooks: others }, 'webhooks that do not count for readiness do not take the serving certificate');
    }
    told = text;
  };
  let seen: { readonly mark: string; readonly atMs: number; readonly problems: readonly string[] } | undefined;
  const look = (): readonly string[] => {
    const now = date();
    const { cert } = served.current();
    const revisions = [
      store.revision('ValidatingWebhookConfiguration'),
      store.revision('MutatingWebhookConfiguration'),
    ];
    const mark = `${revisions.join()} ${cert}`;
    const isFresh = seen !== undefined && Math.abs(now.getTime() - seen.atMs) < LOOK_AGAIN_MS;
    if (seen?.mark === mark && isFresh) return seen.problems;
    const configurations = installedConfigurations(store);
    const trust = { pair: { cert }, configurations, service, now };
    const problems = findTrustProblems(trust);
    const others = findOtherTrustProblems(trust, foreignConfigurations(store));
    // Until what counts is right, it is no wonder that the rest is not.
    if (problems.length === 0) tell(others);
    distrusting.set(others.length);
    seen = { mark, atMs: now.getTime(), problems };
    trusted.set(problems.length === 0 ? 1 : 0);
    authorityExpiry.reset();
    for (const one of authoritiesIn(configurations)) {
      authorityExpiry.set({ fingerprint: fingerprint(one).slice(0, 8) }, one.validToDate.getTime() / 1000);
    }
    return problems;
  };
  return {
    name: 'serving-certificate',
    check() {
      const [first, ...others] = look();
      if (first === undefined) return undefined;
      return others.length === 0 ? first : `${first} (and ${others.length} more)`;
    },
  };
}

function authoritiesIn(configurations: readonly WebhookConfiguration[]) {
  const bundles = new Set(configurations.flatMap((one) => getWebhooks(one).map(({ caBundle }) => caBundle)));
  return distinctCertificates([...bundles].flatMap((bundle) => readCertificates(decodeBundle(bundle))));
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

/** Identifies this replica. A pod has a host name of its own; other processes share it, but not their port. */
export function replicaIdentity(values: Pick<ServeValues, 'in-cluster'>, port: number): ReplicaIdentity {
  const host = hostname()
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, '-')
    .replace(/^-|-$/g, '');
  const unique = values['in-cluster'] ? host : `${host}-${port}`;
  return { name: `${INSTALLATION.name}-replica-${unique}`, identity: `${hostname()}_${randomUUID()}` };
}
