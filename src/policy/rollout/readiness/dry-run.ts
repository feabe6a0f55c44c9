import type { DefaultLevel } from '../enforcement/types.ts';
import type { NamespaceEvaluation } from './types.ts';

/** Begins the one line that says so; the next ones name the pods. */
const VIOLATES = /^existing pods in namespace ".*" violate the new PodSecurity enforce level "/;
const PARTIAL = /^new PodSecurity enforce level only checked against the first \d+ of \d+ existing pods$/;
const UNLISTED = 'failed to list pods while checking new PodSecurity enforce level';

/**
 * What the warnings of an API server mean that was asked to raise the level of a namespace, without doing it. Warnings of
 * others mean nothing. To hear nothing is good news only if all pods were looked at, and only as long as the default is
 * privileged: a namespace that is held to restricted already is not looked at.
 * @see https://github.com/kubernetes/pod-security-admission/blob/v0.37.0/admission/admission.go
 */
export function verdictOfWarnings(
  warnings: readonly string[],
  currentEnforce: DefaultLevel,
): NamespaceEvaluation['verdict'] {
  if (warnings.some((warning) => VIOLATES.test(warning))) return 'violating';
  const isBlind = currentEnforce === 'restricted';
  const isPartial = warnings.some((warning) => PARTIAL.test(warning) || warning === UNLISTED);
  return isBlind || isPartial ? 'inconclusive' : 'clean';
}
