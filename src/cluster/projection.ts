/**
 * Selects the part of each object to store. Decisions read only small parts of objects, so the state of a large cluster
 * fits into the memory of a small pod.
 */
import {
  GRANT_EXPIRY_ANNOTATION,
  KUBELET_CONDITION,
  ENFORCE_LABEL,
  RELAXED_LABEL,
  TEMPORARY_GRANTS_ANNOTATION,
  TIER_LABEL,
} from '../api/names.ts';
import { isTokenVolume, TOKEN_VOLUME } from '../kube/controller-pod.ts';
import { deepEqual } from '../kube/equality.ts';
import type { Kind, Kinds } from '../kube/kinds.ts';
import { type LimitName, LIMITS } from '../kube/limits.ts';
import { EPHEMERAL_CONTAINERS, hasFinished, podTemplatePath } from '../kube/pod.ts';
import { getApiVersion, RESOURCES, typeMeta } from '../kube/resources.ts';
import { NAMESPACE_RANGE_ANNOTATIONS } from '../kube/scc.ts';
import { isObject, type JsonObject, objectMember, valueAt, withValueAt } from '../kube/types.ts';
import {
  LABEL_SYNC_LABEL,
  NAMESPACE_NAME_LABEL,
  OLM_MANAGED_ANNOTATION,
  POD_SECURITY_LABELS,
  SUFFICIENT_LEVEL_ANNOTATION,
} from '../kube/well-known.ts';
import {
  BESIDE_TEMPLATE,
  createTooLargeSpec,
  isReadKey,
  LAST_APPLIED,
  POD_SPEC,
  STORED_NAMESPACE,
  select,
  type Selection,
  selectNamespaceKeys,
  TEMPLATE_SPEC,
} from '../policy/pod/index.ts';
import { selectRules, selectSubjects, USE_SCC } from '../policy/rbac/index.ts';
import { DISABLE_LABEL, RUN_LEVEL_LABEL, SCC_MODE_LABEL, useRoleName } from '../policy/scc/index.ts';

/**
 * Returns the part of an object to store, or `undefined` if the object is not stored. The size of the result is limited
 * for all kinds that users of a namespace can write. A part that exceeds its limit is omitted, and `excess` contains
 * the name of its field.
 */
export function project(kind: Kind, object: JsonObject, isTooLarge = false): JsonObject | undefined {
  const projected = (PROJECTIONS[kind] ?? projectWhole)(object, kind, isTooLarge);
  return projected && { ...projected, ...typeMeta(kind) };
}

/** Reduces a projected pod, workload or exception as if it were too large. Returns other objects unchanged. */
export function reduce(kind: Kind, projected: JsonObject): JsonObject {
  const isReducible = kind === 'PodSecurityException' || kind === 'Pod' || RESOURCES[kind].podTemplate !== undefined;
  return isReducible && getExcess(projected) === undefined ? (project(kind, projected, true) ?? projected) : projected;
}

/** Returns true if users of a namespace can write the kind, so the size of stored objects is limited. */
export function isLimited(kind: Kind): boolean {
  return kind in PROJECTIONS && kind !== 'Namespace';
}

/** Returns the field of a projected object that exceeded its limit, or `undefined` if there is none. */
export function getExcess(object: object): string | undefined {
  return (object as { readonly excess?: string }).excess;
}

/** Returns the limit for the stored objects of a kind. */
export function storedLimit(kind: Kind): LimitName {
  if (kind === 'Pod' || RESOURCES[kind].podTemplate !== undefined) return 'storedPodBytes';
  return PROJECTIONS[kind] === projectRole || PROJECTIONS[kind] === projectBinding
    ? 'storedNames'
    : 'storedObjectBytes';
}

/** Selects the part of an object to store. `isTooLarge` is true if only the metadata of the object is known. */
type Project = (object: JsonObject, kind: Kind, isTooLarge: boolean) => JsonObject | undefined;

function isWithin(maxBytes: number, value: unknown): boolean {
  return Buffer.byteLength(JSON.stringify(value)) <= maxBytes;
}

// Metadata

