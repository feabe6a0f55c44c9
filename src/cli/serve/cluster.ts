import type { AddressInfo } from 'node:net';
import type { Cluster } from '../../cluster/cluster.ts';
import type { Connection } from '../../cluster/connection.ts';
import type { Observable, Settings } from '../../config/settings.ts';
import type { Controller } from '../../controllers/controller.ts';
import type { RunningControllers } from '../../controllers/runtime.ts';
import type { Kind } from '../../kube/kinds.ts';
import { UserError } from '../../kube/user-error.ts';
import type { Version } from '../../policy/pss/policy.ts';
import type { HealthCheck } from '../../server/probes.ts';
import type { AdmissionServer } from '../../server/server.ts';
import type { Logger } from '../../telemetry/logger.ts';
import type { Metrics } from '../../telemetry/metrics.ts';
import type { KeyPair } from '../../tls/certificate-pair.ts';
import type { Service } from '../../tls/trust.ts';
import type { Io } from '../command.ts';
import type { ServeValues } from './options.ts';

/** Address of the webhooks, and the CA of the serving certificate in PEM. */
export interface WebhookAddress {
  readonly host: string;
  readonly port: number;
  readonly authority: string;
}

export interface ClusterOptions {
  readonly values: ServeValues;
  /** Settings at startup. */
  readonly settings: Settings;
  readonly env: Io['env'];
  readonly logger: Logger;
  readonly metrics: Metrics;
}

/** The live cluster or development cluster to which the server connects. */
export interface RunningCluster {
  readonly cluster: Cluster;
  /** The connection to the API server of a live cluster. */
  readonly connection?: Connection;
  /** Version of its API server, or `undefined` until it is known. */
  readonly version: Observable<Version | undefined>;
  /** Service of the webhooks. */
  readonly service: Service;
  /** The serving certificate that is used without certificate files, and its CA. */
  readonly certificate: { readonly serving: KeyPair; readonly authority: string };
  /** Readiness checks for the cluster. */
  readonly checks: readonly HealthCheck[];
  /** Checks that do not affect readiness, for `/readyz/<name>`. */
  readonly namedChecks: readonly HealthCheck[];
  /** Registers the development cluster's webhooks, which listen at the address, and creates its objects. */
  open(address: WebhookAddress): Promise<void>;
  /**
   * Keeps the kinds that the settings need in the store. Without settings, keeps the kinds that every installation
   * needs. Resolves when the kinds that reviews read are in the store.
   */
  follow(settings?: Settings): Promise<void>;
  /** Marks the store as complete for reviews. */
  markSynced(): void;
  /** Reads all watched kinds. Resolves when those are in the store that controllers do not wait for one by one. */
  complete(): Promise<void>;
  /** Returns the kinds that are not in the store yet. A controller starts when it contains the kinds of its sources. */
  unsyncedKinds(): readonly Kind[];
  /** Starts the controllers. */
  run(controllers: readonly Controller[]): Promise<Pick<RunningControllers, 'update'>>;
  /** Message on stdout with the addresses. */
  greeting(): string;
  /** Stops the controllers and closes the connection. */
  stop(): Promise<void>;
}

/** Formats a host for a URL, with IPv6 addresses in brackets. */
export function urlHost(host: string): string {
  return host.includes(':') ? `[${host}]` : host;
}

/** Address for clients on this machine of a server that listens on `host`. */
export function clientHost(host: string): string {
  if (host === '0.0.0.0') return '127.0.0.1';
  return host === '::' ? '::1' : host;
}

/** Address on which a server listens, and its options. */
interface ListenAddress {
  readonly host: string;
  readonly port: number;
  readonly option: string;
  /** Host option, if it differs. */
  readonly hostOption?: string;
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

/** Converts system errors about the address to a UserError that names the option. */
export async function explainAddressError<T>(listening: Promise<T>, address: ListenAddress): Promise<T> {
  try {
    return await listening;
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? error.code : undefined;
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
  EADDRNOTAVAIL: 'this machine does not have the address',
  ENOTFOUND: 'the address cannot be resolved',
  EAI_AGAIN: 'the address cannot be resolved',
};

/** Errors that concern the host, not the port. */
const HOST_ERRORS: ReadonlySet<string> = new Set(['EADDRNOTAVAIL', 'ENOTFOUND', 'EAI_AGAIN']);
