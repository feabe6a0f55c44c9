/** Locates the pod fields that an SCC does not allow. */
import type { FieldError } from '../../../kube/field-error.ts';
import { SECCOMP_CONTAINER_ANNOTATION_PREFIX, SECCOMP_POD_ANNOTATION } from '../../../kube/scc.ts';
import type { ContainerFields, PodFields, SeccompProfile } from '../../pod/index.ts';
import { completePod } from '../complete.ts';
import type { PodInNamespace } from '../namespace.ts';
import type { PreparedScc } from '../scc.ts';
import { formatValues } from './warning-text.ts';

/** A pod field that an SCC does not allow. */
export interface DisallowedField {
  /** Path in the pod, such as `spec.containers[0].securityContext.runAsUser`. */
  readonly path: string;
  /** The values that are not allowed. Empty if the SCC requires a value that the pod does not set. */
  readonly values: readonly unknown[];
}

/** Maximum number of fields to report for one SCC. */
const MAX_FIELDS = 100;

/**
 * Returns the pod fields to which an SCC's errors refer, in the order of the errors. Returns each field once, and at
 * most `limit` fields. The errors contain effective values, so an inherited value is reported as a field of the pod
 * instead of the container, and a seccomp profile is reported where it is set.
 */
export function findDisallowedFields(
  pod: PodFields,
  errors: readonly FieldError[],
  limit = MAX_FIELDS,
): readonly DisallowedField[] {
  const valuesByPath = new Map<string, unknown[]>();
  const reported = errors.slice(0, MAX_FIELDS);
  const hostPorts = groupHostPorts(pod, reported);
  for (const error of reported) {
    if (valuesByPath.size >= limit) break;
    // The error for an SCC that cannot be used in the namespace does not refer to a field.
    if (error.type === 'InternalError') continue;
    for (const { path, value } of locate(pod, error, hostPorts)) {
      const values = valuesByPath.get(path);
      if (values === undefined) valuesByPath.set(path, value == null ? [] : [value]);
      else if (value != null && !values.includes(value)) values.push(value);
    }
  }
  return Array.from(valuesByPath, ([path, values]) => ({ path, values }));
}

/** Formats a field, such as `spec.hostNetwork=true`. */
export function formatDisallowedField({ path, values }: DisallowedField): string {
  return values.length === 0 ? `${path} (not set)` : `${path}=${formatValues(values)}`;
}

interface FieldValue {
  readonly path: string;
  readonly value: unknown;
}

const FS_GROUP = '.spec.securityContext.fsGroup';
const ANNOTATIONS = 'metadata.annotations[';
const CONTAINER_FIELD = /^\.((?:initContainers|containers|ephemeralContainers)\[\d+\])\.(.+)$/;
const POD_FIELDS: ReadonlySet<string> = new Set(['hostNetwork', 'hostPID', 'hostIPC']);
/** Fields that containers inherit from the pod's security context. */
const INHERITED_FIELDS = ['runAsUser', 'runAsNonRoot', 'seLinuxOptions'] as const;

function locate(pod: PodFields, { path, value }: FieldError, hostPorts: HostPorts): readonly FieldValue[] {
  // The value of the error is a list, so use the value in the pod.
  if (path === FS_GROUP) return [{ path: path.slice(1), value: pod.fsGroup }];
  if (path.startsWith('.spec')) return [{ path: path.slice(1), value }];
  if (path.startsWith(ANNOTATIONS)) return [locateSeccomp(pod, path)];
  const [, location = '', field = ''] = CONTAINER_FIELD.exec(path) ?? [];
  if (field === '') return [locateSysctl(pod, path)];
  if (POD_FIELDS.has(field)) return [{ path: `spec.${field}`, value }];
  // Each container's errors list the ports of all containers. The last error names the container that has the port.
  if (field.endsWith('.hostPort')) return locatePorts(hostPorts, `.${field}`, value);
  const inherited = INHERITED_FIELDS.find((name) => field.startsWith(name));
  const isInherited =
    inherited !== undefined && pod[inherited] !== undefined && findContainer(pod, location)?.[inherited] === undefined;
  return [{ path: `spec.${isInherited ? '' : `${location}.`}securityContext.${field}`, value }];
}

function findContainer(pod: PodFields, location: string): ContainerFields | undefined {
  return pod.containers.find((container) => container.location === location);
}

/** Paths of host ports by container and number. Ports with different protocols can have the same number. */
type HostPorts = ReadonlyMap<string, readonly string[]>;

