/** The types of authorization/v1. In the notation of notation.ts, as of Kubernetes 1.36. */
export const authorization = `
FieldSelectorAttributes
  rawSelector string
  requirements []meta/v1.FieldSelectorRequirement
LabelSelectorAttributes
  rawSelector string
  requirements []meta/v1.LabelSelectorRequirement
LocalSubjectAccessReview
  + meta/v1.TypeMeta
  metadata! meta/v1.ObjectMeta
  spec! SubjectAccessReviewSpec
  status! SubjectAccessReviewStatus
NonResourceAttributes
  path string
  verb string
NonResourceRule
  verbs! []string
  nonResourceURLs []string
ResourceAttributes
  namespace string
  verb string
  group string
  version string
  resource string
  subresource string
  name string
  fieldSelector *FieldSelectorAttributes
  labelSelector *LabelSelectorAttributes
ResourceRule
  verbs! []string
  apiGroups []string
  resources []string
  resourceNames []string
SelfSubjectAccessReview
  + meta/v1.TypeMeta
  metadata! meta/v1.ObjectMeta
  spec! SelfSubjectAccessReviewSpec
  status! SubjectAccessReviewStatus
SelfSubjectAccessReviewSpec
  resourceAttributes *ResourceAttributes
  nonResourceAttributes *NonResourceAttributes
SelfSubjectRulesReview
  + meta/v1.TypeMeta
  metadata! meta/v1.ObjectMeta
  spec! SelfSubjectRulesReviewSpec
  status! SubjectRulesReviewStatus
SelfSubjectRulesReviewSpec
  namespace string
SubjectAccessReview
  + meta/v1.TypeMeta
  metadata! meta/v1.ObjectMeta
  spec! SubjectAccessReviewSpec
  status! SubjectAccessReviewStatus
SubjectAccessReviewSpec
  resourceAttributes *ResourceAttributes
  nonResourceAttributes *NonResourceAttributes
  user string
  groups []string
  extra map []string
  uid string
SubjectAccessReviewStatus
  allowed! boolean
  denied boolean
  reason string
  evaluationError string
SubjectRulesReviewStatus
  resourceRules! []ResourceRule
  nonResourceRules! []NonResourceRule
  incomplete! boolean
  evaluationError string
`;
