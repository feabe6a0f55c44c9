/** The types of discovery/v1. In the notation of notation.ts, as of Kubernetes 1.36. */
export const discovery = `
Endpoint
  addresses! []string set
  conditions! EndpointConditions
  hostname *string
  targetRef *core/v1.ObjectReference
  deprecatedTopology map string
  nodeName *string
  zone *string
  hints *EndpointHints
EndpointConditions
  ready *boolean
  serving *boolean
  terminating *boolean
EndpointHints
  forZones []ForZone
  forNodes []ForNode
EndpointPort atomic
  name *string
  protocol *~v1.Protocol
  port *int32
  appProtocol *string
EndpointSlice
  + meta/v1.TypeMeta
  metadata! meta/v1.ObjectMeta
  addressType! ~AddressType
  endpoints! []Endpoint
  ports! []EndpointPort
ForNode
  name! string
ForZone
  name! string
`;
