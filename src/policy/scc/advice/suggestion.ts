import { deepEqual } from '../../../kube/equality.ts';
import { POD_SCC_ANNOTATIONS, SECCOMP_CONTAINER_ANNOTATION_PREFIX, SECCOMP_POD_ANNOTATION } from '../../../kube/scc.ts';
import { isObject, type JsonObject } from '../../../kube/types.ts';
import type { FieldError } from '../../../kube/field-error.ts';
import { CONTAINER_LISTS } from '../../../kube/pod.ts';
import type { ContainerFields } from '../decode/container.ts';
import type { PodFields } from '../decode/pod.ts';
import type { PreparedScc } from '../scc.ts';
import { attemptScc, type SearchInput, admits, type SearchResult } from '../search.ts';
import { printValues } from './warnings.ts';
import { writePod } from '../attempt.ts';

/** A field that one of two pods has and the other has not, or has with another value. */
export interface Change {
  /** `spec.containers[0].securityContext.runAsUser`, `metadata.annotations[a.b/c]` */
  readonly path: string;
  readonly before?: unknown;
  readonly after?: unknown;
}

/** What is told of a pod in other words. */
const RECORDS: ReadonlySet<string> = new Set([
  `metadata.annotations[${POD_SCC_ANNOTATIONS.scc}]`,
  `metadata.annotations[${POD_SCC_ANNOTATIONS.subjectType}]`,
]);

/**
 * What an SCC changes in a pod, field by field in the order of the pod; without the annotations that tell the SCC. Lists of
 * one length are compared element by element, others as a whole.
 */
export function changesOf(before: unknown, after: unknown): readonly Change[] {
  const changes: Change[] = [];
  compare(before, after, '', changes);
  return changes.filter(({ path }) => !RECORDS.has(path));
}

function compare(before: unknown, after: unknown, path: string, changes: Change[]): void {
  if (before === after) return;
  const members = membersOf(before, after);
  if (members) {
    const [old, now] = members;
    const keys = new Set([...Object.keys(old), ...Object.keys(now)]);
    for (const key of keys) compare(memberOf(old, key), memberOf(now, key), pathOf(path, key), changes);
  } else if (Array.isArray(before) && Array.isArray(after) && before.length === after.length) {
    before.forEach((item, index) => compare(item, after[index], `${path}[${index}]`, changes));
  } else if (!deepEqual(before, after)) {
    changes.push({ path, ...(before == null ? {} : { before }), ...(after == null ? {} : { after }) });
  }
}

const NONE: JsonObject = {};

/** Both as objects, if they can be compared member by member; one that comes or goes empty is a change itself. */
function membersOf(before: unknown, after: unknown): readonly [JsonObject, JsonObject] | undefined {
  if (isObject(before) && isObject(after)) return [before, after];
  if (before == null && isFilled(after)) return [NONE, after];
  return after == null && isFilled(before) ? [before, NONE] : undefined;
}

function isFilled(value: unknown): value is JsonObject {
  return isObject(value) && Object.keys(value).length > 0;
}

function memberOf(object: JsonObject, key: string): unknown {
  return Object.hasOwn(object, key) ? object[key] : undefined;
}

/** Keys that are no names of fields stand in brackets. */
function pathOf(parent: string, key: string): string {
  if (!/^[A-Za-z][A-Za-z0-9]*$/.test(key) || parent === 'metadata.annotations' || parent === 'metadata.labels') {
    return `${parent}[${key}]`;
  }
  return parent === '' ? key : `${parent}.${key}`;
}

/** A field of a pod that stands in the way of an SCC. */
export interface Obstacle {
  /** Where the pod has it: `spec.containers[0].securityContext.runAsUser`. */
  readonly path: string;
  /** Those that are not allowed; none where the pod lacks a value that the SCC demands. */
  readonly values: readonly unknown[];
}

/** Nobody corrects more fields at once, and each costs time. */
const MAX_OBSTACLES = 100;

/**
 * The fields of a pod that the errors of an SCC are about, each once, in the order of the errors; of very many, or from
 * the limit on, the first ones. Errors speak of the values in force: here a value that a container has from its pod is one
 * of the pod, and a seccomp profile stands where it was written.
 */