const IDENTITY: Readonly<Record<string, Selection>> = {
  name: 'all',
  namespace: 'all',
  uid: 'all',
  resourceVersion: 'all',
};
const ANNOTATIONS: Selection = {
  entries: (key) => key !== LAST_APPLIED && (!key.includes('/') || isReadKey(key)),
};

/** Selects the identity and the given fields. */
function selectMetadata(object: JsonObject, fields: Readonly<Record<string, Selection>> = {}): JsonObject {
  const metadata = select(object['metadata'], { members: { ...IDENTITY, ...fields } });
  return isObject(metadata) ? metadata : {};
}

const OWNER: Selection = {
  members: { apiVersion: 'all', kind: 'all', name: 'all', uid: 'all', controller: 'all' },
};

/** Selects the controller of the object, because no decision reads other owners. */
function selectOwner(object: JsonObject): JsonObject {
  const { ownerReferences: owners } = objectMember(object, 'metadata');
  const isController = (owner: unknown): boolean => isObject(owner) && owner['controller'] === true;
  const controller: unknown = Array.isArray(owners) ? owners.find(isController) : undefined;
  return controller === undefined ? {} : { ownerReferences: [select(controller, OWNER)] };
}

/** Maximum size of the metadata of an object that is too large. */
const REDUCED_METADATA_BYTES = 4096;

/** Reduces the metadata of a pod or workload that is too large, if the metadata is large too. */
function reduceMetadata(metadata: JsonObject): JsonObject {
  if (isWithin(REDUCED_METADATA_BYTES, metadata)) return metadata;
  const reduced = selectMetadata({ metadata }, { creationTimestamp: 'all' });
  // Adds an entry without a time, which counts as a new ephemeral container, so the pod is evaluated again.
  return metadata['managedFields'] === undefined ? reduced : { ...reduced, managedFields: [NEW_CONTAINER] };
}

// Pods and workloads

const NEW_CONTAINER = { subresource: EPHEMERAL_CONTAINERS };
const TIMES: Selection = { items: { members: { subresource: 'all', time: 'all' } } };
const STARTED: Selection = { members: { startedAt: 'all' } };
const POD_STATUS: Selection = {
  members: {
    phase: 'all',
    ephemeralContainerStatuses: {
      items: { members: { name: 'all', state: { members: { running: STARTED, terminated: STARTED } } } },
    },
  },
};

function projectPod(object: JsonObject, _kind: Kind, isTooLarge: boolean): JsonObject {
  const status = select(object['status'] ?? {}, POD_STATUS);
  const pod = {
    metadata: {
      ...selectMetadata(object, { creationTimestamp: 'all', annotations: ANNOTATIONS }),
      ...selectOwner(object),
      ...ephemeralContainerTimes(object),
    },
    spec: projectPodSpec(object['spec'], POD_SPEC),
    ...(isObject(status) && Object.keys(status).length > 0 ? { status } : {}),
  };
  if (!isTooLarge && isWithin(LIMITS.storedPodBytes, pod)) return pod;
  const { phase } = objectMember(pod, 'status');
  return {
    metadata: reduceMetadata(pod.metadata),
    spec: createTooLargeSpec(objectMember(pod, 'spec')),
    ...(phase === 'Succeeded' || phase === 'Failed' ? { status: { phase } } : {}),
    excess: 'spec',
  };
}

/** Selects the times at which ephemeral containers were added. */
function ephemeralContainerTimes(object: JsonObject): JsonObject {
  const { managedFields } = objectMember(object, 'metadata');
  if (!Array.isArray(managedFields)) return {};
  const added = managedFields.filter((entry) => isObject(entry) && entry['subresource'] === EPHEMERAL_CONTAINERS);
  return added.length === 0 ? {} : { managedFields: select(added, TIMES) };
}

const FINISHED_STATUS: Selection = {
  members: { conditions: { items: { members: { type: 'all', status: 'all' } } } },
};

/**
 * Selects the fields of a workload that determine its pods, which are the template at its path and the fields next to
 * it. A workload that another stored workload owns is not stored.
 */
