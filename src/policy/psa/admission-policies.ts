/**
 * Generates ValidatingAdmissionPolicies that enforce the Pod Security Standards in the API server, without a webhook.
 * Their expressions come from the checks of the evaluator.
 * @see https://kubernetes.io/docs/reference/access-authn-authz/validating-admission-policy/
 */
import type { DefaultsKind, PolicyKind } from '../../api/admission-policies.ts';
import { POLICY_LABELS } from '../../api/names.ts';
import { celList, celString } from '../../kube/cel.ts';
import { withApiDefaults } from '../../kube/defaults.ts';
import { formatApiVersion, parseApiVersion, RESOURCES } from '../../kube/resources.ts';
import { NAMESPACE_NAME_LABEL, POD_SECURITY_LABELS } from '../../kube/well-known.ts';
import {
  buildCelChecks,
  buildSecondVerdict,
  type CelInputs,
  type CelScope,
  type CelVariable,
  INPUT_VARIABLES,
  latestMinor,
  type Level,
  LEVELS,
  passesEveryVersion,
  type Version,
} from '../pss/index.ts';
import type { PodSecurity } from './configuration.ts';
import { isStricter, MODE_LABELS, LEVEL_RULE, type Mode, MODES, VERSION_RULE } from './policy.ts';

interface PolicySettings {
  readonly podSecurity: PodSecurity;
  /** The version that `latest` refers to. Defaults to the version of the oldest API server. */
  readonly emulationVersion?: Version;
}

export interface AdmissionPolicyOptions {
  /** Generates policies for all modes, or only for enforce mode. */
  readonly modes: 'all' | 'enforce';
  /** Kubernetes 1.x minor version of the oldest API server that evaluates the policies. At least `MIN_POLICY_MINOR`. */
  readonly kubernetesMinor: number;
}

/** Oldest Kubernetes 1.x minor version whose API servers accept `flatten`, `distinct` and `sort` in policies. */
export const MIN_POLICY_MINOR = 35;

/**
 * Maximum total number of containers, volumes, ports, added capabilities, sysctls and annotations that the policies
 * evaluate. Pods that exceed the maximum violate the policies. The API server's evaluation time grows quadratically,
 * and a pod with 60,000 capabilities would exceed the request timeout of 34 s.
 */
export const MAX_POLICY_ITEMS = 500;

/** Returns a CEL bool that is false for pods that exceed `MAX_POLICY_ITEMS`. */
function isSmall({ containers, volumes, annotations, spec }: CelInputs): string {
  return `size(${containers}) <= ${MAX_POLICY_ITEMS} && size(${containers}) + size(${volumes}) + size(${annotations}) + size(${spec}.?securityContext.?sysctls.orValue([])) + ${containers}.map(c, size(c.?ports.orValue([])) + size(c.?securityContext.?capabilities.?add.orValue([]))).sum() <= ${MAX_POLICY_ITEMS}`;
}
const TOO_LARGE = `too many containers, volumes, ports, capabilities, sysctls and annotations (policies in the API server evaluate at most ${MAX_POLICY_ITEMS})`;

export interface PolicyObject<K extends PolicyKind | DefaultsKind = PolicyKind> {
  readonly apiVersion: 'admissionregistration.k8s.io/v1';
  readonly kind: K;
  readonly metadata: {
    readonly name: string;
    readonly labels: Readonly<Record<string, string>>;
    readonly annotations: Readonly<Record<string, string>>;
  };
  readonly spec: Readonly<Record<string, unknown>>;
}

/**
 * Generates the policies for the modes, each followed by its bindings. The result depends only on the arguments. The
 * policies allow requests with exempt namespaces, users or runtime classes. The settings must be valid.
 */
export function generatePolicies(settings: PolicySettings, options: AdmissionPolicyOptions): readonly PolicyObject[] {
  const context = { settings, options };
  const modes = options.modes === 'all' ? MODES : (['enforce'] as const);
  return modes.flatMap((mode) =>
    mode === 'audit' ? auditPolicy(context) : POLICY_LEVELS.flatMap((level) => levelPolicy(context, mode, level)),
  );
}

const POLICY_LEVELS = ['baseline', 'restricted'] as const;

