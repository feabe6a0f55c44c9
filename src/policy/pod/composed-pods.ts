/** Composes the pods of custom resources whose pod fields are spread over the object. */
import { LIMITS } from '../../kube/limits.ts';
import { isObject, type JsonObject, type PodLike, valueAt } from '../../kube/types.ts';
import type { PodFieldMap } from './custom-kinds.ts';

/** The member names and item indexes on the way to a field. */
type Path = readonly (string | number)[];

/** A pod that is composed of the fields of a custom resource. */
export interface ComposedPod {
  /** Path of the object that contains the pod fields. */
  readonly path: Path;
  readonly pod: PodLike;
  /** Returns the path of a pod field in the custom resource. */
  sourcePath(podPath: Path): Path;
}

/** Called for each field that becomes part of a pod, with the object that contains the field. */
type Consume = (object: object, field: string) => void;

/** Pod spec fields that decisions read, except for lists. */
const FIELDS = [
  'hostNetwork',
  'hostPID',
  'hostIPC',
  'hostUsers',
  'os',
  'runtimeClassName',
  'securityContext',
  'serviceAccount',
  'serviceAccountName',
] as const;

/** Fields of which an object without containers must have at least one to describe a pod. */
const SIGNIFICANT = ['hostNetwork', 'hostPID', 'hostIPC', 'securityContext', 'volumes'] as const;

const CONTAINER_FIELDS = [
  'name',
  'image',
  'securityContext',
  'ports',
  'livenessProbe',
  'readinessProbe',
  'startupProbe',
  'lifecycle',
] as const;

const ANNOTATIONS = ['annotations', 'metadata.annotations', 'podAnnotations', 'podMetadata.annotations'] as const;

/** A path in the custom resource. Fields that the object at `path` does not have come from `defaults`. */
interface Origin {
  readonly path: Path;
  readonly defaults?: Path | undefined;
}

interface Composition {
  readonly object: JsonObject;
  readonly at: Path;
  readonly spec: Record<string, unknown>;
  /** Annotations, in descending priority. */
  readonly annotations: { readonly map: JsonObject; readonly path: Path }[];
  /** Paths of volume lists, and the index of each list's first volume in the pod. */
  readonly volumes: { readonly start: number; readonly path: Path }[];
  readonly containers: unknown[];
  /** Origins of the pod fields. The key is the path in the pod as JSON. */
  readonly origins: Map<string, Origin>;
  readonly consume: Consume;
}

/** Maximum number of pods for each path. Several pods may contain the same fields, so the number must be limited. */
const MAX_COMPOSED = 200;

/** Composes the pods of a custom resource. */
export function composePods(
  object: JsonObject,
  maps: readonly PodFieldMap[],
  consume: Consume,
): readonly ComposedPod[] {
  return maps.flatMap((map) => {
    const compose = (patterns: readonly string[]): readonly Composition[] =>
      patterns
        .flatMap((pattern) => findPaths(object, pattern).slice(0, MAX_COMPOSED))
        .map((at) => composePod(object, at, map, consume))
        .filter(({ at }) => map.if === undefined || valueAt(object, [...at, map.if]) === true);
    const complete = compose(map.at).filter(({ containers }) => containers.length > 0);
    const pods = complete.length > 0 ? complete : compose(map.otherwise ?? []).filter(isSignificant);
    return pods.map((pod) => ({
      path: pod.at,
      pod: createPod(pod),
      sourcePath: (podPath) => findOrigin(pod, podPath),
    }));
  });
}

function createPod(pod: Composition): PodLike {
  const { spec, containers } = pod;
  return { metadata: { annotations: mergeAnnotations(pod) }, spec: { ...spec, containers } } as PodLike;
}

function isSignificant({ spec }: Composition): boolean {
  return SIGNIFICANT.some((field) => spec[field] !== undefined);
}

function composePod(object: JsonObject, at: Path, map: PodFieldMap, consume: Consume): Composition {
  const pod: Composition = {
    object,
    at,
    spec: {},
    annotations: [],
    volumes: [],
    containers: [],
    origins: new Map(),
    consume,
  };
  const resolve = (pattern: string): Path =>
    pattern.startsWith('/') ? toSteps(pattern.slice(1)) : [...at, ...toSteps(pattern)];
  addFields(pod, at, map.securityContext);
  for (const pattern of map.also ?? []) {
    addFields(pod, resolve(pattern));
    // The other fields of an object below the first object belong to the same pod.
    if (!pattern.startsWith('/')) consumePath(pod, resolve(pattern).slice(0, at.length + 1));
  }
  const used = new Set<string>();
  for (const entry of map.containers ?? []) {
    const [pattern, defaults] = typeof entry === 'string' ? [entry] : entry;
    const base = defaults === undefined ? undefined : resolve(defaults);
    if (base) {
      used.add(JSON.stringify(base));
      consumePath(pod, base);
    }
    addContainers(pod, resolve(pattern), base, used);
  }
  return pod;
}

function toSteps(pattern: string): Path {
  return pattern === '' ? [] : pattern.split('.').map((step) => (/^\d+$/.test(step) ? Number(step) : step));
}

function consumePath({ object, consume }: Composition, path: Path): void {
  const parent = valueAt(object, path.slice(0, -1));
  if (isObject(parent)) consume(parent, String(path.at(-1)));
}