export function obstaclesOf(pod: PodFields, errors: readonly FieldError[], limit = MAX_OBSTACLES): readonly Obstacle[] {
  const found = new Map<string, unknown[]>();
  for (let index = 0; index < errors.length && index < MAX_OBSTACLES && found.size < limit; index++) {
    const error = errors[index];
    // A broken SCC has an error that is about no field.
    if (error === undefined || error.type === 'InternalError') continue;
    const { path, value } = locate(pod, error);
    const values = found.get(path);
    if (values === undefined) found.set(path, value == null ? [] : [value]);
    else if (value != null && !values.includes(value)) values.push(value);
  }
  return Array.from(found, ([path, values]) => ({ path, values }));
}

interface Place {
  readonly path: string;
  readonly value: unknown;
}

const FS_GROUP = '.spec.securityContext.fsGroup';
const OF_POD: ReadonlySet<string> = new Set(['hostNetwork', 'hostPID', 'hostIPC']);

function locate(pod: PodFields, { path, value }: FieldError): Place {
  // The error has it as a list.
  if (path === FS_GROUP) return { path: path.slice(1), value: pod.fsGroup };
  if (path.startsWith('.spec')) return { path: path.slice(1), value };
  if (path.startsWith(ANNOTATIONS)) return locateSeccomp(pod, path);
  const parsed = parseContainerPath(path);
  if (parsed === undefined) return locateSysctl(pod, path);
  if (OF_POD.has(parsed.field)) return { path: parsed.ofSpec, value };
  // Each container is charged with the ports of all: the one that has it stands behind.
  if (parsed.field.endsWith('.hostPort')) return locatePort(pod, `.${parsed.field}`, value);
  return { path: isFromPod(pod, parsed) ? parsed.ofPod : parsed.ofContainer, value };
}

/** A field as it is told of a container, and the paths under which the pod may have it. */
interface ContainerPath {
  readonly list: string;
  readonly index: number;
  readonly field: string;
  readonly ofSpec: string;
  readonly ofPod: string;
  readonly ofContainer: string;
}

const IN_CONTAINER = /^\.(initContainers|containers|ephemeralContainers)\[(\d+)\]\.(.+)$/;
const MAX_KNOWN = 1000;
const known = new Map<string, ContainerPath>();

/** Messages have the same few paths all the time. */
function parseContainerPath(path: string): ContainerPath | undefined {
  const parsed = known.get(path);
  if (parsed !== undefined) return parsed;
  const [, list = '', index = '', field = ''] = IN_CONTAINER.exec(path) ?? [];
  if (field === '') return undefined;
  const fresh = {
    list,
    index: Number(index),
    field,
    ofSpec: `spec.${field}`,
    ofPod: `spec.securityContext.${field}`,
    ofContainer: `spec.${list}[${index}].securityContext.${field}`,
  };
  if (known.size < MAX_KNOWN) known.set(path, fresh);
  return fresh;
}

/** What containers have from their pod unless they say otherwise. */
const SHARED = ['runAsUser', 'runAsNonRoot', 'seLinuxOptions'] as const;

function isFromPod(pod: PodFields, { list, index, field }: ContainerPath): boolean {
  const shared = SHARED.find((name) => field.startsWith(name));
  return shared !== undefined && pod[shared] !== undefined && containerAt(pod, list, index)?.[shared] === undefined;
}

function containerAt(pod: PodFields, list: string, index: number): ContainerFields | undefined {
  let start = 0;
  for (const name of CONTAINER_LISTS) {
    if (name === list) return pod.containers[start + index];
    const containers = isObject(pod.json['spec']) ? pod.json['spec'][name] : undefined;
    if (Array.isArray(containers)) start += containers.length;
  }
  return undefined;
}

const MAX_PORTS = 256;

function locatePort(pod: PodFields, path: string, value: unknown): Place {
  const { list = '', index = 0 } = parseContainerPath(path) ?? {};
  const containers = isObject(pod.json['spec']) ? pod.json['spec'][list] : undefined;
  const container: unknown = Array.isArray(containers) ? containers[index] : undefined;
  const ports = isObject(container) && Array.isArray(container['ports']) ? container['ports'].slice(0, MAX_PORTS) : [];
  const place = ports.findIndex((port) => isObject(port) && port['hostPort'] === value);
  return { path: `spec.${list}[${index}].ports[${place < 0 ? '*' : place}].hostPort`, value };
}

const ANNOTATIONS = 'metadata.annotations[';
const MAX_CONTAINERS = 1000;

