/**
 * Reads the pod security policies and exceptions of Kyverno, which are `validate.podSecurity` rules, the policies that
 * Kyverno publishes, and PolicyExceptions.
 * @see https://kyverno.io/docs/policy-types/cluster-policy/validate/#pod-security
 */
import type { ExceptionEntry } from '../../kube/pod-security-exception.ts';
import { matchesWildcard } from '../../kube/text.ts';
import { isObject, type JsonObject, objectMember, objectsIn, stringsIn } from '../../kube/types.ts';
import type { Mode } from '../../policy/psa/index.ts';
import { isLevel, parseVersion, type Version } from '../../policy/pss/index.ts';
import {
  checkIds,
  type Exclusion,
  type ForeignPolicies,
  hasContent,
  isListed,
  type LevelRule,
  lookUp,
  type MigratedWorkload,
  type Remainder,
  type PolicyScope,
  selectsLabels,
  textOr,
} from './policies.ts';

/** API groups of Kyverno's policies. */
export const KYVERNO_GROUPS = ['kyverno.io', 'policies.kyverno.io'] as const;

const POLICY_KINDS: readonly string[] = ['ClusterPolicy', 'Policy', 'ValidatingPolicy', 'NamespacedValidatingPolicy'];

/** Check and rules of each policy in the `pod-security` folders of https://github.com/kyverno/policies. */
const PUBLISHED: Readonly<Record<string, { readonly check: string; readonly rules: readonly string[] }>> = {
  'disallow-capabilities': { check: 'capabilities_baseline', rules: ['adding-capabilities'] },
  // The published ValidatingPolicies have their own names.
  'adding-capabilities-strict': { check: 'capabilities_restricted', rules: [] },
  'disallow-capabilities-strict': {
    check: 'capabilities_restricted',
    rules: ['require-drop-all', 'adding-capabilities-strict'],
  },
  'disallow-host-namespaces': { check: 'hostNamespaces', rules: ['host-namespaces'] },
  'disallow-host-path': { check: 'hostPathVolumes', rules: ['host-path'] },
  'disallow-host-ports': { check: 'hostPorts', rules: ['host-ports-none'] },
  'disallow-host-process': { check: 'windowsHostProcess', rules: ['host-process-containers'] },
  'disallow-privilege-escalation': { check: 'allowPrivilegeEscalation', rules: ['privilege-escalation'] },
  'disallow-privileged-containers': { check: 'privileged', rules: ['privileged-containers'] },
  'disallow-proc-mount': { check: 'procMount', rules: ['check-proc-mount'] },
  'disallow-selinux': { check: 'seLinuxOptions', rules: ['selinux-type', 'selinux-user-role'] },
  'require-run-as-non-root-user': { check: 'runAsUser', rules: ['run-as-non-root-user'] },
  'require-run-as-nonroot': { check: 'runAsNonRoot', rules: ['run-as-non-root'] },
  'restrict-apparmor-profiles': { check: 'appArmorProfile', rules: ['app-armor'] },
  'restrict-seccomp': { check: 'seccompProfile_baseline', rules: ['check-seccomp'] },
  'restrict-seccomp-strict': { check: 'seccompProfile_restricted', rules: ['check-seccomp-strict'] },
  'restrict-sysctls': { check: 'sysctls', rules: ['check-sysctls'] },
  'restrict-volume-types': { check: 'restrictedVolumes', rules: ['restricted-volumes'] },
};

/** Published policies without a counterpart in the Pod Security Standards. */
const WITHOUT_COUNTERPART: Readonly<Record<string, string>> = {
  'disallow-host-ports-range': 'the Pod Security Standards have no ranges of host ports: baseline allows none',
};