interface Context {
  readonly settings: PolicySettings;
  readonly options: AdmissionPolicyOptions;
}

type BlockingMode = Exclude<Mode, 'audit'>;

const ACTIONS: Readonly<Record<Mode, string>> = { enforce: 'Deny', warn: 'Warn', audit: 'Audit' };

/** Returns the policy for one level in enforce or warn mode, and its bindings. */
function levelPolicy(context: Context, mode: BlockingMode, level: Level): PolicyObject[] {
  const { exemptions } = context.settings.podSecurity.configuration;
  const isWarning = mode === 'warn';
  const pod = isWarning ? POD_OR_TEMPLATE : 'dyn(object)';
  const { variables, policy, violations } = evaluation(context, [level], {
    resolution: modeVariables(context, mode, level),
    pod,
  });
  const pass = [
    ...(exemptions.runtimeClasses.length === 0 ? [] : [isExemptRuntimeClass(exemptions.runtimeClasses)]),
    // The enforce policy already evaluates the pod.
    ...(isWarning ? [`${IS_POD} && variables.enforcePolicy == ${policy}`] : []),
    'variables.passes',
    ...(isWarning ? ['variables.isDenied'] : []),
  ].join(' || ');
  const verb = isWarning ? 'would violate' : 'violates';
  const name = policyName(`${mode}-${level}`);
  const spec = {
    failurePolicy: isWarning ? 'Ignore' : 'Fail',
    matchConstraints: {
      ...namespaceSelector(exclude(NAMESPACE_NAME_LABEL, exemptions.namespaces)),
      resourceRules: [POD_RULE, ...(isWarning ? WORKLOAD_RULES : [])],
    },
    matchConditions: [
      ...exceptUsers(exemptions.usernames),
      { name: 'significant-updates', expression: IS_SIGNIFICANT },
      // API servers evaluate validations and their messages separately. For most pods, this condition makes both
      // unnecessary.
      {
        name: 'may-violate',
        expression: `!${passesEveryVersion(celScope(context, [level]), pod, isSmall)}`,
      },
    ],
    variables: [
      ...variables,
      ...(isWarning ? denialVariables(context, variables) : []),
      { name: 'allowed', expression: pass },
    ],
    validations: [
      {
        expression: 'variables.allowed',
        reason: 'Forbidden',
        message: `${verb} PodSecurity ${celString(level)}`,
        messageExpression: `variables.allowed ? "" : "${verb} PodSecurity \\"" + ${policy} + "\\": " + ${violations}`,
      },
    ],
  };
  const effect = isWarning ? 'Warns about pods and pod templates that would violate' : 'Denies pods that violate';
  return [
    createPolicyObject(
      'ValidatingAdmissionPolicy',
      name,
      `${effect} Pod Security level ${level} in namespaces with that level.`,
      spec,
    ),
    ...selectNamespaces(context, mode, level).map(({ suffix, selector, resourceRules }) =>
      createPolicyObject(
        'ValidatingAdmissionPolicyBinding',
        policyName(`${mode}-${level}${suffix}`),
        `Namespaces ${suffix === '' ? 'with' : 'without'} the label ${MODE_LABELS[mode].level}.`,
        {
          policyName: name,
          validationActions: [ACTIONS[mode]],
          matchResources: { ...namespaceSelector(selector), ...(resourceRules && { resourceRules }) },
        },
      ),
    ),
  ];
}

/**
 * Returns the audit policy and its binding. A single policy covers both levels, because its name is the prefix of the
 * audit annotation keys.
 */
