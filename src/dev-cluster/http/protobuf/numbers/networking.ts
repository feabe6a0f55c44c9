/** The numbers of the fields of networking/v1. Printed by scripts/protobuf-numbers.ts. */
export const networking = `
HTTPIngressPath path backend pathType
HTTPIngressRuleValue paths
IPBlock cidr except
Ingress metadata spec status
IngressBackend - - resource service
IngressClass metadata spec
IngressClassParametersReference - kind name scope namespace
IngressClassSpec controller parameters
IngressLoadBalancerIngress ip hostname - ports
IngressLoadBalancerStatus ingress
IngressPortStatus port protocol error
IngressRule host +IngressRuleValue
IngressRuleValue http
IngressServiceBackend name port
IngressSpec defaultBackend tls rules ingressClassName
IngressStatus loadBalancer
IngressTLS hosts secretName
NetworkPolicy metadata spec
NetworkPolicyEgressRule ports to
NetworkPolicyIngressRule ports from
NetworkPolicyPeer podSelector namespaceSelector ipBlock
NetworkPolicyPort protocol port endPort
NetworkPolicySpec podSelector ingress egress policyTypes
ServiceBackendPort name number
`;
