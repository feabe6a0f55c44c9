/** The types of rbac/v1. In the notation of notation.ts, as of Kubernetes 1.36. */
export const rbac = `
AggregationRule
  clusterRoleSelectors []meta/v1.LabelSelector
ClusterRole
  + meta/v1.TypeMeta
  metadata! meta/v1.ObjectMeta
  rules! []PolicyRule
  aggregationRule *AggregationRule
ClusterRoleBinding
  + meta/v1.TypeMeta
  metadata! meta/v1.ObjectMeta
  subjects []Subject
  roleRef! RoleRef atomic
PolicyRule
  verbs! []string
  apiGroups []string
  resources []string
  resourceNames []string
  nonResourceURLs []string
Role
  + meta/v1.TypeMeta
  metadata! meta/v1.ObjectMeta
  rules! []PolicyRule
RoleBinding
  + meta/v1.TypeMeta
  metadata! meta/v1.ObjectMeta
  subjects []Subject
  roleRef! RoleRef atomic
RoleRef atomic
  apiGroup! string
  kind! string
  name! string
Subject atomic
  kind! string
  apiGroup string
  name! string
  namespace string
`;