function auditPolicy(context: Context): PolicyObject[] {
  const { usernames, namespaces, runtimeClasses } = context.settings.podSecurity.configuration.exemptions;
  const { variables, policy, violations } = evaluation(context, POLICY_LEVELS, {
    resolution: auditVariables(context),
    pod: POD_OR_TEMPLATE,
  });
  const exemption = [
    { reason: 'namespace', test: `request.namespace in ${celList(namespaces)}`, names: namespaces },
    { reason: 'user', test: `request.userInfo.username in ${celList(usernames)}`, names: usernames },
    {
      reason: 'runtimeClass',
      // If no mode enforces a level, upstream does not read the runtime class, so neither does the policy.
      test: `!variables.isPrivileged && ${isExemptRuntimeClass(runtimeClasses)}`,
      names: runtimeClasses,
    },
  ].flatMap(({ reason, test, names }) => (names.length === 0 ? [] : [`${test} ? "${reason}" : `]));
  const ifReviewed = (text: string): string => `variables.isReviewed ? ${text} : ""`;
  const name = 'pod-security.kubernetes.io';
  const spec = {
    failurePolicy: 'Ignore',
    matchConstraints: { resourceRules: [POD_RULE, ...WORKLOAD_RULES] },
    // The policy has no match conditions, because they would require another pass over the request.
    variables: [
      ...variables,
      { name: 'isSignificant', expression: IS_SIGNIFICANT },
      { name: 'exemption', expression: `variables.isSignificant ? (${exemption.join('')}"") : ""` },
      { name: 'isReviewed', expression: 'variables.isSignificant && variables.exemption == ""' },
      {
        name: 'auditViolations',
        expression: ifReviewed(
          `(variables.level == "privileged" || variables.passes ? "" : "would violate PodSecurity \\"" + ${policy} + "\\": " + ${violations})`,
        ),
      },
    ],
    auditAnnotations: [
      { key: 'enforce-policy', valueExpression: ifReviewed(`(${IS_POD} ? ${ENFORCE_POLICY} : "")`) },
      { key: 'audit-violations', valueExpression: 'variables.auditViolations' },
      ...(exemption.length === 0 ? [] : [{ key: 'exempt', valueExpression: 'variables.exemption' }]),
      { key: 'error', valueExpression: ifReviewed('variables.error') },
    ],
  };
  return [
    createPolicyObject(
      'ValidatingAdmissionPolicy',
      name,
      'Records the violations of pods and pod templates in the audit log. The name of the policy is the prefix of the annotation keys.',
      spec,
    ),
    createPolicyObject('ValidatingAdmissionPolicyBinding', name, 'All namespaces.', {
      policyName: name,
      validationActions: [ACTIONS.audit],
    }),
  ];
}

function policyName(name: string): string {
  return `${name}.psa.portcullis.dev`;
}

/**
 * Returns an admission policy or binding with the labels that all generated policies have. The object includes API
 * server defaults, so applying it again changes nothing, and a second field manager does not conflict with the first.
 */
export function createPolicyObject<K extends PolicyKind | DefaultsKind>(
  kind: K,
  name: string,
  description: string,
  spec: PolicyObject['spec'],
): PolicyObject<K> {
  const metadata = { name, labels: POLICY_LABELS, annotations: { 'kubernetes.io/description': description } };
  return withApiDefaults({ apiVersion: 'admissionregistration.k8s.io/v1', kind, metadata, spec });
}

/** Renames a policy, or a binding and its reference to the policy. */
export function renamePolicy<K extends PolicyKind | DefaultsKind>(
  { metadata, spec, ...object }: PolicyObject<K>,
  rename: (name: string) => string,
): PolicyObject<K> {
  const { policyName } = spec;
  return {
    ...object,
    metadata: { ...metadata, name: rename(metadata.name) },
    spec: typeof policyName === 'string' ? { ...spec, policyName: rename(policyName) } : spec,
  };
}

interface Rule {
  readonly apiGroups: readonly string[];
  readonly apiVersions: readonly string[];
  readonly operations: readonly string[];
  readonly resources: readonly string[];
}

function createRule(apiVersion: string, resources: readonly string[]): Rule {
  const { group, version } = parseApiVersion(apiVersion);
  return { apiGroups: [group], apiVersions: [version], operations: ['CREATE', 'UPDATE'], resources };
}

/** Requests that may change a pod's spec. */
export const POD_RULE = createRule('v1', ['pods', 'pods/ephemeralcontainers', 'pods/resize']);

const WORKLOADS = Object.entries(RESOURCES).filter(([, { podTemplate }]) => podTemplate !== undefined);

const WORKLOAD_RULES: readonly Rule[] = [...Map.groupBy(WORKLOADS, ([, resource]) => formatApiVersion(resource))].map(
  ([apiVersion, entries]) =>
    createRule(
      apiVersion,
      entries.map(([, { resource }]) => resource),
    ),
);

