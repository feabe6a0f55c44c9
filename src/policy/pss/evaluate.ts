/**
 * Evaluates pods against the Pod Security Standards. The result depends only on the pod, not on the namespace, the user
 * or the cluster. Accepts values of any type and never throws.
 */
import { type FieldError, findKindError, formatFieldError, notSupported } from '../../kube/field-error.ts';
import { LIMITS } from '../../kube/limits.ts';
import { compareBytes } from '../../kube/text.ts';
import { isObject } from '../../kube/types.ts';
import { type DecodedPod, type DecodeError, decodePod, type PodFields, type Repair } from '../pod/index.ts';
import { type Check, type Finding, isExcepted, joinTexts, type Revision } from './check.ts';
import { checks } from './checks/index.ts';
import { compareVersions, isLevel, type Level, LEVELS, parseVersion, type Policy, type Version } from './policy.ts';

/** A violation of one check. */
export interface Violation {
  /** ID of the check, `decode` if a field has the wrong type, or `tooLarge` if the pod is too large. */
  readonly check: string;
  /** A short reason without names or values. */
  readonly reason: string;
  /** The violating containers and values. May be empty in rare cases. */
  readonly detail: string;
  /** The violating fields. Set only if the `fields` option is set. */
  readonly fields?: readonly FieldError[];
}

/** The result for one pod. If the pod is allowed, `reason` and `detail` are empty. */
export interface Evaluation {
  readonly allowed: boolean;
  /** The violations in check order. Baseline checks come before restricted checks, and each group is sorted by ID. */
  readonly violations: readonly Violation[];
  /** All reasons in one string. */
  readonly reason: string;
  /** All reasons with their details in one string. */
  readonly detail: string;
}

export interface SelectOptions extends Policy {
  /** Kubernetes version to emulate. Pods are evaluated as this release does. */
  readonly emulationVersion?: Version | undefined;
}

export interface EvaluateOptions extends SelectOptions {
  /** Adds the violating fields to each violation. */
  readonly fields?: boolean;
  /** Returns true for a finding that does not count as a violation. If absent, every finding is a violation. */
  readonly isCovered?: (check: string, finding: Finding) => boolean;
}

/** A check as it applies at one version. */
export interface SelectedCheck extends Revision {
  readonly id: string;
}

/**
 * Returns the checks of a policy, in the order in which violations are reported.
 * @example
 * checksAt({ level: 'restricted', version: 'latest' }).some(({ id }) => id === 'runAsNonRoot'); // true
 */
export type Selector = (options: SelectOptions) => readonly SelectedCheck[];

export interface Evaluator {
  /**
   * Evaluates a pod or pod template. An invalid version is treated as `latest`.
   * @example
   * const pod = { spec: { hostNetwork: true, containers: [{ name: 'web', image: 'nginx' }] } };
   * evaluatePod(pod, { level: 'baseline', version: 'latest' }).detail; // 'host namespaces (hostNetwork=true)'
   */
  evaluatePod(pod: unknown, options: EvaluateOptions): Evaluation;
  /** Evaluates a pod that has already been decoded, for callers that evaluate it against several policies. */
  evaluateDecoded(pod: DecodedPod, options: EvaluateOptions): Evaluation;
  readonly checksAt: Selector;
  /** The newest known version. Newer versions are evaluated as this version. */
  readonly newestVersion: Version;
}

const ALLOWED: Evaluation = Object.freeze({ allowed: true, violations: Object.freeze([]), reason: '', detail: '' });

/** Check ID and fix for pods that cannot be decoded. */
const DECODE = {
  id: 'decode',
  fix: 'Give the field a value of the type that the Kubernetes API documents.',
};

/** Check ID and fix for stored pods that are too large to evaluate. */
const TOO_LARGE = {
  id: 'tooLarge',
  fix: `Reduce the number or size of the containers, volumes and annotations to less than ${LIMITS.storedPodBytes / 1024} KiB, not counting environment variables, commands and resources.`,
};

/** The fields of a check that evaluations read. */
export type CheckRegistry = readonly Pick<Check, 'id' | 'level' | 'versions'>[];

