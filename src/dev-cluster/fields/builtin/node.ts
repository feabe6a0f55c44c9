/** The types of node/v1. In the notation of notation.ts, as of Kubernetes 1.36. */
export const node = `
Overhead
  podFixed map~v1.ResourceList quantity
RuntimeClass
  + meta/v1.TypeMeta
  metadata! meta/v1.ObjectMeta
  handler! string
  overhead *Overhead
  scheduling *Scheduling
Scheduling
  nodeSelector map string atomic
  tolerations []core/v1.Toleration
`;
