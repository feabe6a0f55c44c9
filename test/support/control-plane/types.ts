import type { ApiClient } from '../api-client.ts';

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
