/**
 * Generates ValidatingAdmissionPolicies that apply SCCs in the API server, without a webhook. One policy has the SCCs as
 * parameters and validates each pod against the SCC that its annotation names: the one that SCC admission recorded, or a
 * forged one. The other policy evaluates pods that name no SCC of the cluster by a Pod Security level.
 * @see https://kubernetes.io/docs/reference/access-authn-authz/validating-admission-policy/
 */
import { celList, celString } from '../../kube/cel.ts';
import { getApiVersion, RESOURCES } from '../../kube/resources.ts';
import { POD_SCC_ANNOTATIONS } from '../../kube/scc.ts';
import { FAIL_OPEN, TIER_LABEL } from '../../kube/well-known.ts';
import { POD_NETWORKS_ANNOTATION } from '../pod/selection.ts';
import { celNames, offendingNames, SHARED_VARIABLES } from '../pss/cel.ts';
import { buildCelChecks, type CelVariable } from '../pss/cel-policy.ts';
import { LEVELS, type Level, type Version } from '../pss/policy.ts';
import { FALLBACK_LEVEL_LABEL, resolveCompatibility, selectEnforcedNamespaces, type SccSettings } from '../scc/mode.ts';
import { NAMESPACE_RANGES_CEL } from '../scc/namespace.ts';
import { sccList, type SccCel } from '../scc/strategies/cel.ts';
import { CONTAINER_STRATEGIES, POD_STRATEGIES } from '../scc/strategies/index.ts';
import {
  createObject,
  IS_SMALL,
  LIST_FUNCTIONS_MINOR,
  MAX_POLICY_ITEMS,
  POD_RULE,
  SIGNIFICANT_UPDATES,
  TOO_LARGE,
  type PolicyObject,
} from './admission-policies.ts';

/** The settings that the policies contain. */
export interface SccPolicySettings {
  readonly scc: Pick<SccSettings, 'mode' | 'exemptNamespaces' | 'compatibility'>;
  /** The level, at the latest version, of pods that name no SCC of the cluster. */
  readonly fallbackLevel: Level;
  /** The version that `latest` means. Without it, `latest` is the version of the oldest API server. */
  readonly emulationVersion?: Version | undefined;
}

/** The cluster of the policies. */
export interface SccPolicyOptions {
  /** The names of all SCCs of the cluster. The policies must be generated again when an SCC is created or deleted. */
  readonly sccNames: readonly string[];
  /** The namespace of the installation, which is exempt. */
  readonly namespace: string;
  /** The minor version of the oldest API server that evaluates the policies. */
  readonly kubernetesMinor: number;
}

/**
 * Generates both policies, each before its binding; none if SCCs apply nowhere. The result depends on the arguments alone.
 * The policies apply to the namespaces in which SCCs are enforced.
 */
export function generateSccPolicies(settings: SccPolicySettings, options: SccPolicyOptions): readonly PolicyObject[] {
  if (settings.scc.mode === 'off') return [];
  return [...namedPolicy(settings, options), ...unnamedPolicy(settings, options)];
}

const { group: GROUP, resource: RESOURCE } = RESOURCES.SecurityContextConstraints;

/** The SCC that a pod names; empty without the annotation. */
function namedScc(key: string = POD_SCC_ANNOTATIONS.scc): string {
  return `dyn(object).metadata.?annotations[?${celString(key)}].orValue("")`;
}

/** SCC admission does not apply to Windows pods. */
const NOT_WINDOWS = 'dyn(object).spec.?os.?name.orValue("") != "windows"';

/** A bool: true if two maps differ in a member other than the given one. */
function differs(map: (pod: string) => string, ignored: string): string {
  const [next, old] = [map('dyn(object)'), map('dyn(oldObject)')];
  const key = `key == ${celString(ignored)}`;
  return `!(${next}.all(key, ${key} || key in ${old} && ${old}[key] == ${next}[key]) && ${old}.all(key, ${key} || key in ${next}))`;
}

/** The updates that SCC admission evaluates. See `isIgnoredUpdate`; other metadata does not change the result. */
const RELEVANT_UPDATES = [
  'request.operation != "UPDATE"',
  differs((pod) => `${pod}.spec`, 'schedulingGates'),
  differs((pod) => `${pod}.metadata.?annotations.orValue({})`, POD_NETWORKS_ANNOTATION),
  'dyn(object).metadata.?labels.orValue({}) != dyn(oldObject).metadata.?labels.orValue({})',
].join(' || ');

/**
 * The policy with the SCCs as parameters. The API server evaluates it for each SCC; other SCCs than the named one pass by
 * the condition.
 */