/** An annotation goes before the field, the container before the pod. */
function locateSeccomp(pod: PodFields, path: string): Place {
  const key = path.slice(ANNOTATIONS.length, -1);
  const name = key.slice(SECCOMP_CONTAINER_ANNOTATION_PREFIX.length);
  const isOfPod = key === SECCOMP_POD_ANNOTATION;
  const container = isOfPod ? undefined : pod.containers.slice(0, MAX_CONTAINERS).find((one) => one.name === name);
  if (container?.seccompAnnotation !== undefined) return { path, value: container.seccompAnnotation };
  const profile = container?.seccompProfile;
  if (profile) return { path: `spec.${container.place}.securityContext.seccompProfile.type`, value: profile.type };
  return pod.seccompAnnotation === ''
    ? { path: 'spec.securityContext.seccompProfile.type', value: pod.seccompProfile?.type }
    : { path: `${ANNOTATIONS}${SECCOMP_POD_ANNOTATION}]`, value: pod.seccompAnnotation };
}

function locateSysctl(pod: PodFields, path: string): Place {
  const index = Number(path.slice(path.lastIndexOf('[') + 1, -1));
  return { path: `${path}.name`, value: pod.sysctls[index] };
}

/** An SCC that is not there and would admit a pod: like one that is, but for some fields. */
export interface OwnScc {
  readonly like: PreparedScc;
  /** The fields in which it is laxer, with what they have to allow: `allowedCapabilities=NET_ADMIN`. */
  readonly fields: readonly string[];
}

/**
 * Where an SCC would do that allows everything, though no container is privileged: the SCC to write instead. `undefined`
 * where it is no better, or where none is near.
 */
function ownSccFor(search: SearchInput, grantable: PreparedScc): OwnScc | undefined {
  const { pod, candidates } = search;
  if (!grantable.fields.allowPrivilegedContainer || pod.containers.some(({ privileged }) => privileged))
    return undefined;
  let best: { readonly like: PreparedScc; readonly obstacles: readonly Obstacle[] } | undefined;
  for (const like of candidates) {
    // A pod that has no user namespace is not about to get one.
    if (like.fields.allowPrivilegedContainer || (pod.hostUsers !== false && demandsUserNamespace(like))) continue;
    // One more than the best so far tells that it is worse.
    const limit = best && best.obstacles.length + 1;
    const obstacles = obstaclesOf(pod, attemptScc(like, search).errors, limit);
    if (obstacles.length === 0) continue;
    const lead = (best?.obstacles.length ?? Infinity) - obstacles.length;
    if (lead > 0 || (lead === 0 && like.score < (best?.like.score ?? 0))) best = { like, obstacles };
  }
  return best && { like: best.like, fields: fieldsAllowing(best.obstacles) };
}

function demandsUserNamespace({ fields }: PreparedScc): boolean {
  return fields.userNamespaceLevel === 'RequirePodLevel';
}

