/**
 * Defines the repairs, which describe how `check --fix` changes pod fields that violate a rule. API servers must not
 * reject a repaired pod.
 */
import { CONTAINER_LISTS } from '../../kube/pod.ts';
import { SECCOMP_CONTAINER_ANNOTATION_PREFIX, SECCOMP_POD_ANNOTATION } from '../../kube/scc.ts';
import { isObject, type JsonObject, objectMember } from '../../kube/types.ts';
import { SAFE_SYSCTLS, sysctlName } from './allowed-values.ts';

/** A declarative repair for a rule. `check --fix` applies the rule's first repair that matches a violating field. */
export type Repair = {
  /**
   * Matches the field paths that the repair applies to. By default, the repair applies to all fields that the rule
   * reports. The first capture group is the path to change.
   */
  readonly field?: RegExp;
  /** If true, the repair applies only to required fields that are not set. */
  readonly missing?: true;
  /** The path to change, if it differs from the violating path. */
  readonly path?: string;
  /**
   * A condition that the user must verify, because it cannot be determined from the manifest. `{values}` stands for the
   * removed or changed values.
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
   * the list is empty. `correct` returns the replacement for a value that differs from an allowed value only in its
   * spelling, and `undefined` for a value that must be removed. `parent` is the list that contains the value.
   */
  | { readonly remove: 'field' | 'values'; readonly correct?: (value: unknown, parent: unknown) => unknown }
  /** Adds a capability to a list, or corrects its capitalization. */
  | { readonly append: string }
  /** Verb phrases that describe the choices if the correct repair depends on the application. */
  | { readonly choices: readonly string[] };

/** Returns the name of a capability as container runtimes accept it, in uppercase and without the prefix. */
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

/** Note on repairs that allow an SCC to set the user and groups. */
export const ANY_USER =
  'OpenShift sets the user and groups, so the image must work with any user ID. On clusters without SCCs, it runs as the USER of the image and without the removed groups';

/** Notes about features that a repaired container or pod can no longer use. */
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
 * Corrects a sysctl that is spelled with slashes, because policies compare names with dots. Removes all other sysctls.
 * Also removes a sysctl if the list already contains it with dots, because API servers reject repeated names.
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

// Conflicts are combinations of pod fields that API servers reject and that a repair can create.

interface FieldConflict {
  /** Paths of the fields whose values API servers reject in combination. */
  readonly fields: readonly string[];
  /** A verb phrase that explains how to resolve the conflict, and why. */
  readonly choice: string;
}

const OS_NAME = 'spec.os.name';

/** Fields that API servers reject in pods with `spec.os.name: windows`. */
const LINUX_POD_FIELDS = ['hostPID', 'hostIPC', 'hostUsers', 'shareProcessNamespace'];
const LINUX_CONTEXT_FIELDS = [
  'allowPrivilegeEscalation',
  'appArmorProfile',
  'capabilities',
  'fsGroup',
  'fsGroupChangePolicy',
  'privileged',
  'procMount',
  'readOnlyRootFilesystem',
  'runAsGroup',
  'runAsUser',
  'seLinuxChangePolicy',
  'seLinuxOptions',
  'seccompProfile',
  'supplementalGroups',
  'supplementalGroupsPolicy',
  'sysctls',
];

/**
 * Returns the conflicts between the security fields of a pod.
 * @see https://github.com/kubernetes/kubernetes/blob/master/pkg/apis/core/validation/validation.go
 */
export function findConflicts(pod: unknown): readonly FieldConflict[] {
  const spec = objectMember(pod, 'spec');
  const containers = CONTAINER_LISTS.flatMap((list) => {
    const items: readonly unknown[] = Array.isArray(spec[list]) ? spec[list] : [];
    return items.map((item, index) => [`spec.${list}[${index}].securityContext`, securityContext(item)] as const);
  });
  const contexts = [['spec.securityContext', securityContext(spec)] as const, ...containers];
  return [
    ...containers.flatMap(([path, context]) => escalationConflicts(path, context)),
    ...contexts.flatMap(([path, context]) => profileConflicts(path, context)),
    ...annotationConflicts(pod),
    ...hostProcessConflicts(spec, containers),
    ...(objectMember(spec, 'os')['name'] === 'windows' ? windowsConflicts(spec, contexts) : []),
  ];
}

function securityContext(owner: unknown): JsonObject {
  return objectMember(owner, 'securityContext');
}

function escalationConflicts(path: string, context: JsonObject): readonly FieldConflict[] {
  if (context['allowPrivilegeEscalation'] !== false) return [];
  const field = `${path}.allowPrivilegeEscalation`;
  const { add } = objectMember(context, 'capabilities');
  const isAdministrator = Array.isArray(add) && add.includes('CAP_SYS_ADMIN');
  const causes = [
    ...(context['privileged'] === true ? ['privileged'] : []),
    ...(isAdministrator ? ['the capability CAP_SYS_ADMIN'] : []),
  ];
  return causes.map((cause) => ({
    fields: [field],
    choice: `remove ${cause}, or add an exception for allowPrivilegeEscalation, because API servers reject ${cause} together with allowPrivilegeEscalation=false`,
  }));
}

function profileConflicts(path: string, context: JsonObject): readonly FieldConflict[] {
  return ['seccompProfile', 'appArmorProfile'].flatMap((profile) => {
    const { type, localhostProfile } = objectMember(context, profile);
    if (localhostProfile == null || type === 'Localhost') return [];
    const choice = 'set type to Localhost, or remove localhostProfile, which API servers reject with other types';
    return [{ fields: [`${path}.${profile}.type`], choice }];
  });
}

/** Finds seccomp annotations that differ from the fields that replaced them, which API servers reject. */
function annotationConflicts(pod: unknown): readonly FieldConflict[] {
  const annotations = objectMember(objectMember(pod, 'metadata'), 'annotations');
  const spec = objectMember(pod, 'spec');
  const owners = CONTAINER_LISTS.flatMap((list) => {
    const items: readonly unknown[] = Array.isArray(spec[list]) ? spec[list] : [];
    return items.filter(isObject).map((item, index) => {
      return [`spec.${list}[${index}]`, SECCOMP_CONTAINER_ANNOTATION_PREFIX + String(item['name']), item] as const;
    });
  });
  return [['spec', SECCOMP_POD_ANNOTATION, spec] as const, ...owners].flatMap(([path, annotation, owner]) => {
    const { type, localhostProfile } = objectMember(securityContext(owner), 'seccompProfile');
    const value = annotations[annotation];
    if (typeof value !== 'string' || typeof type !== 'string') return [];
    const allowed = type === 'Localhost' ? [`localhost/${String(localhostProfile)}`] : (SECCOMP_TYPES.get(type) ?? []);
    if (allowed.includes(value)) return [];
    const choice = `remove the annotation ${annotation}, whose value API servers require to match the field`;
    return [{ fields: [`${path}.securityContext.seccompProfile`], choice }];
  });
}

/** Values of the annotations by type of the profile. A map, because the type of an invalid pod can have any name. */
const SECCOMP_TYPES: ReadonlyMap<string, readonly string[]> = new Map([
  ['RuntimeDefault', ['runtime/default', 'docker/default']],
  ['Unconfined', ['unconfined']],
]);

function windowsConflicts(
  spec: JsonObject,
  contexts: readonly (readonly [path: string, context: JsonObject])[],
): readonly FieldConflict[] {
  // API servers treat `false` as a missing value only in hostPID and hostIPC.
  const isSet = (owner: JsonObject, field: string): boolean => {
    const value = owner[field];
    return value != null && !(value === false && /^host(?:PID|IPC)$/.test(field)) && !isEmptyList(value);
  };
  const set = [
    ...LINUX_POD_FIELDS.filter((field) => isSet(spec, field)).map((field) => `spec.${field}`),
    ...contexts.flatMap(([path, context]) =>
      LINUX_CONTEXT_FIELDS.filter((field) => isSet(context, field)).map((field) => `${path}.${field}`),
    ),
  ];
  return set.map((field) => ({
    fields: [OS_NAME, field],
    choice: `for Windows nodes, set ${OS_NAME} to windows and remove ${set.join(', ')}, which API servers reject in Windows pods`,
  }));
}

function isEmptyList(value: unknown): boolean {
  return Array.isArray(value) && value.length === 0;
}

/**
 * Finds conflicts in HostProcess pods. API servers require HostProcess in all containers or in none, and hostNetwork.
 */
function hostProcessConflicts(
  spec: JsonObject,
  containers: readonly (readonly [path: string, context: JsonObject])[],
): readonly FieldConflict[] {
  const inherited = objectMember(securityContext(spec), 'windowsOptions')['hostProcess'];
  const values = containers.map(([, context]) => objectMember(context, 'windowsOptions')['hostProcess'] ?? inherited);
  if (!values.includes(true)) return [];
  const paths = ['spec.securityContext', ...containers.map(([path]) => path)];
  const mixed = {
    fields: paths.map((path) => `${path}.windowsOptions.hostProcess`),
    choice: 'remove hostProcess from all containers, because API servers require it in all containers or in none',
  };
  const isolated = {
    fields: ['spec.hostNetwork'],
    choice: 'remove hostProcess from all containers, because API servers require hostNetwork with it',
  };
  return [
    ...(values.every((value) => value === true) ? [] : [mixed]),
    ...(spec['hostNetwork'] === true ? [] : [isolated]),
  ];
}

const OS_LABELS = ['kubernetes.io/os', 'beta.kubernetes.io/os'];

/**
 * Returns true for a pod that runs on Windows nodes because of its node selector or affinity, but does not set
 * `spec.os`.
 */
export function lacksWindows(pod: unknown): boolean {
  const spec = objectMember(pod, 'spec');
  const os = spec['os'];
  if (isObject(os) && os['name'] != null) return false;
  const selector = objectMember(spec, 'nodeSelector');
  if (OS_LABELS.some((label) => selector[label] === 'windows')) return true;
  const affinity = objectMember(objectMember(spec, 'affinity'), 'nodeAffinity');
  const { nodeSelectorTerms: terms } = objectMember(affinity, 'requiredDuringSchedulingIgnoredDuringExecution');
  return Array.isArray(terms) && terms.length > 0 && terms.every(selectsWindows);
}

/** Returns true if a node selector term selects only Windows nodes. A node must match all expressions of a term. */
function selectsWindows(term: unknown): boolean {
  const { matchExpressions: expressions } = isObject(term) ? term : {};
  return (
    Array.isArray(expressions) &&
    expressions.some((expression: unknown) => {
      const { key, operator, values } = isObject(expression) ? expression : {};
      return (
        OS_LABELS.some((label) => label === key) &&
        operator === 'In' &&
        Array.isArray(values) &&
        values.length > 0 &&
        values.every((value) => value === 'windows')
      );
    })
  );
}
