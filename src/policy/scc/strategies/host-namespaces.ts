import { invalidValue, type FieldError } from '../../../kube/field-error.ts';
import { pathTo } from '../decode/paths.ts';
import type { ContainerStrategy, PodContext, PodStrategy } from './types.ts';

/** A namespace of the node that pods may share: its field in pods, the one that allows it in SCCs, its name in messages. */
interface HostNamespace {
  readonly field: 'hostNetwork' | 'hostPID' | 'hostIPC';
  readonly allow: 'allowHostNetwork' | 'allowHostPID' | 'allowHostIPC';
  readonly name: string;
}

const NETWORK: HostNamespace = { field: 'hostNetwork', allow: 'allowHostNetwork', name: 'Host network' };
const PID: HostNamespace = { field: 'hostPID', allow: 'allowHostPID', name: 'Host PID' };
const IPC: HostNamespace = { field: 'hostIPC', allow: 'allowHostIPC', name: 'Host IPC' };

/** The pod does not share the namespaces of its node, unless the SCC allows it; said of the pod and of each container. */
export const hostNetworkOfPod = ofPod(NETWORK);
export const hostNetworkOfContainer = ofContainer(NETWORK);
export const hostPidOfPod = ofPod(PID);
export const hostPidOfContainer = ofContainer(PID);
export const hostIpcOfPod = ofPod(IPC);
export const hostIpcOfContainer = ofContainer(IPC);

/** The pod runs in a user namespace of its own, if the SCC demands it; the SCC cannot put it there. */
export const userNamespaceLevel: PodStrategy = {
  validate({ scc, pod: { hostUsers } }, errors) {
    if (scc.userNamespaceLevel !== 'RequirePodLevel' || hostUsers === false) return;
    errors.push(invalidValue('.spec.hostUsers', hostUsers, 'Host Users must be set to false'));
  },
};

function ofPod(namespace: HostNamespace): PodStrategy {
  return { validate: (context, errors) => refuseShared(context, namespace, { path: '.spec', errors }) };
}

function ofContainer(namespace: HostNamespace): ContainerStrategy {
  return { validate: (context, errors) => refuseShared(context, namespace, { path: context.container.path, errors }) };
}

function refuseShared(
  { scc, pod }: PodContext,
  { field, allow, name }: HostNamespace,
  { path, errors }: { readonly path: string; readonly errors: FieldError[] },
): void {
  if (pod[field] && !scc[allow])
    errors.push(invalidValue(pathTo(path, field), true, `${name} is not allowed to be used`));
}