/** Returns the paths of the ports to which the errors refer. A pod can have thousands of other ports. */
function groupHostPorts({ hostPorts }: PodFields, errors: readonly FieldError[]): HostPorts {
  const numbers = new Set(errors.filter(({ path }) => path.endsWith('.hostPort')).map(({ value }) => value));
  const paths = new Map<string, string[]>();
  if (numbers.size === 0) return paths;
  for (const { container, port, index } of hostPorts) {
    if (!numbers.has(port)) continue;
    const key = `${container.location} ${port}`;
    const existing = paths.get(key) ?? [];
    if (existing.length < MAX_FIELDS) existing.push(`spec.${container.location}.ports[${index}].hostPort`);
    paths.set(key, existing);
  }
  return paths;
}

function locatePorts(hostPorts: HostPorts, path: string, value: unknown): readonly FieldValue[] {
  const [, location = ''] = CONTAINER_FIELD.exec(path) ?? [];
  return (hostPorts.get(`${location} ${String(value)}`) ?? []).map((port) => ({ path: port, value }));
}

/**
 * Returns the field or annotation that sets the effective seccomp profile. An annotation overrides the field, and the
 * container overrides the pod.
 */
function locateSeccomp(pod: PodFields, path: string): FieldValue {
  const key = path.slice(ANNOTATIONS.length, -1);
  const name = key.slice(SECCOMP_CONTAINER_ANNOTATION_PREFIX.length);
  const container = key === SECCOMP_POD_ANNOTATION ? undefined : pod.containers.find((item) => item.name === name);
  if (container?.seccompAnnotation !== undefined) return { path, value: container.seccompAnnotation };
  if (container?.seccompProfile) return locateProfile(container.seccompProfile, `spec.${container.location}`);
  return pod.seccompAnnotation === ''
    ? locateProfile(pod.seccompProfile, 'spec')
    : { path: `${ANNOTATIONS}${SECCOMP_POD_ANNOTATION}]`, value: pod.seccompAnnotation };
}

/** Returns the type of the profile, or the file of a `Localhost` profile, because SCCs list these files. */
function locateProfile({ type, localhostProfile }: Partial<SeccompProfile> = {}, owner: string): FieldValue {
  const path = `${owner}.securityContext.seccompProfile`;
  return type === 'Localhost' && localhostProfile !== undefined
    ? { path: `${path}.localhostProfile`, value: localhostProfile }
    : { path: `${path}.type`, value: type };
}

function locateSysctl(pod: PodFields, path: string): FieldValue {
  const index = Number(path.slice(path.lastIndexOf('[') + 1, -1));
  return { path: `${path}.name`, value: pod.sysctls[index] };
}

/**
 * Maximum number of fields that override each other. These are the annotation and the field of a container and of the
 * pod.
 */
const MAX_HIDDEN = 4;

/**
 * Returns the fields that an SCC does not allow, including those that only take effect once other fields are removed.
 * Examples are values that a container inherits from the pod, and seccomp profiles that annotations override.
 */
export function findAllDisallowedFields(scc: PreparedScc, search: PodInNamespace): readonly DisallowedField[] {
  const all = new Map<string, DisallowedField>();
  let { pod } = search;
  for (let round = 0; round < MAX_HIDDEN; round++) {
    const fields = findDisallowedFields(pod, completePod(scc, { ...search, pod }).errors);
    for (const field of fields) all.set(field.path, field);
    const rest = fields.reduce((changed, { path }) => withoutField(changed, path), pod);
    if (rest === pod) break;
    pod = rest;
  }
  return [...all.values()];
}

type Overriding = Pick<ContainerFields, 'runAsUser' | 'runAsNonRoot' | 'seLinuxOptions' | 'seccompProfile'>;
const OVERRIDING =
  /^spec\.(\w+\[\d+\])\.securityContext\.(runAsUser|runAsNonRoot|seLinuxOptions|seccompProfile)(?:\.|$)/;

/** Fields of the pod's security context that have no value by default. */
const POD_OPTIONS = /^spec\.securityContext\.(seLinuxOptions|seccompProfile|supplementalGroups)(?:\.|$)/;

/** Returns the pod without the given security context field or seccomp annotation. */
export function withoutField(pod: PodFields, path: string): PodFields {
  const [, option] = POD_OPTIONS.exec(path) ?? [];
  if (option !== undefined) return { ...pod, [option]: undefined };
  if (path === `${ANNOTATIONS}${SECCOMP_POD_ANNOTATION}]`) return { ...pod, seccompAnnotation: '' };
  const key = path.startsWith(ANNOTATIONS) ? path.slice(ANNOTATIONS.length, -1) : '';
  const name = key.slice(SECCOMP_CONTAINER_ANNOTATION_PREFIX.length);
  const [, location, field] = OVERRIDING.exec(path) ?? [];
  const containers = pod.containers.map((container) => {
    if (key !== '' && container.name === name) return { ...container, seccompAnnotation: undefined };
    if (field === undefined || container.location !== location) return container;
    return { ...container, [field as keyof Overriding]: undefined };
  });
  return containers.some((container, index) => container !== pod.containers[index]) ? { ...pod, containers } : pod;
}
