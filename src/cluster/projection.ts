/**
 * Selects the part of each object to store. Decisions read only small parts of pods and workloads, and identical parts
 * of several objects are stored only once, so the state of a large cluster fits into the memory of a small pod.
 */
import { isTokenVolume, TOKEN_VOLUME } from '../kube/controller-pod.ts';
import { deepEqual } from '../kube/equality.ts';
import type { Kind, Kinds } from '../kube/kinds.ts';
import { EPHEMERAL_CONTAINERS, hasFinished, podTemplatePath } from '../kube/pod.ts';
import { getApiVersion, RESOURCES, typeMeta } from '../kube/resources.ts';
import { isObject, type JsonObject, objectMember } from '../kube/types.ts';
import { KUBELET_CONDITION } from '../kube/well-known.ts';
import {
  BESIDE_TEMPLATE,
  isReadDomain,
  POD_SPEC,
  select,
  type Selection,
  type Share,
  TEMPLATE_SPEC,
} from '../policy/pod/selection.ts';

/** Projection of a kind. */
export interface Projection {
  /** Returns the part to store, or `undefined` if the object is not stored. */
  project(object: JsonObject): Kinds[Kind] | undefined;
  /** Returns true if two projected objects have no relevant differences. */
  isSame(before: Kinds[Kind], after: Kinds[Kind]): boolean;
}

/** Creates a store's projections, which share object pools. */
export function createProjections(): (kind: Kind) => Projection {
  const share = createObjectPool();
  return (kind) => {
    const context = { kind, type: typeMeta(kind), share };
    if (kind === 'Node') return { project: (object) => projectNode(object, context), isSame: isSameContent };
    if (kind === 'Pod') return { project: (object) => projectPod(object, context), isSame: isSameContent };
    const path = podTemplatePath(RESOURCES[kind].group, kind);
    if (path) return { project: (object) => projectWorkload(path, object, context), isSame: isSameContent };
    if (kind === 'ClusterServiceVersion')
      return { project: (object) => projectCsv(object, context), isSame: isSameContent };
    return { project: (object) => projectWhole(object, context), isSame: isSameVersion };
  };
}

interface Context {
  readonly kind: Kind;
  readonly type: { readonly apiVersion: string; readonly kind: string };
  readonly share: Share;
}

function isSameVersion({ metadata: a }: Kinds[Kind], { metadata: b }: Kinds[Kind]): boolean {
  return a?.uid === b?.uid && a?.resourceVersion === b?.resourceVersion;
}

/** A partially stored object has changed only if the stored part has changed. */
function isSameContent(before: Kinds[Kind], after: Kinds[Kind]): boolean {
  const content = (object: Kinds[Kind]): JsonObject => ({
    ...object,
    metadata: filterMembers({ ...object.metadata }, (key) => key !== 'resourceVersion'),
  });
  return deepEqual(content(before), content(after));
}

const POD_STATUS: Selection = {
  members: {
    phase: 'all',
    ephemeralContainerStatuses: {
      items: {
        members: {
          name: 'all',
          state: {
            members: { running: { members: { startedAt: 'all' } }, terminated: { members: { startedAt: 'all' } } },
          },
        },
      },
    },
  },
};

function projectPod({ metadata, spec, status }: JsonObject, context: Context): Kinds[Kind] {
  const selected = isObject(status) ? (select(status, POD_STATUS) as JsonObject) : {};
  const pod: JsonObject = {
    ...context.type,
    metadata: { ...partialMetadata(metadata, context), ...ephemeralContainerTimes(metadata) },
    spec: projectPodSpec(spec, POD_SPEC, context.share),
    ...(Object.keys(selected).length === 0 ? {} : { status: context.share(selected) }),
  };
  return pod;
}

/** Keeps the times when ephemeral containers were added. */
function ephemeralContainerTimes(metadata: unknown): JsonObject {
  const entries = isObject(metadata) ? metadata['managedFields'] : undefined;
  if (!Array.isArray(entries)) return {};
  const added = entries.filter((entry) => isObject(entry) && entry['subresource'] === EPHEMERAL_CONTAINERS);
  return added.length === 0 ? {} : { managedFields: select(added, ADDED) };
}

const ADDED: Selection = { items: { members: { subresource: 'all', time: 'all' } } };

/** Node condition fields to store. Omits the last heartbeat time. */
const NODE_CONDITIONS: readonly unknown[] = ['Ready', KUBELET_CONDITION];
const NODE_STATUS: Selection = {
  members: {
    nodeInfo: { members: { kubeletVersion: 'all', bootID: 'all' } },
    conditions: {
      items: { members: { type: 'all', status: 'all', reason: 'all', message: 'all', lastTransitionTime: 'all' } },
    },
  },
};