function namedPolicy({ scc }: SccPolicySettings, options: SccPolicyOptions): PolicyObject[] {
  const name = 'named.scc.portcullis.dev';
  const rules = [
    ...POD_STRATEGIES.flatMap(({ cel }) => cel.map(podRule)),
    ...CONTAINER_STRATEGIES.flatMap(({ cel }) => cel.map(containerRule)),
  ];
  const { spec, annotations, containers, volumes } = SHARED_VARIABLES;
  const variables = toVariables({
    // Without types: the fields may be null.
    scc: 'dyn(params)',
    pod: 'dyn(object)',
    spec,
    annotations,
    containers,
    volumes,
    ...NAMESPACE_RANGES_CEL,
    required: namedScc(POD_SCC_ANNOTATIONS.requiredScc),
    ...accessVariables(resolveCompatibility(scc.compatibility).identity === 'accurate'),
    isSmall: IS_SMALL_FOR_SCC,
    ...Object.fromEntries(rules.flatMap((rule) => Object.entries(rule.variables))),
    allowed: ['variables.isSmall', ...rules.map(({ passes }) => passes)].join(' && '),
    fields: `[${rules.map(({ text }) => text).join(', ')}].filter(text, text != "")`,
  });
  const unable = (error: string): string =>
    `"unable to validate against any security context constraint: [provider " + ${error} + "]"`;
  const validations = [
    {
      expression: 'size(variables.namespaceProblem) == 0',
      message: 'the namespace has no ranges',
      messageExpression:
        'size(variables.namespaceProblem) == 0 ? "" : "error fetching namespace \\"" + request.namespace + "\\": unable to find annotation " + variables.namespaceProblem[0]',
    },
    {
      expression: 'variables.required == "" || variables.required == params.metadata.name',
      message: `annotation ${POD_SCC_ANNOTATIONS.requiredScc} names another SCC than ${POD_SCC_ANNOTATIONS.scc}`,
      messageExpression:
        '"required scc/" + variables.required + " does not match the suggested scc/" + params.metadata.name',
    },
    {
      expression: 'variables.isUsable',
      message: `the SCC in annotation ${POD_SCC_ANNOTATIONS.scc} is not usable by user or serviceaccount`,
      // Expressions of messages cannot use the authorizer.
      messageExpression: unable(
        '"\\"" + params.metadata.name + "\\": Forbidden: not usable by user or serviceaccount"',
      ),
    },
    {
      expression: 'variables.allowed',
      message: `the SCC in annotation ${POD_SCC_ANNOTATIONS.scc} does not allow the pod`,
      messageExpression: `variables.allowed ? "" : ${unable(`params.metadata.name + ": Forbidden: " + (variables.isSmall ? variables.fields.join(", ") : ${celString(TOO_LARGE_FOR_SCC)})`)}`,
    },
  ];
  return [
    createObject('ValidatingAdmissionPolicy', name, 'Denies pods that the SCC in their annotation does not allow.', {
      failurePolicy: 'Fail',
      paramKind: { apiVersion: getApiVersion('SecurityContextConstraints'), kind: 'SecurityContextConstraints' },
      matchConstraints: matchConstraints(scc, options),
      matchConditions: [
        {
          name: 'is-named',
          expression: `params.metadata.name == ${namedScc()} && ${NOT_WINDOWS} && (${RELEVANT_UPDATES})`,
        },
      ],
      variables,
      validations: validations.map((validation) => ({ ...validation, reason: 'Forbidden' })),
    }),
    createObject('ValidatingAdmissionPolicyBinding', name, 'All SCCs.', {
      policyName: name,
      validationActions: ['Deny'],
      // Without any SCC, no pod names one.
      paramRef: { selector: {}, parameterNotFoundAction: 'Allow' },
    }),
  ];
}

interface Rule {
  readonly variables: Readonly<Record<string, string>>;
  readonly passes: string;
  /** A string: the field and its containers; empty if the rule passes. */
  readonly text: string;
}

function podRule({ field, variables, passes }: SccCel): Rule {
  const name = `pod${field.replaceAll('.', '_')}`;
  const value = `variables.${name}`;
  return { variables: { ...variables, [name]: passes }, passes: value, text: `${value} ? "" : ${celString(field)}` };
}

function containerRule({ field, variables, passes }: SccCel): Rule {
  const name = `containers_${field}`;
  const names = `variables.${name}`;
  return {
    variables: { ...variables, [name]: offendingNames(passes) },
    passes: `size(${names}) == 0`,
    text: `size(${names}) == 0 ? "" : ${celString(`${field} of `)} + ${celNames(names)}`,
  };
}

/**
 * `variables.isUsable`: the service account of the pod or the requester may use the SCC. One check of the authorizer costs
 * 350,000 of the 1,000,000 that an expression may cost. The authorizer evaluates service accounts without their group
 * `system:authenticated`. Each requester except for `system:anonymous` has that group.
 */
