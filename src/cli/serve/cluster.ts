import type { AddressInfo } from 'node:net';
import type { Cluster } from '../../cluster/cluster.ts';
import type { Controller } from '../../controllers/controller.ts';
import type { KeyPair } from '../../tls/certificate-pair.ts';
import type { Service } from '../../tls/trust.ts';
import type { HealthCheck } from '../../server/probes.ts';
import type { LiveCluster } from '../../cluster/live-cluster.ts';
import type { Connections } from '../../server/server.ts';
import type { SccHealth } from '../../server/scc-health.ts';
import { UserError } from '../../config/files.ts';

/** Where reviews are answered, and which authority, in PEM, has signed the certificate that is served there. */
export interface WebhookAddress {
  readonly host: string;
  readonly port: number;
  readonly authority: string;
}

/** The cluster whose reviews are answered, whichever it is. */
export interface RunningCluster {
  readonly cluster: Cluster;
  /** By which API servers reach this program. */
  readonly service: Service;
  /** Served where no files are named, and the authority that has signed it. */
  readonly certificate: { readonly serving: KeyPair; readonly authority: string };
  /** What has to be true of the cluster for reviews to be sent here. */
  readonly checks: readonly HealthCheck[];
  /** What is told to whoever asks for it by name. */
  readonly namedChecks: readonly HealthCheck[];
  /** Goes to work, once reviews are answered at that address; controllers run from when the cluster has been read. */
  open(address: WebhookAddress, controllers: readonly Controller[]): Promise<void>;
  /** Lets the cluster trust webhooks whose certificates that authority has signed, in PEM. */
  trust(authority: string): Promise<void>;
  /** Where the cluster is and how to reach it, for people. */
  greeting(): string;
  /** Ends the controllers, then the way to the cluster. */
  stop(): Promise<void>;
}

/** A host as part of a URL. */
export function printHost(host: string): string {
  return host.includes(':') ? `[${host}]` : host;
}

/** The process is worth keeping as long as it answers. */
export const ping: HealthCheck = { name: 'ping', check: () => undefined };

/** Verdicts need all of the cluster. An API server that goes away later changes nothing. */
export function readCheck({ store, unsyncedKinds: unread }: Pick<LiveCluster, 'store' | 'unsyncedKinds'>): HealthCheck {
  const check = (): string | undefined =>
    store.synced() ? undefined : `the cluster has not been read completely yet: ${unread().join(', ')}`;
  return { name: 'informer-sync', check };
}

/** The API server speaks at least once a minute about each kind. */
const MAX_AGE_MS = 120_000;

/** Whether decisions are made by what the cluster is now, or by what it was. */
export function newsCheck({ lastEventAgesMs }: Pick<LiveCluster, 'lastEventAgesMs'>): HealthCheck {
  const check = (): string | undefined => {
    const stale = [...lastEventAgesMs()].filter(([, ageMs]) => ageMs > MAX_AGE_MS);
    if (stale.length === 0) return undefined;
    const ages = stale.map(([kind, ageMs]) => `${kind} for ${Math.round(ageMs / 1000)} s`);
    return `no news of the cluster, decisions go on by what was known last: ${ages.join(', ')}`;
  };
  return { name: 'cluster', check };
}

interface ReadinessOptions {
  /** Of the cluster. */
  readonly checks: readonly HealthCheck[];
  readonly connections: Connections;
  /** Absent where SCCs are off. */
  readonly sccProblems: SccHealth | undefined;
}

/** What has to be true for reviews to be sent here. */
export function readinessChecks({ checks, connections, sccProblems }: ReadinessOptions): readonly HealthCheck[] {
  return [
    ping,
    ...checks,
    ...(sccProblems ? [{ name: 'scc', check: () => undefined, note: () => sccProblems.summary() }] : []),
    { name: 'shutdown', check: () => (connections.isDraining() ? 'the server drains' : undefined) },
  ];
}

/** Where a server listens, and which option says so. */
interface ListenAddress {
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