/** Stores only the fields that depend on the kubelet, because nodes report their status several times a minute. */
function projectNode({ metadata, spec, status }: JsonObject, { type, share }: Context): Kinds[Kind] {
  const node: JsonObject = {
    ...type,
    metadata: isObject(metadata) ? projectMetadata(metadata, share, ['managedFields'], isRead) : {},
    ...(isObject(spec) ? { spec: select(spec, { members: { taints: 'all' } }) } : {}),
    ...(isObject(status) ? { status: select(withoutOtherConditions(status), NODE_STATUS) } : {}),
  };
  return node;
}

function withoutOtherConditions(status: JsonObject): JsonObject {
  const { conditions } = status;
  if (!Array.isArray(conditions)) return status;
  const isKept = (one: unknown): boolean => isObject(one) && NODE_CONDITIONS.includes(one['type']);
  return { ...status, conditions: conditions.filter(isKept) };
}

/**
 * Keeps the fields of a workload that determine its pods: the template at its path, and the fields beside it. Does not
 * store a workload that another stored workload owns.
 */
function projectWorkload(path: readonly string[], object: JsonObject, context: Context): Kinds[Kind] | undefined {
  const { kind, type, share } = context;
  if (hasStoredOwner(kind, object)) return undefined;
  const workload: JsonObject = {
    ...type,
    metadata: partialMetadata(object['metadata'], context),
    ...(hasFinished({ kind, status: object['status'] }) ? { status: select(object['status'], FINISHED_STATUS) } : {}),
    ...projectAt(object, path, (template) => projectTemplate(template, share)),
  };
  return workload;
}

const FINISHED_STATUS: Selection = {
  members: { conditions: { items: { members: { type: 'all', status: 'all' } } } },
};

function projectAt(
  value: unknown,
  [key, ...rest]: readonly string[],
  project: (value: unknown) => unknown,
): JsonObject {
  if (key === undefined || !isObject(value) || value[key] == null) return {};
  if (rest.length > 0) return { [key]: projectAt(value[key], rest, project) };
  return { ...(select(value, BESIDE_TEMPLATE) as JsonObject), [key]: project(value[key]) };
}

function projectTemplate(template: unknown, share: Share): unknown {
  if (!isObject(template)) return template;
  const { metadata, spec } = template;
  return {
    ...(metadata == null ? {} : { metadata }),
    ...(spec == null ? {} : { spec: projectPodSpec(spec, TEMPLATE_SPEC, share) }),
  };
}

const OWNERS: Partial<Readonly<Record<Kind, Kind>>> = { ReplicaSet: 'Deployment', Job: 'CronJob' };

function hasStoredOwner(kind: Kind, object: JsonObject): boolean {
  const owner = OWNERS[kind];
  const references = objectMember(object, 'metadata')['ownerReferences'];
  if (owner === undefined || !Array.isArray(references)) return false;
  return references.some(
    (reference: unknown) =>
      isObject(reference) &&
      reference['controller'] === true &&
      reference['kind'] === owner &&
      reference['apiVersion'] === getApiVersion(owner),
  );
}

/** Pools the whole spec, which all pods of a controller share, and its parts, which many pods share. */
function projectPodSpec(spec: unknown, selection: Selection, share: Share): unknown {
  return share(withoutTokenSuffixes(select(spec, selection)), (created) => select(created, selection, share) as object);
}

/** Replaces the random name of the service account token volume, which would make each spec unique. */
function withoutTokenSuffixes(spec: unknown): unknown {
  if (!isObject(spec) || !Array.isArray(spec['volumes'])) return spec;
  const rename = (volume: unknown): unknown => {
    if (!isObject(volume) || !isObject(volume['projected']) || Object.keys(volume).length !== 2) return volume;
    return isTokenVolume(volume['name']) ? { ...volume, name: TOKEN_VOLUME } : volume;
  };
  return { ...spec, volumes: spec['volumes'].map(rename) };
}

/** Fields whose values are the same in many objects of a kind. */
const COMMON_MEMBERS: Partial<Readonly<Record<Kind, readonly string[]>>> = {
  Namespace: ['spec', 'status'],
  Role: ['rules'],
  RoleBinding: ['roleRef', 'subjects'],
};

function projectWhole(object: JsonObject, context: Context): Kinds[Kind] {
  const { kind, type, share } = context;
  const whole: Record<string, unknown> = { ...object, ...type };
  for (const name of COMMON_MEMBERS[kind] ?? []) if (whole[name] != null) whole[name] = share(whole[name]);
  if (isObject(object['metadata'])) whole['metadata'] = wholeMetadata(object['metadata'], context);
  else delete whole['metadata'];
  return whole;
}

