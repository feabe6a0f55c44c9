/** The types of coordination/v1. In the notation of notation.ts, as of Kubernetes 1.36. */
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
