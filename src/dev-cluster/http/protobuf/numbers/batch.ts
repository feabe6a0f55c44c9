/** The numbers of the fields of batch/v1. Printed by scripts/protobuf-numbers.ts. */
export const batch = `
CronJob metadata spec status
CronJobSpec schedule startingDeadlineSeconds concurrencyPolicy suspend jobTemplate successfulJobsHistoryLimit failedJobsHistoryLimit timeZone
CronJobStatus active - - lastScheduleTime lastSuccessfulTime
Job metadata spec status
JobCondition type status lastProbeTime lastTransitionTime reason message
JobSpec parallelism completions activeDeadlineSeconds selector manualSelector template backoffLimit ttlSecondsAfterFinished completionMode suspend podFailurePolicy backoffLimitPerIndex maxFailedIndexes podReplacementPolicy managedBy successPolicy
JobStatus conditions startTime completionTime active succeeded failed completedIndexes uncountedTerminatedPods ready failedIndexes terminating
JobTemplateSpec metadata spec
PodFailurePolicy rules
PodFailurePolicyOnExitCodesRequirement containerName operator values
PodFailurePolicyOnPodConditionsPattern type status
PodFailurePolicyRule action onExitCodes onPodConditions
SuccessPolicy rules
SuccessPolicyRule succeededIndexes succeededCount
UncountedTerminatedPods succeeded failed
`;
