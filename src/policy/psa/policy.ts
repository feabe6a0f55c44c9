/** Resolves the policies of a namespace from its labels and the configured defaults. */
import { ENFORCE_LABEL } from '../../api/names.ts';
import { type FieldError, invalidValue } from '../../kube/field-error.ts';
import { quote, sortedSet, findSimilar } from '../../kube/text.ts';
import { objectMember } from '../../kube/types.ts';
import { POD_SECURITY_LABELS } from '../../kube/well-known.ts';
import { evaluatedAs, isLevel, type Level, parseVersion, type Policy, PRIVILEGED, type Version } from '../pss/index.ts';

/** Modes, in label order. Enforce denies pods, audit adds audit annotations, and warn returns warnings. */
export const MODES = ['enforce', 'audit', 'warn'] as const;
export type Mode = (typeof MODES)[number];

/** One policy for each mode. */
export type Policies = Readonly<Record<Mode, Policy>>;

/** Policies of a cluster without configured defaults, in which the labels alone determine the levels. */
export const NO_DEFAULTS: Policies = { enforce: PRIVILEGED, audit: PRIVILEGED, warn: PRIVILEGED };

/** Details in upstream's field errors for invalid levels and versions. */
export const LEVEL_RULE = 'must be one of privileged, baseline, restricted';
export const VERSION_RULE = 'must be "latest" or "v1.x"';

const STRICTNESS: Readonly<Record<Level, number>> = { privileged: 0, baseline: 1, restricted: 2 };

/** Returns true if the first level is stricter than the second. */
export function isStricter(level: Level, than: Level): boolean {
  return STRICTNESS[level] > STRICTNESS[than];
}

/** Returns true if the levels and versions are equal. The version matters even for privileged policies. */
export function isSamePolicy(a: Policy, b: Policy): boolean {
  return a.level === b.level && a.version === b.version;
}

/** Returns true if every mode is privileged, regardless of the version. */
export function isFullyPrivileged({ enforce, audit, warn }: Policies): boolean {
  return enforce.level === 'privileged' && audit.level === 'privileged' && warn.level === 'privileged';
}

/** Returns true if the policies are equivalent in every mode. All versions of the privileged level are equivalent. */
export function areEquivalent(a: Policies, b: Policies): boolean {
  return MODES.every(
    (mode) => (a[mode].level === 'privileged' && b[mode].level === 'privileged') || isSamePolicy(a[mode], b[mode]),
  );
}

/** Parses the output of `printPolicy`. */
export function parsePolicy(text: string): Policy {
  const [level = '', version = ''] = text.split(':');
  return { level: isLevel(level) ? level : 'restricted', version: parseVersion(version) ?? 'latest' };
}

/**
 * Returns the phrase that commands and API servers use for the policy that a pod violates, such as `PodSecurity
 * "restricted:latest"`. Adds the evaluated version if the policy's version is not known.
 */
export function printPodSecurity(policy: Policy): string {
  return `PodSecurity ${quote(printPolicy(policy))}${printEvaluatedAs(policy)}`;
}

/** Formats a policy for messages. Omits the version if it is `latest` or has no effect. */
export function printLevel({ level, version }: Policy): string {
  return version === 'latest' || level === 'privileged' ? level : `${level}:${version}`;
}

/**
 * Returns a suffix such as ` (evaluated as v1.37, the newest known version)`, or an empty string for a known version.
 */
export function printEvaluatedAs({ level, version }: Policy): string {
  const note = level === 'privileged' ? undefined : evaluatedAs(version);
  return note === undefined ? '' : ` (${note})`;
}

/** Returns a note for each version that is not known, such as `v1.99 is evaluated as v1.37, the newest known version`. */
export function listNewerVersions(policies: Iterable<Policy>): readonly string[] {
  const notes = [...policies].flatMap(({ level, version }) => {
    const note = level === 'privileged' ? undefined : evaluatedAs(version);
    return note === undefined ? [] : [`${version} is ${note}`];
  });
  return sortedSet(notes);
}

/** Formats a policy, such as `restricted:v1.30`. */
export function printPolicy({ level, version }: Policy): string {
  return `${level}:${version}`;
}

export type Labels = Readonly<Record<string, unknown>>;

/** The policies of a namespace, and the errors in its labels. Invalid labels are replaced with substitute values. */
export interface NamespacePolicy extends Policies {
  /** The errors in the order enforce, enforce-version, audit, audit-version, warn, warn-version. */
  readonly errors: readonly FieldError[];
}

/** The label names for each mode. */
export const MODE_LABELS: Readonly<Record<Mode, { readonly level: string; readonly version: string }>> = {
  enforce: { level: POD_SECURITY_LABELS.enforce, version: POD_SECURITY_LABELS.enforceVersion },
  audit: { level: POD_SECURITY_LABELS.audit, version: POD_SECURITY_LABELS.auditVersion },
  warn: { level: POD_SECURITY_LABELS.warn, version: POD_SECURITY_LABELS.warnVersion },
};

/** Substitutes for invalid levels. An invalid label must neither disable enforcement nor cause warnings. */
const SUBSTITUTES: Readonly<Record<Mode, Level>> = { enforce: 'restricted', audit: 'privileged', warn: 'privileged' };

/**
 * Merges the namespace labels with the configured defaults. Equal policies in the result are the same object.
 * @see https://github.com/kubernetes/pod-security-admission/blob/v0.37.0/api/helpers.go
 */
