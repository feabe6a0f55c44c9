import {
  duplicateValue,
  invalidValue,
  notSupported,
  requiredField,
  type FieldError,
} from '../../../kube/field-error.ts';
import type { JsonObject } from '../../../kube/types.ts';
import { descendingPath, id, oneOf } from '../errors.ts';
import { hasField, objectAt, objectsAt, textAt, textsAt } from '../read.ts';

const PROFILE_TYPES = ['Localhost', 'RuntimeDefault', 'Unconfined'];

/** Checks the security context of a pod. */
export function validatePodSecurity(spec: JsonObject, path: string): FieldError[] {
  const context = objectAt(spec, 'securityContext');
  const at = `${path}.securityContext`;
  const groups = Array.isArray(context['supplementalGroups']) ? context['supplementalGroups'] : [];
  return [
    ...['fsGroup', 'runAsUser', 'runAsGroup'].flatMap((field) => id(`${at}.${field}`, context[field])),
    ...groups.flatMap((group, index) => id(`${at}.supplementalGroups[${index}]`, group)),
    ...(spec['shareProcessNamespace'] === true && spec['hostPID'] === true
      ? [invalidValue(`${at}.shareProcessNamespace`, true, 'ShareProcessNamespace and HostPID cannot both be enabled')]
      : []),
    ...sysctlErrors(spec, `${at}.sysctls`),
    ...oneOf(`${at}.fsGroupChangePolicy`, context['fsGroupChangePolicy'], ['Always', 'OnRootMismatch']),
    ...profiles(context, at),
    ...oneOf(`${at}.supplementalGroupsPolicy`, context['supplementalGroupsPolicy'], ['Merge', 'Strict']),
    ...oneOf(`${at}.seLinuxChangePolicy`, context['seLinuxChangePolicy'], ['MountOption', 'Recursive']),
  ];
}

/** Checks the security context of a container. */
export function validateSecurity(container: JsonObject, path: string, spec: JsonObject): FieldError[] {
  if (!hasField(container, 'securityContext')) return [];
  const context = objectAt(container, 'securityContext');
  const at = `${path}.securityContext`;
  return [
    ...['runAsUser', 'runAsGroup'].flatMap((field) => id(`${at}.${field}`, context[field])),
    ...procMountErrors(context, spec, `${at}.procMount`),
    ...profiles(context, at),
    ...escalationErrors(context, at),
  ];
}

function profiles(context: JsonObject, path: string): FieldError[] {
  return [
    ...profileErrors(context, 'seccompProfile', 'seccomp', path),
    ...profileErrors(context, 'appArmorProfile', 'AppArmor', path),
  ];
}

function profileErrors(context: JsonObject, field: string, name: string, path: string): FieldError[] {
  if (!hasField(context, field)) return [];
  const profile = objectAt(context, field);
  const type = textAt(profile, 'type');
  const file = `${path}.${field}.localhostProfile`;
  const errors: FieldError[] = [];
  if (type === '') errors.push(requiredField(`${path}.${field}.type`, `type is required when ${field} is set`));
  else if (!PROFILE_TYPES.includes(type)) errors.push(notSupported(`${path}.${field}.type`, type, PROFILE_TYPES));
  if (type === 'Localhost') {
    if (!hasField(profile, 'localhostProfile')) {
      errors.push(requiredField(file, `must be set when ${name} type is Localhost`));
    } else if (name === 'seccomp') errors.push(...descendingPath(file, textAt(profile, 'localhostProfile')));
  } else if (hasField(profile, 'localhostProfile')) {
    const value = name === 'seccomp' ? profile : profile['localhostProfile'];
    errors.push(invalidValue(file, value, `can only be set when ${name} type is Localhost`));
  }
  return errors;
}

function procMountErrors(context: JsonObject, spec: JsonObject, path: string): FieldError[] {
  const { procMount } = context;
  return [
    ...oneOf(path, procMount, ['Default', 'Unmasked']),
    ...(procMount === 'Unmasked' && spec['hostUsers'] !== false
      ? [invalidValue(path, procMount, '`hostUsers` must be false to use `Unmasked`')]
      : []),
  ];
}

function escalationErrors(context: JsonObject, path: string): FieldError[] {
  if (context['allowPrivilegeEscalation'] !== false) return [];
  const refused = 'cannot set `allowPrivilegeEscalation` to false and';
  const added = textsAt(objectAt(context, 'capabilities'), 'add');
  return [
    ...(context['privileged'] === true ? [invalidValue(path, context, `${refused} \`privileged\` to true`)] : []),
    ...(added.includes('CAP_SYS_ADMIN')
      ? [invalidValue(path, context, `${refused} \`capabilities.Add\` CAP_SYS_ADMIN`)]
      : []),
  ];
}

const SYSCTL_SEGMENT = '[a-z0-9]([-_a-z0-9]*[a-z0-9])?';
const SYSCTL = `^(${SYSCTL_SEGMENT}[\\./])*${SYSCTL_SEGMENT}$`;
const IS_SYSCTL = new RegExp(SYSCTL);
const MAX_SYSCTL = 253;

function sysctlErrors(spec: JsonObject, path: string): FieldError[] {
  const seen = new Set<string>();
  return objectsAt(objectAt(spec, 'securityContext'), 'sysctls').flatMap((sysctl, index) => {
    const name = textAt(sysctl, 'name');
    const at = `${path}[${index}].name`;
    const errors = [...nameErrors(name, at, seen), ...hostErrors(name, at, spec)];
    seen.add(name);
    return errors;
  });
}

function nameErrors(name: string, path: string, seen: ReadonlySet<string>): FieldError[] {
  if (name === '') return [requiredField(path, '')];
  if (name.length > MAX_SYSCTL || !IS_SYSCTL.test(name)) {
    return [invalidValue(path, name, `must have at most ${MAX_SYSCTL} characters and match regex ${SYSCTL}`)];
  }
  return seen.has(name) ? [duplicateValue(path, name)] : [];
}

const IPC_SYSCTLS = /^(kernel\.(shm|msg|sem)|fs\.mqueue\.)/;

/** A sysctl of a kernel namespace cannot be set where the pod shares that of the node. */
function hostErrors(sysctl: string, path: string, spec: JsonObject): FieldError[] {
  const name = sysctl.replaceAll('/', '.');
  if (spec['hostNetwork'] === true && name.startsWith('net.')) {
    return [invalidValue(path, sysctl, "may not be specified when 'hostNetwork' is true")];
  }
  return spec['hostIPC'] === true && IPC_SYSCTLS.test(name)
    ? [invalidValue(path, sysctl, "may not be specified when 'hostIPC' is true")]
    : [];
}
