/** The types of scheduling/v1. In the notation of notation.ts, as of Kubernetes 1.36. */
export const scheduling = `
PriorityClass
  + meta/v1.TypeMeta
  metadata! meta/v1.ObjectMeta
  value! int32
  globalDefault boolean
  description string
  preemptionPolicy *~v1.PreemptionPolicy
`;
