/**
 * Reads the pod security policies and exceptions of Kyverno: `validate.podSecurity` rules, the policies that Kyverno
 * publishes, and PolicyExceptions.
 * @see https://kyverno.io/docs/policy-types/cluster-policy/validate/#pod-security
 */
import { matchesLabelSelector } from '../../kube/label-selector.ts';
import type { ExceptionEntry } from '../../kube/pod-security-exception.ts';
import { isObject, type JsonObject, objectMember } from '../../kube/types.ts';
import type { Mode } from '../../policy/psa/index.ts';
import { isLevel, parseVersion, type Version } from '../../policy/pss/index.ts';
import {
  checkIds,
  type Exclusion,
  type ForeignPolicies,
  hasContent,
  type LevelRule,
  listObjects,
  listStrings,
  matchesWildcard,
  type MigratedWorkload,
  type Remainder,
  type Scope,
  textOr,
} from './policies.ts';

/** API groups of Kyverno's policies. */
export const KYVERNO_GROUPS = ['kyverno.io', 'policies.kyverno.io'] as const;

const POLICY_KINDS: readonly string[] = ['ClusterPolicy', 'Policy', 'ValidatingPolicy', 'NamespacedValidatingPolicy'];

/** The checks of the policies in the `pod-security` folders of https://github.com/kyverno/policies. */
const PUBLISHED: Readonly<Record<string, string>> = {
  'disallow-capabilities': 'capabilities_baseline',
  'disallow-capabilities-strict': 'capabilities_restricted',
  'disallow-host-namespaces': 'hostNamespaces',
  'disallow-host-path': 'hostPathVolumes',
  'disallow-host-ports': 'hostPorts',
  'disallow-host-process': 'windowsHostProcess',
  'disallow-privilege-escalation': 'allowPrivilegeEscalation',
  'disallow-privileged-containers': 'privileged',
  'disallow-proc-mount': 'procMount',
  'disallow-selinux': 'seLinuxOptions',
  'require-run-as-non-root-user': 'runAsUser',
  'require-run-as-nonroot': 'runAsNonRoot',
  'restrict-apparmor-profiles': 'appArmorProfile',
  'restrict-seccomp': 'seccompProfile_baseline',
  'restrict-seccomp-strict': 'seccompProfile_restricted',
  'restrict-sysctls': 'sysctls',
  'restrict-volume-types': 'restrictedVolumes',
};

/** Published policies that the Pod Security Standards do not contain. */
const WITHOUT_COUNTERPART: Readonly<Record<string, string>> = {
  'disallow-host-ports-range': 'the Pod Security Standards have no ranges of host ports: baseline allows none',
};

/** The checks of the names in `podSecurity.exclude[].controlName`. */
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
export function readKyverno(objects: readonly JsonObject[]): ForeignPolicies {
  const exceptions = objects.filter(({ kind }) => kind === 'PolicyException');
  const policies = objects.filter(({ kind }) => POLICY_KINDS.includes(String(kind)));
  const parts = policies.map((policy) => readPolicy(policy));
  const rules = parts.flatMap((part) => part.rules);
  const read = exceptions.map((exception) => readException(exception, rules));
  return {
    count: policies.length + exceptions.length,
    rules: rules.map((rule) => ({
      ...rule,
      exclusions: [...rule.exclusions, ...read.flatMap(({ exclusions }) => exclusions.get(rule) ?? [])],
    })),
    remainders: [...parts.flatMap((part) => part.remainders), ...read.flatMap(({ remainders }) => remainders)],
  };
}

/** A rule of a policy, with the name that exceptions refer to. */
interface NamedRule extends LevelRule {
  readonly policy: string;
  readonly rule: string;
}

interface ReadPolicy {
  readonly rules: readonly NamedRule[];
  readonly remainders: readonly Remainder[];
}

