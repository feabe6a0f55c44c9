/**
 * A common representation of the pod security policies of other systems, and the levels and exceptions that correspond
 * to them.
 */
import { matchesLabelSelector } from '../../kube/label-selector.ts';
import type { ExceptionEntry } from '../../kube/pod-security-exception.ts';
import { matchesWildcard } from '../../kube/text.ts';
import { isObject } from '../../kube/types.ts';
import type { Labels, Mode } from '../../policy/psa/index.ts';
import { checksAt, compareVersions, type Level, type Version } from '../../policy/pss/index.ts';

/** A namespace. If its name is `undefined`, it represents all namespaces that no policy names or selects. */
export interface PolicyScope {
  readonly name: string | undefined;
  readonly labels: Labels;
}

/** A workload, and the container images that an exclusion can select. */
export interface MigratedWorkload {
  readonly kind: string;
  readonly name: string;
  readonly namespace: string;
  /** Images and lists (`containers`, `initContainers`) by container name. */
  readonly containers: ReadonlyMap<string, { readonly image: string; readonly list: string }>;
}

/** A part of a policy that does not apply to some workloads. */
export interface Exclusion {
  /** Policy or exception that contains the exclusion. */
  readonly source: string;
  /** Checks that are excluded. */
  readonly checks: readonly string[];
  /** Expiry time in RFC 3339 format. If absent, the exclusion does not expire. */
  readonly expiresAt?: string | undefined;
  matches(workload: MigratedWorkload, entry: ExceptionEntry): boolean;
}

/** A rule that evaluates checks of the Pod Security Standards. */
export interface LevelRule {
  /** Kind and name of the policy. */
  readonly source: string;
  readonly checks: readonly string[];
  readonly version: Version;
  readonly exclusions: readonly Exclusion[];
  /** Users whose pods the rule does not evaluate. */
  readonly exemptUsers: readonly string[];
  /** True if the rule applies only to some namespaces, or has different actions in some namespaces. */
  readonly isSelective: boolean;
  /**
   * Returns the Pod Security modes that correspond to the rule's actions, or none if the rule does not apply in the
   * namespace.
   */
  modes(scope: PolicyScope): readonly Mode[];
}

/** A policy, or a part of it, that has no counterpart. */
export interface Remainder {
  readonly source: string;
  readonly reason: string;
}

export interface ForeignPolicies {
  /** Number of policies and exceptions that were read. */
  readonly count: number;
  readonly rules: readonly LevelRule[];
  readonly remainders: readonly Remainder[];
}

/** The policy for a mode, and the checks that its level contains but the rules do not. */
export interface MigratedPolicy {
  readonly level: Level;
  readonly version: Version;
  readonly additional: readonly string[];
}

/** Returns the lowest level that contains all checks of the rules that apply in a namespace. */
export function levelOf(rules: readonly LevelRule[], scope: PolicyScope, mode: Mode): MigratedPolicy {
  const applicable = rules.filter((rule) => rule.modes(scope).includes(mode));
  const checks = new Set(applicable.flatMap((rule) => rule.checks));
  const version = applicable.map((rule) => rule.version).reduce(newer, applicable[0]?.version ?? 'latest');
  if (checks.size === 0) return { level: 'privileged', version: 'latest', additional: [] };
  const baseline = checkIds('baseline', version);
  const level = [...checks].every((check) => baseline.includes(check)) ? 'baseline' : 'restricted';
  return { level, version, additional: checkIds(level, version).filter((check) => !checks.has(check)) };
}

function newer(a: Version, b: Version): Version {
  return compareVersions(a, b) >= 0 ? a : b;
}

/** Returns the IDs of the checks of a level, including the checks of lower levels. */
export function checkIds(level: Level, version: Version): readonly string[] {
  return checksAt({ level, version }).map(({ id }) => id);
}

/**
 * Returns the exclusions that correspond to an entry of an exception. Returns `undefined` if a rule enforces the check
 * on the workload, whose pods are therefore already denied. Returns none for checks that no rule enforces.
 */
export function exclusionsFor(
  entry: ExceptionEntry,
  workload: MigratedWorkload,
  enforced: readonly LevelRule[],
): readonly Exclusion[] | undefined {
  const used: Exclusion[] = [];
  for (const rule of enforced) {
    if (!rule.checks.includes(entry.check)) continue;
    const exclusion = rule.exclusions.find(
      ({ checks, matches }) => checks.includes(entry.check) && matches(workload, entry),
    );
    if (exclusion === undefined) return undefined;
    used.push(exclusion);
  }
  return used;
}

/** Reports whether a pattern matches the namespace. Namespaces that no policy names match only `*`. */
export function isListed(patterns: readonly string[], { name }: PolicyScope): boolean {
  return patterns.some((pattern) => (name === undefined ? pattern === '*' : matchesWildcard(pattern, name)));
}

export function selectsLabels(selector: unknown, { labels }: PolicyScope): boolean {
  return isObject(selector) && matchesLabelSelector(selector, labels as Readonly<Record<string, string>>);
}

/** Returns the value of a name in a table. Names such as `constructor` do not refer to inherited properties. */
export function lookUp<T>(table: Readonly<Record<string, T>>, name: string): T | undefined {
  return Object.hasOwn(table, name) ? table[name] : undefined;
}

/** Returns a value if it is a string, and otherwise the fallback. */
export function textOr(value: unknown, fallback: string): string {
  return typeof value === 'string' ? value : fallback;
}

/** Reports whether a value is set and not empty. */
export function hasContent(value: unknown): boolean {
  if (Array.isArray(value)) return value.length > 0;
  return isObject(value) ? Object.keys(value).length > 0 : value !== undefined && value !== null && value !== '';
}
