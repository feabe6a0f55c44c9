/** Kubelet versions: parsing and comparison. */
import { quote } from '../../kube/text.ts';

/** A version without its pre-release and build, which are validated only. */
export interface KubeletVersion {
  readonly major: bigint;
  readonly minor: bigint;
  readonly patch: bigint;
}

/** A version, or the error of an invalid text. */
export type ParsedVersion = { readonly value: KubeletVersion } | { readonly error: string };

const MAX_UINT64 = 2n ** 64n - 1n;
const DIGITS = /^[0-9]*$/;
const ALPHANUMERIC = /^[0-9A-Za-z-]*$/;

/** Parses the version that a node reports, with an optional prefix `v`. */
export function parseKubeletVersion(text: string): ParsedVersion {
  return parseVersion(text.startsWith('v') ? text.slice(1) : text);
}

/**
 * Parses a semantic version strictly.
 * @see https://github.com/blang/semver/blob/v4.0.0/v4/semver.go
 */
export function parseVersion(text: string): ParsedVersion {
  if (text === '') return { error: 'Version string empty' };
  const [majorText, minorText, ...rest] = text.split('.');
  if (majorText === undefined || minorText === undefined || rest.length === 0) {
    return { error: 'No Major.Minor.Patch elements found' };
  }
  const { patchText, preRelease, build } = splitPatch(rest.join('.'));
  const major = parseNumber('Major', majorText);
  if (typeof major === 'string') return { error: major };
  const minor = parseNumber('Minor', minorText);
  if (typeof minor === 'string') return { error: minor };
  const patch = parseNumber('Patch', patchText);
  if (typeof patch === 'string') return { error: patch };
  const error = firstOf(preRelease, preReleaseError) ?? firstOf(build, buildError);
  return error === undefined ? { value: { major, minor, patch } } : { error };
}

/** Negative if the first is older, 0 if they are equal. */
export function compareKubeletVersions(a: KubeletVersion, b: KubeletVersion): number {
  return compare(a.major, b.major) || compare(a.minor, b.minor) || compare(a.patch, b.patch);
}

/** `1.30.0` */
export function formatKubeletVersion({ major, minor, patch }: KubeletVersion): string {
  return `${major}.${minor}.${patch}`;
}

interface Patch {
  readonly patchText: string;
  readonly preRelease: readonly string[];
  readonly build: readonly string[];
}

function splitPatch(text: string): Patch {
  const [release, build] = cut(text, '+');
  const [patchText, preRelease] = cut(release, '-');
  return { patchText, preRelease: preRelease?.split('.') ?? [], build: build?.split('.') ?? [] };
}

function cut(text: string, separator: string): readonly [before: string, after: string | undefined] {
  const at = text.indexOf(separator);
  return at < 0 ? [text, undefined] : [text.slice(0, at), text.slice(at + 1)];
}

/** Returns the number or an error message. */
function parseNumber(name: string, text: string): bigint | string {
  if (!DIGITS.test(text)) return `Invalid character(s) found in ${name.toLowerCase()} number ${quote(text)}`;
  if (hasLeadingZero(text)) return `${name} number must not contain leading zeroes ${quote(text)}`;
  return parseUint(text);
}

function parseUint(text: string): bigint | string {
  if (text === '') return 'strconv.ParseUint: parsing "": invalid syntax';
  // Numbers of 64 bits have at most 20 digits. Longer texts are slow to convert.
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

function firstOf(parts: readonly string[], errorOf: (part: string) => string | undefined): string | undefined {
  for (const part of parts) {
    const error = errorOf(part);
    if (error !== undefined) return error;
  }
  return undefined;
}

function compare(a: bigint, b: bigint): number {
  if (a === b) return 0;
  return a < b ? -1 : 1;
}
