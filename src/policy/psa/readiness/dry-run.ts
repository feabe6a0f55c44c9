import type { NamespaceEvaluation } from './types.ts';

/** Begins the one line that says so; the next ones name the pods. */
const VIOLATES = /^existing pods in namespace ".*" violate the new PodSecurity enforce level "/;
const PARTIAL = /^new PodSecurity enforce level only checked against the first \d+ of \d+ existing pods$/;
const UNLISTED = 'failed to list pods while checking new PodSecurity enforce level';

/**
 * What the warnings of an API server mean that was asked to raise the level of a namespace, without doing it. Warnings of
 * others mean nothing; without a violation, an answer that covers only a part of the pods means nothing either.
 * @see https://github.com/kubernetes/pod-security-admission/blob/v0.37.0/admission/admission.go
 */
export function verdictOfWarnings(warnings: readonly string[]): NamespaceEvaluation['verdict'] {
  if (warnings.some((warning) => VIOLATES.test(warning))) return 'violating';
  return warnings.some((warning) => PARTIAL.test(warning) || warning === UNLISTED) ? 'inconclusive' : 'clean';
}
