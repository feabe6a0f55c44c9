/**
 * Control planes for tests, which are the development cluster in this process, or kube-apiserver and etcd in
 * `KUBEBUILDER_ASSETS`.
 */
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { after } from 'node:test';
import { MIN_POLICY_MINOR } from '../../../src/policy/psa/index.ts';
import type { KeyPair } from '../../../src/tls/certificate-pair.ts';
import type { ApiClient } from '../api-client.ts';
import { startDevControlPlane } from './dev-cluster.ts';
import { startKubeApiserver } from './kube-apiserver.ts';
import { createSystem, type System, type SystemOptions } from './replica.ts';

/** A request for a resource that the API server received. */
export interface RecordedCall {
  readonly user: string;
  /** RBAC verb. */
  readonly verb: string;
  readonly group: string;
  readonly resource: string;
  readonly subresource: string;
  readonly namespace: string;
  readonly name: string;
  /** HTTP status of the response. */
  readonly code: number;
  /** True if RBAC permits the request. */
  readonly isAuthorized: boolean;
  /** The webhooks that failed open because their call failed. Only kube-apiserver records them. */
  readonly failedOpen?: readonly string[];
}

export interface ControlPlaneOptions {
  /** Whether kube-apiserver's PodSecurity plugin is on. Defaults to off. The development cluster has no such plugin. */
  readonly podSecurityPlugin?: 'on' | 'off';
  /**
   * File for kube-apiserver's `--authorization-config`. Defaults to RBAC only, which is also what the development
   * cluster uses.
   */
  readonly authorizationConfig?: string;
  /** File for kube-apiserver's `--admission-control-config-file`. The development cluster does not support it. */
  readonly admissionConfig?: string;
  /** Value of kube-apiserver's `--feature-gates`. */
  readonly featureGates?: string;
  /** Lowers the priority of kube-apiserver and etcd, so they do not delay servers that a test measures. */
  readonly niceness?: number;
  /** Replacement for the controllers that tests depend on. Default: a minimal replacement. */
  readonly controllers?: 'minimal' | 'none';
}

/** An API server on loopback that has no nodes. */
export interface ControlPlane {
  readonly which: 'dev-cluster' | 'kube-apiserver';
  /** Name and version, such as `development cluster` or `kube-apiserver v1.36.3`. */
  readonly title: string;
  /** URL of the API server, such as `https://127.0.0.1:6443`. */
  readonly server: string;
  /** Certificate authority of the API server in PEM. */
  readonly authority: string;
  /** Folder for test files. `stop` removes it. */
  readonly folder: string;
  /** Process of the API server. */
  readonly pid: number;
  /** Sends requests as an administrator of `system:masters`. */
  readonly admin: ApiClient;
  issueClientCertificate(user: string, groups: readonly string[]): KeyPair;
  /** Writes a kubeconfig for a user and returns its path. `stop` removes it. */
  kubeconfigFor(user: string, groups: readonly string[]): Promise<string>;
  /** Returns the resource requests that have a response so far, including open watches. */
  calls(): Promise<readonly RecordedCall[]>;
  /** Stops the API server and closes its connections. Stored objects are kept. */
  interrupt(): Promise<void>;
  /** Starts the API server again at the same address. */
  resume(): Promise<void>;
  /** Stops all processes and removes their files. */
  stop(): Promise<void>;
}

export { createSystem, type System, type SystemOptions };
export { REPLICA_USER, startReplica, type Replica, type ReplicaOptions } from './replica.ts';

/** The folder with the envtest binaries. If absent, tests use the development cluster. */
export const ASSETS = process.env['KUBEBUILDER_ASSETS'] || undefined;

/** Returns the reason to skip tests that need a kube-apiserver of a Kubernetes 1.x minor version, or false. */
export function findVersionProblem(required: number): string | false {
  if (ASSETS === undefined) return 'needs a kube-apiserver: KUBEBUILDER_ASSETS is not set';
  return kubernetesMinor() < required ? `requires Kubernetes 1.${required}` : false;
}

/** Returns the 1.x minor version of the kube-apiserver. */
export function kubernetesMinor(): number {
  const { stdout } = spawnSync(join(String(ASSETS), 'kube-apiserver'), ['--version'], { encoding: 'utf8' });
  return Number(/v1\.(\d+)/.exec(stdout ?? '')?.[1]);
}

/** Reason to skip tests of generated policies, or false if the kube-apiserver accepts them. */
export const withoutPolicies = findVersionProblem(MIN_POLICY_MINOR);

/** Starts a control plane with the namespaces and roles that every cluster has. */
export function startControlPlane(options: ControlPlaneOptions = {}): Promise<ControlPlane> {
  if (ASSETS !== undefined) return startKubeApiserver(ASSETS, options);
  if (options.podSecurityPlugin === 'on') throw new Error('the development cluster has no plugin PodSecurity');
  return startDevControlPlane();
}

/** Starts a control plane for the current suite, which stops it after its tests. */
export async function useControlPlane(options: ControlPlaneOptions = {}): Promise<ControlPlane> {
  const plane = await startControlPlane(options);
  after(() => plane.stop());
  return plane;
}

/** Starts a control plane and creates a system for the current suite, which stops both after its tests. */
export async function useSystem(
  options: SystemOptions = {},
  planeOptions: ControlPlaneOptions = {},
): Promise<{ readonly plane: ControlPlane; readonly system: System }> {
  const plane = await startControlPlane(planeOptions);
  const system = await createSystem(plane, options);
  after(() => system.stop().finally(() => plane.stop()));
  return { plane, system };
}
