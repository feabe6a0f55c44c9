import { deepEqual } from '../kube/equality.ts';
import { isObject, type JsonObject, type Kind, type Kinds } from '../kube/types.ts';
import { podTemplatePath } from '../kube/pod.ts';
import { getApiVersion, RESOURCES } from '../kube/resources.ts';

/** Gives the same object for equal JSON; one that is new is kept as `onNew` makes it, which has to be equal. */
type Intern = (value: unknown, onNew?: (value: object) => object) => unknown;

/** How many old entries are looked at for each new one. */
const SWEPT = 2;

/**
 * Makes a pool of JSON objects; one that nobody else holds goes from it by itself. An entry is no more than a number and
 * a weak reference: most objects of a large cluster are shared by few. Of two objects with one number only one is shared.
 */
export function createObjectPool(): Intern {
  const pool = new Map<number, WeakRef<object>>();
  let old = pool.entries();
  const sweep = (): void => {
    for (let count = 0; count < SWEPT; count++) {
      const { value: entry } = old.next();
      if (entry === undefined) {
        old = pool.entries();
        return;
      }
      const [key, reference] = entry;
      if (reference.deref() === undefined) pool.delete(key);
    }
  };
  return (value, onNew) => {
    if (typeof value !== 'object' || value === null) return value;
    const key = hashOf(JSON.stringify(value));
    const known = pool.get(key)?.deref();
    if (known !== undefined) return deepEqual(known, value) ? known : value;
    sweep();
    const kept = onNew ? onNew(value) : value;
    pool.set(key, new WeakRef(kept));
    return kept;
  };
}

/** FNV-1a, cut to what an engine keeps without memory of its own. */
function hashOf(text: string): number {
  let hash = 0x811c9dc5;
  for (let index = 0; index < text.length; index++) hash = Math.imul(hash ^ text.charCodeAt(index), 0x01000193);
  return hash >>> 2;
}

/** Gives the same text for equal texts. */
type InternText = (text: string) => string;

/** Makes a pool of texts that keeps those used lately, at most twice as many as given. */
export function createStringPool(limit: number): InternText {
  let young = new Map<string, string>();
  let old = new Map<string, string>();
  return (text) => {
    const known = young.get(text);
    if (known !== undefined) return known;
    const kept = old.get(text) ?? text;
    if (young.size >= limit) {
      old = young;
      young = new Map();
    }
    young.set(kept, kept);
    return kept;
  };
}

/** Keeps the metadata of objects; what is equal in many is held but once, and what is no object stays as it is. */
interface MetadataKeeper {
  /** All but who owns which field. */
  whole(metadata: unknown): unknown;
  /** That, and not what kubectl has applied last. */
  withoutLastApplied(metadata: unknown): unknown;
  /** All, and the sets of owned fields shared. */
  withOwners(metadata: unknown): unknown;
  /** Of objects of which there are many: what names them, where they come from, and what decisions may read. */
  part(metadata: unknown): unknown;
}

const LAST_APPLIED = 'kubectl.kubernetes.io/last-applied-configuration';
/** Of many objects not worth their memory: nobody reads them. */
const UNREAD: readonly string[] = ['managedFields', 'labels', 'generateName', 'creationTimestamp', 'selfLink'];
/** More than a large cluster has namespaces. */
const NAMESPACES = 20_000;

function createMetadataKeeper(intern: Intern): MetadataKeeper {
  const internText = createStringPool(NAMESPACES);
  const share = (metadata: JsonObject): JsonObject => {
    const { namespace, labels, ownerReferences } = metadata;
    return {
      ...metadata,
      ...(typeof namespace === 'string' ? { namespace: internText(namespace) } : {}),
      ...(labels == null ? {} : { labels: intern(labels) }),
      ...(ownerReferences == null ? {} : { ownerReferences: intern(ownerReferences) }),
    };
  };
  const withAnnotations = (metadata: JsonObject, keep: (annotations: JsonObject) => JsonObject): JsonObject => {
    const { annotations } = metadata;
    return isObject(annotations) ? { ...metadata, annotations: intern(keep(annotations)) } : metadata;
  };
  const ifObject =
    (keep: (metadata: JsonObject) => JsonObject) =>
    (metadata: unknown): unknown =>
      isObject(metadata) ? keep(metadata) : metadata;
  const whole = (metadata: JsonObject): JsonObject => share(without(metadata, 'managedFields'));

  return {
    whole: ifObject(whole),
    withoutLastApplied: ifObject((metadata) =>
      withAnnotations(whole(metadata), (annotations) => without(annotations, LAST_APPLIED)),
    ),
    withOwners: ifObject((metadata) => {
      const { managedFields } = metadata;
      return Array.isArray(managedFields)
        ? { ...share(metadata), managedFields: managedFields.map((entry) => shareFields(entry, intern)) }
        : share(metadata);
    }),
    part: (metadata) => {
      if (!isObject(metadata)) return {};
      return withAnnotations(share(without(metadata, ...UNREAD)), readAnnotations);
    },
  };
}

function shareFields(entry: unknown, intern: Intern): unknown {
  return isObject(entry) && isObject(entry['fieldsV1']) ? { ...entry, fieldsV1: intern(entry['fieldsV1']) } : entry;
}

