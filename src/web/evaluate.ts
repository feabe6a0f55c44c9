/**
 * Evaluates the playground's manifests against Pod Security at every level, and determines which SCC admits their pods.
 */
import { manifestExceptions } from '../config/exceptions.ts';
import { invalidErrors } from '../config/field-types.ts';
import { type FindViolations, type FixedText, fixText, podSecurityViolations } from '../config/fix.ts';
import { moveFields } from '../config/misplaced-fields.ts';
import {
  errorAt,
  fieldNamespace,
  manifestLabels,
  manifestName,
  type ManifestObject,
  manifestObjects,
  type ObjectPod,
  readPods,
} from '../config/objects.ts';
import { findUnreadable } from '../config/unrendered.ts';
import { type ManifestError, parsePath, type Position, readDocuments } from '../config/yaml.ts';
import type { PodCreator } from '../kube/controller-pod.ts';
import type { Kind } from '../kube/kinds.ts';
import { LIMITS } from '../kube/limits.ts';
import { objectKey } from '../kube/resources.ts';
import type { SecurityContextConstraints } from '../kube/scc.ts';
import {
  type ClusterRoleBinding,
  type JsonObject,
  type KubeObject,
  type Namespace,
  type RoleBinding,
  objectMember,
  withValueAt,
} from '../kube/types.ts';
import { type FieldPath, printFieldPath } from '../policy/pod/index.ts';
import { isKnownKind } from '../policy/psa/index.ts';
import { type ExceptionIndex, type Level, LEVELS, type Policy, type Version } from '../policy/pss/index.ts';
import { CLUSTER_ADMIN, createAuthorizer, USE_SCC } from '../policy/rbac/index.ts';
import type { FixableViolation } from '../policy/rollout/index.ts';
import {
  type SccAccess,
  defaultScc,
  describeDenial,
  type ExplainedPod,
  explainPod,
  STANDARD_CLUSTER_ROLE_BINDINGS,
  STANDARD_CLUSTER_ROLES,
  STANDARD_SCCS,
  validateSccObject,
  workloadPod,
} from '../policy/scc/index.ts';
import { blockAnnotations, DEFAULT_RANGES, findMissingRanges } from '../policy/uid-range/index.ts';

/** A field in a finding, and the position of the field or of its nearest existing ancestor. */
interface FieldPosition extends Position {
  readonly path: string;
}

/** A violation of one check, and the positions of its fields. */
export interface LocatedViolation extends Omit<FixableViolation, 'fields'> {
  readonly fields: readonly FieldPosition[];
}

/** Decision of SCC admission on the pods of an object. */
export interface SccResult extends Pick<ExplainedPod, 'verdict' | 'sccs'> {
  /** Reasons for the verdict, one sentence each. */
  readonly reasons: readonly string[];
  /** Fields that the closest SCC does not allow. */
  readonly fields: readonly FieldPosition[];
}

/** An object that creates pods, or one of its pod templates. */
export interface EvaluatedObject extends Position {
  readonly kind: string;
  readonly name: string;
  readonly namespace: string;
  readonly findings: Readonly<Record<Level, readonly LocatedViolation[]>>;
  readonly scc: SccResult;
}

export interface ManifestEvaluation {
  readonly objects: readonly EvaluatedObject[];
  /** Number of objects of other kinds. */
  readonly otherKinds: number;
  /** Errors of unreadable documents and of objects that cannot be evaluated. */
  readonly errors: readonly ManifestError[];
}

const NAMESPACE = 'default';

/**
 * Evaluates all objects in a text with the namespaces, exceptions, SCCs and RBAC objects that it contains. Everything
 * else is as in a new cluster.
 */
