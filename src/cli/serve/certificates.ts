import { randomUUID } from 'node:crypto';
import { isIP } from 'node:net';
import { hostname } from 'node:os';
import type { SecureContextOptions } from 'node:tls';
import { INSTALLATION } from '../../api/names.ts';
import { CONFIGURATION_KINDS, getWebhooks, type WebhookConfiguration } from '../../api/webhooks.ts';
import type { Store } from '../../cluster/store.ts';
import { failureReason, readSource, type TextFile, watchFile } from '../../config/files.ts';
import type { ReplicaIdentity, ServedPair } from '../../controllers/controller.ts';
import { foreignConfigurations, installedConfigurations } from '../../controllers/replica.ts';
import { defined } from '../../kube/defined.ts';
import { UserError } from '../../kube/user-error.ts';
import type { HealthCheck } from '../../server/probes.ts';
import type { AdmissionServer } from '../../server/server.ts';
import type { Logger } from '../../telemetry/logger.ts';
import type { Metrics } from '../../telemetry/metrics.ts';
import {
  decodeBundle,
  distinctCertificates,
  findOtherTrustProblems,
  findTrustProblems,
  fingerprint,
  type KeyPair,
  keyPairProblem,
  pemFingerprint,
  type ProtocolSettings,
  protocolSettings,
  readCertificates,
  type ServerNames,
  type Service,
} from '../../tls/index.ts';
import type { ServeValues } from '../serve-options.ts';

/** The server's certificate and its client CAs. Both can be replaced while the server runs. */
export interface ServedCertificate extends ServedPair {
  /** Returns the current TLS options. */
  tls(): SecureContextOptions;
  /** Replaces the client CAs, in PEM. */
  trustClients(authorities: string): void;
  /** Applies later changes of the certificate to the server. */
  attach(server: Pick<AdmissionServer, 'useCertificate'>): void;
}

interface ServedOptions {
  readonly pair: KeyPair;
  /** True if the managed certificate will replace this certificate. */
  readonly isTemporary: boolean;
  readonly protocol: ProtocolSettings;
  /** Client CAs in PEM. If absent, clients need no certificate. */
  readonly clientAuthorities: string | undefined;
  readonly logger: Logger;
  readonly metrics: Pick<Metrics, 'certificates'>;
}

