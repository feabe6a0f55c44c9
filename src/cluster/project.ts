import { deepEqual } from '../kube/equal.ts';
import { podTemplatePath } from '../kube/pod.ts';
import { apiVersionOf, RESOURCES } from '../kube/resources.ts';
import { isObject, type JsonObject, type Kind, type Kinds } from '../kube/types.ts';
import { createIntern, type Intern } from './intern.ts';
import { createMetadataKeeper, without, type MetadataKeeper } from './keep-metadata.ts';
import { keepPodSpec } from './pod-shape.ts';

/** What is kept of the objects of a kind. */
export interface Projection {
  /** `undefined`: nothing, as if the object were not there. */
  keep(object: JsonObject): Kinds[Kind] | undefined;
  /** True if nothing has changed between two that were kept. */
  isSame(before: Kinds[Kind], after: Kinds[Kind]): boolean;
}

/** Makes the function that gives the projection of each kind; what is equal in many objects is held but once. */
export function createProjections(): (kind: Kind) => Projection {
  const intern = createIntern();
  const metadata = createMetadataKeeper(intern);
  return (kind) => {
    // One text for all objects of the kind.
    const tools = { type: { apiVersion: apiVersionOf(kind), kind }, intern, metadata };
    if (kind === 'Pod') return partial((object) => keepPod(object, tools));
    const path = podTemplatePath(RESOURCES[kind].group, kind);
    if (path) return partial((object) => keepWorkload(path, object, tools));
    return { keep: (object) => keepWhole(object, tools), isSame: isSameVersion };
  };
}

interface Tools {
  readonly type: { readonly apiVersion: string; readonly kind: Kind };
  readonly intern: Intern;
  readonly metadata: MetadataKeeper;
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

function keepPod({ metadata, spec, status }: JsonObject, tools: Tools): Kinds[Kind] {
  const { type, intern } = tools;
  const phase = isObject(status) ? status['phase'] : undefined;
  const kept: JsonObject = {
    ...type,
    metadata: tools.metadata.part(metadata),
    spec: keepPodSpec(spec, intern),
    ...(phase === undefined ? {} : { status: intern({ phase }) }),
  };
  return kept;
}

/** A workload with its template only, which lies where it lay; nothing of one that another workload makes. */
function keepWorkload(path: readonly string[], object: JsonObject, tools: Tools): Kinds[Kind] | undefined {
  const { type, intern } = tools;
  if (isMadeByKnown(type.kind, object)) return undefined;
  const kept: JsonObject = {
    ...type,
    metadata: tools.metadata.part(object['metadata']),
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
  return { ...(metadata == null ? {} : { metadata }), ...(spec == null ? {} : { spec: keepPodSpec(spec, intern) }) };
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

/** Members that many objects have alike. */
const ALIKE: Partial<Readonly<Record<Kind, readonly string[]>>> = {
  Namespace: ['spec', 'status'],
  Role: ['rules'],
  RoleBinding: ['roleRef', 'subjects'],
};

function keepWhole(object: JsonObject, { type, intern, metadata }: Tools): Kinds[Kind] {
  const { kind } = type;
  const alike = (ALIKE[kind] ?? []).filter((name) => object[name] != null);
  const kept: JsonObject = {
    ...object,
    ...type,
    ...Object.fromEntries(alike.map((name): [string, unknown] => [name, intern(object[name])])),
    metadata: keepWholeMetadata(kind, object['metadata'], metadata),
  };
  return isObject(object['metadata']) ? kept : without(kept, 'metadata');
}

/** Who owns which field is most of an object, and decides of few kinds. */
const WITH_OWNERS: ReadonlySet<Kind> = new Set(['Namespace', 'PSAEnforcementConfig']);

function keepWholeMetadata(kind: Kind, metadata: unknown, keeper: MetadataKeeper): unknown {
  if (WITH_OWNERS.has(kind)) return keeper.withOwners(metadata);
  return READ_ONLY.has(kind) ? keeper.withoutLastApplied(metadata) : keeper.whole(metadata);
}
