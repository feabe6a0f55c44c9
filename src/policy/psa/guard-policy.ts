/**
 * Generates the ValidatingAdmissionPolicy that guards the labels of namespaces. RBAC cannot restrict updates to
 * individual labels, so without the policy, every user who may update a namespace can lower its level.
 */
import { ENFORCE_LABEL, FAIL_OPEN, RELAXED_LABEL, TEMPORARY_GRANTS_ANNOTATION, TIER_LABEL } from '../../api/names.ts';
import { celList, celString } from '../../kube/cel.ts';
import { RESOURCES } from '../../kube/resources.ts';
import { NAMESPACE_RANGE_ANNOTATIONS } from '../../kube/scc.ts';
import { LABEL_SYNC_LABEL, OLM_MANAGED_ANNOTATION, POD_SECURITY_LABELS } from '../../kube/well-known.ts';
import { type CelVariable, LEVELS } from '../pss/index.ts';
import { DISABLE_LABEL, RUN_LEVEL_LABEL, SCC_MODE_LABEL, SCC_MODES, type SccMode } from '../scc/index.ts';
import { createPolicyObject, type PolicyObject, versionVariables } from './admission-policies.ts';
import type { PodSecurity } from './configuration.ts';

export interface GuardSettings {
  readonly labels: 'off' | 'warn' | 'enforce';
}

interface GuardInput {
  readonly guard: GuardSettings;
  readonly podSecurity: PodSecurity;
  readonly scc: { readonly mode: SccMode; readonly exemptNamespaces: readonly string[] };
}

/** The permission to lower the level of a namespace or to exempt it. The resource name is the name of the namespace. */
export const LOWER_LEVEL = {
  verb: 'lower',
  apiGroup: RESOURCES.PodSecurityException.group,
  resource: 'podsecuritylevels',
} as const;

/** Labels that exempt a namespace or allow a controller to lower its level, and the values that have this effect. */
const EXEMPTING = { [TIER_LABEL]: [FAIL_OPEN], [LABEL_SYNC_LABEL]: ['true'] };
const SCC_EXEMPTING = { [RUN_LEVEL_LABEL]: ['0', '1'], [DISABLE_LABEL]: ['true'] };

/** Metadata of the namespace before and after the request, by variable suffix. A new namespace had no labels before. */
const STATES = {
  Old: 'oldObject == null ? dyn({}) : dyn(oldObject.metadata)',
  New: 'dyn(object.metadata)',
} as const;

/** Generates the policy and its binding, both with the given name. Returns nothing if the guard is off. */
export function generateGuardPolicy({ guard, podSecurity, scc }: GuardInput, name: string): readonly PolicyObject[] {
  if (guard.labels === 'off') return [];
  const hasSccs = scc.mode !== 'off';
  const exempting = Object.entries({ ...EXEMPTING, ...(hasSccs ? SCC_EXEMPTING : {}) });
  const changed = (state: keyof typeof STATES): string =>
    `${celList(LEVELS)}[variables.levelNew < variables.levelOld ? variables.level${state} : variables.highest${state}]`;
  const exemptNames = {
    'spec.podSecurity.exemptions.namespaces': podSecurity.configuration.exemptions.namespaces,
    ...(hasSccs ? { 'spec.scc.exemptNamespaces': scc.exemptNamespaces } : {}),
  };
  const findings = [
    ...Object.entries(exemptNames).map(([field, names]) => [
      `oldObject == null && object.metadata.name in ${celList(names)}`,
      `"creates a namespace that ${field} exempts"`,
    ]),
    [
      'variables.levelNew < variables.levelOld || variables.highestNew < variables.highestOld',
      `"lowers the enforced level from " + ${changed('Old')} + " to " + ${changed('New')}`,
    ],
    [
      `variables.highestOld > 0 && variables.minorNew < variables.minorOld`,
      '"selects " + variables.versionNew + ", which is older than " + variables.versionOld',
    ],
    ['variables.sccNew > variables.sccOld', `"lowers the SCC mode to " + ${celList(SCC_MODES)}[variables.sccNew]`],
    ...exempting.map(([key, values]) => [
      `${readLabel('New', key)} in ${celList(values)} && ${readLabel('New', key)} != ${readLabel('Old', key)}`,
      `"sets label ${key}=" + ${readLabel('New', key)}`,
    ]),
    [
      `${readAnnotation('New', OLM_MANAGED_ANNOTATION)} == "true" && ${readAnnotation('Old', OLM_MANAGED_ANNOTATION)} != "true"`,
      // The auto-labeler then sets the label that enables the label syncer.
      `"sets annotation ${OLM_MANAGED_ANNOTATION}=true"`,
    ],
    ['size(variables.changed) > 0', '"changes " + variables.changed.join(", ")'],
  ];
  const message = `variables.findings.join(", ") + ". This requires the ${LOWER_LEVEL.verb} verb on ${LOWER_LEVEL.resource}.${LOWER_LEVEL.apiGroup} in a ClusterRole"`;
  const { apiGroup, resource, verb } = LOWER_LEVEL;
  return [
    createPolicyObject(
      'ValidatingAdmissionPolicy',
      name,
      `Reserves namespace labels that lower a level or exempt the namespace, and new namespaces with exempt names, for users with the ${verb} verb on ${resource}.`,
      {
        failurePolicy: 'Fail',
        matchConstraints: {
          // Subresources also accept label changes.
          resourceRules: [
            {
              apiGroups: [''],
              apiVersions: ['v1'],
              operations: ['CREATE', 'UPDATE'],
              resources: ['namespaces', 'namespaces/*'],
            },
          ],
        },
        variables: [
          ...Object.keys(STATES).flatMap((state) => stateVariables(state as keyof typeof STATES, { podSecurity, scc })),
          { name: 'changed', expression: changedKeys(hasSccs) },
          {
            name: 'findings',
            expression: `[${findings.map(([test, text]) => `${test} ? ${text} : ""`).join(', ')}].filter(text, text != "")`,
          },
        ],
        validations: [
          {
            // The check specifies no namespace, so only cluster-wide grants match. A RoleBinding to cluster-admin is
            // not sufficient.
            expression: `size(variables.findings) == 0 || authorizer.group(${celString(apiGroup)}).resource(${celString(resource)}).name(object.metadata.name).check(${celString(verb)}).allowed()`,
            reason: 'Forbidden',
            message: 'lowers the level of a namespace, or exempts it',
            messageExpression: message,
          },
        ],
      },
    ),
    createPolicyObject('ValidatingAdmissionPolicyBinding', name, 'All namespaces.', {
      policyName: name,
      validationActions: guard.labels === 'enforce' ? ['Deny'] : ['Warn', 'Audit'],
    }),
  ];
}

