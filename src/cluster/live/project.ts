import { deepEqual } from '../../kube/equal.ts';
import { podTemplatePath } from '../../kube/pod.ts';
import { apiVersionOf, RESOURCES } from '../../kube/resources.ts';
import { isObject, type JsonObject, type Kind, type Kinds } from '../../kube/types.ts';
import { createIntern, type Intern } from './intern.ts';
import { keepPodSpec } from './pod-shape.ts';

/** What is kept of the objects of a kind. */
export interface Projection {
  /** `undefined`: nothing, as if the object were not there. */
  keep(object: JsonObject): Kinds[Kind] | undefined;
  /** True if nothing has changed between two that were kept. */
  isSame(before: Kinds[Kind], after: Kinds[Kind]): boolean;
}

/** Makes the function that gives the projection of each kind; those of pods and workloads hold what is equal but once. */
export function createProjections(): (kind: Kind) => Projection {
  const intern = createIntern();
  return (kind) => {
    if (kind === 'Pod') return partial((object) => keepPod(object, intern));
    const path = podTemplatePath(RESOURCES[kind].group, kind);
    if (path) return partial((object) => keepWorkload(kind, path, object, intern));
    return { keep: (object) => keepWhole(kind, object), isSame: isSameVersion };
  };
}

/** Much of such an object is not kept: it has changed only if what is kept has. */
function partial(keep: Projection['keep']): Projection {
  return {
    keep,
    isSame: (before, after) => deepEqual(withoutVersion(before), withoutVersion(after)),
  };
}

function isSameVersion({ metadata: a }: Kinds[Kind], { metadata: b }: Kinds[Kind]): boolean {
  return a?.uid === b?.uid && a?.resourceVersion === b?.resourceVersion;
}

function withoutVersion(object: Kinds[Kind]): JsonObject {
  const metadata = Object.entries(object.metadata ?? {}).filter(([key]) => key !== 'resourceVersion');
  return { ...object, metadata: Object.fromEntries(metadata) };
}

function keepPod({ metadata, spec, status }: JsonObject, intern: Intern): Kinds[Kind] {
  const phase = isObject(status) ? status['phase'] : undefined;
  const kept: JsonObject = {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: keepMetadata(metadata, intern),
    spec: intern(keepPodSpec(spec)),
    ...(phase === undefined ? {} : { status: intern({ phase }) }),
  };
  return kept;
}

/** A workload with its template only, which lies where it lay; nothing of one that another workload makes. */
function keepWorkload(
  kind: Kind,
  path: readonly string[],
  object: JsonObject,
  intern: Intern,
): Kinds[Kind] | undefined {
  if (isMadeByKnown(kind, object)) return undefined;
  const kept: JsonObject = {
    apiVersion: apiVersionOf(kind),
    kind,
    metadata: keepMetadata(object['metadata'], intern),
    ...keepAt(object, path, (template) => keepTemplate(template, intern)),
  };
  return kept;
}

function keepAt(value: unknown, [key, ...rest]: readonly string[], keep: (value: unknown) => unknown): JsonObject {
  if (key === undefined || !isObject(value) || value[key] == null) return {};
  return { [key]: rest.length === 0 ? keep(value[key]) : keepAt(value[key], rest, keep) };
}

function keepTemplate(template: unknown, intern: Intern): unknown {
  if (!isObject(template)) return template;
  const { metadata, spec } = template;
  return { ...(metadata == null ? {} : { metadata }), ...(spec == null ? {} : { spec: intern(keepPodSpec(spec)) }) };
}

const LAST_APPLIED = 'kubectl.kubernetes.io/last-applied-configuration';

/** What the pods of a controller have in common is held once. */
function keepMetadata(metadata: unknown, intern: Intern): JsonObject {
  if (!isObject(metadata)) return {};
  const kept = without(metadata, 'managedFields');
  const { annotations, labels, ownerReferences } = kept;
  return {
    ...kept,
    ...(labels == null ? {} : { labels: intern(labels) }),
    ...(ownerReferences == null ? {} : { ownerReferences: intern(ownerReferences) }),
    ...(isObject(annotations) ? { annotations: intern(without(annotations, LAST_APPLIED)) } : {}),
  };
}

/** What pods come from that are made by it: it is enough to know the one on top. */
const MAKERS: Partial<Readonly<Record<Kind, Kind>>> = { ReplicaSet: 'Deployment', Job: 'CronJob' };

function isMadeByKnown(kind: Kind, { metadata }: JsonObject): boolean {
  const maker = MAKERS[kind];
  const owners = isObject(metadata) && Array.isArray(metadata['ownerReferences']) ? metadata['ownerReferences'] : [];
  return owners.some(
    (owner: unknown) =>
      isObject(owner) &&
      owner['controller'] === true &&
      maker !== undefined &&
      owner['kind'] === maker &&
      owner['apiVersion'] === apiVersionOf(maker),
  );
}

/** Kinds that are never replaced as a whole by this program, so that what is not kept is not lost. */
const READ_ONLY: ReadonlySet<Kind> = new Set(['Node', 'ServiceAccount', 'Role', 'RoleBinding']);

/** Who owns which field is most of an object, and decides of namespaces only. */
function keepWhole(kind: Kind, object: JsonObject): Kinds[Kind] {
  const { metadata } = object;
  const type = { apiVersion: apiVersionOf(kind), kind };
  if (kind === 'Namespace' || !isObject(metadata)) return { ...object, ...type };
  const kept = without(metadata, 'managedFields');
  const { annotations } = kept;
  const isCut = READ_ONLY.has(kind) && isObject(annotations);
  return {
    ...object,
    ...type,
    metadata: isCut ? { ...kept, annotations: without(annotations, LAST_APPLIED) } : kept,
  };
}

function without(object: JsonObject, name: string): JsonObject {
  if (!Object.hasOwn(object, name)) return object;
  return Object.fromEntries(Object.entries(object).filter(([key]) => key !== name));
}
