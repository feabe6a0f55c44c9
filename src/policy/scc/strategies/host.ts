import { forbiddenField, invalidValue, type FieldError } from '../../../kube/field-error.ts';
import { quote, truncate } from '../../../kube/text.ts';
import { SAFE_SYSCTLS } from '../../pod/safe-sysctls.ts';
import type { ContainerStrategy, PodContext, PodStrategy } from './index.ts';

/** A namespace of the node that pods may share: its field in pods, its field in SCCs and its name in messages. */
interface HostNamespace {
  readonly field: 'hostNetwork' | 'hostPID' | 'hostIPC';
  readonly allowField: 'allowHostNetwork' | 'allowHostPID' | 'allowHostIPC';
  readonly name: string;
}

const NETWORK: HostNamespace = { field: 'hostNetwork', allowField: 'allowHostNetwork', name: 'Host network' };
const PID: HostNamespace = { field: 'hostPID', allowField: 'allowHostPID', name: 'Host PID' };
const IPC: HostNamespace = { field: 'hostIPC', allowField: 'allowHostIPC', name: 'Host IPC' };

/** A shared namespace is an error of the pod and of each container. */
export const hostNetworkOfPod = createPodStrategy(NETWORK);
export const hostNetworkOfContainer = createContainerStrategy(NETWORK);
export const hostPidOfPod = createPodStrategy(PID);
export const hostPidOfContainer = createContainerStrategy(PID);
export const hostIpcOfPod = createPodStrategy(IPC);
export const hostIpcOfContainer = createContainerStrategy(IPC);

function createPodStrategy(namespace: HostNamespace): PodStrategy {
  return { validate: (context, errors) => validateShared(namespace, context, { path: '.spec', errors }) };
}

function createContainerStrategy(namespace: HostNamespace): ContainerStrategy {
  return {
    validate: (context, errors) =>
      validateShared(namespace, context, { path: `.${context.container.location}`, errors }),
  };
}

function validateShared(
  { field, allowField, name }: HostNamespace,
  { scc, pod }: PodContext,
  { path, errors }: { readonly path: string; readonly errors: FieldError[] },
): void {
  if (!pod[field] || scc[allowField]) return;
  errors.push(invalidValue(`${path}.${field}`, true, `${name} is not allowed to be used`));
}

/** OpenShift reports the ports of all containers for each container. */
export const allowHostPorts: ContainerStrategy = {
  validate({ scc, pod: { hostPorts }, container, maxErrors }, errors) {
    if (scc.allowHostPorts) return;
    for (const { container: owner, port } of hostPorts) {
      if (errors.length >= maxErrors) return;
      const path = `.${container.location}.${owner.location}.hostPort`;
      errors.push(invalidValue(path, port, 'Host ports are not allowed to be used'));
    }
  },
};

/** The SCC may require a user namespace, but it does not set `hostUsers`. */
export const userNamespaceLevel: PodStrategy = {
  validate({ scc, pod: { hostUsers } }, errors) {
    if (scc.userNamespaceLevel !== 'RequirePodLevel' || hostUsers === false) return;
    errors.push(invalidValue('.spec.hostUsers', hostUsers, 'Host Users must be set to false'));
  },
};

const SAFE: ReadonlySet<string> = new Set(
  SAFE_SYSCTLS.filter(({ inOpenShift }) => inOpenShift).map(({ name }) => name),
);

/** @see https://github.com/openshift/apiserver-library-go/blob/master/pkg/securitycontextconstraints/sysctl/mustmatchpatterns.go */
export const sysctls: PodStrategy = {
  validate({ scc, pod, maxErrors }, errors) {
    for (const [index, name] of pod.sysctls.entries()) {
      if (errors.length >= maxErrors) return;
      const isForbidden = matchesAny(scc.forbiddenSysctls, name);
      if (!isForbidden && (SAFE.has(name) || matchesAny(scc.allowedUnsafeSysctls, name))) continue;
      const detail = `${isForbidden ? 'sysctl' : 'unsafe sysctl'} ${quote(truncate(name))} is not allowed`;
      errors.push(forbiddenField(`spec.securityContext.sysctls[${index}]`, detail));
    }
  },
};

/** A pattern that ends in `*` matches every name with that prefix. */
function matchesAny(patterns: readonly string[], name: string): boolean {
  return patterns.some((pattern) => (pattern.endsWith('*') ? name.startsWith(pattern.slice(0, -1)) : name === pattern));
}
