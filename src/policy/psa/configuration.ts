import { type AdmissionRequest, allow } from '../../kube/admission.ts';
import { duplicateValue, type FieldError, invalidValue } from '../../kube/field-error.ts';
import { dnsLabelErrors, dnsSubdomainErrors } from '../../kube/names.ts';
import type { Namespace } from '../../kube/types.ts';
import { isLevel, parseVersion, type Policy } from '../pss/index.ts';
import type { PodSecurityReview } from './decision.ts';
import {
  isFullyPrivileged,
  LEVEL_RULE,
  type Mode,
  type NamespacePolicy,
  type Policies,
  printPolicy,
  resolvePolicies,
  VERSION_RULE,
} from './policy.ts';

/** The `defaults` fields, in label order. */
export const DEFAULTS_FIELDS = [
  'enforce',
  'enforce-version',
  'audit',
  'audit-version',
  'warn',
  'warn-version',
] as const;
type DefaultsField = (typeof DEFAULTS_FIELDS)[number];

export const EXEMPTIONS_FIELDS = ['usernames', 'namespaces', 'runtimeClasses'] as const;
type ExemptionsField = (typeof EXEMPTIONS_FIELDS)[number];

/**
 * A PodSecurityConfiguration after defaulting. Its values may be invalid.
 * @see https://kubernetes.io/docs/tasks/configure-pod-container/enforce-standards-admission-controller/
 */
export interface PodSecurityConfiguration {
  readonly defaults: Readonly<Record<DefaultsField, string>>;
  readonly exemptions: Readonly<Record<ExemptionsField, readonly string[]>>;
}

/** The configuration if the cluster sets none. Every mode is privileged, and there are no exemptions. */
export const DEFAULT_CONFIGURATION: PodSecurityConfiguration = {
  defaults: {
    enforce: 'privileged',
    'enforce-version': 'latest',
    audit: 'privileged',
    'audit-version': 'latest',
    warn: 'privileged',
    'warn-version': 'latest',
  },
  exemptions: { usernames: [], namespaces: [], runtimeClasses: [] },
};

/** A default that is not a valid level or version. `field` is relative to `defaults`. */
interface DefaultsError {
  readonly field: DefaultsField;
  readonly detail: string;
}

/** The default policies. An invalid default has a placeholder value that must not be used. */
interface CompletedDefaults {
  readonly policies: Policies;
  /** In label order. */
  readonly errors: readonly DefaultsError[];
}

export function completeDefaults(defaults: PodSecurityConfiguration['defaults']): CompletedDefaults {
  const errors = DEFAULTS_FIELDS.flatMap((field) => {
    const detail = findViolatedRule(field, defaults[field]);
    return detail === undefined ? [] : [{ field, detail }];
  });
  const policy = (mode: Mode): Policy => {
    const level = defaults[mode];
    return {
      level: isLevel(level) ? level : 'restricted',
      version: parseVersion(defaults[`${mode}-version`]) ?? 'latest',
    };
  };
  return { policies: { enforce: policy('enforce'), audit: policy('audit'), warn: policy('warn') }, errors };
}

function findViolatedRule(field: DefaultsField, value: string): string | undefined {
  if (field.endsWith('version')) return parseVersion(value) === undefined ? VERSION_RULE : undefined;
  return isLevel(value) ? undefined : LEVEL_RULE;
}

/** Fields in the order in which upstream validates them, with warn before audit. */
const VALIDATION_ORDER = ['enforce', 'enforce-version', 'warn', 'warn-version', 'audit', 'audit-version'] as const;

/**
 * Returns the errors in a configuration, in the same order and wording as upstream.
 * @see https://github.com/kubernetes/pod-security-admission/blob/v0.37.0/admission/api/validation/validation.go
 */
export function validateConfiguration({ defaults, exemptions }: PodSecurityConfiguration): FieldError[] {
  return [
    ...VALIDATION_ORDER.flatMap((field) => {
      const rule = findViolatedRule(field, defaults[field]);
      return rule === undefined ? [] : [invalidValue(`defaults.${field}`, defaults[field], rule)];
    }),
    ...validateNames('exemptions.namespaces', exemptions.namespaces, dnsLabelErrors),
    ...validateNames('exemptions.runtimeClasses', exemptions.runtimeClasses, dnsSubdomainErrors),
    ...validateNames('exemptions.usernames', exemptions.usernames, (name) =>
      name === '' ? ['username must not be empty'] : [],
    ),
  ];
}