function projectWorkload(object: JsonObject, kind: Kind, isTooLarge: boolean): JsonObject | undefined {
  const path = podTemplatePath(RESOURCES[kind].group, kind) ?? [];
  const parentPath = path.slice(0, -1);
  const owner = selectOwner(object);
  if (hasStoredOwner(kind, owner)) return undefined;
  const metadata = { ...selectMetadata(object), ...owner };
  const { status } = object;
  const finished = hasFinished({ kind, status }) ? { status: select(status, FINISHED_STATUS) } : {};
  const template = valueAt(object, path);
  const beside = select(valueAt(object, parentPath), BESIDE_TEMPLATE);
  const workload = { metadata, ...finished };
  if (template == null && !isTooLarge) return workload;
  const projected = projectTemplate(template);
  if (!isTooLarge && isWithin(LIMITS.storedPodBytes, [workload, beside, projected]))
    return placeAt(parentPath.length === 0 ? workload : placeAt(workload, parentPath, beside), path, projected);
  const spec = createTooLargeSpec(objectMember(projected, 'spec'));
  const excess = [...path, 'spec'].join('.');
  const isShort = isWithin(REDUCED_METADATA_BYTES, finished);
  return { ...placeAt({ metadata: reduceMetadata(metadata), ...(isShort ? finished : {}) }, path, { spec }), excess };
}

function placeAt(object: JsonObject, path: readonly string[], value: unknown): JsonObject {
  return withValueAt(object, path, value) as JsonObject;
}

function projectTemplate(template: unknown): unknown {
  if (!isObject(template)) return template;
  const { metadata, spec } = template;
  return {
    ...(metadata == null ? {} : { metadata: select(metadata, { members: { annotations: ANNOTATIONS } }) }),
    ...(spec == null ? {} : { spec: projectPodSpec(spec, TEMPLATE_SPEC) }),
  };
}

const OWNERS: Partial<Readonly<Record<Kind, Kind>>> = { ReplicaSet: 'Deployment', Job: 'CronJob' };

function hasStoredOwner(kind: Kind, { ownerReferences }: JsonObject): boolean {
  const owner = OWNERS[kind];
  const [controller] = Array.isArray(ownerReferences) ? (ownerReferences as readonly JsonObject[]) : [];
  return owner !== undefined && controller?.['kind'] === owner && controller['apiVersion'] === getApiVersion(owner);
}

/**
 * Selects the fields that policies read. Replaces the random name of the service account token volume, which would make
 * each spec unique.
 */
function projectPodSpec(value: unknown, selection: Selection): unknown {
  const spec = select(value, selection);
  if (!isObject(spec) || !Array.isArray(spec['volumes'])) return spec;
  const rename = (volume: unknown): unknown => {
    if (!isObject(volume) || !isObject(volume['projected']) || Object.keys(volume).length !== 2) return volume;
    return isTokenVolume(volume['name']) ? { ...volume, name: TOKEN_VOLUME } : volume;
  };
  return { ...spec, volumes: spec['volumes'].map(rename) };
}

// RBAC

/** Returns true for a name of limited length. The API does not limit the names of roles. */
function isName(value: unknown): boolean {
  return typeof value === 'string' && value.length <= LIMITS.nameCharacters;
}

/**
 * Returns true for objects that a controller of Portcullis restores. They are cluster-scoped, so only administrators
 * can write them.
 */
function isRestored(kind: Kind, { metadata }: JsonObject): boolean {
  const name = isObject(metadata) ? metadata['name'] : undefined;
  return RESOURCES[kind].scope === 'Cluster' && typeof name === 'string' && name.startsWith(useRoleName(''));
}

/** Selects the rules that permit the use of SCCs. Roles without such rules are not stored. */
function projectRole(object: JsonObject, kind: Kind): JsonObject | undefined {
  if (isRestored(kind, object)) return projectWhole(object, kind);
  const metadata = selectMetadata(object);
  const { rules, isCut } = selectRules(object['rules'], USE_SCC, LIMITS.storedNames);
  if (rules.length === 0 || !isName(metadata['name'])) return undefined;
  return { metadata, rules, ...(isCut ? { excess: 'rules' } : {}) };
}

