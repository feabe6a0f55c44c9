import type { AddressInfo } from 'node:net';
import { UserError } from '../../config/user-error.ts';

/** Where a server listens, and which option says so. */
export interface ListenAddress {
  readonly host: string;
  readonly port: number;
  readonly option: string;
}

/** What of a server is needed to let it listen. */
interface Listener {
  listen(address: { host: string; port: number }): Promise<unknown>;
  readonly server: { address(): AddressInfo | string | null };
}

/** Lets a server listen and returns its port. Rejects with a UserError if the address cannot be had. */
export async function listen(app: Listener, { host, port, option }: ListenAddress): Promise<number> {
  await orAddressError(app.listen({ host, port }), { host, port, option });
  return (app.server.address() as AddressInfo).port;
}

/** Turns the system's word for an address that cannot be had into one that names the option. */
export async function orAddressError<T>(listening: Promise<T>, { host, port, option }: ListenAddress): Promise<T> {
  try {
    return await listening;
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? error.code : undefined;
    const why = typeof code === 'string' ? REASONS[code] : undefined;
    if (why === undefined) throw error;
    throw new UserError(`cannot listen on ${host}:${port}: ${why}; choose another with --${option}`, { cause: error });
  }
}

const REASONS: Readonly<Record<string, string>> = {
  EADDRINUSE: 'the port is in use',
  EACCES: 'the port needs more rights',
  EADDRNOTAVAIL: 'this machine does not have that address',
  ENOTFOUND: 'there is no such address',
};
