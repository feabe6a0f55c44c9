import { quote } from '../../kube/text.ts';
import type { Result } from '../../kube/types.ts';

/** The major, minor and patch numbers. Pre-release and build metadata are validated but not compared. */
export type KubeletVersion = readonly bigint[];

const MAX_UINT64 = 2n ** 64n - 1n;
const DIGITS = /^[0-9]*$/;
const ALPHANUMERIC = /^[0-9A-Za-z-]*$/;

/** Parses the version that a node reports, with an optional `v` prefix. */
export function parseKubeletVersion(text: string): Result<KubeletVersion> {
  return parseSemanticVersion(text.startsWith('v') ? text.slice(1) : text);
}

/**
 * Parses a semantic version strictly.
 * @see https://github.com/blang/semver/blob/v4.0.0/v4/semver.go
 */
export function parseSemanticVersion(text: string): Result<KubeletVersion> {
  if (text === '') return { error: 'Version string empty' };
  const [major, minor, ...rest] = text.split('.');
  if (major === undefined || minor === undefined || rest.length === 0) {
    return { error: 'No Major.Minor.Patch elements found' };
  }
  const [release, build] = cut(rest.join('.'), '+');
  const [patch, preRelease] = cut(release, '-');
  const value: bigint[] = [];
  for (const [name, digits] of Object.entries({ Major: major, Minor: minor, Patch: patch })) {
    const number = parseNumber(name, digits);
    if (typeof number === 'string') return { error: number };
    value.push(number);
  }
  const error = firstError(preRelease, preReleaseError) ?? firstError(build, buildError);
  return error === undefined ? { value } : { error };
}

/** A minimum kubelet version as submitted and as parsed. */
export interface MinimumVersion {
  readonly text: string;
  readonly version: KubeletVersion;
}

/** Parses a minimum kubelet version. An empty string means no minimum. */
export function parseMinimum(text: string): Result<MinimumVersion | undefined> {
  if (text === '') return { value: undefined };
  const parsed = parseSemanticVersion(text);
  if ('value' in parsed) return { value: { text, version: parsed.value } };
  return { error: `failed to parse submitted version ${text} ${parsed.error}` };
}

/** Explains why a kubelet does not meet a minimum. `unknown` means that the kubelet's version cannot be parsed. */
export interface KubeletProblem {
  readonly type: 'outdated' | 'unknown';
  readonly message: string;
}

/** Compares a reported version with a minimum. Returns `undefined` if the version meets the minimum. */
export function findKubeletProblem(reported: string, minimum: MinimumVersion): KubeletProblem | undefined {
  const parsed = parseKubeletVersion(reported);
  if ('error' in parsed) {
    return { type: 'unknown', message: `failed to parse node version ${reported}: ${parsed.error}` };
  }
  if (compareKubeletVersions(parsed.value, minimum.version) >= 0) return undefined;
  const versions = `kubelet version is ${parsed.value.join('.')}, which is lower than minimumKubeletVersion of ${minimum.text}`;
  return { type: 'outdated', message: `kubelet version is outdated: ${versions}` };
}

/** Creates a function like `findKubeletProblem` that compares each distinct version only once, even for many nodes. */
export function createProblemFinder(minimum: MinimumVersion): (reported: string) => KubeletProblem | undefined {
  const problems = new Map<string, KubeletProblem | undefined>();
  return (reported) => {
    if (!problems.has(reported)) problems.set(reported, findKubeletProblem(reported, minimum));
    return problems.get(reported);
  };
}

/** Compares two versions. Returns a negative number if the first one is older, and 0 if they are equal. */
export function compareKubeletVersions(a: KubeletVersion, b: KubeletVersion): number {
  const index = a.findIndex((number, position) => number !== b[position]);
  return index < 0 ? 0 : Number((a[index] ?? 0n) - (b[index] ?? 0n));
}

function cut(text: string, separator: string): readonly [before: string, after: string | undefined] {
  const at = text.indexOf(separator);
  return at < 0 ? [text, undefined] : [text.slice(0, at), text.slice(at + 1)];
}

/** Parses a part of the version. Returns the number or an error message. */
function parseNumber(name: string, text: string): bigint | string {
  if (!DIGITS.test(text)) return `Invalid character(s) found in ${name.toLowerCase()} number ${quote(text)}`;
  if (hasLeadingZero(text)) return `${name} number must not contain leading zeroes ${quote(text)}`;
  return parseUint(text);
}

function parseUint(text: string): bigint | string {
  if (text === '') return 'strconv.ParseUint: parsing "": invalid syntax';
  // A 64-bit number has at most 20 digits. Converting a much longer string to a BigInt is slow.
  const value = text.length > 20 ? undefined : BigInt(text);
  return value !== undefined && value <= MAX_UINT64
    ? value
    : `strconv.ParseUint: parsing ${quote(text)}: value out of range`;
}

function preReleaseError(part: string): string | undefined {
  if (part === '') return 'Prerelease is empty';
  if (!DIGITS.test(part)) {
    return ALPHANUMERIC.test(part) ? undefined : `Invalid character(s) found in prerelease ${quote(part)}`;
  }
  if (hasLeadingZero(part)) return `Numeric PreRelease version must not contain leading zeroes ${quote(part)}`;
  const number = parseUint(part);
  return typeof number === 'string' ? number : undefined;
}

function buildError(part: string): string | undefined {
  if (part === '') return 'Build meta data is empty';
  return ALPHANUMERIC.test(part) ? undefined : `Invalid character(s) found in build meta data ${quote(part)}`;
}

function hasLeadingZero(text: string): boolean {
  return text.length > 1 && text.startsWith('0');
}

function firstError(text: string | undefined, findError: (part: string) => string | undefined): string | undefined {
  for (const part of text?.split('.') ?? []) {
    const error = findError(part);
    if (error !== undefined) return error;
  }
  return undefined;
}
