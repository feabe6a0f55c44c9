import { isObject, type JsonObject } from '../../kube/types.ts';

/**
 * How server-side apply and strategic merge patches treat a value: which lists merge item by item, and which objects
 * are owned as a whole. Everything else is owned and merged field by field. Types of scalars are not checked.
 */
export interface Schema {
  /** The keys of a list's items, or `set` for a list of scalars. Absent: a list is owned as a whole. */
  readonly list?: 'set' | readonly string[];
  /** True for an object that is owned as a whole. */
  readonly atomic?: boolean;
  /** Custom resources only: whether the value may be `null`. */
  readonly nullable?: boolean;
  /** The schema of a member of an object. */
  field(name: string): Schema;
  /** The schema of the items of a list. */
  item(): Schema;
}

type Rule = Omit<Schema, 'field' | 'item'>;

const ATOMIC: Rule = { atomic: true };
const SET: Rule = { list: 'set' };
const keys = (...list: string[]): Rule => ({ list });

const ATOMIC_OBJECTS = [
  'nodeSelector',
  'selector',
  'labelSelector',
  'podSelector',
  'namespaceSelector',
  'objectSelector',
  'scopeSelector',
  'required',
  'requiredDuringSchedulingIgnoredDuringExecution',
  'configMapKeyRef',
  'secretKeyRef',
  'fileKeyRef',
  'fieldRef',
  'resourceFieldRef',
  'secretRef',
  'nodePublishSecretRef',
  'dataSource',
  'roleRef',
  'involvedObject',
  'regarding',
  'related',
  'targetRef',
  'target',
];

/**
 * Rules of the built-in kinds by the name of the field, or by the names of parent and field where kinds differ. The first
 * key of a list is also the merge key of strategic merge patches.
 * @see https://github.com/kubernetes/kubernetes/blob/v1.36.0/api/openapi-spec/swagger.json
 */
const RULES: ReadonlyMap<string, Rule> = new Map<string, Rule>([
  ['metadata.finalizers', SET],
  ['metadata.ownerReferences', keys('uid')],
  ['ownerReferences.*', ATOMIC],

  ['containers', keys('name')],
  ['initContainers', keys('name')],
  ['ephemeralContainers', keys('name')],
  ['containers.ports', keys('containerPort', 'protocol')],
  ['initContainers.ports', keys('containerPort', 'protocol')],
  ['ephemeralContainers.ports', keys('containerPort', 'protocol')],
  ['env', keys('name')],
  ['volumeMounts', keys('mountPath')],
  ['volumeDevices', keys('devicePath')],
  ['resources.claims', keys('name')],
  ['allocatedResourcesStatus', keys('name')],

  ['spec.volumes', keys('name')],
  ['spec.resourceClaims', keys('name')],
  ['imagePullSecrets', keys('name')],
  ['imagePullSecrets.*', ATOMIC],
  ['hostAliases', keys('ip')],
  ['topologySpreadConstraints', keys('topologyKey', 'whenUnsatisfiable')],
  ['schedulingGates', keys('name')],

  ['status.conditions', keys('type')],
  ['status.addresses', keys('type')],
  ['podIPs', keys('ip')],
  ['hostIPs', keys('ip')],
  ['resourceClaimStatuses', keys('name')],
  ['podCIDRs', SET],

  ['spec.ports', keys('port', 'protocol')],
  ['secrets', keys('name')],
  ['secrets.*', ATOMIC],
  ['webhooks', keys('name')],
  ['matchConditions', keys('name')],

  ...ATOMIC_OBJECTS.map((name): [string, Rule] => [name, ATOMIC]),
]);

/** The schema of a field of a built-in kind; `*` is the name of a list item. */
function builtInSchema(parent: string, name: string): Schema {
  return {
    ...(RULES.get(`${parent}.${name}`) ?? RULES.get(name)),
    field: (field) => builtInSchema(name === '*' ? parent : name, field),
    item: () => builtInSchema(name, '*'),
  };
}

/** The schema of every built-in kind. */
export const BUILT_IN: Schema = builtInSchema('', '');

/** The schema of a value that the `openAPIV3Schema` of a CustomResourceDefinition describes. */
function customSchema(schema: JsonObject): Schema {
  const listType = schema['x-kubernetes-list-type'];
  const listKeys = schema['x-kubernetes-list-map-keys'];
  const properties = isObject(schema['properties']) ? schema['properties'] : {};
  const additional = isObject(schema['additionalProperties']) ? schema['additionalProperties'] : {};
  const below = (value: unknown): Schema => customSchema(isObject(value) ? value : {});
  return {
    ...(listType === 'set' ? SET : {}),
    ...(listType === 'map' && Array.isArray(listKeys) ? keys(...listKeys.map(String)) : {}),
    ...(schema['x-kubernetes-map-type'] === 'atomic' ? ATOMIC : {}),
    nullable: schema['nullable'] === true,
    field: (name) => below(Object.hasOwn(properties, name) ? properties[name] : additional),
    item: () => below(schema['items']),
  };
}

/** The schema of a custom resource. */
export function customResourceSchema(schema: JsonObject | undefined): Schema {
  const root = customSchema(schema ?? {});
  return { ...root, field: (name) => (name === 'metadata' ? BUILT_IN.field(name) : root.field(name)) };
}