/** Adds the pod fields of an object to the pod, unless the pod already has them. Volume lists are concatenated. */
function addFields(pod: Composition, path: Path, securityContext = 'securityContext'): void {
  const { object, spec, origins, consume } = pod;
  const value = valueAt(object, path);
  if (!isObject(value)) return;
  for (const field of FIELDS) {
    const name = field === 'securityContext' ? securityContext : field;
    if (value[name] == null) continue;
    consume(value, name);
    if (spec[field] !== undefined) continue;
    spec[field] = value[name];
    origins.set(JSON.stringify(['spec', field]), { path: [...path, name] });
  }
  if (value['volumes'] != null) addVolumes(pod, value, path);
  for (const pattern of ANNOTATIONS) {
    const from = [...path, ...toSteps(pattern)];
    const map = path.length === 0 ? undefined : valueAt(object, from);
    if (isObject(map)) pod.annotations.push({ map, path: from });
  }
}

function addVolumes(pod: Composition, owner: JsonObject, path: Path): void {
  const { spec, consume } = pod;
  const { volumes } = owner;
  consume(owner, 'volumes');
  const before = spec['volumes'] ?? [];
  // A value that is not a list, or a list that is too long, is an error in the pod, so further volumes have no effect.
  if (!isVolumeList(before)) return;
  const isList = isVolumeList(volumes);
  spec['volumes'] = isList ? [...before, ...volumes] : volumes;
  pod.volumes.push({ start: isList ? before.length : 0, path: [...path, 'volumes'] });
}

function isVolumeList(value: unknown): value is readonly unknown[] {
  return Array.isArray(value) && value.length <= LIMITS.podItems;
}

/** Adds a container, or the containers in a list. Skips containers that are the defaults of another container. */
function addContainers(pod: Composition, path: Path, defaults: Path | undefined, used: ReadonlySet<string>): void {
  const { object, at, containers, origins, consume } = pod;
  const value = valueAt(object, path);
  if (value == null) return;
  const isOwn = path.length === at.length;
  if (!isOwn) consumePath(pod, path);
  const base = defaults && valueAt(object, defaults);
  const items: readonly unknown[] = Array.isArray(value) ? value : [value];
  for (const [index, item] of items.entries()) {
    const own = Array.isArray(value) ? [...path, index] : path;
    if (used.has(JSON.stringify(own))) continue;
    origins.set(JSON.stringify(['spec', 'containers', containers.length]), { path: own, defaults });
    containers.push(createContainer(item, base, containerName(own, isOwn)));
    if (isOwn && isObject(item)) for (const field of CONTAINER_FIELDS) consume(item, field);
  }
}

/** Returns the name for a container without a name, such as `steps[0]`. */
function containerName(path: Path, isOwn: boolean): string {
  const last = path.at(-1) ?? '';
  if (isOwn || last === 'container' || last === 'script') return 'main';
  return typeof last === 'number' ? `${path.at(-2) ?? ''}[${last}]` : last;
}

function createContainer(item: unknown, base: unknown, name: string): unknown {
  if (!isObject(item)) return item;
  const defaults = isObject(base) ? base : {};
  const fields = CONTAINER_FIELDS.flatMap((field) => {
    const value = withDefaults(item[field], defaults[field]);
    return value == null ? [] : [[field, value] as const];
  });
  return { name, ...Object.fromEntries(fields) };
}

/** Sets the absent fields of an object and of its nested objects. */
function withDefaults(value: unknown, defaults: unknown): unknown {
  if (value == null) return defaults;
  if (!isObject(value) || !isObject(defaults)) return value;
  const missing = Object.entries(defaults).map(([key, member]) => [key, withDefaults(value[key], member)] as const);
  return { ...value, ...Object.fromEntries(missing) };
}

/** Maximum number of annotations in a map that is copied for each pod. Decisions read only a few annotations. */
const MAX_MERGED = 1000;

function mergeAnnotations({ annotations }: Composition): JsonObject {
  const [first, ...others] = annotations.map(({ map }) => map);
  const short = others.filter((map) => Object.keys(map).length <= MAX_MERGED);
  return short.length === 0 ? (first ?? {}) : (Object.assign({}, ...[first, ...short].reverse()) as JsonObject);
}

function findOrigin({ object, at, origins, volumes, annotations }: Composition, podPath: Path): Path {
  const [root, field, step, ...rest] = podPath;
  if (root === 'metadata') {
    const annotation = annotations.find(({ map }) => Object.hasOwn(map, String(step))) ?? annotations[0];
    return annotation && step !== undefined ? [...annotation.path, step, ...rest] : at;
  }
  if (field === 'volumes') {
    const list = volumes.findLast(({ start }) => typeof step !== 'number' || step >= start) ?? { start: 0, path: at };
    return typeof step === 'number' ? [...list.path, step - list.start, ...rest] : list.path;
  }
  for (let length = podPath.length; length > 0; length--) {
    const origin = origins.get(JSON.stringify(podPath.slice(0, length)));
    if (origin === undefined) continue;
    const below = podPath.slice(length);
    const { path, defaults } = origin;
    const isDefault =
      defaults &&
      valueAt(object, [...path, ...below]) === undefined &&
      valueAt(object, [...defaults, ...below]) !== undefined;
    return [...(isDefault ? defaults : path), ...below];
  }
  return at;
}

/** Returns the paths of existing fields that match a pattern, in which `*` matches every member or item. */
export function findPaths(object: JsonObject, pattern: string): readonly Path[] {
  let matches: readonly (readonly [value: unknown, path: Path])[] = [[object, []]];
  for (const step of pattern === '' ? [] : pattern.split('.')) {
    matches = matches.flatMap(([value, path]) =>
      listMembers(value, step).map(([key, member]) => [member, [...path, key]] as const),
    );
  }
  return matches.map(([, path]) => path);
}

function listMembers(value: unknown, step: string): readonly (readonly [key: string | number, member: unknown])[] {
  if (Array.isArray(value)) return step === '*' ? [...value.entries()] : [];
  if (!isObject(value)) return [];
  return Object.entries(value).filter(([key, member]) => member != null && (step === '*' || step === key));
}
