/** Starts servers on the addresses in command options, and waits until the program is stopped. */
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { errorCode } from '../kube/error-code.ts';
import { UserError } from '../kube/user-error.ts';
import type { AdmissionServer } from '../server/server.ts';

/** Address on which a server listens, and the options that set it. */
interface ListenAddress {
  readonly host: string;
  readonly port: number;
  readonly option: string;
  /** The option that sets the host, if `option` sets only the port. */
  readonly hostOption?: string;
}

/** Resolves when the signal is aborted. */
export async function aborted(signal: AbortSignal): Promise<void> {
  if (!signal.aborted) await once(signal, 'abort');
}

/** Starts a server and returns its port. Rejects with a UserError if the address is unavailable. */
export async function listen(
  app: Pick<AdmissionServer['app'], 'listen' | 'server'>,
  address: ListenAddress,
): Promise<number> {
  const { host, port } = address;
  await explainAddressError(app.listen({ host, port }), address);
  return (app.server.address() as AddressInfo).port;
}

/** Converts system errors about the address to a UserError that names the option to change. */
export async function explainAddressError<T>(listening: Promise<T>, address: ListenAddress): Promise<T> {
  try {
    return await listening;
  } catch (error) {
    const code = errorCode(error);
    if (typeof code !== 'string') throw error;
    const reason = REASONS[code];
    if (reason === undefined) throw error;
    const { host, port, option, hostOption = option } = address;
    const fix = `set another with --${HOST_ERRORS.has(code) ? hostOption : option}`;
    throw new UserError(`cannot listen on ${host}:${port}: ${reason}; ${fix}`, { cause: error });
  }
}

const REASONS: Readonly<Record<string, string>> = {
  EADDRINUSE: 'the port is in use',
  EACCES: 'permission denied',
  EADDRNOTAVAIL: 'the address is not assigned to this machine',
  ENOTFOUND: 'the address cannot be resolved',
  EAI_AGAIN: 'the address cannot be resolved',
};

/** Error codes that refer to the host. All other codes refer to the port. */
const HOST_ERRORS: ReadonlySet<string> = new Set(['EADDRNOTAVAIL', 'ENOTFOUND', 'EAI_AGAIN']);
