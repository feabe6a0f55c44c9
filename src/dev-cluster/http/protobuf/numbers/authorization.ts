/** The numbers of the fields of authorization/v1. Printed by scripts/protobuf-numbers.ts. */
export const authorization = `
FieldSelectorAttributes rawSelector requirements
LabelSelectorAttributes rawSelector requirements
LocalSubjectAccessReview metadata spec status
NonResourceAttributes path verb
NonResourceRule verbs nonResourceURLs
ResourceAttributes namespace verb group version resource subresource name fieldSelector labelSelector
ResourceRule verbs apiGroups resources resourceNames
SelfSubjectAccessReview metadata spec status
SelfSubjectAccessReviewSpec resourceAttributes nonResourceAttributes
SelfSubjectRulesReview metadata spec status
SelfSubjectRulesReviewSpec namespace
SubjectAccessReview metadata spec status
SubjectAccessReviewSpec resourceAttributes nonResourceAttributes user groups extra uid
SubjectAccessReviewStatus allowed reason evaluationError denied
SubjectRulesReviewStatus resourceRules nonResourceRules incomplete evaluationError
`;
