/** The warnings of a dry run that labels a namespace. */
import type { DefaultLevel } from './enforcement.ts';

/** Matches the warning that a namespace violates the level. The next warnings name the pods. */
const VIOLATES = /^existing pods in namespace ".*" violate the new PodSecurity enforce level "/;
const PARTIAL = /^new PodSecurity enforce level only checked against the first \d+ of \d+ existing pods$/;
const UNLISTED = 'failed to list pods while checking new PodSecurity enforce level';

/**
 * Returns the verdict of a dry run that labels a namespace, based on the warnings from the API server. If there is no
 * warning, the namespace is clean only if all pods were checked and the default is privileged. The API server does not
 * check a namespace whose level does not become stricter.
 * @see https://github.com/kubernetes/pod-security-admission/blob/v0.37.0/admission/admission.go
 */
export function parseDryRunWarnings(
  warnings: readonly string[],
  currentEnforce: DefaultLevel,
): 'clean' | 'violating' | 'inconclusive' {
  if (warnings.some((warning) => VIOLATES.test(warning))) return 'violating';
  const isPartial = warnings.some((warning) => PARTIAL.test(warning) || warning === UNLISTED);
  return currentEnforce === 'restricted' || isPartial ? 'inconclusive' : 'clean';
}