const ROLE_REF: Selection = { members: { apiGroup: 'all', kind: 'all', name: 'all' } };
const GRANT_EXPIRY: Selection = { entries: (key) => key === GRANT_EXPIRY_ANNOTATION };

/** Selects the subjects that can match a user. If the list is too long, the remaining subjects have no access. */
function projectBinding(object: JsonObject, kind: Kind): JsonObject | undefined {
  if (isRestored(kind, object)) return projectWhole(object, kind);
  const metadata = selectMetadata(object, { creationTimestamp: 'all', annotations: GRANT_EXPIRY });
  const roleRef = select(object['roleRef'], ROLE_REF);
  const { subjects, isCut } = selectSubjects(kind as 'RoleBinding', object, LIMITS.storedNames);
  const isShort =
    isObject(roleRef) &&
    isName(metadata['name']) &&
    isWithin(LIMITS.nameCharacters * 4, [metadata['annotations'], roleRef]);
  return isShort ? { metadata, roleRef, subjects, ...(isCut ? { excess: 'subjects' } : {}) } : undefined;
}

// Namespaces, nodes and other kinds

/** The labels and annotations of namespaces that decisions read by name. Settings can also select other labels. */
const NAMESPACE_KEYS: ReadonlySet<string> = new Set([
  ...Object.values(POD_SECURITY_LABELS),
  ...Object.values(NAMESPACE_RANGE_ANNOTATIONS),
  ...[ENFORCE_LABEL, TIER_LABEL, RELAXED_LABEL, NAMESPACE_NAME_LABEL],
  ...[SCC_MODE_LABEL, RUN_LEVEL_LABEL, DISABLE_LABEL],
  ...[LABEL_SYNC_LABEL, SUFFICIENT_LEVEL_ANNOTATION, OLM_MANAGED_ANNOTATION, TEMPORARY_GRANTS_ANNOTATION],
]);
const NAMED_KEYS = selectNamespaceKeys((key) => NAMESPACE_KEYS.has(key));

/**
 * Selects the fields of a namespace that decisions read. Users who may create namespaces could otherwise fill the
 * memory with other text.
 */
function projectNamespace(object: JsonObject): JsonObject {
  const namespace = select(object, STORED_NAMESPACE) as JsonObject;
  if (isWithin(LIMITS.storedObjectBytes, namespace)) return namespace;
  const named = select(namespace, NAMED_KEYS) as JsonObject;
  if (isWithin(LIMITS.storedObjectBytes, named)) return named;
  // The values of labels are short, but the values of annotations may be long.
  const times = { creationTimestamp: 'all', deletionTimestamp: 'all' } as const;
  return { ...named, metadata: selectMetadata(named, { labels: 'all', ...times }) };
}

/** Types of the node conditions to store. Their last heartbeat times are omitted. */
const NODE_CONDITIONS: readonly unknown[] = ['Ready', KUBELET_CONDITION];
const NODE_STATUS: Selection = {
  members: {
    nodeInfo: { members: { kubeletVersion: 'all', bootID: 'all' } },
    conditions: {
      items: { members: { type: 'all', status: 'all', reason: 'all', message: 'all', lastTransitionTime: 'all' } },
    },
  },
};

/** Selects only the fields that depend on the kubelet, because nodes report their status several times a minute. */
function projectNode(object: JsonObject): JsonObject {
  const { spec, status } = object;
  const metadata = selectMetadata(object, { labels: 'all', annotations: ANNOTATIONS, creationTimestamp: 'all' });
  return {
    metadata,
    ...(isObject(spec) ? { spec: select(spec, { members: { taints: 'all' } }) } : {}),
    ...(isObject(status) ? { status: select(withoutOtherConditions(status), NODE_STATUS) } : {}),
  };
}

function withoutOtherConditions(status: JsonObject): JsonObject {
  const { conditions } = status;
  if (!Array.isArray(conditions)) return status;
  const isStored = (condition: unknown): boolean => isObject(condition) && NODE_CONDITIONS.includes(condition['type']);
  return { ...status, conditions: conditions.filter(isStored) };
}

/**
 * Creates the projection of a kind of which only a few fields are stored. If an object exceeds the limit, only its
 * metadata is stored.
 */
