import type { Version } from './types.ts';

const DECIMAL = /^v1\.(0|[1-9]\d{0,18})$/;
const MAX_INT64 = '9223372036854775807';

/** Reads `latest` or `v1.N`, where N is a decimal number without leading zeros that fits a 64-bit signed integer. */
export function parseVersion(text: string): Version | undefined {
  if (text === 'latest') return text;
  const minor = DECIMAL.exec(text)?.[1];
  return minor !== undefined && compareDecimals(minor, MAX_INT64) <= 0 ? (text as Version) : undefined;
}

/** Negative if `a` is older than `b`, 0 if they are equal; `latest` is newer than every number. */
export function compareVersions(a: Version, b: Version): number {
  if (a === b) return 0;
  if (a === 'latest') return 1;
  if (b === 'latest') return -1;
  return compareDecimals(a.slice('v1.'.length), b.slice('v1.'.length));
}

/** Exact for numbers of any length, which `Number` is not. */
function compareDecimals(a: string, b: string): number {
  if (a.length !== b.length) return a.length - b.length;
  if (a === b) return 0;
  return a < b ? -1 : 1;
}
