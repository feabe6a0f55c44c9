/** The types of apiextensions/v1. In the notation of notation.ts, as of Kubernetes 1.36. */
export const apiextensions = `
CustomResourceColumnDefinition
  name! string
  type! string
  format string
  description string
  priority int32
  jsonPath! string
CustomResourceConversion
  strategy! ~ConversionStrategyType
  webhook *WebhookConversion
CustomResourceDefinition
  + meta/v1.TypeMeta
  metadata! meta/v1.ObjectMeta
  spec! CustomResourceDefinitionSpec
  status! CustomResourceDefinitionStatus
CustomResourceDefinitionCondition
  type! ~CustomResourceDefinitionConditionType
  status! ~ConditionStatus
  lastTransitionTime! time
  reason string
  message string
  observedGeneration int64
CustomResourceDefinitionNames
  plural! string
  singular string
  shortNames []string
  kind! string
  listKind string
  categories []string
CustomResourceDefinitionSpec
  group! string
  names! CustomResourceDefinitionNames
  scope! ~ResourceScope
  versions! []CustomResourceDefinitionVersion
  conversion *CustomResourceConversion
  preserveUnknownFields boolean
CustomResourceDefinitionStatus
  conditions! []CustomResourceDefinitionCondition by=type
  acceptedNames! CustomResourceDefinitionNames
  storedVersions! []string
  observedGeneration int64
CustomResourceDefinitionVersion
  name! string
  served! boolean
  storage! boolean
  deprecated boolean
  deprecationWarning *string
  schema *CustomResourceValidation
  subresources *CustomResourceSubresources
  additionalPrinterColumns []CustomResourceColumnDefinition
  selectableFields []SelectableField
CustomResourceSubresourceScale
  specReplicasPath! string
  statusReplicasPath! string
  labelSelectorPath *string
CustomResourceSubresourceStatus
CustomResourceSubresources
  status *CustomResourceSubresourceStatus
  scale *CustomResourceSubresourceScale
CustomResourceValidation
  openAPIV3Schema *JSONSchemaProps
ExternalDocumentation
  description string
  url string
JSONSchemaProps
  id string
  $schema ~JSONSchemaURL
  $ref *string
  description string
  type string
  format string
  title string
  default *any
  maximum *number
  exclusiveMaximum boolean
  minimum *number
  exclusiveMinimum boolean
  maxLength *int64
  minLength *int64
  pattern string
  maxItems *int64
  minItems *int64
  uniqueItems boolean
  multipleOf *number
  enum []any
  maxProperties *int64
  minProperties *int64
  required []string
  items *any
  allOf []JSONSchemaProps
  oneOf []JSONSchemaProps
  anyOf []JSONSchemaProps
  not *JSONSchemaProps
  properties map JSONSchemaProps
  additionalProperties *any
  patternProperties map JSONSchemaProps
  dependencies map~JSONSchemaDependencies any
  additionalItems *any
  definitions map~JSONSchemaDefinitions JSONSchemaProps
  externalDocs *ExternalDocumentation
  example *any
  nullable boolean
  x-kubernetes-preserve-unknown-fields *boolean
  x-kubernetes-embedded-resource boolean
  x-kubernetes-int-or-string boolean
  x-kubernetes-list-map-keys []string
  x-kubernetes-list-type *string
  x-kubernetes-map-type *string
  x-kubernetes-validations []ValidationRule by=rule patch=merge:rule
SelectableField
  jsonPath! string
ServiceReference
  namespace! string
  name! string
  path *string
  port *int32
ValidationRule
  rule! string
  message string
  messageExpression string
  reason *~FieldValueErrorReason
  fieldPath string
  optionalOldSelf *boolean
WebhookClientConfig
  url *string
  service *ServiceReference
  caBundle bytes
WebhookConversion
  clientConfig *WebhookClientConfig
  conversionReviewVersions! []string
`;
