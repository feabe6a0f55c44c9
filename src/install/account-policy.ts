/** Generates the ValidatingAdmissionPolicy that restricts the replicas' service account more than RBAC can. */
import {
  GRANT_EXPIRY_ANNOTATION,
  TEMPORARY_GRANT_PREFIX,
  INSTALLATION,
  KUBELET_CONDITION,
  KUBELET_STATE_ANNOTATION,
  KUBELET_TAINT,
  POD_SECURITY_CONFIG_MAP,
} from '../api/names.ts';
import {
  CONFIGURATION_KINDS,
  CONFIGURATION_NAMES,
  type ConfigurationKind,
  unchangedNamespaces,
} from '../api/webhooks.ts';
import { CONTROLLERS } from '../controllers/index.ts';
import { celList, celString } from '../kube/cel.ts';
import type { Kind } from '../kube/kinds.ts';
import { RESOURCES } from '../kube/resources.ts';
import { sortedSet } from '../kube/text.ts';
import { isObject, type KubeObject } from '../kube/types.ts';
import { NAMESPACE_NAME_LABEL } from '../kube/well-known.ts';
import {
  OPENSHIFT_USERS,
  STANDARD_CLUSTER_ROLE_BINDINGS,
  STANDARD_CLUSTER_ROLES,
  STANDARD_SCCS,
  useRoleName,
} from '../policy/scc/index.ts';
import { RANGE_ALLOCATION_NAME } from '../policy/uid-range/index.ts';
import { WEBHOOK_REGISTRATIONS } from '../server/webhooks/index.ts';
import { type Manifest, type ManifestSettings, type PolicySpec, policyWithBinding } from './settings.ts';

/** Objects that the replicas may write only with the standard content. */
const STANDARD: readonly (readonly [kind: Kind, objects: readonly KubeObject[]])[] = [
  ['ClusterRole', STANDARD_CLUSTER_ROLES],
  ['ClusterRoleBinding', STANDARD_CLUSTER_ROLE_BINDINGS],
  ['SecurityContextConstraints', STANDARD_SCCS.map(({ scc }) => scc)],
];

/** Names of the objects that the replicas may write. RBAC cannot restrict these kinds by name and content. */
const NAMES: readonly (readonly [kind: Kind, names: readonly string[]])[] = [
  ...STANDARD.map(([kind, objects]) => [kind, objects.map(({ metadata }) => metadata?.name ?? '')] as const),
  ...CONFIGURATION_KINDS.map((kind) => [kind, [CONFIGURATION_NAMES[kind]]] as const),
  ['RangeAllocation', [RANGE_ALLOCATION_NAME]],
  ['Secret', [INSTALLATION.certificateSecret]],
  ['ConfigMap', [POD_SECURITY_CONFIG_MAP]],
];

/** Kinds for which the policy restricts only creation, because RBAC restricts the other verbs by name. */
const CREATED_ONLY: readonly Kind[] = ['Secret', 'ConfigMap'];

/** Namespace labels and annotations that the controllers write, across all features. */
const NAMESPACE_KEYS: readonly string[] = sortedSet(
  CONTROLLERS.flatMap(({ permissions }) => permissions.flatMap(({ namespaceKeys = [] }) => namespaceKeys)),
);

/** Labels and annotations that the replicas may write on objects of other components. */
const KEYS: readonly (readonly [kind: Kind, keys: readonly string[]])[] = [
  ['Namespace', NAMESPACE_KEYS],
  ['Node', [KUBELET_STATE_ANNOTATION]],
];

