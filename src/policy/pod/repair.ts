/** Repairs describe how `check --fix` changes the pod fields that violate a rule. */
import { isObject, objectMember } from '../../kube/types.ts';
import { SAFE_SYSCTLS, sysctlName } from './allowed-values.ts';

/** Declarative repair for a rule. `check --fix` applies the rule's first repair that matches a violating field. */
export type Repair = {
  /**
   * Matches the field paths that the repair applies to. By default, the repair applies to all fields that the rule
   * reports. The first group is the path to change.
   */
  readonly field?: RegExp;
  /** If true, the repair applies only to required fields that are not set. */
  readonly missing?: true;
  /** The path to change, if it differs from the violating path. */
  readonly path?: string;
  /**
   * A condition that the manifest does not show, so the user must verify it. `{values}` stands for the removed or
   * changed values.
   */
  readonly note?: string;
  /**
   * If true, the note applies to the container or pod that sets the field. Otherwise, it applies to the whole object.
   */
  readonly explicit?: true;
} & RepairAction;

type RepairAction =
  | { readonly set: boolean | string }
  /**
   * Removes the field. With `values`, removes the violating items from a list of strings, and removes the field once
   * the list is empty. `correct` returns the replacement of a field or item that is only spelled differently from an
   * allowed value, and `undefined` for other values, which are removed. `parent` is the list that contains the field.
   */
  | { readonly remove: 'field' | 'values'; readonly correct?: (value: unknown, parent: unknown) => unknown }
  /** Adds a capability to a list, or corrects its capitalization. */
  | { readonly append: string }
  /** The correct repair depends on the application. The choices are verb phrases. */
  | { readonly choices: readonly string[] };

/** Returns the name of a capability that container runtimes accept, in upper case without the prefix. */
export function capabilityName(value: unknown): string {
  return String(value).toUpperCase().replace(/^CAP_/, '');
}

/** Returns a function that corrects the capitalization and the prefix of allowed capabilities. */
export function correctCapability(allowed: ReadonlySet<string>): (value: unknown) => string | undefined {
  return (value) => {
    const name = capabilityName(value);
    return allowed.has(name) ? name : undefined;
  };
}

/** Note for repairs that let an SCC set the user and groups. */
export const ANY_USER =
  'OpenShift sets the user and groups, so the image must work with any user ID. On clusters without SCCs, it runs as the USER of the image and without the removed groups';

/** Notes about what the application of a repaired container or pod can no longer use. */
export const LOST = {
  appArmor: 'used the AppArmor profile {values}. The default profile denies mounts and most writes to /proc and /sys',
  capabilities: 'added the capabilities {values}. Operations that need them now fail',
  hostIPC: 'used the host IPC namespace. Shared memory and semaphores of other processes on the node are not reachable',
  hostNetwork:
    'used the host network. Clients now need a Service, and node addresses such as localhost are not reachable',
  hostPID: 'used the host PID namespace. Processes of the node and of other pods are not visible',
  hostPort: 'used the host port {values}. Clients now need a Service',
  hostProcess: 'ran as a process of the Windows node. It now runs isolated from the node',
  privileged: 'was privileged. Host devices, mounts, kernel settings and most capabilities are no longer available',
  probeHost:
    'sent requests of a probe or lifecycle hook to {values}. They now go to the IP address of the pod, where the container must listen',
  procMount: 'used the proc mount {values}. Some files in /proc are now hidden or read-only',
  seLinux: 'used the SELinux options {values}. The default type permits fewer operations and files',
  seccomp: 'used the seccomp profile {values}. The new profile denies rarely used system calls',
  sysctls: 'set the sysctl {values}. The application now gets the default value of its network namespace or node',
} as const;

/** Suggestions for volumes whose type is not allowed. */
export const VOLUME_CHOICES: readonly string[] = [
  'use a persistentVolumeClaim for data that must outlive the pod',
  'use an emptyDir for the data of a single pod',
  'use a configMap, secret, downwardAPI or projected volume for files from the cluster',
  'keep the volume, and move the pod to a separate namespace that enforces a less strict level',
];

/**
 * Corrects a sysctl that is spelled with slashes, because policies compare names with dots. Removes other sysctls, and
 * those that the list also contains with dots, because API servers reject repeated names.
 */
export const SYSCTL_REPAIR: Repair = {
  field: /^(spec\.securityContext\.sysctls\[\d+\])/,
  remove: 'field',
  correct(sysctl, list) {
    const entry = objectMember({ sysctl }, 'sysctl');
    const name = sysctlName(String(entry['name']));
    const isRepeated = Array.isArray(list) && list.some((item) => isObject(item) && item['name'] === name);
    return isRepeated || SAFE_SYSCTLS.every((safe) => safe.name !== name) ? undefined : { ...entry, name };
  },
  note: LOST.sysctls,
  explicit: true,
};