/**
 * Creates an evaluator from a list of checks. The order of the checks does not matter.
 * @example
 * const { evaluatePod } = createEvaluator(checks.filter(({ id }) => id !== 'hostNamespaces'));
 * const pod = { spec: { hostNetwork: true, containers: [{ name: 'web', image: 'nginx' }] } };
 * evaluatePod(pod, { level: 'baseline', version: 'latest' }).allowed; // true
 */
export function createEvaluator(registry: CheckRegistry): Evaluator {
  const newestVersion = findNewestVersion(registry);
  const checksAt = createSelector(registry, newestVersion);
  const evaluateDecoded = ({ pod, error }: DecodedPod, options: EvaluateOptions): Evaluation => {
    if (options.level === 'privileged') return ALLOWED;
    return error ? undecodable(error, options) : runChecks(checksAt(options), pod, options);
  };
  return {
    newestVersion,
    checksAt,
    evaluateDecoded,
    evaluatePod(pod, options) {
      const error = findArgumentError(pod, options);
      if (error) return undecodable({ field: error, message: formatFieldError(error) }, options);
      return options.level === 'privileged' ? ALLOWED : evaluateDecoded(decodePod(pod), options);
    },
  };
}

/**
 * Returns an error for an object of another kind, which would be read as a pod without containers, and for an unknown
 * level, which would be treated as restricted.
 */
function findArgumentError(pod: unknown, options: EvaluateOptions | undefined): FieldError | undefined {
  if (!isLevel(options?.level)) return notSupported('options.level', options?.level, LEVELS);
  return isObject(pod) ? findKindError(pod, 'Pod') : undefined;
}

export const { evaluatePod, evaluateDecoded, checksAt, newestVersion } = createEvaluator(checks);

/**
 * Returns the version that `latest` refers to in a Kubernetes release, which is the release's own version but at most
 * the newest known version.
 */
export function latestVersion(emulationVersion: Version = 'latest'): Version {
  return compareVersions(emulationVersion, newestVersion) < 0 ? emulationVersion : newestVersion;
}

/** Returns a note about a version whose Pod Security Standards are not known, or `undefined` for known versions. */
export function evaluatedAs(version: Version): string | undefined {
  const evaluated = latestVersion(version);
  const isKnown = version === 'latest' || evaluated === version;
  return isKnown ? undefined : `evaluated as ${evaluated}, the newest known version`;
}

/**
 * Returns the error that occurs when a pod or pod template is decoded, in the API server's wording.
 * @example
 * decodeError({ spec: 'web' }); // 'json: cannot unmarshal string into Go struct field Pod.spec of type v1.PodSpec'
 */
export function decodeError(podLike: unknown): string | undefined {
  return decodePod(podLike).error?.message;
}

const REPAIRS: ReadonlyMap<string, readonly Repair[]> = new Map(checks.map(({ id, repairs = [] }) => [id, repairs]));

/** Returns the repairs of a check, or an empty list for unknown checks and for pods that cannot be decoded. */
export function checkRepairs(id: string): readonly Repair[] {
  return REPAIRS.get(id) ?? [];
}

const FIXES: ReadonlyMap<string, string> = new Map([...checks, DECODE, TOO_LARGE].map(({ id, fix }) => [id, fix]));

/**
 * Returns one sentence that explains how to fix a violation of a check, or an empty string for an unknown check.
 * @example
 * checkFix('runAsNonRoot'); // 'Set runAsNonRoot: true, and do not set it to false in any container.'
 */
export function checkFix(id: string): string {
  return FIXES.get(id) ?? '';
}

const BASELINE_CHECKS: ReadonlySet<string> = new Set(
  checks.flatMap(({ id, level }) => (level === 'baseline' ? id : [])),
);

/** Returns true for baseline checks. The restricted level includes these checks. */
export function isBaselineCheck(id: string): boolean {
  return BASELINE_CHECKS.has(id);
}