/** Checks by their names in `podSecurity.exclude[].controlName`. */
const CONTROLS: Readonly<Record<string, readonly string[]>> = {
  HostProcess: ['windowsHostProcess'],
  'Host Namespaces': ['hostNamespaces'],
  'Privileged Containers': ['privileged'],
  Capabilities: ['capabilities_baseline', 'capabilities_restricted'],
  'HostPath Volumes': ['hostPathVolumes'],
  'Host Ports': ['hostPorts'],
  AppArmor: ['appArmorProfile'],
  SELinux: ['seLinuxOptions'],
  '/proc Mount Type': ['procMount'],
  Seccomp: ['seccompProfile_baseline', 'seccompProfile_restricted'],
  Sysctls: ['sysctls'],
  'Volume Types': ['restrictedVolumes'],
  'Privilege Escalation': ['allowPrivilegeEscalation'],
  'Running as Non-root': ['runAsNonRoot'],
  'Running as Non-root user': ['runAsUser'],
};

/** Reads policies and exceptions. Objects of other kinds are ignored. */
export function readKyverno(objects: readonly JsonObject[], nowMs: number): ForeignPolicies {
  const exceptions = objects.filter(({ kind }) => kind === 'PolicyException');
  const policies = objects.filter(({ kind }) => POLICY_KINDS.includes(String(kind)));
  const parts = policies.map(readPolicy);
  const rules = parts.flatMap((part) => part.rules);
  const read = exceptions.map((exception) => readException(exception, rules, nowMs));
  return {
    count: policies.length + exceptions.length,
    rules: rules.map((rule) => ({
      ...rule,
      exclusions: [...rule.exclusions, ...read.flatMap(({ exclusions }) => exclusions.get(rule) ?? [])],
    })),
    remainders: [...parts.flatMap((part) => part.remainders), ...read.flatMap(({ remainders }) => remainders)],
  };
}

/** A rule of a policy, with the name by which exceptions refer to it. The name is empty for ValidatingPolicies. */
interface NamedRule extends LevelRule {
  readonly rule: string;
}

interface ReadPolicy {
  readonly rules: readonly NamedRule[];
  readonly remainders: readonly Remainder[];
}

function readPolicy(policy: JsonObject): ReadPolicy {
  const { kind } = policy;
  const { name = '', namespace } = objectMember(policy, 'metadata') as { name?: string; namespace?: string };
  const source = `${String(kind)}/${namespace === undefined ? '' : `${namespace}/`}${name}`;
  const published = lookUp(PUBLISHED, name);
  const reason = lookUp(WITHOUT_COUNTERPART, name);
  if (reason !== undefined) return { rules: [], remainders: [{ source, reason }] };
  const restrict = limitToNamespace(kind === 'Policy' || kind === 'NamespacedValidatingPolicy' ? namespace : undefined);
  const spec = objectMember(policy, 'spec');
  if (Object.keys(spec).length === 0) {
    return { rules: [], remainders: [{ source, reason: 'the policy has no spec' }] };
  }
  if (kind === 'ValidatingPolicy' || kind === 'NamespacedValidatingPolicy') {
    return published === undefined
      ? { rules: [], remainders: [{ source, reason: OTHER_POLICY }] }
      : readValidatingPolicy({ source, spec, check: published.check, restrict });
  }
  const results = objectsIn(spec['rules']).map((rule): Result => {
    const where = `${source}, rule ${String(rule['name'])}`;
    const content = readRule(rule, published, where);
    if ('reason' in content) return content;
    const match = readMatch(rule['match'], where);
    if ('reason' in match) return match;
    const excluded = readExcluded(rule['exclude'], where, content.checks);
    const problem = findPrecondition(rule);
    if (problem !== undefined) return { source: where, reason: problem };
    const validate = objectMember(rule, 'validate');
    const action = textOr(validate['failureAction'] ?? spec['validationFailureAction'], 'Audit');
    const overrides = objectsIn(validate['failureActionOverrides'] ?? spec['validationFailureActionOverrides']);
    return {
      ...content,
      source,
      rule: String(rule['name']),
      exclusions: [...content.exclusions, ...excluded.exclusions],
      exemptUsers: excluded.users,
      isSelective: match.isSelective || overrides.length > 0 || kind === 'Policy',
      remainders: [...content.remainders, ...excluded.remainders],
      modes: restrict((scope) => {
        if (!match.applies(scope) || excluded.namespaces(scope)) return [];
        const override = overrides.find((candidate) => selectsNamespace(candidate, scope));
        return lookUp(ACTION_MODES, textOr(override?.['action'], action).toLowerCase()) ?? ['audit', 'warn'];
      }),
    };
  });
  return {
    rules: results.flatMap((result) => ('reason' in result ? [] : result)),
    remainders: results.flatMap((result) => ('reason' in result ? result : result.remainders)),
  };
}