/** Formats a value as CEL. Uses `dyn` because all values in a map literal must have the same type. */
function celValue(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(celValue).join(', ')}]`;
  if (!isObject(value)) return typeof value === 'string' ? celString(value) : String(value);
  const entries = Object.entries(value).map(([key, member]) => `${celString(key)}: dyn(${celValue(member)})`);
  return `{${entries.join(', ')}}`;
}

const METADATA: readonly string[] = ['apiVersion', 'kind', 'metadata'];

/**
 * Returns the fields of the standard objects by resource and name. Omits null fields, which are equal to absent fields.
 */
function standardFields(): Readonly<Record<string, Readonly<Record<string, unknown>>>> {
  const isField = ([name, value]: readonly [string, unknown]): boolean => value !== null && !METADATA.includes(name);
  return Object.fromEntries(
    STANDARD.map(([kind, objects]) => [
      RESOURCES[kind].resource,
      Object.fromEntries(
        objects.map((object) => [
          object.metadata?.name ?? '',
          Object.fromEntries(Object.entries(object).filter(isField)),
        ]),
      ),
    ]),
  );
}

/** Kinds of bindings that the replicas delete when they expire. */
const TEMPORARY: readonly Kind[] = ['RoleBinding', 'ClusterRoleBinding'];

const RESOURCE = 'request.resource.resource';

/** Restricts an expression to one kind. The returned expression is true for all other kinds. */
function onlyFor(kind: Kind, expression: string): string {
  return `${RESOURCE} != ${celString(RESOURCES[kind].resource)} || (${expression})`;
}

/** Maps to compare with the old object, by the suffix of their variables. */
const COMPARED = { Labels: 'metadata.labels', Annotations: 'metadata.annotations', Spec: 'spec', Status: 'status' };

/**
 * Returns an expression that is true if the old and new maps differ only in the given keys. API servers need about a
 * second to iterate over 20,000 labels, so equal maps are compared as a whole, and different maps in a single
 * iteration.
 */
function differOnlyIn(keys: string, field: keyof typeof COMPARED): string {
  const [before, after] = [`variables.old${field}`, `variables.new${field}`];
  const countOthers = (map: string): string => `${map}.size() - ${keys}.filter(key, key in ${map}).size()`;
  const areOthersEqual = `${after}.all(key, (key in ${before} && ${before}[key] == ${after}[key]) || key in ${keys})`;
  return `(${after} == ${before} || (${countOthers(after)} == ${countOthers(before)} && ${areOthersEqual}))`;
}

/** Returns an expression that is true if a field is equal in the old and new objects, or absent from both. */
function isUnchanged(path: string): string {
  const [before, after] = [`variables.oldFields.${path}`, `variables.fields.${path}`];
  return `(has(${after}) ? has(${before}) && ${after} == ${before} : !has(${before}))`;
}

/** Fields that control when an object is deleted. */
const DELETION: readonly string[] = ['metadata.finalizers', 'metadata.ownerReferences'];

/**
 * Returns an expression that is true if a Node has changed only in the condition and the taint that the replicas write.
 */
function onlyKubeletReport(): string {
  const list = (parent: string, name: string): string => `(has(${parent}.${name}) ? ${parent}.${name} : [])`;
  const sameOthers = (field: 'Spec' | 'Status', name: string, isOther: string): string => {
    const [before, after] = [`variables.old${field}`, `variables.new${field}`].map((object) => list(object, name));
    return `${after}.filter(one, ${isOther}) == ${before}.filter(one, ${isOther})`;
  };
  const isOtherTaint = `one.key != ${celString(KUBELET_TAINT)}`;
  return [
    ...DELETION.map(isUnchanged),
    differOnlyIn(celList(['taints']), 'Spec'),
    sameOthers('Spec', 'taints', isOtherTaint),
    // The NoExecute effect is not permitted, because it would evict the node's pods.
    `${list('variables.newSpec', 'taints')}.all(one, ${isOtherTaint} || one.effect == "NoSchedule")`,
    differOnlyIn(celList(['conditions']), 'Status'),
    sameOthers('Status', 'conditions', `one.type != ${celString(KUBELET_CONDITION)}`),
  ].join(' && ');
}

/**
 * Returns an expression that is true if no mutating webhook selects pods in the namespaces that mutating webhooks must
 * exclude.
 */
function excludesNamespaces(installation: string): string {
  const selector = 'webhook.namespaceSelector';
  const isExcluded = `${selector}.matchExpressions.exists(one, one.key == ${celString(NAMESPACE_NAME_LABEL)} && one.operator == "NotIn" && name in one.values)`;
  const areExcluded = `has(${selector}) && has(${selector}.matchExpressions) && ${celList(unchangedNamespaces(installation))}.all(name, ${isExcluded})`;
  // Webhooks for SCCs are accepted, because namespace selectors do not apply to cluster-scoped objects.
  const hasNoPods = '!has(webhook.rules) || webhook.rules.all(rule, !("" in rule.apiGroups))';
  return onlyFor('MutatingWebhookConfiguration', `variables.webhooks.all(webhook, ${hasNoPods} || (${areExcluded}))`);
}

/**
 * Returns an expression that is true if a webhook's rules select only resources that the installation's webhooks
 * review.
 */
function reviewsOwn(kind: ConfigurationKind): string {
  const rules = WEBHOOK_REGISTRATIONS.filter((registration) => registration.kind === kind).flatMap(({ rules }) =>
    rules.map((registered) => registered.rule),
  );
  const isCore = ({ apiGroups }: (typeof rules)[number]): boolean => apiGroups?.includes('') === true;
  // The settings can add workloads in other groups to the validating webhooks. TokenReviews are excluded because they
  // contain the user's token.
  const isMutating = kind === 'MutatingWebhookConfiguration';
  const reviewed = isMutating ? rules : rules.filter(isCore);
  const resources = celList(sortedSet(reviewed.flatMap((rule) => rule.resources ?? [])));
  const groups = celList(sortedSet(rules.flatMap(({ apiGroups }) => apiGroups ?? [])));
  const isOwn = `rule.resources.all(resource, resource in ${resources})`;
  const isPermitted = isMutating
    ? `rule.apiGroups.all(group, group in ${groups}) && ${isOwn}`
    : `!rule.apiGroups.exists(group, group in ["*", "authentication.k8s.io"]) && (!("" in rule.apiGroups) || ${isOwn})`;
  return onlyFor(
    kind,
    `variables.webhooks.all(webhook, !has(webhook.rules) || webhook.rules.all(rule, ${isPermitted}))`,
  );
}

/** Returns an expression that is true if API servers send the reviews to the installation. */
function callsReplicas({ namespace, webhooks }: ManifestSettings): string {
  const client = 'webhook.clientConfig';
  const isReplica =
    webhooks === 'service'
      ? `has(${client}.service) && ${client}.service.name == ${celString(INSTALLATION.name)} && ${client}.service.namespace == ${celString(namespace)}`
      : `has(${client}.url) && ${client}.url.startsWith(${celString(`${webhooks.url}/`)})`;
  return `variables.webhooks.all(webhook, ${isReplica})`;
}

function resourceRules() {
  const named = NAMES.map(([kind]) => ({
    kind,
    operations: CREATED_ONLY.includes(kind) ? ['CREATE'] : ['CREATE', 'UPDATE'],
  }));
  const owned = KEYS.map(([kind]) => ({ kind, operations: ['UPDATE'] }));
  const deleted = TEMPORARY.map((kind) => ({ kind, operations: ['DELETE'] }));
  return [...owned, ...named, ...deleted].map(({ kind, operations }) => {
    const { group, version, resource } = RESOURCES[kind];
    // Status writes are included, because for Nodes they can also change labels and annotations.
    const resources = kind === 'Node' ? [resource, `${resource}/status`] : [resource];
    return { apiGroups: [group], apiVersions: [version], operations, resources };
  });
}

function variables(): NonNullable<PolicySpec['variables']> {
  const byResource = (lists: typeof NAMES): string =>
    celValue(Object.fromEntries(lists.map(([kind, list]) => [RESOURCES[kind].resource, list])));
  return [
    { name: 'names', expression: byResource(NAMES) },
    { name: 'standard', expression: celValue(standardFields()) },
    { name: 'expected', expression: `variables.standard[${RESOURCE}][request.name]` },
    { name: 'keys', expression: byResource(KEYS) },
    { name: 'permitted', expression: `variables.keys[${RESOURCE}]` },
    // The object is untyped so that expressions can read fields of any kind.
    { name: 'fields', expression: 'dyn(object)' },
    { name: 'oldFields', expression: 'oldObject == null ? dyn({"metadata": dyn({})}) : dyn(oldObject)' },
    ...Object.entries(COMPARED).flatMap(([field, path]) =>
      [
        [`new${field}`, `variables.fields.${path}`],
        [`old${field}`, `variables.oldFields.${path}`],
      ].map(([name = '', map]) => ({ name, expression: `has(${map}) ? ${map} : {}` })),
    ),
    { name: 'webhooks', expression: 'has(variables.fields.webhooks) ? variables.fields.webhooks : []' },
  ];
}

/** Returns an expression for the users of an SCC, without the users that depend on the compatibility mode. */
function otherUsers(object: string): string {
  const list = `(has(${object}.users) && ${object}.users != null ? ${object}.users : [])`;
  return `${list}.filter(one, !(one in ${celList(OPENSHIFT_USERS)}))`;
}

/**
 * Expression that is true if an object has the standard content, and its finalizers and owners are unchanged. Labels on
 * ClusterRoles must not change either, because they aggregate roles.
 */
const IS_STANDARD = [
  `request.name in variables.standard[${RESOURCE}]`,
  `variables.expected.all(field, field in variables.fields && (variables.fields[field] == variables.expected[field] || (field == "users" && ${otherUsers('variables.fields')} == variables.expected.users)))`,
  `variables.fields.all(field, field in variables.expected || field in ${celList(METADATA)} || variables.fields[field] == null)`,
  `(${onlyFor('ClusterRole', 'variables.newLabels == variables.oldLabels')})`,
  ...DELETION.map(isUnchanged),
].join(' && ');

/** Expression that is true if, in an edited SCC, only the users that depend on the compatibility mode change. */
const ONLY_OPENSHIFT_USERS = [
  `${RESOURCE} == ${celString(RESOURCES.SecurityContextConstraints.resource)}`,
  'request.operation == "UPDATE"',
  `[variables.fields, variables.oldFields].all(object, object.all(field, field in ${celList([...METADATA, 'users'])} || (field in variables.fields && field in variables.oldFields && variables.fields[field] == variables.oldFields[field])))`,
  `${otherUsers('variables.fields')} == ${otherUsers('variables.oldFields')}`,
  ...DELETION.map(isUnchanged),
].join(' && ');

const REPLICAS = 'the replicas of Portcullis may';

/** Expression that is true for a standard binding, which the leader deletes to change its role. */
const IS_STANDARD_BINDING = `${RESOURCE} in variables.standard && request.name in variables.standard[${RESOURCE}]`;
/**
 * Expression that is true for a binding that grants an SCC temporarily. Policies cannot read the clock, so they cannot
 * verify that the grant has expired.
 */
const IS_TEMPORARY = [
  `request.name.startsWith(${celString(TEMPORARY_GRANT_PREFIX)})`,
  `${celString(GRANT_EXPIRY_ANNOTATION)} in variables.oldAnnotations`,
  `variables.oldFields.roleRef.name.startsWith(${celString(useRoleName(''))})`,
].join(' && ');

type Validations = NonNullable<PolicySpec['validations']>;

function validations(settings: ManifestSettings): Validations {
  return [
    ...writeValidations(settings).map(({ expression, ...message }) => ({
      expression: `request.operation == 'DELETE' || (${expression})`,
      ...message,
    })),
    {
      expression: `request.operation != 'DELETE' || (${IS_STANDARD_BINDING}) || (${IS_TEMPORARY})`,
      message: `${REPLICAS} delete only standard bindings and bindings from "scc grant --for"`,
    },
  ];
}

function writeValidations(settings: ManifestSettings): Validations {
  const { namespace } = settings;
  const keys = `'${REPLICAS} change only these labels and annotations of ' + ${RESOURCE} + ': ' + variables.permitted.join(', ')`;
  return [
    {
      expression: `${RESOURCE} in variables.keys || request.name in variables.names[${RESOURCE}]`,
      messageExpression: `'${REPLICAS} write only these ' + ${RESOURCE} + ': ' + variables.names[${RESOURCE}].join(', ')`,
    },
    {
      expression: `!(${RESOURCE} in variables.standard) || (${IS_STANDARD}) || (${ONLY_OPENSHIFT_USERS})`,
      messageExpression: `'${REPLICAS} write ' + ${RESOURCE} + ' only with their standard content'`,
    },
    {
      expression: onlyFor('Secret', 'has(variables.fields.type) && variables.fields.type == "Opaque"'),
      message: `${REPLICAS} create only Secrets of the type Opaque`,
    },
    { expression: callsReplicas(settings), message: 'Portcullis webhooks may call only Portcullis replicas' },
    ...(['MutatingWebhookConfiguration', 'ValidatingWebhookConfiguration'] as const).map((kind) => ({
      expression: reviewsOwn(kind),
      message: 'Portcullis webhooks may review only the resources of Portcullis features',
    })),
    {
      expression: excludesNamespaces(namespace),
      message: `mutating Portcullis webhooks must exclude the namespaces ${unchangedNamespaces(namespace).join(' and ')}`,
    },
    ...(['Labels', 'Annotations'] as const).map((field) => ({
      expression: `!(${RESOURCE} in variables.keys) || ${differOnlyIn('variables.permitted', field)}`,
      messageExpression: keys,
    })),
    {
      expression: onlyFor('Namespace', [...DELETION, 'spec'].map(isUnchanged).join(' && ')),
      message: `${REPLICAS} not change finalizers, owners or the spec of a namespace`,
    },
    {
      expression: onlyFor('Node', onlyKubeletReport()),
      message: `${REPLICAS} change only the condition ${KUBELET_CONDITION} and the taint ${KUBELET_TAINT} of nodes`,
    },
  ];
}

/**
 * Returns the policy and its binding. They select only requests from the service account, so they never deny the
 * requests of other users.
 */
export function accountPolicy(settings: ManifestSettings): readonly Manifest[] {
  const user = `system:serviceaccount:${settings.namespace}:${INSTALLATION.name}`;
  return policyWithBinding(INSTALLATION.accountPolicy, {
    failurePolicy: 'Fail',
    matchConstraints: { resourceRules: resourceRules() },
    matchConditions: [{ name: 'replicas', expression: `request.userInfo.username == '${user}'` }],
    variables: variables(),
    validations: validations(settings),
  });
}