export function evaluateManifests(text: string, version: Version, nowMs = Date.now()): ManifestEvaluation {
  if (text.length > LIMITS.playgroundCharacters) {
    const message = `the manifests have ${text.length} characters, but the limit is ${LIMITS.playgroundCharacters}: use portcullis check -f`;
    return { objects: [], otherKinds: 0, errors: [{ file: '', line: 1, column: 1, message }] };
  }
  const { documents, errors: unreadable } = readDocuments(text, '');
  const read = documents.map(manifestObjects);
  const objects = read.flatMap((file) => file.objects);
  const cluster = collectClusterObjects(objects, nowMs);
  const results = objects.map((object) => evaluateObject(object, version, cluster));
  return {
    objects: results.flatMap((result) => result.objects),
    otherKinds: results.filter((result) => result.objects.length + result.errors.length === 0).length,
    errors: [...unreadable, ...read.flatMap((file) => file.errors), ...results.flatMap((result) => result.errors)],
  };
}

/**
 * Fixes all pods and pod templates in a text so that they satisfy a policy, except violations that exceptions in the
 * text allow, and moves unknown fields to the locations where they belong.
 */
export function fixManifests(text: string, policy: Policy, nowMs = Date.now()): FixedText {
  const objects = readDocuments(text, '').documents.flatMap((document) => manifestObjects(document).objects);
  const exceptions = manifestExceptions(objects, { namespace: NAMESPACE, nowMs });
  const findViolations: FindViolations = (pod, { object, path }) =>
    podSecurityViolations(pod, policy, exceptions(fieldNamespace(object.value, path) ?? NAMESPACE));
  return fixText(text, '', findViolations, { moveFields });
}

/** Cluster objects on which decisions depend. */
interface ClusterObjects {
  readonly sccs: readonly SecurityContextConstraints[];
  readonly access: SccAccess;
  namespace(name: string): Namespace;
  /** Returns the unexpired exceptions in the namespace. */
  exceptions(namespace: string): ExceptionIndex;
}

function collectClusterObjects(objects: readonly ManifestObject[], nowMs: number): ClusterObjects {
  const ofKind = (kind: string): readonly JsonObject[] =>
    objects.filter((object) => object.kind === kind).map(({ value }) => value);
  const ofNamespacedKind = (kind: string): readonly JsonObject[] =>
    ofKind(kind).map((value) => {
      const namespace = fieldNamespace(value, []) ?? NAMESPACE;
      return { ...value, metadata: { ...objectMember(value, 'metadata'), namespace } };
    });
  const authorize = createAuthorizer({
    roles: latest(ofNamespacedKind('Role')),
    clusterRoles: latest([CLUSTER_ADMIN, ...STANDARD_CLUSTER_ROLES, ...ofKind('ClusterRole')]),
    roleBindings: latest(ofNamespacedKind('RoleBinding') as readonly RoleBinding[]),
    clusterRoleBindings: latest([
      ...STANDARD_CLUSTER_ROLE_BINDINGS,
      ...(ofKind('ClusterRoleBinding') as readonly ClusterRoleBinding[]),
    ]),
  });
  const own = ofKind('SecurityContextConstraints').map(defaultScc);
  const named = new Map(STANDARD_SCCS.map(({ scc }) => [scc.metadata?.name, scc]));
  for (const scc of own.filter((scc) => validateSccObject(scc).length === 0)) named.set(scc.metadata?.name, scc);
  const namespaces = new Map(ofKind('Namespace').map((value) => [manifestName(value), value]));
  return {
    sccs: [...named.values()],
    exceptions: manifestExceptions(objects, { namespace: NAMESPACE, nowMs }),
    access: { canUse: (subject, name, namespace) => authorize(subject, { ...USE_SCC, name, namespace }) },
    namespace(name) {
      const value = namespaces.get(name) ?? {};
      const annotations = textMap(objectMember(objectMember(value, 'metadata'), 'annotations'));
      const namespace = { metadata: { name, labels: textMap(manifestLabels(value)), annotations } };
      const missing = findMissingRanges(namespace, DEFAULT_RANGES);
      const ranges = missing === 'block' ? blockAnnotations(0, namespace, DEFAULT_RANGES) : missing?.annotations;
      return { metadata: { ...namespace.metadata, annotations: { ...namespace.metadata.annotations, ...ranges } } };
    },
  };
}

/** Returns the objects without those that a later object with the same name replaces. */
function latest<T extends KubeObject>(objects: readonly T[]): readonly T[] {
  const byName = new Map(objects.map((object) => [objectKey(object), object]));
  return [...byName.values()];
}

