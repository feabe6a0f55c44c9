import { readSource, type Source } from '../../config/source.ts';
import { UserError } from '../../config/user-error.ts';
import { watchFile } from '../../config/watch-file.ts';
import type { Logger } from '../../telemetry/logger.ts';
import { readCertificates } from '../../tls/pem.ts';
import { createCallers, type Callers } from '../../server/callers.ts';
import type { ServeValues } from './options.ts';

/** Reads the file of `--client-ca-file`; `undefined` if there is none. Rejects with a UserError that says what is wrong. */
export async function loadClientAuthorities(values: ServeValues): Promise<Source | undefined> {
  const file = values['client-ca-file'];
  if (file !== undefined) return checked(await readSource(file));
  if (values['client-allowed-names'].length > 0)
    throw new UserError('--client-allowed-names needs --client-ca-file: without it nobody shows a client certificate');
  return undefined;
}

/** Who may send reviews; `undefined` if nobody is asked. */
export function callersOf(values: ServeValues): Callers | undefined {
  return values['client-ca-file'] === undefined ? undefined : createCallers(values['client-allowed-names']);
}

export interface FollowClientAuthoritiesOptions {
  readonly initial: Source;
  readonly logger: Logger;
  readonly signal: AbortSignal;
  /** Told of each new content that is right, in PEM. */
  readonly onChange: (authorities: string) => void;
}

/** Follows the file until the signal aborts; what is wrong is logged, and the last right one stays. */
export function followClientAuthorities(options: FollowClientAuthoritiesOptions): void {
  const { initial, logger, signal } = options;
  const { file } = initial;
  const log = logger.child({ logger: 'tls', file });
  const refuse = (error: unknown): void => {
    const reason = error instanceof Error ? error.message : String(error);
    log.error({ reason }, 'authorities of clients not loaded, the last good ones stay');
  };
  const onChange = (source: Source): void => {
    try {
      options.onChange(checked(source).text);
    } catch (error) {
      refuse(error);
    }
  };
  void watchFile({ read: () => readSource(file), initial, onChange, onError: refuse, signal });
}

function checked(source: Source): Source {
  if (readCertificates(source.text).length === 0) throw new UserError(`${source.file} holds no PEM certificate`);
  return source;
}
