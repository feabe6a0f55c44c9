/** Suggests how to admit denied pods: which fields to change, which SCC to grant, or which custom SCC to create. */
import type { FieldError } from '../../../kube/field-error.ts';
import { findChanges } from '../../../kube/pod-changes.ts';
import {
  POD_SCC_ANNOTATIONS,
  SECCOMP_CONTAINER_ANNOTATION_PREFIX,
  SECCOMP_POD_ANNOTATION,
  type SecurityContextConstraints,
} from '../../../kube/scc.ts';
import type { ContainerFields, PodFields } from '../../pod/pod.ts';
import { completePod, writePod } from '../complete.ts';
import { formatValues } from '../messages.ts';
import type { PreparedScc } from '../scc.ts';
import { admits, findContradiction, type Search, type SearchResult } from '../search.ts';

/** A pod field that an SCC does not allow. */
export interface DisallowedField {
  /** Path in the pod, such as `spec.containers[0].securityContext.runAsUser`. */
  readonly path: string;
  /** The values that are not allowed. Empty if the SCC requires a value but the pod has none. */
  readonly values: readonly unknown[];
}

/** Maximum number of fields to report for one SCC. */
const MAX_FIELDS = 100;

/**
 * Returns the pod fields that an SCC's errors refer to, in the order of the errors. Each field is returned once, up to
 * `limit` fields. Because the errors contain effective values, a value that a container inherits is reported as a pod
 * field, and a seccomp profile is reported where it is set.
 */
