/**
 * Pod Security Admission, which includes configuration, namespace labels, reviews, and admission policies that require
 * no webhook.
 */
export {
  generatePolicies,
  MAX_POLICY_ITEMS,
  MIN_POLICY_MINOR,
  type PolicyObject,
  renamePolicy,
} from './admission-policies.ts';
export {
  completeDefaults,
  createExemptions,
  createPodSecurity,
  DEFAULT_CONFIGURATION,
  DEFAULTS_FIELDS,
  type Exemptions,
  EXEMPTIONS_FIELDS,
  findExemption,
  isLevelEnforced,
  type PodSecurity,
  type PodSecurityConfiguration,
  validateConfiguration,
} from './configuration.ts';
export type { PodSecurityCount, PodSecurityReview } from './decision.ts';
export {
  type DecodedObject,
  type DecodedWorkload,
  decodeObject,
  decodeWorkload,
  denyUndecodable,
  isKnownKind,
  isSignificantUpdate,
} from './decode.ts';
export { generateDefaultsPolicy, MIN_DEFAULTS_MINOR, NOT_MIRROR } from './defaults-policy.ts';
export {
  completeNewPod,
  completeTemplate,
  DEFAULT_FIELDS,
  type DefaultsSettings,
  type PodDefaults,
  selectedNamespaces,
} from './defaults.ts';
export { recordExceptionWrite, reviewExceptionWrite } from './exception-review.ts';
export {
  CLOCK_SKEW_MS,
  type ExceptionProblem,
  type ExceptionSettings,
  findExceptionProblem,
  findLastingProblem,
  findShadow,
  findTimeProblem,
  mayBeApproved,
  type PreparedException,
  prepareException,
  endedExceptionsWarning,
  findEndedExceptions,
} from './exceptions.ts';
export { generateGuardPolicy, type GuardSettings, LOWER_LEVEL } from './guard-policy.ts';
export { DEFAULT_LIMITS, type PodSecurityInput } from './input.ts';
export { reviewNamespace } from './namespace-review.ts';
export {
  isSamePolicy,
  isStricter,
  type Labels,
  LEVEL_RULE,
  listNewerVersions,
  type Mode,
  MODES,
  type NamespacePolicy,
  parsePolicy,
  NO_DEFAULTS,
  type Policies,
  printEvaluatedAs,
  printLevel,
  printPodSecurity,
  printPolicy,
  resolvePolicies,
  setsMode,
  VERSION_RULE,
  findUnusedKeys,
} from './policy.ts';
export { mayDeny, reviewPodSecurity } from './review.ts';
export { psaLevel, type SccLevelOptions } from './scc-level.ts';
export { type AdmittedWorkload, admitWorkload, type WorkloadSettings } from './workload-defaults.ts';
