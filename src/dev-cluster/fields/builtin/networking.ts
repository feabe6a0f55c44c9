/** The types of networking/v1. In the notation of notation.ts, as of Kubernetes 1.36. */
export const networking = `
HTTPIngressPath
  path string
  pathType! *~PathType
  backend! IngressBackend
HTTPIngressRuleValue
  paths! []HTTPIngressPath
IPBlock
  cidr! string
  except []string
Ingress
  + meta/v1.TypeMeta
  metadata! meta/v1.ObjectMeta
  spec! IngressSpec
  status! IngressStatus
IngressBackend
  service *IngressServiceBackend
  resource *core/v1.TypedLocalObjectReference
IngressClass
  + meta/v1.TypeMeta
  metadata! meta/v1.ObjectMeta
  spec! IngressClassSpec
IngressClassParametersReference
  apiGroup *string
  kind! string
  name! string
  scope! *string
  namespace *string
IngressClassSpec
  controller string
  parameters *IngressClassParametersReference
IngressLoadBalancerIngress
  ip string
  hostname string
  ports []IngressPortStatus
IngressLoadBalancerStatus
  ingress []IngressLoadBalancerIngress
IngressPortStatus
  port! int32
  protocol! ~v1.Protocol
  error *string
IngressRule
  host string
  + IngressRuleValue
IngressRuleValue
  http *HTTPIngressRuleValue
IngressServiceBackend
  name! string
  port! ServiceBackendPort atomic
IngressSpec
  ingressClassName *string
  defaultBackend *IngressBackend
  tls []IngressTLS
  rules []IngressRule
IngressStatus
  loadBalancer! IngressLoadBalancerStatus
IngressTLS
  hosts []string
  secretName string
NetworkPolicy
  + meta/v1.TypeMeta
  metadata! meta/v1.ObjectMeta
  spec! NetworkPolicySpec
NetworkPolicyEgressRule
  ports []NetworkPolicyPort
  to []NetworkPolicyPeer
NetworkPolicyIngressRule
  ports []NetworkPolicyPort
  from []NetworkPolicyPeer
NetworkPolicyPeer
  podSelector *meta/v1.LabelSelector
  namespaceSelector *meta/v1.LabelSelector
  ipBlock *IPBlock
NetworkPolicyPort
  protocol *~v1.Protocol
  port *int-or-string
  endPort *int32
NetworkPolicySpec
  podSelector! meta/v1.LabelSelector atomic
  ingress []NetworkPolicyIngressRule
  egress []NetworkPolicyEgressRule
  policyTypes []~PolicyType
ServiceBackendPort atomic
  name string
  number int32
`;
