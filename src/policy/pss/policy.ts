/** Levels, from most permissive to strictest. */
export const LEVELS = ['privileged', 'baseline', 'restricted'] as const;

/** @see https://kubernetes.io/docs/concepts/security/pod-security-standards/ */
export type Level = (typeof LEVELS)[number];

/** A Pod Security Standards version in the format of namespace labels. */
export type Version = 'latest' | `v1.${number}`;

/** A level and a version, as set by namespace labels or by the defaults. */
export interface Policy {
  readonly level: Level;
  readonly version: Version;
}

export const PRIVILEGED: Policy = { level: 'privileged', version: 'latest' };

/**
 * Returns true if the value is a level name. Names are case-sensitive.
 * @example
 * isLevel('Baseline'); // false
 */
export function isLevel(value: unknown): value is Level {
  return value === 'privileged' || value === 'baseline' || value === 'restricted';
}

const MINOR_VERSION = /^v1\.(0|[1-9]\d{0,18})$/;
const MAX_INT64 = '9223372036854775807';

/**
 * Parses `latest` or `v1.N`, where N is a decimal number that has no leading zeros and fits into a signed 64-bit
 * integer.
 * @example
 * [parseVersion('v1.30'), parseVersion('1.30')]; // [ 'v1.30', undefined ]
 */
export function parseVersion(text: string): Version | undefined {
  if (text === 'latest') return text;
  const minor = MINOR_VERSION.exec(text)?.[1];
  return minor !== undefined && compareDecimals(minor, MAX_INT64) <= 0 ? (text as Version) : undefined;
}

/**
 * Compares two versions. Returns a negative number if `a` is older than `b`, and 0 if they are equal. `latest` is newer
 * than every number.
 * @example
 * ['latest', 'v1.10', 'v1.9'].sort(compareVersions); // [ 'v1.9', 'v1.10', 'latest' ]
 */
export function compareVersions(a: Version, b: Version): number {
  if (a === b) return 0;
  if (a === 'latest') return 1;
  if (b === 'latest') return -1;
  return compareDecimals(a.slice('v1.'.length), b.slice('v1.'.length));
}

/** Compares decimal numbers exactly, even if they exceed the precision of a JavaScript number. */
function compareDecimals(a: string, b: string): number {
  if (a.length !== b.length) return a.length - b.length;
  if (a === b) return 0;
  return a < b ? -1 : 1;
}
