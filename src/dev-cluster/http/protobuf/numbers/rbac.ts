/** The numbers of the fields of rbac/v1. Printed by scripts/protobuf-numbers.ts. */
export const rbac = `
AggregationRule clusterRoleSelectors
ClusterRole metadata rules aggregationRule
ClusterRoleBinding metadata subjects roleRef
PolicyRule verbs apiGroups resources resourceNames nonResourceURLs
Role metadata rules
RoleBinding metadata subjects roleRef
RoleRef apiGroup kind name
Subject kind apiGroup name namespace
`;