type Result = Remainder | (NamedRule & { readonly remainders: readonly Remainder[] });

const OTHER_POLICY = 'not a Pod Security policy, so keep it in Kyverno or convert it to a ValidatingAdmissionPolicy';

/**
 * Modes that correspond to a failure action. For `Audit`, Kyverno only reports violations, as the audit and warn modes
 * do.
 */
const ACTION_MODES: Readonly<Record<string, readonly Mode[]>> = {
  enforce: ['enforce'],
  deny: ['enforce'],
  audit: ['audit', 'warn'],
  warn: ['warn'],
};

type Modes = (scope: PolicyScope) => readonly Mode[];

function limitToNamespace(namespace: string | undefined): (modes: Modes) => Modes {
  return (modes) => (scope) => (namespace === undefined || scope.name === namespace ? modes(scope) : []);
}

interface ValidatingPolicySource {
  readonly source: string;
  readonly spec: JsonObject;
  readonly check: string;
  readonly restrict: (modes: Modes) => Modes;
}

function readValidatingPolicy({ source, spec, check, restrict }: ValidatingPolicySource): ReadPolicy {
  const constraints = objectMember(spec, 'matchConstraints');
  const unsupported = [
    ...(objectsIn(spec['matchConditions']).length > 0 ? ['matchConditions'] : []),
    ...['objectSelector', 'excludeResourceRules'].filter((field) => hasContent(constraints[field])),
  ];
  if (unsupported.length > 0) {
    const reason = `levels apply to all pods of a namespace, but the policy has ${unsupported.join(' and ')}`;
    return { rules: [], remainders: [{ source, reason }] };
  }
  const actions = stringsIn(spec['validationActions']);
  const modes = (actions.length === 0 ? ['Deny'] : actions).flatMap((action) =>
    action === 'Audit' ? (['audit'] as const) : (lookUp(ACTION_MODES, action.toLowerCase()) ?? []),
  );
  const selector = constraints['namespaceSelector'];
  const rule: NamedRule = {
    source,
    rule: '',
    checks: [check],
    version: 'latest',
    exclusions: [],
    exemptUsers: [],
    isSelective: hasContent(selector) || source.startsWith('Namespaced'),
    modes: restrict((scope) => (!hasContent(selector) || selectsLabels(selector, scope) ? modes : [])),
  };
  return { rules: [rule], remainders: [] };
}

interface RuleContent {
  readonly checks: readonly string[];
  readonly version: Version;
  readonly exclusions: readonly Exclusion[];
  /** Exclusions that have no counterpart. The levels evaluate the pods that they select. */
  readonly remainders: readonly Remainder[];
}

function readRule(
  rule: JsonObject,
  published: (typeof PUBLISHED)[string] | undefined,
  source: string,
): RuleContent | Remainder {
  const validate = rule['validate'];
  if (!isObject(validate)) return { source, reason: OTHER_POLICY };
  const podSecurity = validate['podSecurity'];
  if (podSecurity === undefined) {
    return published?.rules.includes(textOr(rule['name'], '')) === true
      ? { checks: [published.check], version: 'latest', exclusions: [], remainders: [] }
      : { source, reason: OTHER_POLICY };
  }
  const { level, version = 'latest', exclude } = isObject(podSecurity) ? podSecurity : {};
  const parsed = parseVersion(String(version));
  if (!isLevel(level) || level === 'privileged' || parsed === undefined) {
    return {
      source,
      reason: 'podSecurity.level must be baseline or restricted, and podSecurity.version must be latest or v1.N',
    };
  }
  const { exclusions, remainders } = readControls(exclude, source);
  return { checks: checkIds(level, parsed), version: parsed, exclusions, remainders };
}

/** Reads `podSecurity.exclude` of a rule or `podSecurity` of an exception. */
function readControls(value: unknown, source: string) {
  const controls = objectsIn(value).map((control) => readControl(control, source));
  return {
    exclusions: controls.flatMap((control) => ('reason' in control ? [] : control)),
    remainders: controls.flatMap((control) => ('reason' in control ? control : [])),
  };
}