const IS_POD = 'request.resource.resource == "pods"';

/**
 * CEL expression for the pod, or for the pod template of a workload. Empty for a ReplicationController that has no
 * template.
 */
const POD_OR_TEMPLATE = [
  `${IS_POD} ? dyn(object) : `,
  ...[...Map.groupBy(WORKLOADS, ([, { podTemplate = [] }]) => podTemplate.join('.?'))]
    .toSorted(([, a], [, b]) => a.length - b.length)
    .map(([path, kinds], index, all) => {
      const template = `dyn(object).?${path}.orValue({})`;
      return index === all.length - 1
        ? template
        : `request.resource.resource in ${celList(kinds.map(([, { resource }]) => resource))} ? ${template} : `;
    }),
].join('');

/**
 * CEL bool that is true for requests to evaluate. Pod updates are evaluated only if they add containers or change
 * images, so metadata updates and `resize` subresource updates pass. API servers neither remove nor change ephemeral
 * containers, so if the lists differ, there is a new one. Comparing the names of ephemeral containers would exceed the
 * cost limit of policies, so metadata updates of pods with many of them would be denied.
 */
const IS_SIGNIFICANT = [
  'request.operation != "UPDATE"',
  `!(${IS_POD})`,
  ...['containers', 'initContainers'].map((list) => {
    const images = (pod: string): string => `dyn(${pod}).spec.?${list}.orValue([]).map(c, c.?image.orValue(""))`;
    return `${images('object')} != ${images('oldObject')}`;
  }),
  'dyn(object).spec.?ephemeralContainers.orValue([]) != dyn(oldObject).spec.?ephemeralContainers.orValue([])',
].join(' || ');

function exceptUsers(usernames: readonly string[]) {
  if (usernames.length === 0) return [];
  return [{ name: 'exempt-users', expression: `!(request.userInfo.username in ${celList(usernames)})` }];
}

function isExemptRuntimeClass(names: readonly string[]): string {
  return `variables.spec.?runtimeClassName.orValue("") in ${celList(names)}`;
}

interface Requirement {
  readonly key: string;
  readonly operator: 'In' | 'NotIn' | 'Exists' | 'DoesNotExist';
  readonly values?: readonly string[];
}

function exclude(key: string, values: readonly string[]): readonly Requirement[] {
  return values.length === 0 ? [] : [{ key, operator: 'NotIn', values }];
}

function namespaceSelector(matchExpressions: readonly Requirement[]) {
  return matchExpressions.length === 0 ? {} : { namespaceSelector: { matchExpressions } };
}

interface NamespaceSelection {
  /**
   * Suffix of the binding's name. The `-version` binding selects namespaces that have only the mode's version label.
   */
  readonly suffix: '' | '-unlabeled' | '-version';
  readonly selector: readonly Requirement[];
  /** Defaults to the policy's rules. */
  readonly resourceRules?: readonly Rule[];
}

/**
 * Selects the namespaces whose policy has the given level. These are labeled namespaces and, for the default level,
 * unlabeled namespaces.
 */
function selectNamespaces({ settings }: Context, mode: BlockingMode, level: Level): NamespaceSelection[] {
  const { defaults } = settings.podSecurity;
  const key = MODE_LABELS[mode].level;
  const others = LEVELS.filter((other) => other !== level);
  // In enforce mode, an invalid label means restricted.
  const takesInvalid = mode === 'enforce' && level === 'restricted';
  const labelled: Requirement[] = takesInvalid
    ? [{ key, operator: 'Exists' }, ...exclude(key, others)]
    : [{ key, operator: 'In', values: [level] }];
  const unlabelled: Requirement[] = [{ key, operator: 'DoesNotExist' }];
  const selections: NamespaceSelection[] = [{ suffix: '', selector: labelled }];
  const fallback = defaults[mode].level;
  if (mode === 'enforce') {
    if (fallback === level) selections.push({ suffix: '-unlabeled', selector: unlabelled });
    return selections;
  }
  // If there is no warn label, the warn level is at least as strict as a valid enforce label.
  const stricter = LEVELS.filter((other) => isStricter(other, fallback));
  if (fallback === level) {
    selections.push({
      suffix: '-unlabeled',
      selector: [...unlabelled, ...exclude(MODE_LABELS.enforce.level, stricter)],
    });
  } else if (stricter.includes(level)) {
    const raised: Requirement[] = [...unlabelled, { key: MODE_LABELS.enforce.level, operator: 'In', values: [level] }];
    const version = MODE_LABELS.warn.version;
    // If there is no warn version, the warn policy is the same as the enforce policy, which already evaluates the pods.
    selections.push(
      {
        suffix: '-unlabeled',
        selector: [...raised, { key: version, operator: 'DoesNotExist' }],
        resourceRules: WORKLOAD_RULES,
      },
      { suffix: '-version', selector: [...raised, { key: version, operator: 'Exists' }] },
    );
  }
  return selections;
}

