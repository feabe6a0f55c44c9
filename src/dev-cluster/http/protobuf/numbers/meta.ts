/** The numbers of the fields of meta/v1. Printed by scripts/protobuf-numbers.ts. */
export const meta = `
APIGroup name versions preferredVersion serverAddressByClientCIDRs
APIResource name namespaced kind verbs shortNames singularName categories group version storageVersionHash
APIVersions versions serverAddressByClientCIDRs
Condition type status observedGeneration lastTransitionTime reason message
DeleteOptions gracePeriodSeconds preconditions orphanDependents propagationPolicy dryRun ignoreStoreReadErrorWithClusterBreakingPotential
FieldSelectorRequirement key operator values
GroupVersionForDiscovery groupVersion version
LabelSelector matchLabels matchExpressions
LabelSelectorRequirement key operator values
ListMeta selfLink resourceVersion continue remainingItemCount shardInfo
ManagedFieldsEntry manager operation apiVersion time - fieldsType fieldsV1 subresource
ObjectMeta name generateName namespace selfLink uid resourceVersion generation creationTimestamp deletionTimestamp deletionGracePeriodSeconds labels annotations ownerReferences finalizers - - managedFields
OwnerReference kind - name uid apiVersion controller blockOwnerDeletion
Preconditions uid resourceVersion
ServerAddressByClientCIDR clientCIDR serverAddress
ShardInfo selector
Status metadata status message reason details code
StatusCause reason message field
StatusDetails name group kind causes retryAfterSeconds uid
TypeMeta kind apiVersion
`;
