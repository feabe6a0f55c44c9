/** The numbers of the fields of coordination/v1. Printed by scripts/protobuf-numbers.ts. */
export const coordination = `
Lease metadata spec
LeaseSpec holderIdentity leaseDurationSeconds acquireTime renewTime leaseTransitions strategy preferredHolder
`;
