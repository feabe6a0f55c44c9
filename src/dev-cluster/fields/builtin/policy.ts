/** The types of policy/v1. In the notation of notation.ts, as of Kubernetes 1.36. */
export const policy = `
Eviction
  + meta/v1.TypeMeta
  metadata! meta/v1.ObjectMeta
  deleteOptions *meta/v1.DeleteOptions
PodDisruptionBudget
  + meta/v1.TypeMeta
  metadata! meta/v1.ObjectMeta
  spec! PodDisruptionBudgetSpec
  status! PodDisruptionBudgetStatus
PodDisruptionBudgetSpec
  minAvailable *int-or-string
  selector *meta/v1.LabelSelector patch=replace
  maxUnavailable *int-or-string
  unhealthyPodEvictionPolicy *~UnhealthyPodEvictionPolicyType
PodDisruptionBudgetStatus
  observedGeneration int64
  disruptedPods map time
  disruptionsAllowed! int32
  currentHealthy! int32
  desiredHealthy! int32
  expectedPods! int32
  conditions []meta/v1.Condition by=type patch=merge:type
`;