export function findDisallowedFields(
  pod: PodFields,
  errors: readonly FieldError[],
  limit = MAX_FIELDS,
): readonly DisallowedField[] {
  const valuesByPath = new Map<string, unknown[]>();
  for (const error of errors.slice(0, MAX_FIELDS)) {
    if (valuesByPath.size >= limit) break;
    // The error for an SCC that cannot be used in the namespace does not refer to a field.
    if (error.type === 'InternalError') continue;
    const { path, value } = locate(pod, error);
    const values = valuesByPath.get(path);
    if (values === undefined) valuesByPath.set(path, value == null ? [] : [value]);
    else if (value != null && !values.includes(value)) values.push(value);
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

function locate(pod: PodFields, { path, value }: FieldError): FieldValue {
  // The error value is a list.
  if (path === FS_GROUP) return { path: path.slice(1), value: pod.fsGroup };
  if (path.startsWith('.spec')) return { path: path.slice(1), value };
  if (path.startsWith(ANNOTATIONS)) return locateSeccomp(pod, path);
  const [, location = '', field = ''] = CONTAINER_FIELD.exec(path) ?? [];
  if (field === '') return locateSysctl(pod, path);
  if (POD_FIELDS.has(field)) return { path: `spec.${field}`, value };
  // Each container's errors list the ports of all containers. The last error names the container that has the port.
  if (field.endsWith('.hostPort')) return locatePort(pod, `.${field}`, value);
  const inherited = INHERITED_FIELDS.find((name) => field.startsWith(name));
  const isInherited =
    inherited !== undefined && pod[inherited] !== undefined && findContainer(pod, location)?.[inherited] === undefined;
  return { path: isInherited ? `spec.securityContext.${field}` : `spec.${location}.securityContext.${field}`, value };
}

function findContainer(pod: PodFields, location: string): ContainerFields | undefined {
  return pod.containers.find((container) => container.location === location);
}

function locatePort(pod: PodFields, path: string, value: unknown): FieldValue {
  const [, location = ''] = CONTAINER_FIELD.exec(path) ?? [];
  const hostPort = pod.hostPorts.find(({ container, port }) => container.location === location && port === value);
  return { path: `spec.${location}.ports[${hostPort?.index ?? '*'}].hostPort`, value };
}

/** An annotation overrides the field, and the container overrides the pod. */
function locateSeccomp(pod: PodFields, path: string): FieldValue {
  const key = path.slice(ANNOTATIONS.length, -1);
  const name = key.slice(SECCOMP_CONTAINER_ANNOTATION_PREFIX.length);
  const container = key === SECCOMP_POD_ANNOTATION ? undefined : pod.containers.find((one) => one.name === name);
  if (container?.seccompAnnotation !== undefined) return { path, value: container.seccompAnnotation };
  const profile = container?.seccompProfile;
  if (profile) return { path: `spec.${container.location}.securityContext.seccompProfile.type`, value: profile.type };
  return pod.seccompAnnotation === ''
    ? { path: 'spec.securityContext.seccompProfile.type', value: pod.seccompProfile?.type }
    : { path: `${ANNOTATIONS}${SECCOMP_POD_ANNOTATION}]`, value: pod.seccompAnnotation };
}

function locateSysctl(pod: PodFields, path: string): FieldValue {
  const index = Number(path.slice(path.lastIndexOf('[') + 1, -1));
  return { path: `${path}.name`, value: pod.sysctls[index] };
}

/**
 * How a pod that no SCC admits could be admitted. If `changing` is set, no other field is. SCCs are represented by
 * their names.
 */
export interface Suggestion {
  /**
   * The usable SCC with the fewest disallowed fields. If no SCC is usable and granting one would not help, the closest
   * of all SCCs.
   */
  readonly closest?: { readonly scc: string; readonly disallowedFields: readonly DisallowedField[] };
  /** The least permissive SCC that would admit the pod if it were granted. */
  readonly grantable?: string;
  /** A custom SCC that is less permissive. Set only if `grantable` allows everything. */
  readonly suggestedScc?: SuggestedScc;
  /** The first SCC that would admit the pod if it could change these fields. */
  readonly changing?: { readonly scc: string; readonly paths: readonly string[] };
}

/** A custom SCC that would admit a pod, which is a modified copy of an existing SCC. */
export interface SuggestedScc {
  readonly original: string;
  /** Verb phrases, such as `set allowedCapabilities=NET_ADMIN` or `allow runAsUser 65534`. */
  readonly changes: readonly string[];
}

/**
 * Finds a way to admit a pod that no SCC admits.
 * @param original the search that produced the result, if it was for another version of the pod
 */
export function findSuggestion(search: Search, { rejections }: SearchResult, original = search): Suggestion {
  const { pod } = search;
  const changing = rejections.find(({ reason }) => reason === 'changes')?.scc;
  if (changing) return { changing: { scc: changing.name, paths: findChangedPaths(changing, original) } };
  const denied = deniedSccs(rejections);
  const grantable = findGrantable(search, denied);
  const usable = rejections.filter(({ errors }) => errors.length > 0);
  const isAnyUsable = denied.length < rejections.length;
  const compared = isAnyUsable || grantable ? usable : denied.map((scc) => ({ scc, ...completePod(scc, search) }));
  const closest = findClosest(pod, compared);
  const suggestedScc = grantable && suggestScc(search, grantable);
  return {
    ...(closest ? { closest: { scc: closest.scc.name, disallowedFields: closest.disallowedFields } } : {}),
    ...(grantable ? { grantable: grantable.name } : {}),
    ...(suggestedScc ? { suggestedScc } : {}),
  };
}

function deniedSccs(rejections: SearchResult['rejections']): readonly PreparedScc[] {
  return rejections.filter(({ reason }) => reason === 'denied').map(({ scc }) => scc);
}

/** Ignores the priority, because the grant outlasts the pod and the least permissive SCC is the best choice. */
function findGrantable(search: Search, denied: readonly PreparedScc[]): PreparedScc | undefined {
  return denied.toSorted((a, b) => a.score - b.score).find((scc) => admits(scc, search));
}

/**
 * Returns the changes for the custom SCC that `findSuggestion` suggests, and the SCC to copy. Returns `undefined` if
 * there is no suggestion.
 */
export function findCustomScc(search: Search, { rejections }: SearchResult) {
  const grantable = findGrantable(search, deniedSccs(rejections));
  const best = grantable && findCopy(search, grantable);
  return best && { original: best.scc.name, edits: collectEdits(best.disallowedFields) };
}

interface SccErrors {
  readonly scc: PreparedScc;
  readonly errors: readonly FieldError[];
}

/** Returns the first SCC with the fewest disallowed fields, ignoring SCCs that have none. */
function findClosest(
  pod: PodFields,
  compared: Iterable<SccErrors>,
): { readonly scc: PreparedScc; readonly disallowedFields: readonly DisallowedField[] } | undefined {
  let closest: ReturnType<typeof findClosest>;
  for (const { scc, errors } of compared) {
    const fewest = closest?.disallowedFields.length ?? Infinity;
    if (fewest === 1) break;
    const disallowedFields = findDisallowedFields(pod, errors, fewest);
    if (disallowedFields.length > 0 && disallowedFields.length < fewest) closest = { scc, disallowedFields };
  }
  return closest;
}

function findChangedPaths(scc: PreparedScc, search: Search): readonly string[] {
  const changed = writePod(completePod(scc, search), { [POD_SCC_ANNOTATIONS.scc]: scc.name });
  return findChanges(search.pod.json, changed).map(({ path }) => path);
}

function suggestScc(search: Search, grantable: PreparedScc): SuggestedScc | undefined {
  const best = findCopy(search, grantable);
  return best && { original: best.scc.name, changes: collectEdits(best.disallowedFields).map(formatEdit) };
}

/**
 * Returns the SCC to copy for a custom SCC instead of granting an SCC that allows everything. Returns `undefined` if
 * the grantable SCC is less permissive, a container is privileged, or no SCC can be copied.
 */
function findCopy(search: Search, grantable: PreparedScc): ReturnType<typeof findClosest> {
  const { pod, candidates } = search;
  if (!grantable.fields.allowPrivilegedContainer || pod.containers.some(({ privileged }) => privileged)) {
    return undefined;
  }
  const copyable = candidates.filter(({ fields: { allowPrivilegedContainer, userNamespaceLevel } }) => {
    return !allowPrivilegedContainer && (userNamespaceLevel !== 'RequirePodLevel' || pod.hostUsers === false);
  });
  const compared = copyable.toSorted((a, b) => a.score - b.score);
  const best = findClosest(
    pod,
    compared.map((scc) => ({ scc, ...completePod(scc, search) })),
  );
  if (best === undefined) return undefined;
  // If the copy disallowed privilege escalation, the API server would reject the defaulted pod.
  const contradiction = findContradiction(completePod(best.scc, search));
  const escalation = contradiction && {
    path: `spec.${contradiction.location}.securityContext.allowPrivilegeEscalation`,
    values: [],
  };
  const fields = escalation ? [...best.disallowedFields, escalation] : best.disallowedFields;
  return { scc: best.scc, disallowedFields: fields };
}

type SccChange = 'add' | 'enable' | 'allow' | 'relax';

/** How an SCC must change to allow a pod field. The first row whose pattern matches the path applies. */
const SCC_CHANGES: readonly (readonly [path: RegExp, sccField: string, change: SccChange])[] = [
  [/\.capabilities\.add$/, 'allowedCapabilities', 'add'],
  [/\.capabilities(\.drop)?$/, 'requiredDropCapabilities', 'relax'],
  [/seccomp/, 'seccompProfiles', 'add'],
  [/\.sysctls\[/, 'allowedUnsafeSysctls', 'add'],
  [/\.flexVolume\.driver$/, 'allowedFlexVolumes', 'add'],
  [/^spec\.volumes\[/, 'volumes', 'add'],
  [/\.hostPort$/, 'allowHostPorts', 'enable'],
  [/\.hostNetwork$/, 'allowHostNetwork', 'enable'],
  [/\.hostPID$/, 'allowHostPID', 'enable'],
  [/\.hostIPC$/, 'allowHostIPC', 'enable'],
  [/\.runAsUser$/, 'runAsUser', 'allow'],
  [/\.runAsNonRoot$/, 'runAsUser', 'relax'],
  [/\.seLinuxOptions/, 'seLinuxContext', 'relax'],
  [/\.fsGroup$/, 'fsGroup', 'allow'],
  [/\.supplementalGroups$/, 'supplementalGroups', 'allow'],
  [/\.allowPrivilegeEscalation$/, 'allowPrivilegeEscalation', 'enable'],
  [/\.readOnlyRootFilesystem$/, 'readOnlyRootFilesystem', 'relax'],
];

/** A change to an SCC field. */
interface SccEdit {
  readonly field: string;
  readonly change: SccChange;
  readonly values: readonly unknown[];
}

function collectEdits(fields: readonly DisallowedField[]): readonly SccEdit[] {
  const changes = new Map<string, { readonly change: SccChange; readonly values: Set<unknown> }>();
  for (const { path, values } of fields) {
    const [, sccField, change] = SCC_CHANGES.find(([pattern]) => pattern.test(path)) ?? [];
    if (sccField === undefined || change === undefined) continue;
    const known = changes.get(sccField) ?? { change, values: new Set() };
    changes.set(sccField, known);
    if (change === 'enable') known.values.add(true);
    else if (change !== 'relax') for (const value of values.flatMap(toSccValues)) known.values.add(value);
  }
  return Array.from(changes, ([field, { change, values }]) => ({ field, change, values: [...values] }));
}

function formatEdit({ field, change, values }: SccEdit): string {
  if (values.length === 0) return `relax ${field}`;
  return change === 'allow' ? `allow ${field} ${formatValues(values)}` : `set ${field}=${formatValues(values)}`;
}

/** Returns a modified copy of an SCC that has a different name and no priority, users or groups. */
export function copyScc(
  original: SecurityContextConstraints,
  name: string,
  edits: readonly SccEdit[],
): SecurityContextConstraints {
  const fields = new Map<string, unknown>(Object.entries(original));
  const changed = edits.flatMap((edit): (readonly [string, unknown])[] => {
    const value = editField(fields.get(edit.field), edit);
    // Otherwise, API servers remove hostPath from the volumes.
    const isHostPath = edit.field === 'volumes' && edit.values.includes('hostPath');
    return [[edit.field, value], ...(isHostPath ? [['allowHostDirVolumePlugin', true] as const] : [])];
  });
  const cleared = { priority: null, users: [], groups: [], metadata: { name } };
  return { ...original, ...Object.fromEntries(changed), ...cleared };
}

const ANY = { type: 'RunAsAny' };
const RELAXED: Readonly<Record<string, unknown>> = { requiredDropCapabilities: [], readOnlyRootFilesystem: false };

function editField(before: unknown, { field, change, values }: SccEdit): unknown {
  if (change === 'enable') return true;
  if (change === 'add') {
    const added = field === 'allowedFlexVolumes' ? values.map((driver) => ({ driver })) : values;
    return [...(Array.isArray(before) ? (before as readonly unknown[]) : []), ...added];
  }
  const ids = values.filter((value) => typeof value === 'number');
  if (change === 'relax' || ids.length === 0) return Object.hasOwn(RELAXED, field) ? RELAXED[field] : ANY;
  if (field !== 'runAsUser') return { type: 'MustRunAs', ranges: ids.map((id) => ({ min: id, max: id })) };
  return ids.length === 1
    ? { type: 'MustRunAs', uid: ids[0] }
    : { type: 'MustRunAsRange', uidRangeMin: Math.min(...ids), uidRangeMax: Math.max(...ids) };
}

/** SCCs and pods use different names for seccomp profiles. The type of a `Localhost` profile lacks the file name. */
const SECCOMP_VALUES: ReadonlyMap<unknown, readonly string[]> = new Map([
  ['Unconfined', ['unconfined']],
  ['RuntimeDefault', ['runtime/default']],
  ['Localhost', []],
]);

function toSccValues(value: unknown): readonly unknown[] {
  return SECCOMP_VALUES.get(value) ?? (Array.isArray(value) ? (value as readonly unknown[]) : [value]);
}
