/**
 * Generates the ValidatingAdmissionPolicy for temporary grants of SCCs. RBAC lets the holder of a permission pass it
 * on. Without the policy, a subject of a temporary grant who can write bindings could therefore make the grant
 * permanent.
 */
import { GRANT_EXPIRY_ANNOTATION, TEMPORARY_GRANT_PREFIX } from '../api/names.ts';
import { celList, celString } from '../kube/cel.ts';
import { RESOURCES } from '../kube/resources.ts';
import { HOLD_TEMPORARY_GRANT, useRoleName } from '../policy/scc/index.ts';
import { type Manifest, policyWithBinding } from './settings.ts';

const NAME = 'portcullis-grants';
const { group } = RESOURCES.RoleBinding;
const { group: sccGroup, resource: sccResource } = RESOURCES.SecurityContextConstraints;
const { apiGroup, resource, verb } = HOLD_TEMPORARY_GRANT;

const RULES = RESOURCES.Role.resource;

/** Returns an expression for a list, which is empty if the field is absent. */
const list = (object: string, path: string): string =>
  `has(${object}.${path}) && ${object}.${path} != null ? ${object}.${path} : []`;

/**
 * Maximum sizes of lists. Longer lists are assumed to contain the value, because API servers would need seconds to
 * search them.
 */
const MAX_RULES = 1000;
const MAX_ITEMS = 50;

/** Returns an expression that is true if a list of a rule contains the value or a wildcard. */
const contains = (field: string, value: string): string =>
  `has(rule.${field}) && (size(rule.${field}) > ${MAX_ITEMS} || rule.${field}.exists(one, one in ${celList(['*', value])}))`;

const end = (object: string): string =>
  `has(${object}.metadata.annotations) && ${celString(GRANT_EXPIRY_ANNOTATION)} in ${object}.metadata.annotations ? string(${object}.metadata.annotations[${celString(GRANT_EXPIRY_ANNOTATION)}]) : ""`;

const check = (resourceExpression: string, name: string, action: 'bind' | 'escalate'): string =>
  `authorizer.group(${celString(group)}).resource(${resourceExpression}).namespace(variables.scope).name(${name}).check(${celString(action)}).allowed()`;

/**
 * Maximum number of comparisons of subjects. Above this number, every change to the subjects counts as an addition.
 * Without this limit, tenants could slow down API servers, because the CEL cost limit does not count the comparisons of
 * the `in` operator.
 */
const MAX_COMPARISONS = 10_000;

const VARIABLES = [
  // The objects are untyped so that expressions can read fields of any kind.
  { name: 'new', expression: 'dyn(object)' },
  { name: 'old', expression: 'oldObject == null ? dyn({"metadata": dyn({})}) : dyn(oldObject)' },
  { name: 'scope', expression: 'has(request.namespace) ? request.namespace : ""' },
  { name: 'isBinding', expression: 'has(variables.new.roleRef)' },
  {
    name: 'isTemporary',
    expression: `variables.isBinding && variables.new.metadata.name.startsWith(${celString(TEMPORARY_GRANT_PREFIX)})`,
  },
  { name: 'subjects', expression: list('variables.new', 'subjects') },
  { name: 'oldSubjects', expression: list('variables.old', 'subjects') },
  { name: 'finalizers', expression: list('variables.new', 'metadata.finalizers') },
  { name: 'oldFinalizers', expression: list('variables.old', 'metadata.finalizers') },
  { name: 'rules', expression: list('variables.new', 'rules') },
  { name: 'oldRules', expression: list('variables.old', 'rules') },
  {
    name: 'hasNewSubjects',
    expression: `oldObject == null || (variables.subjects != variables.oldSubjects && (size(variables.subjects) * size(variables.oldSubjects) > ${MAX_COMPARISONS} || variables.subjects.exists(one, !(one in variables.oldSubjects))))`,
  },
  {
    name: 'grantsScc',
    expression: `variables.isBinding ? variables.new.roleRef.name.startsWith(${celString(useRoleName(''))}) && variables.hasNewSubjects : variables.rules != variables.oldRules && (size(variables.rules) > ${MAX_RULES} || variables.rules.exists(rule, ${contains('apiGroups', sccGroup)} && ${contains('resources', sccResource)} && ${contains('verbs', 'use')}))`,
  },
  {
    name: 'isHolder',
    expression: `authorizer.group(${celString(apiGroup)}).resource(${celString(resource)}).namespace(variables.scope).check(${celString(verb)}).allowed()`,
  },
  {
    name: 'mayGrant',
    expression: `variables.isBinding ? ${check(`variables.new.roleRef.kind == "Role" ? ${celString(RULES)} : ${celString(RESOURCES.ClusterRole.resource)}`, 'variables.new.roleRef.name', 'bind')} : ${check('request.resource.resource', 'variables.new.metadata.name', 'escalate')}`,
  },
];

const VALIDATIONS = [
  {
    // Changes to finalizers are denied too. RBAC ignores the deletion timestamp, so a binding with a finalizer would
    // still grant the SCC after its deletion.
    expression: `!variables.isTemporary || (!variables.hasNewSubjects && (${end('variables.new')}) == (${end('variables.old')}) && variables.finalizers.all(one, one in variables.oldFinalizers)) || variables.mayGrant`,
    message:
      'only users with the bind permission for the role may create a temporary grant, or change its expiry, subjects or finalizers',
  },
  {
    expression: '!variables.grantsScc || !variables.isHolder || variables.mayGrant',
    message:
      'the subjects of a temporary grant cannot pass on the use of SCCs. Only other users, or users with the bind or escalate permission, can grant it',
  },
];

/** Returns the policy and its binding. */
export function grantPolicy(): readonly Manifest[] {
  const kinds = ['RoleBinding', 'ClusterRoleBinding', 'Role', 'ClusterRole'] as const;
  const resourceRules = [
    {
      apiGroups: [group],
      apiVersions: ['*'],
      operations: ['CREATE', 'UPDATE'],
      resources: kinds.map((kind) => RESOURCES[kind].resource),
    },
  ];
  return policyWithBinding(NAME, {
    failurePolicy: 'Fail',
    matchConstraints: { resourceRules },
    variables: VARIABLES,
    validations: VALIDATIONS,
  });
}
