import { readSource } from '../../config/source.ts';
import { UserError } from '../../config/user-error.ts';
import type { Logger } from '../../telemetry/logger.ts';
import type { KeyPair } from '../../tls/key-pair.ts';
import { readKeyPair, watchKeyPair, type KeyPairFiles } from '../../tls/reload.ts';
import type { ServeValues } from './options.ts';

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
