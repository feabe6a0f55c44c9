/**
 * Control planes for tests: the development cluster in this process or, where the environment names a folder with `etcd`
 * and `kube-apiserver`, a real one. Neither has nodes: programs under test run as processes.
 */
import { startDevControlPlane } from './dev-cluster.ts';
import { startKubeApiserver } from './kube-apiserver.ts';
import type { ControlPlane, ControlPlaneOptions } from './types.ts';

export type { ControlPlane, ControlPlaneOptions, RecordedCall } from './types.ts';
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