function accessVariables(isAccurate: boolean): Readonly<Record<string, string>> {
  const check = (subject: string): string =>
    `${subject}.group(${celString(GROUP)}).resource(${celString(RESOURCE)}).namespace(request.namespace).name(params.metadata.name).check("use").allowed()`;
  const all = `["system:serviceaccounts", "system:serviceaccounts:" + request.namespace${isAccurate ? ', "system:authenticated"' : ''}]`;
  return {
    account: 'variables.spec.?serviceAccountName.orValue("")',
    users: sccList('users'),
    groups: sccList('groups'),
    isUsable: [
      'request.userInfo.username in variables.users',
      'request.userInfo.?groups.orValue([]).exists(group, group in variables.groups)',
      `variables.account != "" && ("system:serviceaccount:" + request.namespace + ":" + variables.account in variables.users || ${all}.exists(group, group in variables.groups))`,
      check('authorizer'),
      `variables.account != "" && ${check('authorizer.serviceAccount(request.namespace, variables.account)')}`,
    ].join(' || '),
  };
}

const ITEMS = [
  'size(variables.containers)',
  'size(variables.volumes)',
  ...['sysctls', 'supplementalGroups'].map((field) => `size(variables.spec.?securityContext.?${field}.orValue([]))`),
  `variables.containers.map(c, ${[
    'size(c.?ports.orValue([]))',
    ...['add', 'drop'].map((list) => `size(c.?securityContext.?capabilities.?${list}.orValue([]))`),
  ].join(' + ')}).sum()`,
];
const IS_SMALL_FOR_SCC = `size(variables.containers) <= ${MAX_POLICY_ITEMS} && ${ITEMS.join(' + ')} <= ${MAX_POLICY_ITEMS}`;
const TOO_LARGE_FOR_SCC = `too many containers, volumes, ports, capabilities, sysctls and groups (policies in the API server evaluate at most ${MAX_POLICY_ITEMS})`;

/** The policy of pods that name no SCC of the cluster, such as those that were created while no replica responded. */
function unnamedPolicy(settings: SccPolicySettings, options: SccPolicyOptions): PolicyObject[] {
  const name = 'unnamed.scc.portcullis.dev';
  const { scc, fallbackLevel, emulationVersion = `v1.${options.kubernetesMinor}` } = settings;
  const checks = buildCelChecks({
    levels: ['baseline', 'restricted'],
    version: 'latest',
    emulationVersion,
    hasListFunctions: options.kubernetesMinor >= LIST_FUNCTIONS_MINOR,
  });
  const labels = 'namespaceObject.metadata.?labels.orValue({})';
  // Pods of these namespaces must start while no replica responds.
  const isOpen = `${labels}[?${celString(TIER_LABEL)}].orValue("") == ${celString(FAIL_OPEN)}`;
  const variables = [
    ...toVariables({
      fallbackLabel: `${labels}[?${celString(FALLBACK_LEVEL_LABEL)}].orValue(${isOpen} ? "privileged" : ${celString(fallbackLevel)})`,
      level: `variables.fallbackLabel in ${celList(LEVELS)} ? variables.fallbackLabel : "restricted"`,
      sccName: namedScc(),
      pod: 'dyn(object)',
    }),
    ...checks.variables,
    ...toVariables({
      isSmall: IS_SMALL,
      allowed: `variables.level == "privileged" || variables.isSmall && ${checks.passes}`,
    }),
  ];
  const reason = `annotation ${POD_SCC_ANNOTATIONS.scc} names `;
  return [
    createObject(
      'ValidatingAdmissionPolicy',
      name,
      `Denies pods that name no SCC of the cluster and violate the level of the namespace label ${FALLBACK_LEVEL_LABEL}.`,
      {
        failurePolicy: 'Fail',
        matchConstraints: matchConstraints(scc, options),
        matchConditions: [
          { name: 'is-unnamed', expression: `!(${namedScc()} in ${celList([...options.sccNames].sort())})` },
          { name: 'not-windows', expression: NOT_WINDOWS },
          SIGNIFICANT_UPDATES,
        ],
        variables,
        validations: [
          {
            expression: 'variables.allowed',
            reason: 'Forbidden',
            message: `${reason}no SCC of the cluster, and the pod violates the Pod Security level of such pods`,
            messageExpression: `variables.allowed ? "" : ${celString(reason)} + (variables.sccName == "" ? "no SCC" : "the unknown SCC \\"" + variables.sccName + "\\"") + ", and the pod violates PodSecurity \\"" + variables.level + ":latest\\": " + (variables.isSmall ? ${checks.violations} : ${celString(TOO_LARGE)})`,
          },
        ],
      },
    ),
    createObject('ValidatingAdmissionPolicyBinding', name, 'All pods.', {
      policyName: name,
      validationActions: ['Deny'],
    }),
  ];
}

/**
 * The namespaces are part of the policy, not of the binding: without the definition of SCCs, the API server denies the
 * requests that the policy matches.
 */
function matchConstraints(scc: SccPolicySettings['scc'], { namespace }: SccPolicyOptions) {
  return {
    namespaceSelector: { matchExpressions: selectEnforcedNamespaces(scc, namespace) },
    resourceRules: [POD_RULE],
  };
}

function toVariables(expressions: Readonly<Record<string, string>>): CelVariable[] {
  return Object.entries(expressions).map(([name, expression]) => ({ name, expression }));
}