function selectFields(
  fields: Readonly<Record<string, Selection>>,
  metadata: Readonly<Record<string, Selection>>,
): Project {
  const excess = Object.keys(fields).join(', ') || 'metadata';
  return (object, _kind, isTooLarge) => {
    const projected = {
      ...(select(object, { members: fields }) as JsonObject),
      metadata: selectMetadata(object, metadata),
    };
    return !isTooLarge && isWithin(LIMITS.storedObjectBytes, projected)
      ? projected
      : { metadata: selectMetadata(object), excess };
  };
}

/**
 * Kinds for which decisions read the ownership of fields. In objects of other kinds, managedFields is the largest part.
 */
export const WITH_OWNERSHIP: ReadonlySet<Kind> = new Set([
  'Namespace',
  'PSAEnforcementConfig',
  'PortcullisConfiguration',
]);

/** Returns the object, without `managedFields` unless they are needed. Only trusted clients can write these kinds. */
function projectWhole(object: JsonObject, kind: Kind): JsonObject {
  const { metadata, ...others } = object;
  if (!isObject(metadata)) return others;
  const { managedFields, ...rest } = metadata;
  const isOwned = WITH_OWNERSHIP.has(kind) && managedFields !== undefined;
  return { ...others, metadata: isOwned ? { ...rest, managedFields } : rest };
}

const CATALOG_SPEC: Selection = {
  members: {
    sourceType: 'all',
    image: 'presence',
    disableSecurity: 'all',
    grpcPodConfig: { members: { securityContextConfig: 'all' } },
  },
};
/** Selects only this annotation of ClusterServiceVersions, because their other annotations contain entire manifests. */
const COPY_MARKS: Selection = { entries: (key) => key === 'olm.copiedFrom' || key === 'olm.operatorNamespace' };

const PROJECTIONS: Partial<Readonly<Record<Kind, Project>>> = {
  Pod: projectPod,
  CronJob: projectWorkload,
  DaemonSet: projectWorkload,
  Deployment: projectWorkload,
  Job: projectWorkload,
  PodTemplate: projectWorkload,
  ReplicaSet: projectWorkload,
  ReplicationController: projectWorkload,
  StatefulSet: projectWorkload,
  Role: projectRole,
  ClusterRole: projectRole,
  RoleBinding: projectBinding,
  ClusterRoleBinding: projectBinding,
  Namespace: projectNamespace,
  Node: projectNode,
  ServiceAccount: selectFields({ automountServiceAccountToken: 'all' }, {}),
  PodSecurityException: selectFields(
    { spec: 'all', status: 'all' },
    { creationTimestamp: 'all', generation: 'all', annotations: ANNOTATIONS },
  ),
  CatalogSource: selectFields({ spec: CATALOG_SPEC }, { annotations: ANNOTATIONS }),
  ClusterServiceVersion: selectFields(
    { status: { members: { reason: 'all' } } },
    { labels: COPY_MARKS, annotations: COPY_MARKS },
  ),
};

// Comparison

/**
 * Returns true for kinds whose objects often change in fields that are not stored. Their stored resourceVersion may be
 * outdated.
 */
const isCompared = (kind: Kind): boolean => isLimited(kind) && projectBinding !== PROJECTIONS[kind];

/**
 * Returns true if two projected objects have no relevant differences. A partially stored object has changed only if the
 * stored part has changed.
 */
export function isSame(kind: Kind, before: Kinds[Kind], after: Kinds[Kind]): boolean {
  const [a, b] = [before.metadata, after.metadata];
  if (isCompared(kind)) {
    const resourceVersion = '';
    return deepEqual(
      { ...before, metadata: { ...a, resourceVersion } },
      { ...after, metadata: { ...b, resourceVersion } },
    );
  }
  return a?.uid === b?.uid && a?.resourceVersion === b?.resourceVersion && hasSubjects(before) === hasSubjects(after);
}

/** Returns true if the subjects of a binding are stored, which is the case only while its role grants SCCs. */
export function hasSubjects(object: object): boolean {
  return 'subjects' in object;
}
