import { type FieldError, forbiddenField, invalidValue } from '../../../kube/field-error.ts';
import { quote, truncate } from '../../../kube/text.ts';
import { LOST, SAFE_SYSCTLS, SYSCTL_REPAIR } from '../../pod/index.ts';
import type { ContainerStrategy, PodContext, PodStrategy } from './strategy.ts';

/** The host namespaces that pods can share, with the SCC fields that allow them and their names in messages. */
const NAMESPACES = {
  hostNetwork: ['allowHostNetwork', 'Host network'],
  hostPID: ['allowHostPID', 'Host PID'],
  hostIPC: ['allowHostIPC', 'Host IPC'],
} as const;

interface Shared {
  readonly field: keyof typeof NAMESPACES;
  /** Path of the pod spec or of a container. */
  readonly path: string;
  readonly errors: FieldError[];
}

function validateShared({ scc, pod }: PodContext, { field, path, errors }: Shared): void {
  const [allowField, name] = NAMESPACES[field];
  if (!pod[field] || scc[allowField]) return;
  errors.push(invalidValue(`${path}.${field}`, true, `${name} is not allowed to be used`));
}

/** A shared namespace results in an error for the pod and for each container. */
export const hostNamespacesOfPod: PodStrategy = {
  repairs: [
    { field: /\.hostNetwork$/, set: false, note: LOST.hostNetwork, explicit: true },
    { field: /\.hostPID$/, set: false, note: LOST.hostPID, explicit: true },
    { field: /\.hostIPC$/, set: false, note: LOST.hostIPC, explicit: true },
  ],
  validate(context, errors) {
    for (const field of ['hostNetwork', 'hostPID', 'hostIPC'] as const) {
      validateShared(context, { field, path: '.spec', errors });
    }
  },
};

/**
 * The errors of each container list the ports of all containers, as in OpenShift. Negative ports are ignored, because
 * the API server rejects them.
 */
export const hostNamespacesAndPortsOfContainer: ContainerStrategy = {
  repairs: [{ field: /\.hostPort$/, remove: 'field', note: LOST.hostPort, explicit: true }],
  validate(context, errors) {
    const { scc, pod, container, maxErrors } = context;
    const path = `.${container.location}`;
    validateShared(context, { field: 'hostNetwork', path, errors });
    for (const { container: owner, port } of scc.allowHostPorts ? [] : pod.hostPorts) {
      if (errors.length >= maxErrors) break;
      if (port < 0) continue;
      errors.push(invalidValue(`${path}.${owner.location}.hostPort`, port, 'Host ports are not allowed to be used'));
    }
    validateShared(context, { field: 'hostPID', path, errors });
    validateShared(context, { field: 'hostIPC', path, errors });
  },
};

/** An SCC can require a user namespace, but it never sets `hostUsers`. */
export const userNamespaceLevel: PodStrategy = {
  repairs: [{ field: /\.hostUsers$/, choices: ['set hostUsers to false if the nodes support user namespaces'] }],
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
  repairs: [SYSCTL_REPAIR],
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

/**
 * Returns true if one of the patterns matches the name. A pattern that ends in `*` matches every name with that prefix.
 */
function matchesAny(patterns: readonly string[], name: string): boolean {
  return patterns.some((pattern) => (pattern.endsWith('*') ? name.startsWith(pattern.slice(0, -1)) : name === pattern));
}
