/** The types of storage/v1. In the notation of notation.ts, as of Kubernetes 1.36. */
export const storage = `
StorageClass
  + meta/v1.TypeMeta
  metadata! meta/v1.ObjectMeta
  provisioner! string
  parameters map string
  reclaimPolicy *~v1.PersistentVolumeReclaimPolicy
  mountOptions []string
  allowVolumeExpansion *boolean
  volumeBindingMode *~VolumeBindingMode
  allowedTopologies []core/v1.TopologySelectorTerm
`;
