import { dnsLabelErrors, dnsSubdomainErrors } from '../../kube/names.ts';
import { duplicateValue, invalidValue, type FieldError } from '../../kube/field-error.ts';
import { isLevel, parseVersion, type Level, type Policy, type Version } from '../pss/policy.ts';
import { LEVEL_RULE, VERSION_RULE, type Mode, type Policies } from './policy.ts';

/** The fields of `defaults`, in the order of the labels. */
export const DEFAULTS_FIELDS = [
  'enforce',
  'enforce-version',
  'audit',
  'audit-version',
  'warn',
  'warn-version',
] as const;
export type DefaultsField = (typeof DEFAULTS_FIELDS)[number];

/** The fields of `exemptions`. */
export const EXEMPTIONS_FIELDS = ['usernames', 'namespaces', 'runtimeClasses'] as const;
export type ExemptionsField = (typeof EXEMPTIONS_FIELDS)[number];

/**
 * A PodSecurityConfiguration, defaulted; its values need not be valid.
 * @see https://kubernetes.io/docs/tasks/configure-pod-container/enforce-standards-admission-controller/
 */
export interface PodSecurityConfiguration {
  readonly defaults: Readonly<Record<DefaultsField, string>>;
  readonly exemptions: Readonly<Record<ExemptionsField, readonly string[]>>;
}

/** What holds without a configuration: nothing is asked for, nobody is exempt. */
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

/** A default that is no level or version; `field` is relative to `defaults`. */
export interface DefaultsError {
  readonly field: DefaultsField;
  readonly detail: string;
}

/** The policies that defaults ask for; those with errors have a substitute that must not be used. */
export interface CompletedDefaults {
  readonly policies: Policies;
  /** In the order of the labels. */
  readonly errors: readonly DefaultsError[];
}

/** Turns defaults into policies. */
export function completeDefaults(defaults: PodSecurityConfiguration['defaults']): CompletedDefaults {
  const errors: DefaultsError[] = [];
  const policy = (mode: Mode): Policy => ({
    level: readLevel(mode, defaults[mode], errors),
    version: readVersion(`${mode}-version`, defaults[`${mode}-version`], errors),
  });
  return { policies: { enforce: policy('enforce'), audit: policy('audit'), warn: policy('warn') }, errors };
}

function readLevel(field: Mode, value: string, errors: DefaultsError[]): Level {
  if (isLevel(value)) return value;
  errors.push({ field, detail: LEVEL_RULE });
  return 'restricted';
}

function readVersion(field: `${Mode}-version`, value: string, errors: DefaultsError[]): Version {
  const version = parseVersion(value);
  if (version === undefined) errors.push({ field, detail: VERSION_RULE });
  return version ?? 'latest';
}

/** Upstream validates warn before audit. */
const VALIDATION_ORDER = ['enforce', 'enforce-version', 'warn', 'warn-version', 'audit', 'audit-version'] as const;

/**
 * What is wrong with a configuration, in upstream's order and words.
 * @see https://github.com/kubernetes/pod-security-admission/blob/v0.37.0/admission/api/validation/validation.go
 */
export function validateConfiguration({ defaults, exemptions }: PodSecurityConfiguration): FieldError[] {
  return [
    ...VALIDATION_ORDER.flatMap((field) => validateDefault(field, defaults[field])),
    ...validateNames('exemptions.namespaces', exemptions.namespaces, dnsLabelErrors),
    ...validateNames('exemptions.runtimeClasses', exemptions.runtimeClasses, dnsSubdomainErrors),
    ...validateNames('exemptions.usernames', exemptions.usernames, usernameErrors),
  ];
}

function validateDefault(field: DefaultsField, value: string): FieldError[] {
  if (field.endsWith('version')) {
    return parseVersion(value) === undefined ? [invalidValue(`defaults.${field}`, value, VERSION_RULE)] : [];
  }
  return isLevel(value) ? [] : [invalidValue(`defaults.${field}`, value, LEVEL_RULE)];
}

/** An item that is wrong in itself is not looked at for repetition. */
function validateNames(path: string, names: readonly string[], errorsOf: (name: string) => string[]): FieldError[] {
  const seen = new Set<string>();
  return names.flatMap((name, index) => {
    const errors = errorsOf(name);
    if (errors.length > 0) return [invalidValue(`${path}[${index}]`, name, errors.join(', '))];
    if (seen.has(name)) return [duplicateValue(`${path}[${index}]`, name)];
    seen.add(name);
    return [];
  });
}

function usernameErrors(name: string): string[] {
  return name === '' ? ['username must not be empty'] : [];
}