function readPolicy(policy: JsonObject): ReadPolicy {
  const { kind, metadata } = policy;
  const { name = '', namespace } = objectMember(policy, 'metadata') as { name?: string; namespace?: string };
  const source = `${String(kind)}/${namespace === undefined ? '' : `${namespace}/`}${name}`;
  const published = PUBLISHED[name];
  const reason = WITHOUT_COUNTERPART[name];
  if (reason !== undefined) return { rules: [], remainders: [{ source, reason }] };
  const restrict = limitToNamespace(kind === 'Policy' || kind === 'NamespacedValidatingPolicy' ? namespace : undefined);
  const spec = objectMember(policy, 'spec');
  if (!isObject(metadata) || Object.keys(spec).length === 0) {
    return { rules: [], remainders: [{ source, reason: 'the policy has no spec' }] };
  }
  if (kind === 'ValidatingPolicy' || kind === 'NamespacedValidatingPolicy') {
    return published === undefined
      ? { rules: [], remainders: [{ source, reason: OTHER_POLICY }] }
      : readValidatingPolicy({ source, policy: name, spec, check: published, restrict });
  }
  const results = listObjects(spec['rules']).map((rule): Result => {
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
    const overrides = listObjects(validate['failureActionOverrides'] ?? spec['validationFailureActionOverrides']);
    return {
      ...content,
      source,
      policy: name,
      rule: String(rule['name']),
      exclusions: [...content.exclusions, ...excluded.exclusions],
      exemptUsers: excluded.users,
      remainders: excluded.remainders,
      modes: restrict((scope) => {
        if (!match.applies(scope) || excluded.namespaces(scope)) return [];
        const override = overrides.find((candidate) => selectsNamespace(candidate, scope));
        return ACTION_MODES[textOr(override?.['action'], action).toLowerCase()] ?? ['audit', 'warn'];
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

/** The modes of a failure action. Kyverno only reports the violations of `Audit`, as audit annotations and warnings do. */
const ACTION_MODES: Readonly<Record<string, readonly Mode[]>> = {
  enforce: ['enforce'],
  deny: ['enforce'],
  audit: ['audit', 'warn'],
  warn: ['warn'],
};

type Modes = (scope: Scope) => readonly Mode[];

function limitToNamespace(namespace: string | undefined): (modes: Modes) => Modes {
  return (modes) => (scope) => (namespace === undefined || scope.name === namespace ? modes(scope) : []);
}

interface ValidatingPolicySource {
  readonly source: string;
  readonly policy: string;
  readonly spec: JsonObject;
  readonly check: string;
  readonly restrict: (modes: Modes) => Modes;
}

function readValidatingPolicy({ source, policy, spec, check, restrict }: ValidatingPolicySource): ReadPolicy {
  const constraints = objectMember(spec, 'matchConstraints');
  const unsupported = [
    ...(listObjects(spec['matchConditions']).length > 0 ? ['matchConditions'] : []),
    ...['objectSelector', 'excludeResourceRules'].filter((field) => hasContent(constraints[field])),
  ];
  if (unsupported.length > 0) {
    const reason = `levels apply to all pods of a namespace, but the policy has ${unsupported.join(' and ')}`;
    return { rules: [], remainders: [{ source, reason }] };
  }
  const actions = listStrings(spec['validationActions']);
  const modes = (actions.length === 0 ? ['Deny'] : actions).flatMap((action) =>
    action === 'Audit' ? (['audit'] as const) : (ACTION_MODES[action.toLowerCase()] ?? []),
  );
  const selector = constraints['namespaceSelector'];
  const rule: NamedRule = {
    ...{ source, policy, rule: '', checks: [check], version: 'latest', exclusions: [], exemptUsers: [] },
    modes: restrict((scope) => (!hasContent(selector) || selectsLabels(selector, scope) ? modes : [])),
  };
  return { rules: [rule], remainders: [] };
}

interface RuleContent {
  readonly checks: readonly string[];
  readonly version: Version;
  readonly exclusions: readonly Exclusion[];
}

function readRule(rule: JsonObject, published: string | undefined, source: string): RuleContent | Remainder {
  const validate = rule['validate'];
  if (!isObject(validate)) return { source, reason: OTHER_POLICY };
  const podSecurity = validate['podSecurity'];
  if (podSecurity === undefined) {
    return published === undefined
      ? { source, reason: OTHER_POLICY }
      : { checks: [published], version: 'latest', exclusions: [] };
  }
  const { level, version = 'latest', exclude } = isObject(podSecurity) ? podSecurity : {};
  const parsed = parseVersion(String(version));
  if (!isLevel(level) || level === 'privileged' || parsed === undefined) {
    return { source, reason: 'podSecurity must have the level baseline or restricted, and the version latest or v1.N' };
  }
  const controls = listObjects(exclude).map((control) => readControl(control, source));
  const unknown = controls.find((control) => 'reason' in control);
  if (unknown && 'reason' in unknown) return unknown;
  const exclusions = controls.flatMap((control) => ('reason' in control ? [] : control));
  return { checks: checkIds(level, parsed), version: parsed, exclusions };
}

/** Reads an entry of `podSecurity.exclude` or of an exception's `podSecurity`. */
function readControl(control: JsonObject, source: string): Exclusion | Remainder {
  const { controlName, restrictedField } = control;
  const checks = CONTROLS[String(controlName)];
  if (checks === undefined) return { source, reason: `the control ${JSON.stringify(controlName)} is unknown` };
  const [images, values] = [listStrings(control['images']), listStrings(control['values'])];
  return {
    source,
    checks,
    matches: (workload, entry) =>
      matchesImages(images, workload, entry) &&
      (restrictedField === undefined || values.length === 0 || (entry.values ?? []).every(matchesAny(values))),
  };
}

/** Without images, a control excludes fields of pods. With images, it excludes fields of containers. */
function matchesImages(images: readonly string[], workload: MigratedWorkload, { container }: ExceptionEntry): boolean {
  if (container === undefined || images.length === 0) return container === undefined && images.length === 0;
  const image = workload.images.get(container) ?? '';
  return images.some((pattern) => matchesWildcard(pattern, image));
}

function matchesAny(patterns: readonly string[]): (text: string) => boolean {
  return (text) => patterns.some((pattern) => matchesWildcard(pattern, text));
}

/** Preconditions of the published policies, which only skip deletions. */
function findPrecondition(rule: JsonObject): string | undefined {
  const conditions = rule['preconditions'];
  const terms = isObject(conditions)
    ? [...listObjects(conditions['all']), ...listObjects(conditions['any'])]
    : listObjects(conditions);
  const isOther = terms.some(({ key }) => !String(key).includes('request.operation'));
  if (isOther || listObjects(rule['celPreconditions']).length > 0) {
    return 'levels apply to all pods of a namespace, but the rule has preconditions';
  }
  return undefined;
}

interface Match {
  applies(scope: Scope): boolean;
}

/** Returns the blocks of `match` or `exclude`. All blocks below `all` must match. */
function readBlocks(value: unknown): { readonly isAll: boolean; readonly blocks: readonly JsonObject[] } {
  if (!isObject(value)) return { isAll: false, blocks: [] };
  if (Array.isArray(value['all'])) return { isAll: true, blocks: listObjects(value['all']) };
  if (Array.isArray(value['any'])) return { isAll: false, blocks: listObjects(value['any']) };
  return { isAll: false, blocks: [value] };
}

/** Members of a block that select some pods of a namespace. */
const POD_SELECTORS = ['names', 'name', 'selector', 'annotations'] as const;
const USER_SELECTORS = ['subjects', 'roles', 'clusterRoles'] as const;

function readMatch(value: unknown, source: string): Match | Remainder {
  const { isAll, blocks } = readBlocks(value);
  const relevant = blocks.filter((block) => selectsPods(resourcesOf(block)));
  if (relevant.length < (isAll ? blocks.length : 1)) return { source, reason: 'the rule does not match pods' };
  for (const block of relevant) {
    const resources = resourcesOf(block);
    const fields = [
      ...POD_SELECTORS.filter((field) => hasContent(resources[field]) && !isAnyName(resources[field])),
      ...USER_SELECTORS.filter((field) => hasContent(block[field])),
    ];
    if (fields.length > 0) {
      return { source, reason: `levels apply to all pods of a namespace, but match has ${fields.join(' and ')}` };
    }
  }
  const isIn = (scope: Scope) => (block: JsonObject) => selectsNamespace(resourcesOf(block), scope);
  return { applies: (scope) => (isAll ? relevant.every(isIn(scope)) : relevant.some(isIn(scope))) };
}

function isAnyName(value: unknown): boolean {
  return value === '*' || (Array.isArray(value) && value.includes('*'));
}

interface Excluded {
  /** Reports whether the rule applies to no pod of a namespace. */
  namespaces(scope: Scope): boolean;
  readonly users: readonly string[];
  readonly exclusions: readonly Exclusion[];
  readonly remainders: readonly Remainder[];
}

function readExcluded(value: unknown, source: string, checks: readonly string[]): Excluded {
  const { isAll, blocks } = readBlocks(value);
  const result = {
    scopes: [] as JsonObject[],
    users: [] as string[],
    exclusions: [] as Exclusion[],
    remainders: [] as Remainder[],
  };
  if (isAll && blocks.length > 1) {
    const reason = 'exclude.all with several entries has no counterpart: its pods are evaluated';
    result.remainders.push({ source, reason });
  } else {
    for (const block of blocks) {
      const resources = resourcesOf(block);
      const roles = USER_SELECTORS.slice(1).filter((field) => hasContent(block[field]));
      const names = listObjects(block['subjects']).map(userName);
      if (roles.length > 0 || names.includes(undefined)) {
        const fields = [...roles, ...(names.includes(undefined) ? ['subjects that are groups'] : [])].join(' and ');
        result.remainders.push({ source, reason: `exemptions name users, but exclude has ${fields}` });
      } else if (names.length > 0) result.users.push(...names.filter((name) => name !== undefined));
      else if (POD_SELECTORS.some((field) => hasContent(resources[field]))) {
        result.exclusions.push({ source, checks, matches: (workload) => selectsWorkload(resources, workload) });
      } else if (selectsPods(resources)) result.scopes.push(resources);
    }
  }
  return {
    ...result,
    namespaces: (scope) => result.scopes.some((resources) => selectsNamespace(resources, scope)),
  };
}

/** Returns the user name of a subject, or `undefined` for a group. */
function userName({ kind, name, namespace }: JsonObject): string | undefined {
  if (kind === 'User') return String(name);
  return kind === 'ServiceAccount' ? `system:serviceaccount:${String(namespace)}:${String(name)}` : undefined;
}

/** Reads a PolicyException, and returns its exclusions for the rules that it refers to. */
function readException(
  exception: JsonObject,
  rules: readonly NamedRule[],
): { readonly exclusions: ReadonlyMap<LevelRule, readonly Exclusion[]>; readonly remainders: readonly Remainder[] } {
  const { name, namespace } = objectMember(exception, 'metadata');
  const source = `PolicyException/${String(namespace)}/${String(name)}`;
  const none = (reason: string) => ({
    exclusions: new Map<LevelRule, Exclusion[]>(),
    remainders: [{ source, reason }],
  });
  const spec = objectMember(exception, 'spec');
  const references = [
    ...listObjects(spec['exceptions']).map(({ policyName, ruleNames }) => ({
      policy: policyName,
      rules: listStrings(ruleNames),
    })),
    ...listObjects(spec['policyRefs']).map((reference) => ({ policy: reference['name'], rules: [] as string[] })),
  ];
  const isReferenced = ({ policy, rule, source: from }: NamedRule): boolean =>
    references.some(
      (reference) =>
        (matchesWildcard(String(reference.policy), policy) || from.endsWith(`/${String(reference.policy)}`)) &&
        (reference.rules.length === 0 || reference.rules.some((pattern) => matchesWildcard(pattern, rule))),
    );
  const referenced = rules.filter(isReferenced);
  if (referenced.length === 0) return none('no converted policy is referenced');
  if (hasContent(spec['matchConditions']) || hasContent(spec['conditions'])) {
    return none('conditions are not evaluated. "portcullis exception create" prints an exception for a workload');
  }
  const controls = listObjects(spec['podSecurity']).map((control) => readControl(control, source));
  const unknown = controls.find((control) => 'reason' in control);
  if (unknown && 'reason' in unknown) return none(unknown.reason);
  const { isAll, blocks } = readBlocks(spec['match']);
  const isSelected = (workload: MigratedWorkload): boolean => {
    const selects = (block: JsonObject): boolean => selectsWorkload(resourcesOf(block), workload);
    return blocks.length === 0 || (isAll ? blocks.every(selects) : blocks.some(selects));
  };
  const images = listStrings(spec['images']);
  const expiresAt = typeof spec['expiresAt'] === 'string' ? spec['expiresAt'] : undefined;
  const exclusions = new Map<LevelRule, Exclusion[]>();
  for (const rule of referenced) {
    const whole: Exclusion = {
      source,
      checks: rule.checks,
      matches: (workload, entry) => images.length === 0 || matchesImages(images, workload, entry),
    };
    const own = controls.length === 0 ? [whole] : controls.flatMap((control) => ('reason' in control ? [] : control));
    const limited = own.map((exclusion) => ({
      ...exclusion,
      expiresAt,
      matches: (workload: MigratedWorkload, entry: ExceptionEntry) =>
        isSelected(workload) && exclusion.matches(workload, entry),
    }));
    exclusions.set(rule, limited);
  }
  return { exclusions, remainders: [] };
}

function resourcesOf(block: JsonObject): JsonObject {
  return objectMember(block, 'resources');
}

/** Kinds are absent, `Pod`, or qualified as in `v1/Pod`. */
function selectsPods({ kinds }: JsonObject): boolean {
  const names = listStrings(kinds).map((kind) => kind.split(/[/.]/).at(-1) ?? '');
  return names.length === 0 || names.some((name) => matchesWildcard(name, 'Pod'));
}

function selectsNamespace(resources: JsonObject, { name, labels }: Scope): boolean {
  const patterns = listStrings(resources['namespaces']);
  const isNamed =
    patterns.length === 0 ||
    patterns.some((pattern) => (name === undefined ? pattern === '*' : matchesWildcard(pattern, name)));
  const selector = resources['namespaceSelector'];
  return isNamed && (!hasContent(selector) || selectsLabels(selector, { name, labels }));
}

function selectsLabels(selector: unknown, { labels }: Scope): boolean {
  return isObject(selector) && matchesLabelSelector(selector, labels as Readonly<Record<string, string>>);
}

/** Names of pods begin with the names of their workloads. */
function selectsWorkload(resources: JsonObject, { kind, name, namespace, labels }: MigratedWorkload): boolean {
  const kinds = listStrings(resources['kinds']).map((text) => text.split(/[/.]/).at(-1) ?? '');
  const names = [...listStrings(resources['names']), ...listStrings([resources['name']])];
  const namespaces = listStrings(resources['namespaces']);
  const selector = resources['selector'];
  return (
    (kinds.length === 0 || kinds.some((text) => matchesWildcard(text, kind) || text === 'Pod')) &&
    (names.length === 0 || names.some((text) => matchesWildcard(text, name) || matchesWildcard(text, `${name}-0`))) &&
    (namespaces.length === 0 || namespaces.some((text) => matchesWildcard(text, namespace))) &&
    (!hasContent(selector) || selectsLabels(selector, { name: namespace, labels }))
  );
}
