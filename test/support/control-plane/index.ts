/**
 * Control planes for tests: the embedded cluster in this process or, where the environment names a folder with `etcd`
 * and `kube-apiserver`, a real one. Neither has nodes: programs under test run as processes.
 */
import { startEmbedded } from './embedded.ts';
import { startKubeApiserver } from './kube-apiserver.ts';
import type { ControlPlane, ControlPlaneOptions } from './types.ts';

export type { ControlPlane, ControlPlaneOptions, RecordedCall } from './types.ts';
export { createSystem, type System, type SystemOptions } from './system.ts';
export { REPLICA_USER, startReplica, type Replica, type ReplicaOptions } from './replica.ts';

/** The folder of the binaries, as the convention of envtest has it; `undefined`: the embedded cluster. */
export const ASSETS = process.env['KUBEBUILDER_ASSETS'];

/** Starts a control plane with the namespaces and roles that every cluster has. */
export function startControlPlane(options: ControlPlaneOptions = {}): Promise<ControlPlane> {
  if (ASSETS !== undefined) return startKubeApiserver(ASSETS, options);
  if (options.podSecurityPlugin === 'on') throw new Error('the embedded cluster has no plugin PodSecurity');
  return startEmbedded();
}