/** The field of an SCC that a field of a pod is judged by, and what it has to hold; the first that matches counts. */
const FIELDS: readonly (readonly [pod: RegExp, scc: string, holds: 'the values' | 'true' | 'something else'])[] = [
  [/\.capabilities\.add$/, 'allowedCapabilities', 'the values'],
  [/\.capabilities(\.drop)?$/, 'requiredDropCapabilities', 'something else'],
  [/seccomp/, 'seccompProfiles', 'the values'],
  [/\.sysctls\[/, 'allowedUnsafeSysctls', 'the values'],
  [/\.flexVolume\.driver$/, 'allowedFlexVolumes', 'the values'],
  [/^spec\.volumes\[/, 'volumes', 'the values'],
  [/\.hostPort$/, 'allowHostPorts', 'true'],
  [/\.hostNetwork$/, 'allowHostNetwork', 'true'],
  [/\.hostPID$/, 'allowHostPID', 'true'],
  [/\.hostIPC$/, 'allowHostIPC', 'true'],
  [/\.runAs(User|NonRoot)$/, 'runAsUser', 'something else'],
  [/\.seLinuxOptions/, 'seLinuxContext', 'something else'],
  [/\.fsGroup$/, 'fsGroup', 'something else'],
  [/\.supplementalGroups$/, 'supplementalGroups', 'something else'],
  [/\.allowPrivilegeEscalation$/, 'allowPrivilegeEscalation', 'true'],
  [/\.readOnlyRootFilesystem$/, 'readOnlyRootFilesystem', 'something else'],
];

function fieldsAllowing(obstacles: readonly Obstacle[]): readonly string[] {
  const found = new Map<string, Set<unknown>>();
  for (const { path, values } of obstacles) {
    const [, field, holds] = FIELDS.find(([pod]) => pod.test(path)) ?? [];
    if (field === undefined) continue;
    let held = found.get(field);
    if (!held) found.set(field, (held = new Set()));
    if (holds === 'true') held.add(true);
    else if (holds === 'the values') for (const value of values.flatMap(sccValuesOf)) held.add(value);
  }
  return Array.from(found, ([field, values]) => (values.size === 0 ? field : `${field}=${printValues([...values])}`));
}

/** Seccomp profiles have other names in SCCs; which one of the node is meant, the type does not tell. */
const SECCOMP: ReadonlyMap<unknown, readonly string[]> = new Map([
  ['Unconfined', ['unconfined']],
  ['RuntimeDefault', ['runtime/default']],
  ['Localhost', []],
]);

function sccValuesOf(value: unknown): readonly unknown[] {
  return SECCOMP.get(value) ?? [value];
}

/** What would help a pod that no SCC admits. */
export interface Advice {
  /**
   * Of the SCCs that may be used, the one that the fewest fields stand in the way of, of several the first; where none may
   * be used, and none would admit the pod, of all. Absent if they are broken.
   */
  readonly nearest?: Nearest;
  /**
   * Of the SCCs that may not be used but would admit the pod, the least permissive, whatever its priority: what is granted
   * lasts.
   */
  readonly grantable?: PreparedScc;
  /** Where that one allows everything: a better one, which would have to be written. */
  readonly ownScc?: OwnScc;
  /** The first SCC that would admit the pod if it were allowed to change it, with the fields; nothing else helps then. */
  readonly changing?: { readonly scc: PreparedScc; readonly paths: readonly string[] };
}

/** An SCC with what stands in its way: at least one field. */
export interface Nearest {
  readonly scc: PreparedScc;
  readonly obstacles: readonly Obstacle[];
}

/** Finds what would help a pod for which a search found nothing. */
export function adviceOn(search: SearchInput, { passedOver }: SearchResult): Advice {
  const changing = passedOver.find(({ because }) => because === 'changes')?.scc;
  if (changing) return { changing: { scc: changing, paths: changedPaths(changing, search) } };
  const denied = passedOver.filter(({ because }) => because === 'denied').map(({ scc }) => scc);
  const grantable = findGrantable(search, denied);
  const isAnyUsable = denied.length < passedOver.length;
  const misfits = isAnyUsable || grantable ? passedOver : denied.map((scc) => attempted(scc, search));
  const nearest = findNearest(search, misfits);
  const ownScc = grantable && ownSccFor(search, grantable);
  return {
    ...(nearest ? { nearest } : {}),
    ...(grantable ? { grantable } : {}),
    ...(ownScc ? { ownScc } : {}),
  };
}

interface Misfit {
  readonly scc: PreparedScc;
  readonly errors: readonly FieldError[];
  /** True if it may have more errors than these. */
  readonly isCut?: true;
}

function attempted(scc: PreparedScc, search: SearchInput): Misfit {
  return { scc, errors: attemptScc(scc, search).errors };
}

function findNearest({ pod }: SearchInput, misfits: readonly Misfit[]): Nearest | undefined {
  let nearest: Nearest | undefined;
  for (const { scc, errors, isCut } of misfits) {
    if (errors.length === 0 || isCut === true) continue;
    const best = nearest?.obstacles.length;
    const obstacles = obstaclesOf(pod, errors, best);
    if (obstacles.length > 0 && obstacles.length < (best ?? Infinity)) nearest = { scc, obstacles };
    if (nearest?.obstacles.length === 1) break;
  }
  return nearest;
}

function findGrantable(search: SearchInput, denied: readonly PreparedScc[]): PreparedScc | undefined {
  let best: PreparedScc | undefined;
  for (const scc of denied) {
    if (scc.score < (best?.score ?? Infinity) && admits(scc, search)) best = scc;
  }
  return best;
}

function changedPaths(scc: PreparedScc, search: SearchInput): readonly string[] {
  const changed = writePod(attemptScc(scc, search), { [POD_SCC_ANNOTATIONS.scc]: scc.name });
  return changesOf(search.pod.json, changed).map(({ path }) => path);
}