/** Creates the certificate that the server presents, with its client CAs. */
export function createServedCertificate(options: ServedOptions): ServedCertificate {
  const { protocol, metrics } = options;
  const log = options.logger.child({ logger: 'tls' });
  let { pair, isTemporary, clientAuthorities } = options;
  let server: Pick<AdmissionServer, 'useCertificate'> | undefined;

  // The options are set for each secure context, because a new context does not inherit them.
  const tls = (): SecureContextOptions => ({
    ...pair,
    ...protocol,
    ...defined({ ca: clientAuthorities }),
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
      log.info('client CAs loaded');
    },
    attach(attached) {
      server = attached;
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

/** Maximum age of a cached result, because certificates expire even if the store does not change. */
const MAX_AGE_MS = 10_000;

/**
 * Creates the readiness check for the trust of the webhook configurations in the serving certificate. Caches the result
 * for at most 10 s, or until a configuration or the certificate changes. Logs other Portcullis webhooks that do not
 * trust the certificate.
 */
export function trustCheck({ store, served, service, logger, metrics, date }: TrustCheckOptions): HealthCheck {
  const { trusted, distrusting, authorityExpiry } = metrics.certificates;
  const log = logger.child({ logger: 'tls' });
  let logged = '';
  const logUntrusted = (webhooks: readonly string[]): void => {
    const text = webhooks.join('; ');
    if (text !== '' && text !== logged) {
      log.warn({ webhooks }, 'webhooks that do not affect readiness do not trust the serving certificate');
    }
    logged = text;
  };
  const evaluate = (now: Date, cert: string): readonly string[] => {
    const configurations = installedConfigurations(store);
    const trust = { pair: { cert }, configurations, service, now };
    const problems = findTrustProblems(trust);
    const others = findOtherTrustProblems(trust, foreignConfigurations(store));
    // Other webhooks are not logged if the installation's webhooks do not trust the certificate, because usually none
    // of them does.
    if (problems.length === 0) logUntrusted(others);
    distrusting.set(others.length);
    trusted.set(problems.length === 0 ? 1 : 0);
    authorityExpiry.reset();
    for (const authority of bundledAuthorities(configurations)) {
      authorityExpiry.set({ fingerprint: fingerprint(authority).slice(0, 8) }, authority.validToDate.getTime() / 1000);
    }
    return problems;
  };
  let cached: { readonly key: string; readonly atMs: number; readonly problems: readonly string[] } | undefined;
  return {
    name: 'serving-certificate',
    check() {
      const now = date();
      const { cert } = served.current();
      const revisions = CONFIGURATION_KINDS.map((kind) => store.revision(kind));
      const key = `${revisions.join()} ${cert}`;
      if (cached?.key !== key || Math.abs(now.getTime() - cached.atMs) >= MAX_AGE_MS) {
        cached = { key, atMs: now.getTime(), problems: evaluate(now, cert) };
      }
      const [first, ...others] = cached.problems;
      return first === undefined || others.length === 0 ? first : `${first} (and ${others.length} more)`;
    },
  };
}

function bundledAuthorities(configurations: readonly WebhookConfiguration[]) {
  const bundles = new Set(
    configurations.flatMap((configuration) => getWebhooks(configuration).map(({ caBundle }) => caBundle)),
  );
  return distinctCertificates([...bundles].flatMap((bundle) => readCertificates(decodeBundle(bundle))));
}

/**
 * Returns the names and addresses in the serving certificate, which include the Service, this machine and additional
 * names.
 */
export function serverNames({ name, namespace }: Service, extra: readonly string[]): ServerNames {
  const service = `${name}.${namespace}`;
  const own = [`${service}.svc`, service, `${service}.svc.cluster.local`, 'localhost', '127.0.0.1', '::1'];
  const names = [...new Set([...own, ...extra])];
  return {
    dnsNames: names.filter((name) => isIP(name) === 0),
    ipAddresses: names.filter((name) => isIP(name) !== 0),
  };
}

/**
 * Returns the identity of this replica. The host name of a pod is unique. Outside a cluster, the port distinguishes
 * processes on the same host.
 */
export function replicaIdentity(values: Pick<ServeValues, 'in-cluster'>, port: number): ReplicaIdentity {
  const host = hostname()
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, '-')
    .replace(/^-|-$/g, '');
  const unique = values['in-cluster'] ? host : `${host}-${port}`;
  return {
    name: `${INSTALLATION.name}-replica-${unique}`,
    identity: `${hostname()}_${randomUUID()}`,
    startMs: Date.now(),
  };
}

type CertificateFiles = Awaited<ReturnType<typeof readCertificateFiles>>;

/** Reads all certificate files. Rejects with a UserError if one of them is invalid. */
export async function readCertificateFiles(values: ServeValues) {
  const { 'tls-cert-file': certFile, 'tls-private-key-file': keyFile, 'client-ca-file': authoritiesFile } = values;
  const protocol = protocolSettings(values['tls-min-version'], values['tls-cipher-suites']);
  if ((certFile === undefined) !== (keyFile === undefined)) {
    throw new UserError('--tls-cert-file and --tls-private-key-file must be used together');
  }
  if (authoritiesFile === undefined && values['client-allowed-names'].length > 0) {
    throw new UserError('--client-allowed-names requires --client-ca-file');
  }
  const files = certFile === undefined || keyFile === undefined ? undefined : { cert: certFile, key: keyFile };
  return {
    /** Names and content of the files. */
    serving: files && { files, pair: checkKeyPair(await readKeyPair(files), files) },
    clientAuthorities: authoritiesFile === undefined ? undefined : checkCertificates(await readSource(authoritiesFile)),
    protocol,
  };
}

async function readKeyPair({ cert, key }: KeyPair): Promise<KeyPair> {
  const [certSource, keySource] = await Promise.all([readSource(cert), readSource(key)]);
  return { cert: certSource.text, key: keySource.text };
}

function checkKeyPair(pair: KeyPair, files: KeyPair): KeyPair {
  const problem = keyPairProblem(pair, files, new Date());
  if (problem !== undefined) throw new UserError(problem);
  return pair;
}

function checkCertificates(source: TextFile): TextFile {
  if (readCertificates(source.text).length === 0) throw new UserError(`${source.file} contains no PEM certificate`);
  return source;
}

interface WatchOptions {
  readonly certificate: Pick<ServedCertificate, 'use' | 'trustClients'>;
  readonly logger: Logger;
  readonly signal: AbortSignal;
}

/**
 * Watches the certificate files and applies changes until the signal is aborted. Logs an invalid file and keeps its
 * previous content.
 */
export function watchCertificateFiles(
  { serving, clientAuthorities: initial }: CertificateFiles,
  { certificate, logger, signal }: WatchOptions,
): void {
  const logError = (file: string, message: string) => {
    const log = logger.child({ logger: 'tls', file });
    return (error: unknown): void => log.error({ reason: failureReason(error) }, message);
  };
  if (serving) {
    const { files } = serving;
    void watchFile({
      read: () => readKeyPair(files),
      initial: serving.pair,
      onChange: (pair) => certificate.use(checkKeyPair(pair, files)),
      onError: logError(files.cert, 'failed to load the serving certificate, keeping the previous certificate'),
      signal,
    });
  }
  if (initial) {
    void watchFile({
      read: () => readSource(initial.file),
      initial,
      onChange: (source) => certificate.trustClients(checkCertificates(source).text),
      onError: logError(initial.file, 'failed to load the client CAs, keeping the previous ones'),
      signal,
    });
  }
}
