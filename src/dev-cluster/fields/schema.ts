import { isObject, type JsonObject, objectMember } from '../../kube/types.ts';

/**
 * Describes how server-side apply and strategic merge patches treat a value. It determines which lists are merged item
 * by item, and which objects are owned as a whole. All other objects are owned and merged field by field. Scalar types
 * are not checked.
 */
export interface Schema {
  /** The keys of a list's items, or `set` for a list of scalars. If absent, a list is owned as a whole. */
  readonly list?: 'set' | readonly string[];
  /** True for an object that is owned as a whole. */
  readonly atomic?: boolean;
  /** For custom resources, true if the value may be `null`. */
  readonly nullable?: boolean;
  /** Returns the schema of an object member. */
  field(name: string): Schema;
  /** Returns the schema of a list's items. */
  item(): Schema;
}

type Rule = Omit<Schema, 'field' | 'item'>;

/** Lists by the keys of their items. The first key is also the merge key in strategic merge patches. */
const LIST_KEYS: Readonly<Record<string, string>> = {
  uid: 'metadata.ownerReferences',
  name: `containers initContainers ephemeralContainers env resources.claims allocatedResourcesStatus spec.volumes
    spec.resourceClaims imagePullSecrets schedulingGates resourceClaimStatuses secrets webhooks matchConditions
    spec.variables`,
  'containerPort protocol': 'containers.ports initContainers.ports ephemeralContainers.ports',
  mountPath: 'volumeMounts',
  devicePath: 'volumeDevices',
  ip: 'hostAliases podIPs hostIPs',
  'topologyKey whenUnsatisfiable': 'topologySpreadConstraints',
  type: 'status.conditions status.addresses',
  'port protocol': 'spec.ports',
};

const SETS = 'metadata.finalizers podCIDRs';

const ATOMIC_OBJECTS = `ownerReferences.* imagePullSecrets.* secrets.* variables.* nodeSelector selector labelSelector
  podSelector namespaceSelector objectSelector scopeSelector required requiredDuringSchedulingIgnoredDuringExecution
  configMapKeyRef secretKeyRef fileKeyRef fieldRef resourceFieldRef secretRef nodePublishSecretRef dataSource roleRef
  involvedObject regarding related targetRef target`;

/**
 * Rules for built-in kinds, by field name, or by parent and field name if kinds differ.
 * @see https://github.com/kubernetes/kubernetes/blob/v1.36.0/api/openapi-spec/swagger.json
 */
const RULES: ReadonlyMap<string, Rule> = new Map<string, Rule>([
  ...Object.entries(LIST_KEYS).flatMap(([keys, fields]) => createRules(fields, { list: keys.split(' ') })),
  ...createRules(SETS, { list: 'set' }),
  ...createRules(ATOMIC_OBJECTS, { atomic: true }),
]);

function createRules(fields: string, rule: Rule): [string, Rule][] {
  return fields.split(/\s+/).map((field) => [field, rule]);
}

/** Creates the schema of a field in a built-in kind. `*` is the name of a list item. */
function builtInSchema(parent: string, name: string): Schema {
  return {
    ...(RULES.get(`${parent}.${name}`) ?? RULES.get(name)),
    field: (field) => builtInSchema(name === '*' ? parent : name, field),
    item: () => builtInSchema(name, '*'),
  };
}

/** Schema that all built-in kinds share. */
export const BUILT_IN: Schema = builtInSchema('', '');

/** Creates the schema of a value from the `openAPIV3Schema` of a CRD. */
function customSchema(schema: JsonObject): Schema {
  const listType = schema['x-kubernetes-list-type'];
  const listKeys = schema['x-kubernetes-list-map-keys'];
  const properties = objectMember(schema, 'properties');
  const additional = objectMember(schema, 'additionalProperties');
  const below = (value: unknown): Schema => customSchema(isObject(value) ? value : {});
  return {
    ...(listType === 'set' ? { list: 'set' } : {}),
    ...(listType === 'map' && Array.isArray(listKeys) ? { list: listKeys.map(String) } : {}),
    ...(schema['x-kubernetes-map-type'] === 'atomic' ? { atomic: true } : {}),
    nullable: schema['nullable'] === true,
    field: (name) => below(Object.hasOwn(properties, name) ? properties[name] : additional),
    item: () => below(schema['items']),
  };
}

/** Creates the schema of a custom resource. */
export function customResourceSchema(schema: JsonObject | undefined): Schema {
  const root = customSchema(schema ?? {});
  return { ...root, field: (name) => (name === 'metadata' ? BUILT_IN.field(name) : root.field(name)) };
}
