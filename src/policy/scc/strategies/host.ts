import { invalidValue, type FieldError, forbiddenField } from '../../../kube/field-error.ts';
import { pathTo } from '../decode/paths.ts';
import type { ContainerStrategy, PodContext, PodStrategy } from './index.ts';
import { quote, truncate } from '../../../kube/text.ts';

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

/**
 * No container takes a port of the node, unless the SCC allows it. As in the original, each container is charged with the
 * ports of all.
 */
export const allowHostPorts: ContainerStrategy = {
  validate({ scc, pod: { hostPorts }, container, maxErrors }, errors) {
    if (scc.allowHostPorts) return;
    for (const { place, port } of hostPorts) {
      if (errors.length >= maxErrors) return;
      const path = pathTo(pathTo(container.path, place), 'hostPort');
      errors.push(invalidValue(path, port, 'Host ports are not allowed to be used'));
    }
  },
};

/**
 * The sysctls that need no permission, some of them from a version of the kernel on. A node's kernel is not known here:
 * every supported one is newer.
 * @see https://github.com/openshift/apiserver-library-go/blob/master/pkg/securitycontextconstraints/sysctl/mustmatchpatterns.go
 */
export const SAFE_SYSCTLS: readonly { readonly name: string; readonly kernel?: string }[] = [
  { name: 'kernel.shm_rmid_forced' },
  { name: 'net.ipv4.ip_local_port_range' },
  { name: 'net.ipv4.tcp_syncookies' },
  { name: 'net.ipv4.ping_group_range' },
  { name: 'net.ipv4.ip_unprivileged_port_start' },
  { name: 'net.ipv4.tcp_keepalive_time' },
  { name: 'net.ipv4.tcp_fin_timeout' },
  { name: 'net.ipv4.tcp_keepalive_intvl' },
  { name: 'net.ipv4.tcp_keepalive_probes' },
  { name: 'net.ipv4.ip_local_reserved_ports', kernel: '3.16' },
  { name: 'net.ipv4.tcp_rmem', kernel: '4.15' },
  { name: 'net.ipv4.tcp_wmem', kernel: '4.15' },
];

const SAFE = new Set(SAFE_SYSCTLS.map(({ name }) => name));

/** The pod sets no sysctl that is forbidden, and of those that are not safe only the allowed ones. */
export const sysctls: PodStrategy = {
  validate({ scc, pod, maxErrors }, errors) {
    for (let index = 0; index < pod.sysctls.length && errors.length < maxErrors; index++) {
      const name = pod.sysctls[index] ?? '';
      const isForbidden = matchesAny(scc.forbiddenSysctls, name);
      if (!isForbidden && (SAFE.has(name) || matchesAny(scc.allowedUnsafeSysctls, name))) continue;
      const what = isForbidden ? 'sysctl' : 'unsafe sysctl';
      const detail = `${what} ${quote(truncate(name))} is not allowed`;
      errors.push(forbiddenField(`spec.securityContext.sysctls[${index}]`, detail));
    }
  },
};

/** A pattern that ends in `*` stands for all that begin with the rest. */
function matchesAny(patterns: readonly string[], name: string): boolean {
  return patterns.some((pattern) => (pattern.endsWith('*') ? name.startsWith(pattern.slice(0, -1)) : name === pattern));
}