const LABELS_VARIABLE = { name: 'labels', expression: 'namespaceObject.metadata.?labels.orValue({})' };

function label(key: string, fallback: string): string {
  return `variables.labels[?${celString(key)}].orValue(${celString(fallback)})`;
}

const IS_LEVEL = celList(LEVELS);

/**
 * Returns a CEL bool that is true if a string is a valid version label. The number must fit into a signed 64-bit
 * integer.
 */
function isVersion(text: string): string {
  return `(${text} == "latest" || ${text}.matches("^v1[.](0|[1-9][0-9]{0,18})$") && (size(${text}) < 22 || ${text}.substring(3) <= "9223372036854775807"))`;
}

/** Returns variables for the version from a label, which is `latest` if the label is invalid. */
export function versionVariables(name: string, expression: string): CelVariable[] {
  return [
    { name: `${name}Label`, expression },
    { name, expression: `${isVersion(`variables.${name}Label`)} ? variables.${name}Label : "latest"` },
  ];
}

/** Returns the variables for the enforce policy. */
function enforceVariables({ settings }: Context): CelVariable[] {
  const { enforce } = settings.podSecurity.defaults;
  return [
    { name: 'enforceLabel', expression: label(POD_SECURITY_LABELS.enforce, enforce.level) },
    {
      name: 'enforceLevel',
      expression: `variables.enforceLabel in ${IS_LEVEL} ? variables.enforceLabel : "restricted"`,
    },
    ...versionVariables('enforceVersion', label(POD_SECURITY_LABELS.enforceVersion, enforce.version)),
    { name: 'enforcePolicy', expression: 'variables.enforceLevel + ":" + variables.enforceVersion' },
  ];
}

/** Returns the variables for a mode's version in a namespace that has a level for that mode. */
function modeVariables(context: Context, mode: BlockingMode, level: Level): CelVariable[] {
  const { defaults } = context.settings.podSecurity;
  const own = label(MODE_LABELS[mode].version, defaults[mode].version);
  if (mode === 'enforce') return [LABELS_VARIABLE, ...versionVariables('version', own)];
  const isRaised = `!(${celString(MODE_LABELS.warn.level)} in variables.labels) && !(${celString(MODE_LABELS.warn.version)} in variables.labels)`;
  const version = isStricter(level, defaults.warn.level) ? `${isRaised} ? variables.enforceVersion : ${own}` : own;
  return [LABELS_VARIABLE, ...enforceVariables(context), ...versionVariables('version', version)];
}

const ENFORCE_POLICY = '(variables.isPrivileged ? "privileged:latest" : variables.enforcePolicy)';

