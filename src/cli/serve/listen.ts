import type { AddressInfo } from 'node:net';
import { UserError } from '../../config/files.ts';

/** Where a server listens, and which option says so. */
export interface ListenAddress {
  readonly host: string;
  readonly port: number;
  readonly option: string;
  /** The option for the host, if it is another one. */
  readonly hostOption?: string;
}

/** What of a server is needed to let it listen. */
interface Listener {
  listen(address: { host: string; port: number }): Promise<unknown>;
  readonly server: { address(): AddressInfo | string | null };
}

/** Lets a server listen and returns its port. Rejects with a UserError if the address cannot be had. */
export async function listen(app: Listener, address: ListenAddress): Promise<number> {
  const { host, port } = address;
  await orAddressError(app.listen({ host, port }), address);
  return (app.server.address() as AddressInfo).port;
}

/** Turns the system's word for an address that cannot be had into one that names the option. */
export async function orAddressError<T>(listening: Promise<T>, address: ListenAddress): Promise<T> {
  try {
    return await listening;
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? error.code : undefined;
    if (typeof code !== 'string') throw error;
    const why = REASONS[code];
    if (why === undefined) throw error;
    const { host, port, option, hostOption = option } = address;
    const remedy = `choose another with --${OF_HOST.has(code) ? hostOption : option}`;
    throw new UserError(`cannot listen on ${host}:${port}: ${why}; ${remedy}`, { cause: error });
  }
}

const REASONS: Readonly<Record<string, string>> = {
  EADDRINUSE: 'the port is in use',
  EACCES: 'the port needs more rights',
  EADDRNOTAVAIL: 'this machine does not have that address',
  ENOTFOUND: 'there is no such address',
  EAI_AGAIN: 'there is no such address',
};

/** What is wrong with the host, whatever the port. */
const OF_HOST: ReadonlySet<string> = new Set(['EADDRNOTAVAIL', 'ENOTFOUND', 'EAI_AGAIN']);