/** Runs all checks, even after a violation. */
function runChecks(selection: readonly SelectedCheck[], pod: PodFields, options: EvaluateOptions): Evaluation {
  let violations: Violation[] | undefined;
  for (const { id, check, unless } of selection) {
    if (unless !== undefined && isExcepted(pod, unless)) continue;
    const finding = check(pod);
    if (finding === undefined || options.isCovered?.(id, finding) === true) continue;
    const { detail, reason } = finding;
    const violation = { check: id, reason, detail };
    (violations ??= []).push(options.fields === true ? { ...violation, fields: finding.fields() } : violation);
  }
  return violations ? denied(violations) : ALLOWED;
}

function denied(violations: readonly Violation[]): Evaluation {
  let reasons = '';
  let details = '';
  for (const violation of violations) {
    const reason = violation.reason || 'unknown forbidden reason';
    const { detail } = violation;
    reasons = joinTexts(reasons, ', ', reason);
    details = joinTexts(details, ', ', detail === '' ? reason : `${reason} (${detail})`);
  }
  return { allowed: false, violations, reason: reasons, detail: details };
}

function undecodable({ field, message: detail }: DecodeError, { fields }: EvaluateOptions): Evaluation {
  const error: FieldError = { type: 'FieldValueTypeInvalid', path: field.path, value: field.value, detail };
  const isTooLarge = field.type === 'FieldValueTooLong';
  const violation = isTooLarge
    ? { check: TOO_LARGE.id, reason: 'pod too large to evaluate', detail }
    : { check: DECODE.id, reason: 'undecodable field', detail };
  return denied([fields === true ? { ...violation, fields: [error] } : violation]);
}

function createSelector(registry: CheckRegistry, newest: Version): Selector {
  const starts = registry.flatMap(({ versions }) => versions.map(({ since }) => since));
  const versions = [...new Set<Version>([...starts, 'v1.0'])].sort(compareVersions);
  const createTable = (level: Level): ReadonlyMap<Version, readonly SelectedCheck[]> =>
    new Map([
      ...versions.map((version) => [version, selectChecks(registry, level, version)] as const),
      ['latest', selectChecks(registry, level, newest)],
    ]);
  const baseline = createTable('baseline');
  const restricted = createTable('restricted');
  return ({ level, version, emulationVersion }) => {
    if (level === 'privileged') return [];
    const table = level === 'baseline' ? baseline : restricted;
    const isNewest = emulationVersion === undefined || compareVersions(emulationVersion, newest) >= 0;
    const selected = isNewest ? table.get(version) : undefined;
    if (selected !== undefined) return selected;
    const effective = effectiveVersion(version, newest, emulationVersion);
    return table.get(versions.findLast((start) => compareVersions(start, effective) <= 0) ?? 'v1.0') ?? [];
  };
}

/** Returns the newest version at which any check has a revision. */
function findNewestVersion(registry: CheckRegistry): Version {
  const starts = registry.flatMap((check) => check.versions.map(({ since }) => since));
  return starts.reduce((newest, since) => (compareVersions(since, newest) > 0 ? since : newest), 'v1.0');
}

/** Returns the version to evaluate. Invalid versions and versions newer than the newest known one count as `latest`. */
function effectiveVersion(version: Version, newest: Version, emulation: Version = 'latest'): Version {
  const known = compareVersions(emulation, newest) > 0 ? newest : emulation;
  const requested = parseVersion(version) ?? 'latest';
  return compareVersions(requested, known) > 0 ? known : requested;
}

function selectChecks(registry: CheckRegistry, level: Level, version: Version): readonly SelectedCheck[] {
  const select = (checkLevel: Check['level']): SelectedCheck[] =>
    registry
      .filter((check) => check.level === checkLevel)
      .sort((a, b) => compareBytes(a.id, b.id))
      .flatMap((check) => selectRevision(check, version));
  const baseline = select('baseline');
  if (level === 'baseline') return baseline;
  const restricted = select('restricted');
  const overridden = new Set(restricted.flatMap((check) => check.overrides ?? []));
  return [...baseline.filter((check) => !overridden.has(check.id)), ...restricted];
}

/** Returns the newest revision that is not newer than the version, if there is one. */
function selectRevision({ id, versions }: CheckRegistry[number], version: Version): SelectedCheck[] {
  const revision = versions.findLast(({ since }) => compareVersions(since, version) <= 0);
  return revision ? [{ overrides: [], ...revision, id }] : [];
}
