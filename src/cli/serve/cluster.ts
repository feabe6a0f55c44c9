import type { Cluster } from '../../cluster/cluster.ts';
import type { Connection } from '../../cluster/connection.ts';
import type { Observable, Settings } from '../../config/settings.ts';
import type { Controller } from '../../controllers/controller.ts';
import type { RunningControllers } from '../../controllers/runtime.ts';
import type { Kind } from '../../kube/kinds.ts';
import type { Version } from '../../policy/pss/policy.ts';
import type { HealthCheck } from '../../server/probes.ts';
import type { Logger } from '../../telemetry/logger.ts';
import type { Metrics } from '../../telemetry/metrics.ts';
import type { KeyPair } from '../../tls/certificate-pair.ts';
import type { Service } from '../../tls/trust.ts';
import type { Io } from '../command.ts';
import type { ServeValues } from '../serve-options.ts';

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
