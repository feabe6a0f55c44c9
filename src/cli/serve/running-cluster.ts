import type { Cluster } from '../../cluster/cluster.ts';
import type { Controller } from '../../controllers/controller.ts';
import type { KeyPair } from '../../tls/key-pair.ts';
import type { Service } from '../../tls/served-trust.ts';
import type { HealthCheck } from '../../server/probes.ts';

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
  readonly askedChecks: readonly HealthCheck[];
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