export function resolvePolicies(labels: Labels | null | undefined, defaults: Policies): NamespacePolicy {
  const errors: FieldError[] = [];
  const read = (mode: Mode): Policy => readPolicy(labels ?? {}, mode, defaults[mode], errors);
  const enforce = raiseEnforce(labels ?? {}, read('enforce'), errors);
  const audit = share(read('audit'), [enforce]);
  const warn = share(raiseWarn(labels ?? {}, read('warn'), enforce), [enforce, audit]);
  return { enforce, audit, warn, errors };
}

/** Returns true if the namespace has a label for the mode, even if it is invalid. */
export function setsMode(labels: Labels | null | undefined, mode: Mode): boolean {
  const names = MODE_LABELS[mode];
  const keys = [names.level, names.version, ...(mode === 'enforce' ? [ENFORCE_LABEL] : [])];
  return labels != null && keys.some((key) => labels[key] !== undefined);
}

/** Returns the policy of a mode. A namespace that has only a version label has the default level, and vice versa. */
function readPolicy(labels: Labels, mode: Mode, fallback: Policy, errors: FieldError[]): Policy {
  const names = MODE_LABELS[mode];
  const level = readLevel(labels, names.level, SUBSTITUTES[mode], errors);
  const version = readVersion(labels, names.version, errors);
  return { level: level ?? fallback.level, version: version ?? fallback.version };
}

function readLevel(labels: Labels, name: string, substitute: Level, errors: FieldError[]): Level | undefined {
  const value = getLabel(labels, name);
  if (value === undefined || isLevel(value)) return value;
  errors.push(invalidValue(`metadata.labels[${name}]`, value, LEVEL_RULE));
  return substitute;
}

function readVersion(labels: Labels, name: string, errors: FieldError[]): Version | undefined {
  const value = getLabel(labels, name);
  if (value === undefined) return undefined;
  const version = typeof value === 'string' ? parseVersion(value) : undefined;
  if (version === undefined) errors.push(invalidValue(`metadata.labels[${name}]`, value, VERSION_RULE));
  return version ?? 'latest';
}

/** Returns the value of a label. Go decodes null as an empty string. */
function getLabel(labels: Labels, name: string): unknown {
  const value = labels[name];
  return value === null ? '' : value;
}

/** Raises the enforced level to that of the `ENFORCE_LABEL`, which cannot lower it. */
function raiseEnforce(labels: Labels, enforce: Policy, errors: FieldError[]): Policy {
  const level = readLevel(labels, ENFORCE_LABEL, SUBSTITUTES.enforce, errors);
  return level !== undefined && isStricter(level, enforce.level) ? { ...enforce, level } : enforce;
}

/** Raises the warn level to that of a valid enforce label if there is no warn label. */
function raiseWarn(labels: Labels, warn: Policy, enforce: Policy): Policy {
  const { level, version } = MODE_LABELS.warn;
  const hasEnforce = [MODE_LABELS.enforce.level, ENFORCE_LABEL].some((key) => isLevel(getLabel(labels, key)));
  if (getLabel(labels, level) !== undefined || !hasEnforce) return warn;
  if (!isStricter(enforce.level, warn.level)) return warn;
  return { level: enforce.level, version: getLabel(labels, version) === undefined ? enforce.version : warn.version };
}

function share(policy: Policy, others: readonly Policy[]): Policy {
  return others.find((other) => isSamePolicy(policy, other)) ?? policy;
}

// Labels and annotations that look like Pod Security labels but have no effect

const PREFIX = 'pod-security.kubernetes.io/';
const KNOWN: readonly string[] = Object.values(POD_SECURITY_LABELS);
const SUFFIXES = KNOWN.map((label) => label.slice(PREFIX.length));

/** A label or annotation that has no effect. */
interface UnusedKey {
  readonly field: 'labels' | 'annotations';
  readonly key: string;
  /** One sentence that explains how to correct the key. */
  readonly fix: string;
}

/**
 * Returns the labels and annotations of an object that look like Pod Security labels because of their prefix or
 * spelling, but have no effect. API servers read only the six labels, and only in namespaces.
 */
export function findUnusedKeys(metadata: unknown, kind: string): readonly UnusedKey[] {
  return (['labels', 'annotations'] as const).flatMap((field) =>
    Object.keys(objectMember(metadata, field)).flatMap((key) => {
      const label = KNOWN.includes(key) ? key : findSimilar(key, KNOWN);
      if (label === undefined && !key.startsWith(PREFIX)) return [];
      if (kind === 'Namespace' && field === 'labels' && label === key) return [];
      return [{ field, key, fix: describeFix(label, { field, key, kind }) }];
    }),
  );
}

function describeFix(
  label: string | undefined,
  { field, key, kind }: Pick<UnusedKey, 'field' | 'key'> & { readonly kind: string },
): string {
  if (label === undefined) return `Use ${SUFFIXES.join(', ')} after ${PREFIX}, or remove the key.`;
  if (kind !== 'Namespace')
    return `Set the label ${quote(label)} of the namespace, because ${kind} objects have no Pod Security level.`;
  return field === 'labels' && label !== key
    ? `Write ${quote(label)}.`
    : `Set it as the label ${quote(label)}, because API servers do not read annotations.`;
}