/** Returns the errors in a list of exemptions. Invalid items are not also reported as duplicates. */
function validateNames(path: string, names: readonly string[], findErrors: (name: string) => string[]): FieldError[] {
  const seen = new Set<string>();
  return names.flatMap((name, index) => {
    const errors = findErrors(name);
    if (errors.length > 0) return [invalidValue(`${path}[${index}]`, name, errors.join(', '))];
    if (seen.has(name)) return [duplicateValue(`${path}[${index}]`, name)];
    seen.add(name);
    return [];
  });
}

/** The reason for an exemption, which is also the value of the `exempt` audit annotation. */
export type Exemption = 'namespace' | 'user' | 'runtimeClass';

/** Returns true if the name is exempt. Names must match exactly. Empty and absent names are never exempt. */
export type Exemptions = Readonly<Record<Exemption, (name: string | null | undefined) => boolean>>;

export function createExemptions(lists: PodSecurityConfiguration['exemptions']): Exemptions {
  return {
    namespace: createMatcher(lists.namespaces),
    user: createMatcher(lists.usernames),
    runtimeClass: createMatcher(lists.runtimeClasses),
  };
}

function createMatcher(names: readonly string[]): Exemptions[Exemption] {
  const exempt = new Set<string | null | undefined>(names);
  return (name) => name !== '' && exempt.has(name);
}

/**
 * Returns the exemption for the request's namespace or user or, if a pod is given, for the pod's runtime class. Ignores
 * the user's groups. The pod may be unvalidated.
 */
export function findExemption(
  request: AdmissionRequest,
  exemptions: Exemptions,
  { runtimeClassName }: { readonly runtimeClassName?: unknown } = {},
): Exemption | undefined {
  if (exemptions.namespace(request.namespace)) return 'namespace';
  if (exemptions.user(request.userInfo.username)) return 'user';
  return typeof runtimeClassName === 'string' && exemptions.runtimeClass(runtimeClassName) ? 'runtimeClass' : undefined;
}

/** Returns true if the request is not exempt and its namespace enforces a level other than privileged. */
export function isLevelEnforced(
  request: AdmissionRequest,
  namespace: Namespace,
  { exemptions, namespaceRules }: PodSecurity,
  pod?: { readonly runtimeClassName?: unknown },
): boolean {
  const { level } = namespaceRules(namespace).enforce;
  return level !== 'privileged' && findExemption(request, exemptions, pod) === undefined;
}

/** The policies of a namespace, and the response for pods that satisfy all of them. */
export interface NamespaceRules extends NamespacePolicy {
  readonly passed: PodSecurityReview;
}

/** A configuration prepared for reviews. */
export interface PodSecurity {
  readonly configuration: PodSecurityConfiguration;
  readonly defaults: Policies;
  readonly exemptions: Exemptions;
  /**
   * Resolves the policies once per Namespace object, because the store replaces the object when a namespace changes.
   */
  namespaceRules(namespace: Namespace): NamespaceRules;
}

/** Prepares a configuration for reviews. The configuration must be valid. */
export function createPodSecurity(configuration: PodSecurityConfiguration): PodSecurity {
  const defaults = completeDefaults(configuration.defaults).policies;
  const resolved = new WeakMap<Namespace, NamespaceRules>();
  return {
    configuration,
    defaults,
    exemptions: createExemptions(configuration.exemptions),
    namespaceRules(namespace) {
      const known = resolved.get(namespace);
      if (known !== undefined) return known;
      const policies = resolvePolicies(namespace.metadata?.labels, defaults);
      const rules = { ...policies, passed: createPassed(policies) };
      resolved.set(namespace, rules);
      return rules;
    },
  };
}

function createPassed(policies: Policies): PodSecurityReview {
  const enforced = isFullyPrivileged(policies) ? 'privileged:latest' : printPolicy(policies.enforce);
  return {
    decision: allow({ auditAnnotations: { 'enforce-policy': enforced } }),
    counts: [{ metric: 'evaluations', decision: 'allow', mode: 'enforce', policy: policies.enforce }],
  };
}