/** Matches the field of added capabilities, whose values an exception can list. */
const ADDED_CAPABILITIES = /^spec\.(\w+)\[\*\]\.securityContext\.capabilities\.add$/;

function readControl(control: JsonObject, source: string): Exclusion | Remainder {
  const { controlName, restrictedField = '' } = control;
  const checks = lookUp(CONTROLS, textOr(controlName, ''));
  if (checks === undefined) return { source, reason: `the control ${JSON.stringify(controlName)} is unknown` };
  const [images, values] = [stringsIn(control['images']), stringsIn(control['values'])];
  const [, list] = ADDED_CAPABILITIES.exec(textOr(restrictedField, '')) ?? [];
  if (hasContent(restrictedField) && (list === undefined || values.length === 0 || controlName !== 'Capabilities')) {
    const reason = `the restrictedField ${JSON.stringify(restrictedField)} is not converted, so the pods are evaluated`;
    return { source, reason };
  }
  return {
    source,
    checks,
    matches: (workload, entry) =>
      matchesImages(images, workload, entry) &&
      (list === undefined ||
        (workload.containers.get(entry.container ?? '')?.list === list && matchesValues(entry, values))),
  };
}

function matchesValues({ values = [] }: ExceptionEntry, patterns: readonly string[]): boolean {
  return values.length > 0 && values.every((value) => patterns.some((pattern) => matchesWildcard(pattern, value)));
}

/**
 * Returns true if a control excludes an entry. Without images, a control excludes fields of pods. With images, it
 * excludes fields of containers.
 */
function matchesImages(images: readonly string[], workload: MigratedWorkload, { container }: ExceptionEntry): boolean {
  if (container === undefined || images.length === 0) return container === undefined && images.length === 0;
  const image = workload.containers.get(container)?.image ?? '';
  return images.some((pattern) => matchesWildcard(pattern, image));
}

/**
 * Returns the reason why preconditions cannot be converted. Accepts the preconditions of the published policies, which
 * only skip deletions.
 */
function findPrecondition(rule: JsonObject): string | undefined {
  const conditions = rule['preconditions'];
  const terms = isObject(conditions)
    ? [...objectsIn(conditions['all']), ...objectsIn(conditions['any'])]
    : objectsIn(conditions);
  const isOther = terms.some(({ key }) => !String(key).includes('request.operation'));
  if (isOther || objectsIn(rule['celPreconditions']).length > 0) {
    return 'levels apply to all pods of a namespace, but the rule has preconditions';
  }
  return undefined;
}

interface Match {
  readonly isSelective: boolean;
  applies(scope: PolicyScope): boolean;
}

/** Returns the blocks of `match` or `exclude`. If `isAll` is true, all blocks must match. */
function readBlocks(value: unknown): { readonly isAll: boolean; readonly blocks: readonly JsonObject[] } {
  if (!isObject(value)) return { isAll: false, blocks: [] };
  if (Array.isArray(value['all'])) return { isAll: true, blocks: objectsIn(value['all']) };
  if (Array.isArray(value['any'])) return { isAll: false, blocks: objectsIn(value['any']) };
  return { isAll: false, blocks: [value] };
}

/** Returns the fields of a block that have the given names, or that have other names if `isOther` is true. */
function selectorsOf(block: JsonObject, names: readonly string[], isOther: boolean): readonly string[] {
  const members = [
    ...Object.entries(block).filter(([name]) => name !== 'resources'),
    ...Object.entries(resourcesOf(block)),
  ];
  return members
    .filter(([name, value]) => hasContent(value) && !isAnyName(name, value) && names.includes(name) !== isOther)
    .map(([name]) => name);
}

/** Fields that a namespace's level can represent. They select namespaces, or kinds and operations of pods. */
const NAMESPACE_SELECTORS = ['kinds', 'operations', 'namespaces', 'namespaceSelector'] as const;

function isAnyName(member: string, value: unknown): boolean {
  return ['name', 'names'].includes(member) && (value === '*' || (Array.isArray(value) && value.includes('*')));
}

