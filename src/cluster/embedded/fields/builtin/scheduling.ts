/** The types of scheduling/v1. Printed by scripts/field-types. */
export const scheduling = `
PriorityClass
  + meta/v1.TypeMeta
  metadata! meta/v1.ObjectMeta
  value! int32
  globalDefault boolean
  description string
  preemptionPolicy *~v1.PreemptionPolicy
`;
