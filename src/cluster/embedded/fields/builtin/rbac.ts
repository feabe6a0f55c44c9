/** The types of rbac/v1. Printed by scripts/field-types. */
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
