import { invalidValue, type FieldError } from '../../kube/field-error.ts';
import { POD_SECURITY_LABELS } from '../../kube/well-known.ts';
import { isLevel, type Level, type Policy, type Version, parseVersion } from '../pss/policy.ts';
import { isSamePolicy, isStricter, LEVEL_RULE, VERSION_RULE, type Mode, type Policies } from './policy.ts';

export type Labels = Readonly<Record<string, unknown>>;

/** The policies that hold in a namespace, and what is wrong with its labels; a bad label has a substitute. */
export interface NamespacePolicy extends Policies {
  /** In the order enforce, enforce-version, audit, audit-version, warn, warn-version. */
  readonly errors: readonly FieldError[];
}

const LABELS: Readonly<Record<Mode, { readonly level: string; readonly version: string }>> = {
  enforce: { level: POD_SECURITY_LABELS.enforce, version: POD_SECURITY_LABELS.enforceVersion },
  audit: { level: POD_SECURITY_LABELS.audit, version: POD_SECURITY_LABELS.auditVersion },
  warn: { level: POD_SECURITY_LABELS.warn, version: POD_SECURITY_LABELS.warnVersion },
};

/** A typing error must not open a namespace, and must not drown users in remarks either. */
const SUBSTITUTES: Readonly<Record<Mode, Level>> = { enforce: 'restricted', audit: 'privileged', warn: 'privileged' };

/**
 * Resolves the labels of a namespace over the configured defaults. Equal policies in the result are one object.
 * @see https://github.com/kubernetes/pod-security-admission/blob/v0.37.0/api/helpers.go
 */
export function resolvePolicies(labels: Labels | null | undefined, defaults: Policies): NamespacePolicy {
  const errors: FieldError[] = [];
  const read = (mode: Mode): Policy => readPolicy(labels ?? {}, mode, defaults[mode], errors);
  const enforce = read('enforce');
  const audit = shared(read('audit'), [enforce]);
  const warn = shared(raiseWarn(labels ?? {}, read('warn'), enforce), [enforce, audit]);
  return { enforce, audit, warn, errors };
}

/** True if the namespace has a label, right or wrong, for that mode. */
export function setsMode(labels: Labels | null | undefined, mode: Mode): boolean {
  const names = LABELS[mode];
  return labels != null && (labels[names.level] !== undefined || labels[names.version] !== undefined);
}

/** Level and version are independent: a version alone keeps the default level. */
function readPolicy(labels: Labels, mode: Mode, fallback: Policy, errors: FieldError[]): Policy {
  const names = LABELS[mode];
  const level = readLevel(labels, names.level, SUBSTITUTES[mode], errors);
  const version = readVersion(labels, names.version, errors);
  return { level: level ?? fallback.level, version: version ?? fallback.version };
}

function readLevel(labels: Labels, name: string, substitute: Level, errors: FieldError[]): Level | undefined {
  const value = valueOf(labels, name);
  if (value === undefined || isLevel(value)) return value;
  errors.push(invalidValue(`metadata.labels[${name}]`, value, LEVEL_RULE));
  return substitute;
}

function readVersion(labels: Labels, name: string, errors: FieldError[]): Version | undefined {
  const value = valueOf(labels, name);
  if (value === undefined) return undefined;
  const version = typeof value === 'string' ? parseVersion(value) : undefined;
  if (version === undefined) errors.push(invalidValue(`metadata.labels[${name}]`, value, VERSION_RULE));
  return version ?? 'latest';
}

/** A label that is null is one with an empty value, as Go decodes it. */
function valueOf(labels: Labels, name: string): unknown {
  const value = labels[name];
  return value === null ? '' : value;
}

/** Who enforces a level is also warned by it, unless something was said about warnings. */
function raiseWarn(labels: Labels, warn: Policy, enforce: Policy): Policy {
  const { level, version } = LABELS.warn;
  if (valueOf(labels, level) !== undefined || !isLevel(valueOf(labels, LABELS.enforce.level))) return warn;
  if (!isStricter(enforce.level, warn.level)) return warn;
  return { level: enforce.level, version: valueOf(labels, version) === undefined ? enforce.version : warn.version };
}

function shared(policy: Policy, others: readonly Policy[]): Policy {
  return others.find((other) => isSamePolicy(policy, other)) ?? policy;
}
