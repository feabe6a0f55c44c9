/**
 * Control planes for tests: the development cluster in this process or, where the environment names a folder with `etcd`
 * and `kube-apiserver`, a real one. Neither has nodes: programs under test run as processes.
 */
import type { ApiClient } from '../api-client.ts';
import { startDevControlPlane } from './dev-cluster.ts';
import { startKubeApiserver } from './kube-apiserver.ts';

/** A request for a resource, as the API server saw it. */
export interface RecordedCall {
  readonly user: string;
  /** As RBAC calls it. */
  readonly verb: string;
  readonly group: string;
  readonly resource: string;
  readonly subresource: string;
  readonly namespace: string;
  readonly name: string;
  /** HTTP status of the answer. */
  readonly code: number;
  /** Whether the user has the right to do it, whatever came of it. */
  readonly isAuthorized: boolean;
}

export interface ControlPlaneOptions {
  /** The plugin of that name of a real API server; the development cluster has none. Default: off. */
  readonly podSecurityPlugin?: 'on' | 'off';
}

/** An API server with what it needs, on loopback, without nodes. */
export interface ControlPlane {
  readonly which: 'dev-cluster' | 'kube-apiserver';
  /** For people: `development cluster`, `kube-apiserver v1.36.3`. */
  readonly title: string;
  /** Such as `https://127.0.0.1:6443`. */
  readonly server: string;
  /** In PEM. */
  readonly authority: string;
  /** For files of tests; gone with the control plane. */
  readonly folder: string;
  /** Sends requests as an administrator of `system:masters`. */
  readonly admin: ApiClient;
  /** Writes a kubeconfig for that user and returns its path; it is gone with the control plane. */
  kubeconfigFor(user: string, groups: readonly string[]): Promise<string>;
  /** The requests for resources that were answered so far, watches that are still open included. */
  calls(): Promise<readonly RecordedCall[]>;
  /** Ends the API server and all connections to it; what is stored stays. */
  interrupt(): Promise<void>;
  /** Starts the API server again, at the same address. */
  resume(): Promise<void>;
  /** Ends all of it and removes what it has written. */
  stop(): Promise<void>;
}

export { createSystem, type System, type SystemOptions } from './system.ts';
export { REPLICA_USER, startReplica, type Replica, type ReplicaOptions } from './replica.ts';

/** The folder of the binaries, as the convention of envtest has it; `undefined`: the development cluster. */
export const ASSETS = process.env['KUBEBUILDER_ASSETS'];

/** Starts a control plane with the namespaces and roles that every cluster has. */
export function startControlPlane(options: ControlPlaneOptions = {}): Promise<ControlPlane> {
  if (ASSETS !== undefined) return startKubeApiserver(ASSETS, options);
  if (options.podSecurityPlugin === 'on') throw new Error('the development cluster has no plugin PodSecurity');
  return startDevControlPlane();
}
