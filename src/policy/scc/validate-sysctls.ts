import { forbiddenField, invalidValue, type FieldError } from '../../kube/field-error.ts';

const PATTERN = '([a-z0-9]([-_a-z0-9]*[a-z0-9])?\\.)*([a-z0-9][-_a-z0-9]*)?[a-z0-9*]';
const IS_PATTERN = new RegExp(`^${PATTERN}$`);
const MAX_LENGTH = 253;

/** What is wrong with a list of patterns for sysctls. */
export function sysctlListErrors(path: string, patterns: readonly string[]): readonly FieldError[] {
  const errors = patterns.flatMap((pattern, index) => patternErrors(`${path}[${index}]`, pattern));
  const isCatchAll = patterns.some((pattern) => pattern.startsWith('*') && isValid(pattern));
  if (!isCatchAll || patterns.length < 2) return errors;
  return [...errors, forbiddenField(`${path}.items`, "if '*' is present, must not specify other sysctls")];
}

/** Patterns that are allowed and forbidden at once, told of the one that is covered by the other. */
export function sysctlOverlaps(allowed: readonly string[], forbidden: readonly string[]): readonly FieldError[] {
  return allowed.flatMap((ours, i) =>
    forbidden.flatMap((theirs, j) => {
      if (covers(theirs, ours)) return [overlap(`allowedUnsafeSysctls[${i}]`, ours, theirs)];
      return covers(ours, theirs) ? [overlap(`forbiddenSysctls[${j}]`, theirs, ours)] : [];
    }),
  );
}

function patternErrors(path: string, pattern: string): readonly FieldError[] {
  if (pattern === '') return [invalidValue(path, pattern, 'empty sysctl not allowed')];
  if (isValid(pattern)) return [];
  return [invalidValue(path, pattern, `must have at most ${MAX_LENGTH} characters and match regex ${PATTERN}`)];
}

function isValid(pattern: string): boolean {
  return pattern.length <= MAX_LENGTH && IS_PATTERN.test(pattern);
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