/**
 * Kinds for which decisions read the ownership of fields. In objects of other kinds, managedFields is the largest part.
 */
export const WITH_OWNERSHIP: ReadonlySet<Kind> = new Set([
  'Namespace',
  'PSAEnforcementConfig',
  'PortcullisConfiguration',
]);

/** Kinds that Portcullis never replaces, so it cannot lose the dropped annotations. */
const READ_ONLY: ReadonlySet<Kind> = new Set(['ServiceAccount', 'Role', 'RoleBinding']);

const LAST_APPLIED = 'kubectl.kubernetes.io/last-applied-configuration';

function wholeMetadata(metadata: JsonObject, { kind, share }: Context): JsonObject {
  if (!WITH_OWNERSHIP.has(kind)) {
    return projectMetadata(metadata, share, ['managedFields'], (key) => !READ_ONLY.has(kind) || key !== LAST_APPLIED);
  }
  const pooled = projectMetadata(metadata, share, [], () => true);
  const { managedFields } = metadata;
  if (!Array.isArray(managedFields)) return pooled;
  const shareFields = (entry: unknown): unknown =>
    isObject(entry) && isObject(entry['fieldsV1']) ? { ...entry, fieldsV1: share(entry['fieldsV1']) } : entry;
  return { ...pooled, managedFields: managedFields.map(shareFields) };
}

/** Pod and workload metadata fields that no decision reads. */
const UNREAD: readonly string[] = ['managedFields', 'labels', 'generateName', 'selfLink'];

function isRead(annotation: string): boolean {
  return annotation !== LAST_APPLIED && (!annotation.includes('/') || isReadDomain(annotation));
}

function partialMetadata(metadata: unknown, { kind, share }: Context): JsonObject {
  if (!isObject(metadata)) return {};
  const dropped = kind === 'Pod' ? UNREAD : [...UNREAD, 'creationTimestamp'];
  return projectMetadata(metadata, share, dropped, isRead);
}

/** Drops fields and annotations, and pools the parts that many objects share. */
function projectMetadata(
  metadata: JsonObject,
  share: Share,
  dropped: readonly string[],
  keepsAnnotation: (key: string) => boolean,
): JsonObject {
  const kept: Record<string, unknown> = filterMembers(metadata, (key) => !dropped.includes(key));
  if (isObject(kept['annotations'])) kept['annotations'] = filterMembers(kept['annotations'], keepsAnnotation);
  for (const name of ['labels', 'annotations', 'ownerReferences'])
    if (kept[name] != null) kept[name] = share(kept[name]);
  return kept;
}

function filterMembers(object: JsonObject, isKept: (key: string) => boolean): JsonObject {
  return Object.fromEntries(Object.entries(object).filter(([key]) => isKept(key)));
}

/** Stores only the annotations that mark copies, because other annotations contain entire manifests. */
function projectCsv(object: JsonObject, { type, share }: Context): Kinds[Kind] {
  const marks = (key: string): boolean => key === 'olm.copiedFrom' || key === 'olm.operatorNamespace';
  const metadata = projectMetadata(objectMember(object, 'metadata'), share, ['managedFields'], marks);
  return { ...type, metadata };
}

/** Number of old entries to check for each new entry. */
const SWEPT = 2;

/**
 * Creates a pool of JSON objects. Entries consist of a hash and a weak reference, so unused objects are
 * garbage-collected. If two different objects have the same hash, only the first is shared.
 */
export function createObjectPool(): Share {
  const pool = new Map<number, WeakRef<object>>();
  let cursor = pool.entries();
  const sweep = (): void => {
    for (let count = 0; count < SWEPT; count++) {
      const { value: entry } = cursor.next();
      if (entry === undefined) {
        cursor = pool.entries();
        return;
      }
      const [hash, reference] = entry;
      if (reference.deref() === undefined) pool.delete(hash);
    }
  };
  return (value, onNew) => {
    if (typeof value !== 'object' || value === null) return value;
    const hash = hashText(JSON.stringify(value));
    const pooled = pool.get(hash)?.deref();
    if (pooled !== undefined) return deepEqual(pooled, value) ? pooled : value;
    sweep();
    const created = onNew ? onNew(value) : value;
    pool.set(hash, new WeakRef(created));
    return created;
  };
}

/** FNV-1a hash, truncated to 30 bits because V8 stores such numbers without allocation. */
function hashText(text: string): number {
  let hash = 0x811c9dc5;
  for (let index = 0; index < text.length; index++) hash = Math.imul(hash ^ text.charCodeAt(index), 0x01000193);
  return hash >>> 2;
}
