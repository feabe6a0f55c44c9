/** The numbers of the fields of scheduling/v1. Printed by scripts/protobuf-numbers.ts. */
export const scheduling = `
PriorityClass metadata value globalDefault description preemptionPolicy
`;
