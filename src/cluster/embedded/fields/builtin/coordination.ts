/** The types of coordination/v1. Printed by scripts/field-types. */
export const coordination = `
Lease
  + meta/v1.TypeMeta
  metadata! meta/v1.ObjectMeta
  spec! LeaseSpec
LeaseSpec
  holderIdentity *string
  leaseDurationSeconds *int32
  acquireTime *micro-time
  renewTime *micro-time
  leaseTransitions *int32
  strategy *~CoordinatedLeaseStrategy
  preferredHolder *string
`;
