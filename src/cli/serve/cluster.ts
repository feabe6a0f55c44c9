import type { Cluster } from '../../cluster/cluster.ts';
import type { Parser } from '../../cluster/parser.ts';
import type { Observable, Settings } from '../../config/settings.ts';
import type { Controller } from '../../controllers/controller.ts';
import type { RunningControllers } from '../../controllers/runtime.ts';
import type { Kind } from '../../kube/kinds.ts';
import type { Version } from '../../policy/pss/index.ts';
import type { HealthCheck } from '../../server/probes.ts';
import type { HeapObserver } from '../../telemetry/heap.ts';
import type { Logger } from '../../telemetry/logger.ts';
import type { Metrics } from '../../telemetry/metrics.ts';
import type { KeyPair, Service } from '../../tls/index.ts';
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
  readonly heap: Pick<HeapObserver, 'isNearlyFull'>;
  readonly parser: Parser;
}

/** The live cluster or development cluster to which the server connects. */
export interface RunningCluster {
  readonly cluster: Cluster;
  /** API server version, or `undefined` until it is known. */
  readonly version: Observable<Version | undefined>;
  /** The Service through which API servers call the webhooks. */
  readonly service: Service;
  /** The serving certificate that is used if there are no certificate files, and its CA. */
  readonly certificate: { readonly serving: KeyPair; readonly authority: string };
  /** Readiness checks for the cluster. */
  readonly checks: readonly HealthCheck[];
  /** Checks that do not affect readiness, for `/readyz/<name>`. */
  readonly namedChecks: readonly HealthCheck[];
  /**
   * Opens the cluster. For the development cluster, also registers the webhooks at the address and creates the initial
   * objects.
   */
  open(address: WebhookAddress): Promise<void>;
  /**
   * Watches the kinds that the settings require or, without settings, the kinds that every installation requires.
   * Resolves when the store contains the kinds that reviews read.
   */
  follow(settings?: Settings): Promise<void>;
  /** Marks the store as complete, so reviews can be evaluated. */
  markSynced(): void;
  /**
   * Starts reading all watched kinds. Resolves when the store contains all kinds except those for which controllers
   * wait individually.
   */
  complete(): Promise<void>;
  /**
   * Returns the kinds that the store does not contain yet. A controller starts when the store contains the kinds of its
   * sources.
   */
  unsyncedKinds(): readonly Kind[];
  /** Starts the controllers. */
  run(controllers: readonly Controller[]): Promise<Pick<RunningControllers, 'update'>>;
  /** Returns the startup message for stdout, which contains the addresses. */
  greeting(): string;
  /** Stops the controllers and closes the connection. */
  stop(): Promise<void>;
}

/** Formats a host for a URL, with IPv6 addresses in brackets. */
export function urlHost(host: string): string {
  return host.includes(':') ? `[${host}]` : host;
}

/** Returns the address at which clients on this machine reach a server that listens on `host`. */
export function clientHost(host: string): string {
  if (host === '0.0.0.0') return '127.0.0.1';
  return host === '::' ? '::1' : host;
}