/** Returns the variables for the enforce and audit policies and the label errors. */
function auditVariables(context: Context): CelVariable[] {
  const { audit, warn } = context.settings.podSecurity.defaults;
  const errors = Object.values(POD_SECURITY_LABELS).map((key) => {
    const isLevelLabel = !key.endsWith('-version');
    const value = `variables.labels[${celString(key)}]`;
    const isValid = isLevelLabel ? `${value} in ${IS_LEVEL}` : isVersion(value);
    const rule = isLevelLabel ? LEVEL_RULE : VERSION_RULE;
    const prefix = `metadata.labels[${key}]: Invalid value: "`;
    return `!(${celString(key)} in variables.labels) || ${isValid} ? "" : ${celString(prefix)} + ${value} + ${celString(`": ${rule}`)}`;
  });
  return [
    LABELS_VARIABLE,
    ...enforceVariables(context),
    { name: 'auditLabel', expression: label(POD_SECURITY_LABELS.audit, audit.level) },
    { name: 'level', expression: `variables.auditLabel in ${IS_LEVEL} ? variables.auditLabel : "privileged"` },
    ...versionVariables('version', label(POD_SECURITY_LABELS.auditVersion, audit.version)),
    { name: 'errors', expression: `[${errors.join(', ')}].filter(error, error != "")` },
    {
      name: 'error',
      expression:
        'size(variables.errors) == 0 ? "" : "Failed to parse policy: " + (size(variables.errors) == 1 ? variables.errors[0] : "[" + variables.errors.join(", ") + "]")',
    },
    {
      name: 'isPrivileged',
      expression: [
        'variables.error == ""',
        'variables.level == "privileged"',
        `${label(POD_SECURITY_LABELS.warn, warn.level)} == "privileged"`,
        // Workloads are never denied, so their enforce level does not matter unless it raises the warn level. This
        // requires an enforce label and no warn label.
        `(variables.enforceLevel == "privileged" || !(${IS_POD}) && (${celString(MODE_LABELS.warn.level)} in variables.labels || !(${celString(MODE_LABELS.enforce.level)} in variables.labels)))`,
      ].join(' && '),
    },
  ];
}

interface Evaluation {
  readonly variables: readonly CelVariable[];
  /** CEL string such as `restricted:latest`. */
  readonly policy: string;
  readonly violations: string;
}

/**
 * Returns the variables up to `variables.isDenied`, which is true for a pod that the enforce policy denies. As in Pod
 * Security Admission, a denied pod gets no warnings. API servers evaluate a variable only when an expression reads it,
 * so pods without warnings incur no extra cost.
 */
function denialVariables(context: Context, existing: readonly CelVariable[]): readonly CelVariable[] {
  const scope = celScope(context, POLICY_LEVELS);
  const inputs = { minor: 'enforceMinor', level: 'enforceLevel' };
  const { variables, passes } = buildSecondVerdict(scope, { ...inputs, prefix: 'enforce_', existing });
  return [
    minorVariable(inputs.minor, 'enforceVersion', scope),
    ...variables,
    {
      name: 'isDenied',
      expression: `${IS_POD} && variables.enforceLevel != "privileged" && !(variables.isSmall && ${passes})`,
    },
  ];
}

function celScope({ settings, options }: Context, levels: readonly Level[]): CelScope {
  const { kubernetesMinor } = options;
  return {
    levels,
    emulationVersion: settings.emulationVersion ?? `v1.${kubernetesMinor}`,
  };
}

/** Returns a variable with the minor version of the version in another variable. */
function minorVariable(name: string, version: string, scope: CelScope): CelVariable {
  const value = `variables.${version}`;
  return { name, expression: `${value} == "latest" ? ${latestMinor(scope)} : int(${value}.substring(3))` };
}

/**
 * Returns the evaluation of the checks. Its last variable is `variables.passes`. If there are several levels,
 * `variables.level` contains the level.
 */
function evaluation(
  context: Context,
  levels: readonly Level[],
  { resolution, pod }: { readonly resolution: readonly CelVariable[]; readonly pod: string },
): Evaluation {
  const scope = celScope(context, levels);
  const checks = buildCelChecks(scope);
  const [level = ''] = levels;
  const prefix = levels.length === 1 ? celString(`${level}:`) : 'variables.level + ":"';
  return {
    variables: [
      ...resolution,
      minorVariable('minor', 'version', scope),
      { name: 'pod', expression: pod },
      ...checks.variables,
      { name: 'isSmall', expression: isSmall(INPUT_VARIABLES) },
      { name: 'passes', expression: `variables.isSmall && ${checks.passes}` },
    ],
    policy: `${prefix} + variables.version`,
    violations: `(variables.isSmall ? ${checks.violations} : ${celString(TOO_LARGE)})`,
  };
}
