/**
 * Generates the MutatingAdmissionPolicy that sets the pod defaults in API servers.
 * @see https://kubernetes.io/docs/reference/access-authn-authz/mutating-admission-policy/
 */
import type { DefaultsKind } from '../../api/admission-policies.ts';
import { celList, celString } from '../../kube/cel.ts';
import type { CelVariable } from '../pss/index.ts';
import { selectEnforcedNamespaces } from '../scc/index.ts';
import { createPolicyObject, POD_RULE, type PolicyObject } from './admission-policies.ts';
import {
  CONTEXT,
  type DefaultsSettings,
  IS_PRIVILEGED,
  MAX_CONTAINERS,
  type PodDefault,
  type Requirement,
  selectDefaults,
  selectedNamespaces,
} from './defaults.ts';

const CONTAINER_LISTS = ['initContainers', 'containers'] as const;

/**
 * Excludes pods that `withPodDefaults` does not change because they have too many containers. API servers would need
 * seconds for them, even without a patch.
 */
const NOT_TOO_LARGE = {
  name: 'not-too-large',
  expression: `${CONTAINER_LISTS.map((list) => `(has(object.spec.${list}) ? size(object.spec.${list}) : 0)`).join(' + ')} <= ${MAX_CONTAINERS}`,
} as const;

/** Excludes mirror pods, because a static pod runs with the security context from its manifest file. */
export const NOT_MIRROR = {
  name: 'not-mirror',
  expression: "!has(object.metadata.annotations) || !('kubernetes.io/config.mirror' in object.metadata.annotations)",
} as const;

/** The first Kubernetes 1.x minor version that serves MutatingAdmissionPolicies as v1. */
export const MIN_DEFAULTS_MINOR = 36;

/** Generates the policy and its binding, both with the given name. Returns nothing if the defaults are disabled. */
export function generateDefaultsPolicy(
  { defaults, scc }: DefaultsSettings,
  name: string,
): readonly PolicyObject<DefaultsKind>[] {
  const matchExpressions = selectedNamespaces(defaults);
  if (matchExpressions === undefined) return [];
  const chosen = selectDefaults(defaults.fields);
  const names = chosen.map(({ path: [field] }) => field).join(', ');
  const unlessEnforced = scc.mode === 'off' ? '' : `${isSelected(selectEnforcedNamespaces(scc))} ? [] : `;
  return [
    createPolicyObject('MutatingAdmissionPolicy', name, `Sets absent security context fields of new pods: ${names}.`, {
      // Ignoring failures is safe, because Pod Security evaluates the pod even if the defaults are missing.
      failurePolicy: 'Ignore',
      reinvocationPolicy: 'IfNeeded',
      matchConstraints: {
        namespaceSelector: matchExpressions.length === 0 ? {} : { matchExpressions },
        resourceRules: [{ ...POD_RULE, operations: ['CREATE'], resources: ['pods'] }],
      },
      matchConditions: [NOT_MIRROR, NOT_TOO_LARGE],
      variables: [...TARGETS, ...chosen.flatMap(targetVariables)],
      mutations: [
        {
          patchType: 'JSONPatch',
          jsonPatch: { expression: `${unlessEnforced}${patchExpression(chosen)}` },
        },
      ],
    }),
    createPolicyObject('MutatingAdmissionPolicyBinding', name, 'All namespaces that the policy selects.', {
      policyName: name,
    }),
  ];
}

/**
 * Returns a CEL bool that is true if the namespace satisfies the requirements. Supports the `Exists` and `NotIn`
 * operators.
 */
function isSelected(requirements: readonly Requirement[]): string {
  const labels = 'namespaceObject.metadata.?labels.orValue({})';
  return requirements
    .map(({ key, operator, values = [] }) =>
      operator === 'Exists'
        ? `${celString(key)} in ${labels}`
        : `!(${labels}[?${celString(key)}].orValue("") in ${celList(values)})`,
    )
    .join(' && ');
}

const TARGETS: readonly CelVariable[] = [
  { name: 'pod', expression: '[{"path": dyn("/spec"), "fields": dyn(object.spec)}]' },
  {
    name: 'containers',
    expression: CONTAINER_LISTS.map(
      (list) =>
        `lists.range(size(object.spec.?${list}.orValue([]))).map(i, {"path": dyn("/spec/${list}/" + string(i)), "fields": dyn(object.spec.${list}[i])})`,
    ).join(' + '),
  },
];

function celIsKept({ cel }: PodDefault): string {
  return `${IS_PRIVILEGED} || ${cel.isExcepted}`;
}

/** Returns the variables that contain the same targets of a default as `findTargets` returns. */
function targetVariables(podDefault: PodDefault): readonly CelVariable[] {
  const [field] = podDefault.path;
  const absent = `variables.containers.filter(c, !(${podDefault.cel.isSet}))`;
  const takers = (list: string): string => `${list}.filter(c, !(${celIsKept(podDefault)}))`;
  if (!podDefault.isInherited) return [{ name: field, expression: takers(absent) }];
  const name = `${field}Absent`;
  const isForAll = `size(variables.${name}) > 0 && !(variables.pod + variables.${name}).exists(c, ${celIsKept(podDefault)})`;
  return [
    { name, expression: `variables.pod.exists(c, ${podDefault.cel.isSet}) ? [] : ${absent}` },
    { name: field, expression: `${isForAll} ? variables.pod : ${takers(`variables.${name}`)}` },
  ];
}

/**
 * Returns the expression for the patch. The patch adds parent objects before the values. Adding a parent twice is
 * harmless.
 */
function patchExpression(chosen: readonly PodDefault[]): string {
  const add = (targets: string, path: string, value: string): string =>
    `${targets}.map(c, JSONPatch{op: "add", path: c.path + ${celString(`/securityContext${path}`)}, value: ${value}})`;
  const all = chosen.map(({ path: [field] }) => `variables.${field}`).join(' + ');
  const patches = chosen.flatMap(({ path, value }) => {
    const [field, ...members] = path;
    const isAbsent = `!${CONTEXT}.?${field}.hasValue()`;
    return [
      ...(members.length === 0 ? [] : [add(`variables.${field}.filter(c, ${isAbsent})`, `/${field}`, '{}')]),
      add(`variables.${field}`, `/${path.join('/')}`, JSON.stringify(value)),
    ];
  });
  return [add(`(${all}).filter(c, !${CONTEXT}.hasValue())`, '', '{}'), ...patches].join(' + ');
}
