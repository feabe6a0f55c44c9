/** Finds combinations of pod fields that API servers reject, as far as a repair can create them. */
import { CONTAINER_LISTS } from '../../kube/pod.ts';
import { SECCOMP_CONTAINER_ANNOTATION_PREFIX, SECCOMP_POD_ANNOTATION } from '../../kube/scc.ts';
import { isObject, type JsonObject, objectMember } from '../../kube/types.ts';

interface FieldConflict {
  /** Paths of the fields whose values are rejected together with the values of other fields. */
  readonly fields: readonly string[];
  /** A verb phrase that describes how to resolve the conflict, and why. */
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

/** API servers require the annotations that preceded the fields of seccomp profiles to equal the fields. */
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
    const allowed = type === 'Localhost' ? [`localhost/${String(localhostProfile)}`] : (SECCOMP_TYPES[type] ?? []);
    if (allowed.includes(value)) return [];
    const choice = `remove the annotation ${annotation}, whose value API servers require to match the field`;
    return [{ fields: [`${path}.securityContext.seccompProfile`], choice }];
  });
}

const SECCOMP_TYPES: Readonly<Record<string, readonly string[]>> = {
  RuntimeDefault: ['runtime/default', 'docker/default'],
  Unconfined: ['unconfined'],
};

function windowsConflicts(
  spec: JsonObject,
  contexts: readonly (readonly [path: string, context: JsonObject])[],
): readonly FieldConflict[] {
  // API servers treat false like a missing value, except for hostUsers and in containers.
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

/** API servers require HostProcess in all containers or in none, and the host network with it. */
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

/** True for a pod that runs on Windows nodes because of its node selector, but does not set its operating system. */
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

/** The expressions of a term all apply, and a node matches if one of the terms does. */
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
