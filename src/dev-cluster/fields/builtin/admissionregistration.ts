/** The types of admissionregistration/v1. In the notation of notation.ts, as of Kubernetes 1.36. */
export const admissionregistration = `
AuditAnnotation
  key! string
  valueExpression! string
ExpressionWarning
  fieldRef! string
  warning! string
MatchCondition
  name! string
  expression! string
MatchResources atomic
  namespaceSelector *meta/v1.LabelSelector
  objectSelector *meta/v1.LabelSelector
  resourceRules []NamedRuleWithOperations
  excludeResourceRules []NamedRuleWithOperations
  matchPolicy *~MatchPolicyType
MutatingWebhook
  name! string
  clientConfig! WebhookClientConfig
  rules []RuleWithOperations
  failurePolicy *~FailurePolicyType
  matchPolicy *~MatchPolicyType
  namespaceSelector *meta/v1.LabelSelector
  objectSelector *meta/v1.LabelSelector
  sideEffects! *~SideEffectClass
  timeoutSeconds *int32
  admissionReviewVersions! []string
  reinvocationPolicy *~ReinvocationPolicyType
  matchConditions []MatchCondition by=name patch=merge:name
MutatingWebhookConfiguration
  + meta/v1.TypeMeta
  metadata! meta/v1.ObjectMeta
  webhooks []MutatingWebhook by=name patch=merge:name
NamedRuleWithOperations atomic
  resourceNames []string
  + RuleWithOperations
ParamKind atomic
  apiVersion string
  kind string
ParamRef atomic
  name string
  namespace string
  selector *meta/v1.LabelSelector
  parameterNotFoundAction *~ParameterNotFoundActionType
Rule
  apiGroups []string
  apiVersions []string
  resources []string
  scope *~ScopeType
RuleWithOperations
  operations []~OperationType
  + Rule
ServiceReference
  namespace! string
  name! string
  path *string
  port *int32
TypeChecking
  expressionWarnings []ExpressionWarning
ValidatingAdmissionPolicy
  + meta/v1.TypeMeta
  metadata! meta/v1.ObjectMeta
  spec! ValidatingAdmissionPolicySpec
  status! ValidatingAdmissionPolicyStatus
ValidatingAdmissionPolicyBinding
  + meta/v1.TypeMeta
  metadata! meta/v1.ObjectMeta
  spec! ValidatingAdmissionPolicyBindingSpec
ValidatingAdmissionPolicyBindingSpec
  policyName string
  paramRef *ParamRef
  matchResources *MatchResources
  validationActions []~ValidationAction set
ValidatingAdmissionPolicySpec
  paramKind *ParamKind
  matchConstraints *MatchResources
  validations []Validation
  failurePolicy *~FailurePolicyType
  auditAnnotations []AuditAnnotation
  matchConditions []MatchCondition by=name patch=merge:name
  variables []Variable by=name patch=merge:name
ValidatingAdmissionPolicyStatus
  observedGeneration int64
  typeChecking *TypeChecking
  conditions []meta/v1.Condition by=type
ValidatingWebhook
  name! string
  clientConfig! WebhookClientConfig
  rules []RuleWithOperations
  failurePolicy *~FailurePolicyType
  matchPolicy *~MatchPolicyType
  namespaceSelector *meta/v1.LabelSelector
  objectSelector *meta/v1.LabelSelector
  sideEffects! *~SideEffectClass
  timeoutSeconds *int32
  admissionReviewVersions! []string
  matchConditions []MatchCondition by=name patch=merge:name
ValidatingWebhookConfiguration
  + meta/v1.TypeMeta
  metadata! meta/v1.ObjectMeta
  webhooks []ValidatingWebhook by=name patch=merge:name
Validation
  expression! string
  message string
  reason *~v1.StatusReason
  messageExpression string
Variable atomic
  name! string
  expression! string
WebhookClientConfig
  url *string
  service *ServiceReference
  caBundle bytes
`;