function readLabel(state: string, key: string, fallback = ''): string {
  return `variables.labels${state}[?${celString(key)}].orValue(${celString(fallback)})`;
}

function readAnnotation(state: string, key: string): string {
  return `variables.annotations${state}[?${celString(key)}].orValue("")`;
}

/**
 * Returns variables for the labels, annotations, level, version and SCC mode of a namespace, and for the higher level
 * of the two enforce labels. Levels and modes are represented by their positions in the lists. The API server does not
 * evaluate the `ENFORCE_LABEL`, so it cannot replace the upstream label.
 */
function stateVariables(state: keyof typeof STATES, { podSecurity, scc }: Omit<GuardInput, 'guard'>): CelVariable[] {
  const { enforce } = podSecurity.defaults;
  const read = (key: string, fallback: string): string => readLabel(state, key, fallback);
  /**
   * Returns a CEL expression for the position of a value. Invalid values have the strictest position, as in reviews.
   */
  const position = (text: string, order: readonly string[], strictest: number): string =>
    `${order.flatMap((value, index) => (index === strictest ? [] : [`${text} == ${celString(value)} ? ${index} : `])).join('')}${strictest}`;
  const strictest = LEVELS.length - 1;
  const version = `version${state}`;
  return [
    { name: `metadata${state}`, expression: STATES[state] },
    ...['labels', 'annotations'].map((field) => ({
      name: `${field}${state}`,
      expression: `variables.metadata${state}.?${field}.orValue({})`,
    })),
    {
      name: `level${state}`,
      expression: position(read(POD_SECURITY_LABELS.enforce, enforce.level), LEVELS, strictest),
    },
    { name: `own${state}`, expression: position(read(ENFORCE_LABEL, 'privileged'), LEVELS, strictest) },
    {
      name: `highest${state}`,
      expression: `variables.own${state} > variables.level${state} ? variables.own${state} : variables.level${state}`,
    },
    ...versionVariables(version, read(POD_SECURITY_LABELS.enforceVersion, enforce.version)),
    {
      name: `minor${state}`,
      expression: `variables.${version} == "latest" ? ${Number.MAX_SAFE_INTEGER} : int(variables.${version}.substring(3))`,
    },
    { name: `scc${state}`, expression: position(read(SCC_MODE_LABEL, scc.mode), SCC_MODES, 0) },
  ];
}

/**
 * Returns a CEL list of the guarded labels and annotations that have changed. Reads keys by name, because API servers
 * need seconds to iterate over thousands of labels.
 */
function changedKeys(hasSccs: boolean): string {
  const changed = (field: string, keys: readonly string[]): string => {
    const [before, after] = [`variables.${field}Old`, `variables.${field}New`];
    const isChanged = `(key in ${before}) != (key in ${after}) || ${before}[?key].orValue("") != ${after}[?key].orValue("")`;
    return `${celList(keys)}.filter(key, ${isChanged})`;
  };
  const ranges = hasSccs ? Object.values(NAMESPACE_RANGE_ANNOTATIONS) : [];
  return `${changed('labels', [RELAXED_LABEL])} + ${changed('annotations', [TEMPORARY_GRANTS_ANNOTATION, ...ranges])}`;
}
