/** The types of batch/v1. In the notation of notation.ts, as of Kubernetes 1.36. */
export const batch = `
CronJob
  + meta/v1.TypeMeta
  metadata! meta/v1.ObjectMeta
  spec! CronJobSpec
  status! CronJobStatus
CronJobSpec
  schedule! string
  timeZone *string
  startingDeadlineSeconds *int64
  concurrencyPolicy ~ConcurrencyPolicy
  suspend *boolean
  jobTemplate! JobTemplateSpec
  successfulJobsHistoryLimit *int32
  failedJobsHistoryLimit *int32
CronJobStatus
  active []core/v1.ObjectReference
  lastScheduleTime *time
  lastSuccessfulTime *time
Job
  + meta/v1.TypeMeta
  metadata! meta/v1.ObjectMeta
  spec! JobSpec
  status! JobStatus
JobCondition
  type! ~JobConditionType
  status! ~v1.ConditionStatus
  lastProbeTime! time
  lastTransitionTime! time
  reason string
  message string
JobSpec
  parallelism *int32
  completions *int32
  activeDeadlineSeconds *int64
  podFailurePolicy *PodFailurePolicy
  successPolicy *SuccessPolicy
  backoffLimit *int32
  backoffLimitPerIndex *int32
  maxFailedIndexes *int32
  selector *meta/v1.LabelSelector
  manualSelector *boolean
  template! core/v1.PodTemplateSpec
  ttlSecondsAfterFinished *int32
  completionMode *~CompletionMode
  suspend *boolean
  podReplacementPolicy *~PodReplacementPolicy
  managedBy *string
JobStatus
  conditions []JobCondition patch=merge:type
  startTime *time
  completionTime *time
  active int32
  succeeded int32
  failed int32
  terminating *int32
  completedIndexes string
  failedIndexes *string
  uncountedTerminatedPods *UncountedTerminatedPods
  ready *int32
JobTemplateSpec
  metadata! meta/v1.ObjectMeta
  spec! JobSpec
PodFailurePolicy
  rules! []PodFailurePolicyRule
PodFailurePolicyOnExitCodesRequirement
  containerName *string
  operator! ~PodFailurePolicyOnExitCodesOperator
  values! []int32 set
PodFailurePolicyOnPodConditionsPattern
  type! ~v1.PodConditionType
  status! ~v1.ConditionStatus
PodFailurePolicyRule
  action! ~PodFailurePolicyAction
  onExitCodes *PodFailurePolicyOnExitCodesRequirement
  onPodConditions []PodFailurePolicyOnPodConditionsPattern
SuccessPolicy
  rules! []SuccessPolicyRule
SuccessPolicyRule
  succeededIndexes *string
  succeededCount *int32
UncountedTerminatedPods
  succeeded []~types.UID set
  failed []~types.UID set
`;
