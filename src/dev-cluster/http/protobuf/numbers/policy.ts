/** The numbers of the fields of policy/v1. Printed by scripts/protobuf-numbers.ts. */
export const policy = `
Eviction metadata deleteOptions
PodDisruptionBudget metadata spec status
PodDisruptionBudgetSpec minAvailable selector maxUnavailable unhealthyPodEvictionPolicy
PodDisruptionBudgetStatus observedGeneration disruptedPods disruptionsAllowed currentHealthy desiredHealthy expectedPods conditions
`;