/** Domains whose annotations decisions may read; those of others, such as of networks, differ from pod to pod. */
const DOMAINS: readonly string[] = ['kubernetes.io', 'k8s.io', 'openshift.io', 'portcullis.dev'];

function readAnnotations(annotations: JsonObject): JsonObject {
  return filter(annotations, (key) => key !== LAST_APPLIED && isReadable(key));
}

function isReadable(key: string): boolean {
  const slash = key.indexOf('/');
  const domain = key.slice(0, Math.max(0, slash));
  return slash < 0 || DOMAINS.some((one) => domain === one || domain.endsWith(`.${one}`));
}

/** An object without some of its members. */
function without(object: JsonObject, ...names: readonly string[]): JsonObject {
  return names.some((name) => Object.hasOwn(object, name)) ? filter(object, (key) => !names.includes(key)) : object;
}

function filter(object: JsonObject, isKept: (key: string) => boolean): JsonObject {
  return Object.fromEntries(Object.entries(object).filter(([key]) => isKept(key)));
}

/**
 * Which part of a JSON value is kept: all of it, some members of an object, or some of each element of a list; `shared`
 * is held but once for all values that are equal.
 */
type Shape =
  'all' | { readonly each: Shape } | { readonly members: ReadonlyMap<string, Shape> } | { readonly shared: Shape };

function each(shape: Shape): Shape {
  return { each: shape };
}

function members(shapes: Readonly<Record<string, Shape>>): Shape {
  return { members: new Map(Object.entries(shapes)) };
}

function shared(shape: Shape): Shape {
  return { shared: shape };
}

/**
 * The part of a value that a shape keeps, its members in their order; a value of another type stays as it is. Without a
 * pool nothing is shared.
 */
function keep(value: unknown, shape: Shape, intern?: Intern): unknown {
  if (shape === 'all') return value;
  if ('shared' in shape) {
    const kept = keep(value, shape.shared, intern);
    return intern ? intern(kept) : kept;
  }
  if ('each' in shape) return Array.isArray(value) ? value.map((item) => keep(item, shape.each, intern)) : value;
  if (!isObject(value)) return value;
  const entries: [string, unknown][] = [];
  for (const key of Object.keys(value)) {
    const inner = shape.members.get(key);
    if (inner !== undefined) entries.push([key, keep(value[key], inner, intern)]);
  }
  return Object.fromEntries(entries);
}

const ACTIONS = shared(members({ httpGet: members({ host: 'all' }), tcpSocket: members({ host: 'all' }) }));

const CONTAINER = members({
  name: 'all',
  image: 'all',
  securityContext: shared('all'),
  ports: shared(each(members({ hostPort: 'all' }))),
  livenessProbe: ACTIONS,
  readinessProbe: ACTIONS,
  startupProbe: ACTIONS,
  lifecycle: shared(members({ postStart: ACTIONS, preStop: ACTIONS })),
});

/** What decisions read of a pod spec: the Pod Security checks, SCCs, exemptions. */
const POD_SPEC: Shape = members({
  initContainers: each(CONTAINER),
  containers: each(CONTAINER),
  ephemeralContainers: each(CONTAINER),
  volumes: shared(each(shared('all'))),
  securityContext: shared('all'),
  serviceAccountName: 'all',
  hostNetwork: 'all',
  hostPID: 'all',
  hostIPC: 'all',
  hostUsers: 'all',
  os: members({ name: 'all' }),
  runtimeClassName: 'all',
});

/** The part of a pod spec that decisions read, held once for the pods of one controller; its parts for all pods. */
function keepPodSpec(spec: unknown, intern: Intern): unknown {
  return intern(withoutSuffixes(keep(spec, POD_SPEC)), (kept) => keep(kept, POD_SPEC, intern) as object);
}

function withoutSuffixes(spec: unknown): unknown {
  if (!isObject(spec) || !Array.isArray(spec['volumes'])) return spec;
  return { ...spec, volumes: spec['volumes'].map(withoutSuffix) };
}

const TOKEN_VOLUME = 'kube-api-access';

/** The volume of the service account's token, which no check names, is called otherwise in each pod. */
function withoutSuffix(volume: unknown): unknown {
  if (!isObject(volume) || !isObject(volume['projected']) || Object.keys(volume).length !== 2) return volume;
  const { name } = volume;
  return typeof name === 'string' && name.startsWith(`${TOKEN_VOLUME}-`) ? { ...volume, name: TOKEN_VOLUME } : volume;
}

/** What is kept of the objects of a kind. */
export interface Projection {
  /** `undefined`: nothing, as if the object were not there. */
  keep(object: JsonObject): Kinds[Kind] | undefined;
  /** True if nothing has changed between two that were kept. */
  isSame(before: Kinds[Kind], after: Kinds[Kind]): boolean;
}

/** Makes the function that gives the projection of each kind; what is equal in many objects is held but once. */
export function createProjections(): (kind: Kind) => Projection {
  const intern = createObjectPool();
  const metadata = createMetadataKeeper(intern);
  return (kind) => {
    // One text for all objects of the kind.
    const tools = { type: { apiVersion: getApiVersion(kind), kind }, intern, metadata };
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
      owner['apiVersion'] === getApiVersion(maker),
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