function textMap(map: object): Readonly<Record<string, string>> {
  return Object.fromEntries(
    Object.entries(map).filter((entry): entry is [string, string] => typeof entry[1] === 'string'),
  );
}

interface ObjectEvaluation {
  readonly objects: readonly EvaluatedObject[];
  readonly errors: readonly ManifestError[];
}

function evaluateObject(object: ManifestObject, version: Version, cluster: ClusterObjects): ObjectEvaluation {
  const unreadable = findUnreadable(object);
  if (unreadable.length > 0) return { objects: [], errors: unreadable };
  const { pods, unknown, fields } = readPods(object.value);
  const describe = (path: FieldPath, problem: string): ManifestError =>
    errorAt(object, path, `${printFieldPath(path)} ${problem} outside the known pod templates of ${object.kind}`);
  return {
    objects: pods.map((pod) => evaluatePod(object, pod, { version, cluster })),
    errors: [
      ...invalidErrors([object]),
      ...unknown.map((path) => describe(path, 'contains containers')),
      ...fields.map((path) => describe(path, 'is a security field')),
    ],
  };
}

function evaluatePod(
  object: ManifestObject,
  objectPod: ObjectPod,
  { version, cluster }: { readonly version: Version; readonly cluster: ClusterObjects },
): EvaluatedObject {
  const { kind, value } = object;
  const { path, pod, sourcePath } = objectPod;
  const namespace = fieldNamespace(value, path) ?? NAMESPACE;
  const locate = (field: string): FieldPosition => {
    const path = sourcePath(parsePath(field));
    return { path: printFieldPath(path), ...object.locate(path) };
  };
  const findings = (level: Level): readonly LocatedViolation[] =>
    podSecurityViolations(pod, { level, version }, cluster.exceptions(namespace)).map(
      ({ check, reason, detail, fix, fields }) => ({
        check,
        reason,
        detail,
        fix,
        fields: (fields.length === 0 ? [''] : fields.map((field) => field.path)).map(locate),
      }),
    );
  return {
    kind,
    name: manifestName(value),
    namespace,
    ...object.locate(path.length === 0 ? ['kind'] : path),
    findings: Object.fromEntries(LEVELS.map((level) => [level, findings(level)])) as EvaluatedObject['findings'],
    scc: selectScc(podCreator(object, objectPod), { namespace: cluster.namespace(namespace), cluster, locate }),
  };
}

function podCreator({ apiVersion, kind, value }: ManifestObject, pod: ObjectPod): PodCreator {
  const template = pod.path;
  const object = (pod.isComposed ? withValueAt(value, template, pod.pod) : value) as KubeObject;
  return isKnownKind(apiVersion, kind) ? { kind: kind as Kind, object } : { kind, object, template };
}

interface Selection {
  readonly namespace: Namespace;
  readonly cluster: ClusterObjects;
  locate(field: string): FieldPosition;
}

const IGNORED: SccResult = {
  verdict: { outcome: 'ignored' },
  sccs: [],
  reasons: ['SCCs do not apply to these pods.'],
  fields: [],
};

/**
 * Determines the SCC that admits the pods. Service accounts do not have to exist in the text. The creator of a bare pod
 * has no grants.
 */
function selectScc(source: PodCreator, { namespace, cluster, locate }: Selection): SccResult {
  const { sccs, access } = cluster;
  const pod = workloadPod(source, { namespace, sccs, access, creator: {}, findAccount: () => ({}) });
  if (pod === undefined) return IGNORED;
  const { verdict, decision, sccs: explained } = explainPod(pod.input);
  switch (verdict.outcome) {
    case 'ignored':
      return IGNORED;
    case 'admitted':
      return { verdict, sccs: explained, reasons: [decision.auditAnnotations['reason'] ?? ''], fields: [] };
    case 'denied': {
      const fields = (verdict.closest?.disallowedFields ?? []).map(({ path }) => locate(path));
      return { verdict, sccs: explained, reasons: describeDenial(verdict, pod.serviceAccount), fields };
    }
  }
}
