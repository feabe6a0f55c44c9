/** The types of meta/v1. In the notation of notation.ts, as of Kubernetes 1.36. */
export const meta = `
APIGroup
  + TypeMeta
  name! string
  versions! []GroupVersionForDiscovery
  preferredVersion! GroupVersionForDiscovery
  serverAddressByClientCIDRs []ServerAddressByClientCIDR
APIGroupList
  + TypeMeta
  groups! []APIGroup
APIResource
  name! string
  singularName! string
  namespaced! boolean
  group string
  version string
  kind! string
  verbs! []string
  shortNames []string
  categories []string
  storageVersionHash string
APIResourceList
  + TypeMeta
  groupVersion! string
  resources! []APIResource
APIVersions
  + TypeMeta
  versions! []string
  serverAddressByClientCIDRs! []ServerAddressByClientCIDR
Condition
  type! string
  status! ~ConditionStatus
  observedGeneration int64
  lastTransitionTime! time
  reason! string
  message! string
DeleteOptions
  + TypeMeta
  gracePeriodSeconds *int64
  preconditions *Preconditions
  orphanDependents *boolean
  propagationPolicy *~DeletionPropagation
  dryRun []string
  ignoreStoreReadErrorWithClusterBreakingPotential *boolean
FieldSelectorRequirement
  key! string
  operator! ~FieldSelectorOperator
  values []string
GroupVersionForDiscovery
  groupVersion! string
  version! string
LabelSelector atomic
  matchLabels map string
  matchExpressions []LabelSelectorRequirement
LabelSelectorRequirement
  key! string
  operator! ~LabelSelectorOperator
  values []string
ListMeta
  selfLink string
  resourceVersion string
  continue string
  remainingItemCount *int64
  shardInfo *ShardInfo
ManagedFieldsEntry
  manager string
  operation ~ManagedFieldsOperationType
  apiVersion string
  time *time
  fieldsType string
  fieldsV1 *any
  subresource string
ObjectMeta
  name string
  generateName string
  namespace string
  selfLink string
  uid ~types.UID
  resourceVersion string
  generation int64
  creationTimestamp time
  deletionTimestamp *time
  deletionGracePeriodSeconds *int64
  labels map string
  annotations map string
  ownerReferences []OwnerReference by=uid patch=merge:uid
  finalizers []string set patch=merge
  managedFields []ManagedFieldsEntry
OwnerReference atomic
  apiVersion! string
  kind! string
  name! string
  uid! ~types.UID
  controller *boolean
  blockOwnerDeletion *boolean
Preconditions
  uid *~types.UID
  resourceVersion *string
ServerAddressByClientCIDR
  clientCIDR! string
  serverAddress! string
ShardInfo
  selector! string
Status
  + TypeMeta
  metadata! ListMeta
  status string
  message string
  reason ~StatusReason
  details *StatusDetails
  code int32
StatusCause
  reason ~CauseType
  message string
  field string
StatusDetails
  name string
  group string
  kind string
  uid ~types.UID
  causes []StatusCause
  retryAfterSeconds int32
TypeMeta
  kind string
  apiVersion string
`;
