import { X509Certificate } from 'node:crypto';
import { UserError } from '../../config/user-error.ts';
import type { Logger } from '../../telemetry/logger.ts';
import type { Metrics } from '../../telemetry/metrics.ts';
import type { KeyPair } from '../../tls/key-pair.ts';
import { readKeyPair, watchKeyPair, type KeyPairFiles } from '../../tls/reload.ts';
import type { ProtocolSettings } from '../../tls/secure-context.ts';
import type { AdmissionServer } from '../../webhook/server.ts';
import type { ServeValues } from './options.ts';

/** The files of the serving certificate; `undefined` if it is to be one of our own. */
export function certificateFiles(values: ServeValues): KeyPairFiles | undefined {
  const certFile = values['tls-cert-file'];
  const keyFile = values['tls-private-key-file'];
  if ((certFile === undefined) !== (keyFile === undefined)) {
    throw new UserError('--tls-cert-file and --tls-private-key-file go together: give both, or neither');
  }
  return certFile === undefined || keyFile === undefined ? undefined : { certFile, keyFile };
}

/** Reads the serving certificate. Rejects with a UserError that says what is wrong with it. */
export async function loadCertificate(files: KeyPairFiles): Promise<KeyPair> {
  try {
    return await readKeyPair(files, new Date());
  } catch (error) {
    throw new UserError(error instanceof Error ? error.message : String(error), { cause: error });
  }
}

export interface RotationOptions {
  readonly files: KeyPairFiles;
  readonly current: KeyPair;
  readonly protocol: ProtocolSettings;
  readonly server: AdmissionServer;
  readonly logger: Logger;
  readonly metrics: Metrics;
  /** Told of each certificate that is served from now on. */
  readonly onChange: (pair: KeyPair) => Promise<void>;
}

/** Serves each new certificate that the files hold; open connections end with their next answer. Returns a stop. */
export function followCertificate(options: RotationOptions): () => void {
  const { files, current, protocol, server, logger, metrics, onChange } = options;
  const log = logger.child({ logger: 'tls', file: files.certFile });
  return watchKeyPair({
    ...files,
    current,
    now: () => new Date(),
    onReload(pair) {
      server.useCertificate({ ...pair, ...protocol });
      recordExpiry(metrics, pair);
      log.info({ notAfter: expiryOf(pair) }, 'serving certificate loaded');
      onChange(pair).catch((err: unknown) => log.error({ err }, 'serving certificate not made known'));
    },
    onError(error) {
      log.error({ reason: error.message }, 'serving certificate not loaded, the last good one stays');
    },
  });
}

export function recordExpiry(metrics: Metrics, pair: KeyPair): void {
  metrics.certificates.servingExpiry.set(Date.parse(expiryOf(pair)) / 1000);
}

function expiryOf(pair: KeyPair): string {
  return new X509Certificate(pair.cert).validToDate.toISOString();
}
