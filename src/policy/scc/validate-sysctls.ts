import { forbiddenField, invalidValue, type FieldError } from '../../kube/field-error.ts';
import { MAX_ERRORS } from './strategies/types.ts';

const PATTERN = '([a-z0-9]([-_a-z0-9]*[a-z0-9])?\\.)*([a-z0-9][-_a-z0-9]*)?[a-z0-9*]';
const IS_PATTERN = new RegExp(`^${PATTERN}$`);
const MAX_LENGTH = 253;
/** Linux does not have many more, and each is compared with each. */
const MAX_PATTERNS = 1000;

/** What is wrong with a list of patterns for sysctls. */
export function sysctlListErrors(path: string, patterns: readonly string[]): readonly FieldError[] {
  if (patterns.length > MAX_PATTERNS) return [tooMany(path, patterns.length)];
  const errors = patterns.flatMap((pattern, index) => patternErrors(`${path}[${index}]`, pattern));
  const isCatchAll = patterns.some((pattern) => pattern.startsWith('*') && isValid(pattern));
  if (!isCatchAll || patterns.length < 2) return errors;
  return [...errors, forbiddenField(`${path}.items`, "if '*' is present, must not specify other sysctls")];
}

/** Patterns that are allowed and forbidden at once, told of the one that is covered by the other. */
export function sysctlOverlaps(allowed: readonly string[], forbidden: readonly string[]): readonly FieldError[] {
  const errors: FieldError[] = [];
  if (allowed.length > MAX_PATTERNS || forbidden.length > MAX_PATTERNS) return errors;
  for (const [i, ours] of allowed.entries()) {
    for (const [j, theirs] of forbidden.entries()) {
      if (errors.length === MAX_ERRORS) return errors;
      if (covers(theirs, ours)) errors.push(overlap(`allowedUnsafeSysctls[${i}]`, ours, theirs));
      else if (covers(ours, theirs)) errors.push(overlap(`forbiddenSysctls[${j}]`, theirs, ours));
    }
  }
  return errors;
}

function patternErrors(path: string, pattern: string): readonly FieldError[] {
  if (pattern === '') return [invalidValue(path, pattern, 'empty sysctl not allowed')];
  if (isValid(pattern)) return [];
  return [invalidValue(path, pattern, `must have at most ${MAX_LENGTH} characters and match regex ${PATTERN}`)];
}

function isValid(pattern: string): boolean {
  return pattern.length <= MAX_LENGTH && IS_PATTERN.test(pattern);
}

function tooMany(path: string, length: number): FieldError {
  return { type: 'FieldValueTooMany', path, value: length, detail: `must have at most ${MAX_PATTERNS} items` };
}

/** True if all that the second pattern matches is matched by the first. */
function covers(wide: string, narrow: string): boolean {
  if (!wide.endsWith('*')) return wide === narrow;
  return withoutStar(narrow).startsWith(withoutStar(wide));
}

function withoutStar(pattern: string): string {
  return pattern.endsWith('*') ? pattern.slice(0, -1) : pattern;
}

function overlap(path: string, value: string, other: string): FieldError {
  return invalidValue(path, value, `sysctl overlaps with ${other}`);
}
