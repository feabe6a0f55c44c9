/** SCC admission, which includes modes, order, assignment, standard SCCs, grants, and advice about denied pods. */
export {
  type AccessQuestion,
  accessQuestionKey,
  type AccessSubject,
  createKnownAccess,
  createMayUse,
  findSubjectType,
  podSubjects,
  type SccAccess,
  serviceAccountSubject,
  userSubject,
} from './access.ts';
export {
  describeCustomScc,
  describeDenial,
  describeReason,
  formatFix,
  grantCommand,
  hasAdvice,
  listDenials,
  listFixes,
  NO_SCC,
  type SccDenial,
  type SccFix,
} from './advice/denials.ts';
export type { DisallowedField } from './advice/disallowed-fields.ts';
export { enforcedModeWarning, findDeniedWorkloads } from './advice/enforced-mode.ts';
export {
  createCustomScc,
  decidePod,
  describeFit,
  type ExplainedPod,
  explainPod,
  findSccViolations,
  type PodDenial,
  type PodInput,
  type PodVerdict,
} from './advice/explain.ts';
export {
  findInvalidValues,
  findSccDefect,
  findSccProblems,
  formatSccProblems,
  type InvalidValue,
  type SccProblems,
  sccWarnings,
} from './advice/scc-problems.ts';
export {
  type AdmissionPlan,
  type AdmissionPlanInput,
  grantableScc,
  planAdmission,
  planGrants,
  type PlannedGrant,
  type PlannedWorkload,
  summarizePlan,
  type WorkloadContext,
  type WorkloadName,
  workloadPod,
} from './advice/plan.ts';
export {
  admitTemplate,
  assignScc,
  evaluateScc,
  reportScc,
  type TemplateInput,
  templateWarnings,
  validateScc,
} from './assign.ts';
export { completePod, ownContainerValues, ownPodValues, writePod } from './complete.ts';
export { namespaceNotFound, type SccDecision, withPodName, formatErrors } from './decision.ts';
export {
  type Compatibility,
  DEFAULT_EXEMPT_NAMESPACES,
  defaultExemptNamespaces,
  DISABLE_LABEL,
  modeLabelWarning,
  type NamespaceMode,
  RUN_LEVEL_LABEL,
  SCC_MODE_LABEL,
  SCC_MODES,
  sccMode,
  type SccMode,
  type SccSettings,
  selectEnforcedNamespaces,
  selectSccNamespaces,
  withKubeSystem,
} from './mode.ts';
export { bindScc, type NamespaceRanges, readNamespaceRanges } from './namespace.ts';
export { defaultScc } from './object-defaults.ts';
export { findSccTypeError, validateSccObject } from './object-validation.ts';
export { createSccSet, findCandidates, type SccSet, toSccSet } from './order.ts';
export { VOLUME_TYPES } from './volume-types.ts';
export { isIgnoredUpdate, podAnnotation, readRequest, type SccInput } from './request.ts';
export { answerReview, REVIEW_KINDS } from './review.ts';
export { decodeScc, type Range, type SccFields } from './scc-fields.ts';
export { explainScores, type Needs, type PreparedScc, prepareScc } from './scc.ts';
export {
  createTemporaryUseRole,
  createUseBinding,
  createUseRole,
  grantObjects,
  HOLD_TEMPORARY_GRANT,
  mayEnterEveryPod,
  OPENSHIFT_USERS,
  type PlannedWrite,
  planRbacObject,
  planStandardScc,
  PRIVILEGED_SCC,
  STANDARD_CLUSTER_ROLE_BINDINGS,
  STANDARD_CLUSTER_ROLES,
  STANDARD_SCCS,
  standardScc,
  useRoleName,
  useRoleScc,
} from './standard.ts';
export { decideStream, enterPod, undisclosedStream } from './stream.ts';
export { GROUPS } from './strategies/groups.ts';
export { CONTAINER_STRATEGIES, POD_STRATEGIES, SCC_REPAIRS } from './strategies/index.ts';
export { RUN_AS_USER } from './strategies/run-as-user.ts';
export { SE_LINUX_CONTEXT } from './strategies/se-linux-context.ts';
export { seccompProfilesOfContainer, seccompProfilesOfPod } from './strategies/seccomp-profiles.ts';
export type { ContainerContext, PodContext } from './strategies/strategy.ts';
export {
  changeTimes,
  findTemporaryGrant,
  parseTemporaryGrants,
  recordTemporaryGrants,
  type TemporaryGrant,
} from './temporary-grants.ts';