function readMatch(value: unknown, source: string): Match | Remainder {
  const { isAll, blocks } = readBlocks(value);
  const relevant = blocks.filter((block) => selectsPods(resourcesOf(block)));
  if (relevant.length < (isAll ? blocks.length : 1)) return { source, reason: 'the rule does not match pods' };
  const fields = new Set(relevant.flatMap((block) => selectorsOf(block, NAMESPACE_SELECTORS, true)));
  if (fields.size > 0) {
    return { source, reason: `levels apply to all pods of a namespace, but match has ${[...fields].join(' and ')}` };
  }
  const isIn = (scope: PolicyScope) => (block: JsonObject) => selectsNamespace(resourcesOf(block), scope);
  return {
    isSelective: relevant.some((block) => selectorsOf(block, ['namespaces', 'namespaceSelector'], false).length > 0),
    applies: (scope) => (isAll ? relevant.every(isIn(scope)) : relevant.some(isIn(scope))),
  };
}

interface Excluded {
  /** Returns true if the rule excludes all pods in a namespace. */
  namespaces(scope: PolicyScope): boolean;
  readonly users: readonly string[];
  readonly exclusions: readonly Exclusion[];
  readonly remainders: readonly Remainder[];
}

/** Reads `exclude`. A block that has no counterpart excludes nothing, so the converted rule is stricter. */
function readExcluded(value: unknown, source: string, checks: readonly string[]): Excluded {
  const { isAll, blocks } = readBlocks(value);
  const scopes: JsonObject[] = [];
  const users: string[] = [];
  const exclusions: Exclusion[] = [];
  const remainders: Remainder[] = [];
  const keep = (reason: string): void => void remainders.push({ source, reason: `${reason}: the pods are evaluated` });
  for (const block of blocks) {
    const resources = resourcesOf(block);
    if (!selectsPods(resources)) continue;
    const others = selectorsOf(block, [...NAMESPACE_SELECTORS, 'names', 'name', 'subjects'], true);
    const names = objectsIn(block['subjects']).map(userName);
    if (isAll && blocks.length > 1) keep('exclude.all with several entries has no counterpart');
    else if (others.length > 0)
      keep(`exclude has ${others.join(' and ')}, which exceptions and exemptions do not support`);
    else if (names.includes(undefined)) keep('exemptions name users, but exclude has subjects that are groups');
    else if (names.length > 0) {
      const limits = selectorsOf(block, ['namespaces', 'namespaceSelector', 'names', 'name'], false);
      if (limits.length > 0)
        keep(`user exemptions apply in all namespaces, but exclude also has ${limits.join(' and ')}`);
      else users.push(...names.filter((name) => name !== undefined));
    } else if (selectorsOf(block, ['names', 'name'], false).length === 0) scopes.push(resources);
    else if (hasContent(resources['namespaceSelector'])) {
      keep('exclude has both names and namespaceSelector, which exceptions do not support');
    } else exclusions.push({ source, checks, matches: (workload) => selectsWorkload(resources, workload) });
  }
  return {
    users,
    exclusions,
    remainders,
    namespaces: (scope) => scopes.some((resources) => selectsNamespace(resources, scope)),
  };
}

/** Returns the user name of a subject, or `undefined` for a group. */
function userName({ kind, name, namespace }: JsonObject): string | undefined {
  if (kind === 'User') return String(name);
  return kind === 'ServiceAccount' ? `system:serviceaccount:${String(namespace)}:${String(name)}` : undefined;
}

/** Reads a PolicyException, and returns its exclusions for the rules to which it refers. */
function readException(
  exception: JsonObject,
  rules: readonly NamedRule[],
  nowMs: number,
): { readonly exclusions: ReadonlyMap<LevelRule, readonly Exclusion[]>; readonly remainders: readonly Remainder[] } {
  const { name, namespace } = objectMember(exception, 'metadata');
  const source = `PolicyException/${String(namespace)}/${String(name)}`;
  const none = (reason: string) => ({
    exclusions: new Map<LevelRule, Exclusion[]>(),
    remainders: [{ source, reason }],
  });
  const spec = objectMember(exception, 'spec');
  const references = [
    ...objectsIn(spec['exceptions']).map(({ policyName, ruleNames }) => ({
      matches: ({ source: policy }: NamedRule) => {
        const [, ...path] = policy.split('/');
        return matchesWildcard(textOr(policyName, ''), path.join('/'));
      },
      rules: stringsIn(ruleNames),
    })),
    ...objectsIn(spec['policyRefs']).map((reference) => ({
      matches: ({ source: policy }: NamedRule) =>
        policy === `${textOr(reference['kind'], '')}/${textOr(reference['name'], '')}`,
      rules: [''],
    })),
  ];
  const referenced = rules.filter((rule) =>
    references.some(
      (reference) => reference.matches(rule) && reference.rules.some((name) => matchesWildcard(name, rule.rule)),
    ),
  );
  if (referenced.length === 0) return none('no converted policy is referenced');
  const expiresAt = typeof spec['expiresAt'] === 'string' ? spec['expiresAt'] : undefined;
  if (expiresAt !== undefined && !(Date.parse(expiresAt) > nowMs)) return none(`it expired at ${expiresAt}`);
  const { isAll, blocks } = readBlocks(spec['match']);
  const fields = [
    ...['conditions', 'matchConditions', 'images', 'allowedValues'].filter((field) => hasContent(spec[field])),
    ...blocks.flatMap((block) => selectorsOf(block, ['kinds', 'operations', 'namespaces', 'names', 'name'], true)),
  ];
  if (fields.length > 0) {
    return none(
      `${fields.join(', ')} cannot be converted. "portcullis exception create" prints an exception for a workload`,
    );
  }
  const controls = readControls(spec['podSecurity'], source);
  const isSelected = (workload: MigratedWorkload): boolean => {
    const selects = (block: JsonObject): boolean => selectsWorkload(resourcesOf(block), workload);
    return blocks.length === 0 || (isAll ? blocks.every(selects) : blocks.some(selects));
  };
  const exclusions = new Map<LevelRule, Exclusion[]>();
  for (const rule of referenced) {
    const whole: Exclusion = { source, checks: rule.checks, matches: () => true };
    const own = hasContent(spec['podSecurity']) ? controls.exclusions : [whole];
    const limited = own.map((exclusion): Exclusion => ({
      ...exclusion,
      expiresAt,
      matches: (workload, entry) => isSelected(workload) && exclusion.matches(workload, entry),
    }));
    exclusions.set(rule, limited);
  }
  return { exclusions, remainders: controls.remainders };
}

function resourcesOf(block: JsonObject): JsonObject {
  return objectMember(block, 'resources');
}

/**
 * Returns true if a block selects pods, because its kinds are absent, `Pod`, `v1/Pod` or `*`. Subresources such as
 * `Pod/exec` are not pods.
 */
function selectsPods({ kinds, operations }: JsonObject): boolean {
  const [names, verbs] = [stringsIn(kinds), stringsIn(operations)];
  const isPod = (kind: string): boolean => ['Pod', 'v1/Pod', '*'].includes(kind);
  return (names.length === 0 || names.some(isPod)) && (verbs.length === 0 || verbs.includes('CREATE'));
}

function selectsNamespace({ namespaces, namespaceSelector }: JsonObject, scope: PolicyScope): boolean {
  const patterns = stringsIn(namespaces);
  const isNamed = patterns.length === 0 || isListed(patterns, scope);
  return isNamed && (!hasContent(namespaceSelector) || selectsLabels(namespaceSelector, scope));
}

/** Returns true if a block selects the pods of a workload. Their names begin with the name of the workload. */
function selectsWorkload(resources: JsonObject, { kind, name, namespace }: MigratedWorkload): boolean {
  const names = [...stringsIn(resources['names']), ...stringsIn([resources['name']])];
  const namespaces = stringsIn(resources['namespaces']);
  const pod = kind === 'Pod' ? name : `${name}-00000-00000`;
  return (
    selectsPods(resources) &&
    (names.length === 0 || names.some((pattern) => matchesWildcard(pattern, pod))) &&
    (namespaces.length === 0 || namespaces.some((pattern) => matchesWildcard(pattern, namespace)))
  );
}
