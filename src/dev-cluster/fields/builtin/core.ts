/** The types of core/v1. In the notation of notation.ts, as of Kubernetes 1.36. */
export const core = `
AWSElasticBlockStoreVolumeSource
  volumeID! string
  fsType string
  partition int32
  readOnly boolean
Affinity
  nodeAffinity *NodeAffinity
  podAffinity *PodAffinity
  podAntiAffinity *PodAntiAffinity
AppArmorProfile
  type! ~AppArmorProfileType
  localhostProfile *string
AttachedVolume
  name! ~UniqueVolumeName
  devicePath! string
AzureDiskVolumeSource
  diskName! string
  diskURI! string
  cachingMode *~AzureDataDiskCachingMode
  fsType *string ="ext4"
  readOnly *boolean =false
  kind *~AzureDataDiskKind
AzureFilePersistentVolumeSource
  secretName! string
  shareName! string
  readOnly boolean
  secretNamespace! *string
AzureFileVolumeSource
  secretName! string
  shareName! string
  readOnly boolean
Binding
  + meta/v1.TypeMeta
  metadata! meta/v1.ObjectMeta
  target! ObjectReference atomic
CSIPersistentVolumeSource
  driver! string
  volumeHandle! string
  readOnly boolean
  fsType string
  volumeAttributes map string
  controllerPublishSecretRef *SecretReference
  nodeStageSecretRef *SecretReference
  nodePublishSecretRef *SecretReference
  controllerExpandSecretRef *SecretReference
  nodeExpandSecretRef *SecretReference
CSIVolumeSource
  driver! string
  readOnly *boolean
  fsType *string
  volumeAttributes map string
  nodePublishSecretRef *LocalObjectReference
Capabilities
  add []~Capability
  drop []~Capability
CephFSPersistentVolumeSource
  monitors! []string
  path string
  user string
  secretFile string
  secretRef *SecretReference
  readOnly boolean
CephFSVolumeSource
  monitors! []string
  path string
  user string
  secretFile string
  secretRef *LocalObjectReference
  readOnly boolean
CinderPersistentVolumeSource
  volumeID! string
  fsType string
  readOnly boolean
  secretRef *SecretReference
CinderVolumeSource
  volumeID! string
  fsType string
  readOnly boolean
  secretRef *LocalObjectReference
ClientIPConfig
  timeoutSeconds *int32
ClusterTrustBundleProjection
  name *string
  signerName *string
  labelSelector *meta/v1.LabelSelector
  optional *boolean
  path! string
ConfigMap
  + meta/v1.TypeMeta
  metadata! meta/v1.ObjectMeta
  immutable *boolean
  data map string
  binaryData map bytes
ConfigMapEnvSource
  + LocalObjectReference
  optional *boolean
ConfigMapKeySelector atomic
  + LocalObjectReference
  key! string
  optional *boolean
ConfigMapNodeConfigSource
  namespace! string
  name! string
  uid ~types.UID
  resourceVersion string
  kubeletConfigKey! string
ConfigMapProjection
  + LocalObjectReference
  items []KeyToPath
  optional *boolean
ConfigMapVolumeSource
  + LocalObjectReference
  items []KeyToPath
  defaultMode *int32
  optional *boolean
Container
  name! string
  image string
  command []string
  args []string
  workingDir string
  ports []ContainerPort by=containerPort,protocol patch=merge:containerPort
  envFrom []EnvFromSource
  env []EnvVar by=name patch=merge:name
  resources! ResourceRequirements
  resizePolicy []ContainerResizePolicy
  restartPolicy *~ContainerRestartPolicy
  restartPolicyRules []ContainerRestartRule
  volumeMounts []VolumeMount by=mountPath patch=merge:mountPath
  volumeDevices []VolumeDevice by=devicePath patch=merge:devicePath
  livenessProbe *Probe
  readinessProbe *Probe
  startupProbe *Probe
  lifecycle *Lifecycle
  terminationMessagePath string
  terminationMessagePolicy ~TerminationMessagePolicy
  imagePullPolicy ~PullPolicy
  securityContext *SecurityContext
  stdin boolean
  stdinOnce boolean
  tty boolean
ContainerExtendedResourceRequest
  containerName! string
  resourceName! string
  requestName! string
ContainerImage
  names! []string
  sizeBytes int64
ContainerPort
  name string
  hostPort int32
  containerPort! int32
  protocol ~Protocol ="TCP"
  hostIP string
ContainerResizePolicy
  resourceName! ~ResourceName
  restartPolicy! ~ResourceResizeRestartPolicy
ContainerRestartRule
  action ~ContainerRestartRuleAction
  exitCodes *ContainerRestartRuleOnExitCodes
ContainerRestartRuleOnExitCodes
  operator ~ContainerRestartRuleOnExitCodesOperator
  values []int32 set
ContainerState
  waiting *ContainerStateWaiting
  running *ContainerStateRunning
  terminated *ContainerStateTerminated
ContainerStateRunning
  startedAt! time
ContainerStateTerminated
  exitCode! int32
  signal int32
  reason string
  message string
  startedAt! time
  finishedAt! time
  containerID string
ContainerStateWaiting
  reason string
  message string
ContainerStatus
  name! string
  state! ContainerState
  lastState! ContainerState
  ready! boolean
  restartCount! int32
  image! string
  imageID! string
  containerID string
  started *boolean
  allocatedResources map~ResourceList quantity
  resources *ResourceRequirements
  volumeMounts []VolumeMountStatus by=mountPath patch=merge:mountPath
  user *ContainerUser
  allocatedResourcesStatus []ResourceStatus by=name patch=merge:name
  stopSignal *~Signal
ContainerUser
  linux *LinuxContainerUser
DaemonEndpoint
  Port! int32
DownwardAPIProjection
  items []DownwardAPIVolumeFile
DownwardAPIVolumeFile
  path! string
  fieldRef *ObjectFieldSelector
  resourceFieldRef *ResourceFieldSelector
  mode *int32
DownwardAPIVolumeSource
  items []DownwardAPIVolumeFile
  defaultMode *int32
EmptyDirVolumeSource
  medium ~StorageMedium
  sizeLimit *quantity
EndpointAddress atomic
  ip! string
  hostname string
  nodeName *string
  targetRef *ObjectReference
EndpointPort atomic
  name string
  port! int32
  protocol ~Protocol
  appProtocol *string
EndpointSubset
  addresses []EndpointAddress
  notReadyAddresses []EndpointAddress
  ports []EndpointPort
Endpoints
  + meta/v1.TypeMeta
  metadata! meta/v1.ObjectMeta
  subsets []EndpointSubset
EnvFromSource
  prefix string
  configMapRef *ConfigMapEnvSource
  secretRef *SecretEnvSource
EnvVar
  name! string
  value string
  valueFrom *EnvVarSource
EnvVarSource
  fieldRef *ObjectFieldSelector
  resourceFieldRef *ResourceFieldSelector
  configMapKeyRef *ConfigMapKeySelector
  secretKeyRef *SecretKeySelector
  fileKeyRef *FileKeySelector
EphemeralContainer
  + EphemeralContainerCommon
  targetContainerName string
EphemeralContainerCommon
  name! string
  image string
  command []string
  args []string
  workingDir string
  ports []ContainerPort by=containerPort,protocol patch=merge:containerPort
  envFrom []EnvFromSource
  env []EnvVar by=name patch=merge:name
  resources! ResourceRequirements
  resizePolicy []ContainerResizePolicy
  restartPolicy *~ContainerRestartPolicy
  restartPolicyRules []ContainerRestartRule
  volumeMounts []VolumeMount by=mountPath patch=merge:mountPath
  volumeDevices []VolumeDevice by=devicePath patch=merge:devicePath
  livenessProbe *Probe
  readinessProbe *Probe
  startupProbe *Probe
  lifecycle *Lifecycle
  terminationMessagePath string
  terminationMessagePolicy ~TerminationMessagePolicy
  imagePullPolicy ~PullPolicy
  securityContext *SecurityContext
  stdin boolean
  stdinOnce boolean
  tty boolean
EphemeralVolumeSource
  volumeClaimTemplate *PersistentVolumeClaimTemplate
Event
  + meta/v1.TypeMeta
  metadata! meta/v1.ObjectMeta
  involvedObject! ObjectReference atomic
  reason string
  message string
  source! EventSource
  firstTimestamp! time
  lastTimestamp! time
  count int32
  type string
  eventTime! micro-time
  series *EventSeries
  action string
  related *ObjectReference
  reportingComponent! string
  reportingInstance! string
EventSeries
  count int32
  lastObservedTime! micro-time
EventSource
  component string
  host string
ExecAction
  command []string
FCVolumeSource
  targetWWNs []string
  lun *int32
  fsType string
  readOnly boolean
  wwids []string
FileKeySelector atomic
  volumeName! string
  path! string
  key! string
  optional *boolean =false
FlexPersistentVolumeSource
  driver! string
  fsType string
  secretRef *SecretReference
  readOnly boolean
  options map string
FlexVolumeSource
  driver! string
  fsType string
  secretRef *LocalObjectReference
  readOnly boolean
  options map string
FlockerVolumeSource
  datasetName string
  datasetUUID string
GCEPersistentDiskVolumeSource
  pdName! string
  fsType string
  partition int32
  readOnly boolean
GRPCAction
  port! int32
  service! *string =""
GitRepoVolumeSource
  repository! string
  revision string
  directory string
GlusterfsPersistentVolumeSource
  endpoints! string
  path! string
  readOnly boolean
  endpointsNamespace *string
GlusterfsVolumeSource
  endpoints! string
  path! string
  readOnly boolean
HTTPGetAction
  path string
  port! int-or-string
  host string
  scheme ~URIScheme
  httpHeaders []HTTPHeader
HTTPHeader
  name! string
  value! string
HostAlias
  ip! string
  hostnames []string
HostIP
  ip! string
HostPathVolumeSource
  path! string
  type *~HostPathType
ISCSIPersistentVolumeSource
  targetPortal! string
  iqn! string
  lun! int32
  iscsiInterface string ="default"
  fsType string
  readOnly boolean
  portals []string
  chapAuthDiscovery boolean
  chapAuthSession boolean
  secretRef *SecretReference
  initiatorName *string
ISCSIVolumeSource
  targetPortal! string
  iqn! string
  lun! int32
  iscsiInterface string ="default"
  fsType string
  readOnly boolean
  portals []string
  chapAuthDiscovery boolean
  chapAuthSession boolean
  secretRef *LocalObjectReference
  initiatorName *string
ImageVolumeSource
  reference string
  pullPolicy ~PullPolicy
ImageVolumeStatus
  imageRef string
KeyToPath
  key! string
  path! string
  mode *int32
Lifecycle
  postStart *LifecycleHandler
  preStop *LifecycleHandler
  stopSignal *~Signal
LifecycleHandler
  exec *ExecAction
  httpGet *HTTPGetAction
  tcpSocket *TCPSocketAction
  sleep *SleepAction
LimitRange
  + meta/v1.TypeMeta
  metadata! meta/v1.ObjectMeta
  spec! LimitRangeSpec
LimitRangeItem
  type! ~LimitType
  max map~ResourceList quantity
  min map~ResourceList quantity
  default map~ResourceList quantity
  defaultRequest map~ResourceList quantity
  maxLimitRequestRatio map~ResourceList quantity
LimitRangeSpec
  limits! []LimitRangeItem
LinuxContainerUser
  uid! int64
  gid! int64
  supplementalGroups []int64
LoadBalancerIngress
  ip string
  hostname string
  ipMode *~LoadBalancerIPMode
  ports []PortStatus
LoadBalancerStatus
  ingress []LoadBalancerIngress
LocalObjectReference atomic
  name string =""
LocalVolumeSource
  path! string
  fsType *string
ModifyVolumeStatus
  targetVolumeAttributesClassName string
  status! ~PersistentVolumeClaimModifyVolumeStatus
NFSVolumeSource
  server! string
  path! string
  readOnly boolean
Namespace
  + meta/v1.TypeMeta
  metadata! meta/v1.ObjectMeta
  spec! NamespaceSpec
  status! NamespaceStatus
NamespaceCondition
  type! ~NamespaceConditionType
  status! ~ConditionStatus
  lastTransitionTime! time
  reason string
  message string
NamespaceSpec
  finalizers []~FinalizerName
NamespaceStatus
  phase ~NamespacePhase
  conditions []NamespaceCondition by=type patch=merge:type
Node
  + meta/v1.TypeMeta
  metadata! meta/v1.ObjectMeta
  spec! NodeSpec
  status! NodeStatus
NodeAddress
  type! ~NodeAddressType
  address! string
NodeAffinity
  requiredDuringSchedulingIgnoredDuringExecution *NodeSelector
  preferredDuringSchedulingIgnoredDuringExecution []PreferredSchedulingTerm
NodeAllocatableResourceClaimStatus
  resourceClaimName! string
  containers []string set
  resources! map[ResourceName] quantity
NodeCondition
  type! ~NodeConditionType
  status! ~ConditionStatus
  lastHeartbeatTime! time
  lastTransitionTime! time
  reason string
  message string
NodeConfigSource
  configMap *ConfigMapNodeConfigSource
NodeConfigStatus
  assigned *NodeConfigSource
  active *NodeConfigSource
  lastKnownGood *NodeConfigSource
  error string
NodeDaemonEndpoints
  kubeletEndpoint! DaemonEndpoint
NodeFeatures
  supplementalGroupsPolicy *boolean
NodeRuntimeHandler
  name! string
  features *NodeRuntimeHandlerFeatures
NodeRuntimeHandlerFeatures
  recursiveReadOnlyMounts *boolean
  userNamespaces *boolean
NodeSelector atomic
  nodeSelectorTerms! []NodeSelectorTerm
NodeSelectorRequirement
  key! string
  operator! ~NodeSelectorOperator
  values []string
NodeSelectorTerm atomic
  matchExpressions []NodeSelectorRequirement
  matchFields []NodeSelectorRequirement
NodeSpec
  podCIDR string
  podCIDRs []string set patch=merge
  providerID string
  unschedulable boolean
  taints []Taint
  configSource *NodeConfigSource
  externalID string
NodeStatus
  capacity map~ResourceList quantity
  allocatable map~ResourceList quantity
  phase ~NodePhase
  conditions []NodeCondition by=type patch=merge:type
  addresses []NodeAddress by=type patch=merge:type
  daemonEndpoints! NodeDaemonEndpoints
  nodeInfo! NodeSystemInfo
  images []ContainerImage
  volumesInUse []~UniqueVolumeName
  volumesAttached []AttachedVolume
  config *NodeConfigStatus
  runtimeHandlers []NodeRuntimeHandler
  features *NodeFeatures
  declaredFeatures []string
NodeSwapStatus
  capacity *int64
NodeSystemInfo
  machineID! string
  systemUUID! string
  bootID! string
  kernelVersion! string
  osImage! string
  containerRuntimeVersion! string
  kubeletVersion! string
  kubeProxyVersion! string
  operatingSystem! string
  architecture! string
  swap *NodeSwapStatus
ObjectFieldSelector atomic
  apiVersion string
  fieldPath! string
ObjectReference atomic
  kind string
  namespace string
  name string
  uid ~types.UID
  apiVersion string
  resourceVersion string
  fieldPath string
PersistentVolume
  + meta/v1.TypeMeta
  metadata! meta/v1.ObjectMeta
  spec! PersistentVolumeSpec
  status! PersistentVolumeStatus
PersistentVolumeClaim
  + meta/v1.TypeMeta
  metadata! meta/v1.ObjectMeta
  spec! PersistentVolumeClaimSpec
  status! PersistentVolumeClaimStatus
PersistentVolumeClaimCondition
  type! ~PersistentVolumeClaimConditionType
  status! ~ConditionStatus
  lastProbeTime! time
  lastTransitionTime! time
  reason string
  message string
PersistentVolumeClaimSpec
  accessModes []~PersistentVolumeAccessMode
  selector *meta/v1.LabelSelector
  resources! VolumeResourceRequirements
  volumeName string
  storageClassName *string
  volumeMode *~PersistentVolumeMode
  dataSource *TypedLocalObjectReference
  dataSourceRef *TypedObjectReference
  volumeAttributesClassName *string
PersistentVolumeClaimStatus
  phase ~PersistentVolumeClaimPhase
  accessModes []~PersistentVolumeAccessMode
  capacity map~ResourceList quantity
  conditions []PersistentVolumeClaimCondition by=type patch=merge:type
  allocatedResources map~ResourceList quantity
  allocatedResourceStatuses map[ResourceName] ~ClaimResourceStatus
  currentVolumeAttributesClassName *string
  modifyVolumeStatus *ModifyVolumeStatus
PersistentVolumeClaimTemplate
  metadata! meta/v1.ObjectMeta
  spec! PersistentVolumeClaimSpec
PersistentVolumeClaimVolumeSource
  claimName! string
  readOnly boolean
PersistentVolumeSource
  gcePersistentDisk *GCEPersistentDiskVolumeSource
  awsElasticBlockStore *AWSElasticBlockStoreVolumeSource
  hostPath *HostPathVolumeSource
  glusterfs *GlusterfsPersistentVolumeSource
  nfs *NFSVolumeSource
  rbd *RBDPersistentVolumeSource
  iscsi *ISCSIPersistentVolumeSource
  cinder *CinderPersistentVolumeSource
  cephfs *CephFSPersistentVolumeSource
  fc *FCVolumeSource
  flocker *FlockerVolumeSource
  flexVolume *FlexPersistentVolumeSource
  azureFile *AzureFilePersistentVolumeSource
  vsphereVolume *VsphereVirtualDiskVolumeSource
  quobyte *QuobyteVolumeSource
  azureDisk *AzureDiskVolumeSource
  photonPersistentDisk *PhotonPersistentDiskVolumeSource
  portworxVolume *PortworxVolumeSource
  scaleIO *ScaleIOPersistentVolumeSource
  local *LocalVolumeSource
  storageos *StorageOSPersistentVolumeSource
  csi *CSIPersistentVolumeSource
PersistentVolumeSpec
  capacity map~ResourceList quantity
  + PersistentVolumeSource
  accessModes []~PersistentVolumeAccessMode
  claimRef *ObjectReference granular
  persistentVolumeReclaimPolicy ~PersistentVolumeReclaimPolicy
  storageClassName string
  mountOptions []string
  volumeMode *~PersistentVolumeMode
  nodeAffinity *VolumeNodeAffinity
  volumeAttributesClassName *string
PersistentVolumeStatus
  phase ~PersistentVolumePhase
  message string
  reason string
  lastPhaseTransitionTime *time
PhotonPersistentDiskVolumeSource
  pdID! string
  fsType string
Pod
  + meta/v1.TypeMeta
  metadata! meta/v1.ObjectMeta
  spec! PodSpec
  status! PodStatus
PodAffinity
  requiredDuringSchedulingIgnoredDuringExecution []PodAffinityTerm
  preferredDuringSchedulingIgnoredDuringExecution []WeightedPodAffinityTerm
PodAffinityTerm
  labelSelector *meta/v1.LabelSelector
  namespaces []string
  topologyKey! string
  namespaceSelector *meta/v1.LabelSelector
  matchLabelKeys []string
  mismatchLabelKeys []string
PodAntiAffinity
  requiredDuringSchedulingIgnoredDuringExecution []PodAffinityTerm
  preferredDuringSchedulingIgnoredDuringExecution []WeightedPodAffinityTerm
PodCertificateProjection
  signerName string
  keyType string
  maxExpirationSeconds *int32
  credentialBundlePath string
  keyPath string
  certificateChainPath string
  userAnnotations map string
PodCondition
  type! ~PodConditionType
  observedGeneration int64
  status! ~ConditionStatus
  lastProbeTime! time
  lastTransitionTime! time
  reason string
  message string
PodDNSConfig
  nameservers []string
  searches []string
  options []PodDNSConfigOption
PodDNSConfigOption
  name string
  value *string
PodExtendedResourceClaimStatus
  requestMappings! []ContainerExtendedResourceRequest
  resourceClaimName! string
PodIP
  ip! string
PodOS
  name! ~OSName
PodReadinessGate
  conditionType! ~PodConditionType
PodResourceClaim
  name! string
  resourceClaimName *string
  resourceClaimTemplateName *string
PodResourceClaimStatus
  name! string
  resourceClaimName *string
PodSchedulingGate
  name! string
PodSchedulingGroup
  podGroupName *string
PodSecurityContext
  seLinuxOptions *SELinuxOptions
  windowsOptions *WindowsSecurityContextOptions
  runAsUser *int64
  runAsGroup *int64
  runAsNonRoot *boolean
  supplementalGroups []int64
  supplementalGroupsPolicy *~SupplementalGroupsPolicy
  fsGroup *int64
  sysctls []Sysctl
  fsGroupChangePolicy *~PodFSGroupChangePolicy
  seccompProfile *SeccompProfile
  appArmorProfile *AppArmorProfile
  seLinuxChangePolicy *~PodSELinuxChangePolicy
PodSpec
  volumes []Volume by=name patch=merge,retainKeys:name
  initContainers []Container by=name patch=merge:name
  containers! []Container by=name patch=merge:name
  ephemeralContainers []EphemeralContainer by=name patch=merge:name
  restartPolicy ~RestartPolicy
  terminationGracePeriodSeconds *int64
  activeDeadlineSeconds *int64
  dnsPolicy ~DNSPolicy
  nodeSelector map string atomic
  serviceAccountName string
  serviceAccount string
  automountServiceAccountToken *boolean
  nodeName string
  hostNetwork boolean
  hostPID boolean
  hostIPC boolean
  shareProcessNamespace *boolean
  securityContext *PodSecurityContext
  imagePullSecrets []LocalObjectReference by=name patch=merge:name
  hostname string
  subdomain string
  affinity *Affinity
  schedulerName string
  tolerations []Toleration
  hostAliases []HostAlias by=ip patch=merge:ip
  priorityClassName string
  priority *int32
  dnsConfig *PodDNSConfig
  readinessGates []PodReadinessGate
  runtimeClassName *string
  enableServiceLinks *boolean
  preemptionPolicy *~PreemptionPolicy
  overhead map~ResourceList quantity
  topologySpreadConstraints []TopologySpreadConstraint by=topologyKey,whenUnsatisfiable patch=merge:topologyKey
  setHostnameAsFQDN *boolean
  os *PodOS
  hostUsers *boolean
  schedulingGates []PodSchedulingGate by=name patch=merge:name
  resourceClaims []PodResourceClaim by=name patch=merge,retainKeys:name
  resources *ResourceRequirements
  hostnameOverride *string
  schedulingGroup *PodSchedulingGroup
PodStatus
  observedGeneration int64
  phase ~PodPhase
  conditions []PodCondition by=type patch=merge:type
  message string
  reason string
  nominatedNodeName string
  hostIP string
  hostIPs []HostIP patch=merge:ip
  podIP string
  podIPs []PodIP by=ip patch=merge:ip
  startTime *time
  initContainerStatuses []ContainerStatus
  containerStatuses []ContainerStatus
  qosClass ~PodQOSClass
  ephemeralContainerStatuses []ContainerStatus
  resize ~PodResizeStatus
  resourceClaimStatuses []PodResourceClaimStatus by=name patch=merge,retainKeys:name
  extendedResourceClaimStatus *PodExtendedResourceClaimStatus
  allocatedResources map~ResourceList quantity
  resources *ResourceRequirements
  nodeAllocatableResourceClaimStatuses []NodeAllocatableResourceClaimStatus
PodTemplate
  + meta/v1.TypeMeta
  metadata! meta/v1.ObjectMeta
  template! PodTemplateSpec
PodTemplateSpec
  metadata! meta/v1.ObjectMeta
  spec! PodSpec
PortStatus
  port! int32
  protocol! ~Protocol
  error *string
PortworxVolumeSource
  volumeID! string
  fsType string
  readOnly boolean
PreferredSchedulingTerm
  weight! int32
  preference! NodeSelectorTerm atomic
Probe
  + ProbeHandler
  initialDelaySeconds int32
  timeoutSeconds int32
  periodSeconds int32
  successThreshold int32
  failureThreshold int32
  terminationGracePeriodSeconds *int64
ProbeHandler
  exec *ExecAction
  httpGet *HTTPGetAction
  tcpSocket *TCPSocketAction
  grpc *GRPCAction
ProjectedVolumeSource
  sources! []VolumeProjection
  defaultMode *int32
QuobyteVolumeSource
  registry! string
  volume! string
  readOnly boolean
  user string
  group string
  tenant string
RBDPersistentVolumeSource
  monitors! []string
  image! string
  fsType string
  pool string ="rbd"
  user string ="admin"
  keyring string ="/etc/ceph/keyring"
  secretRef *SecretReference
  readOnly boolean
RBDVolumeSource
  monitors! []string
  image! string
  fsType string
  pool string ="rbd"
  user string ="admin"
  keyring string ="/etc/ceph/keyring"
  secretRef *LocalObjectReference
  readOnly boolean
ReplicationController
  + meta/v1.TypeMeta
  metadata! meta/v1.ObjectMeta
  spec! ReplicationControllerSpec
  status! ReplicationControllerStatus
ReplicationControllerCondition
  type! ~ReplicationControllerConditionType
  status! ~ConditionStatus
  lastTransitionTime! time
  reason string
  message string
ReplicationControllerSpec
  replicas *int32 =1
  minReadySeconds int32 =0
  selector map string atomic
  template *PodTemplateSpec
ReplicationControllerStatus
  replicas! int32
  fullyLabeledReplicas int32
  readyReplicas int32
  availableReplicas int32
  observedGeneration int64
  conditions []ReplicationControllerCondition by=type patch=merge:type
ResourceClaim
  name! string
  request string
ResourceFieldSelector atomic
  containerName string
  resource! string
  divisor! quantity
ResourceHealth
  resourceID! ~ResourceID
  health ~ResourceHealthStatus
  message *string
ResourceQuota
  + meta/v1.TypeMeta
  metadata! meta/v1.ObjectMeta
  spec! ResourceQuotaSpec
  status! ResourceQuotaStatus
ResourceQuotaSpec
  hard map~ResourceList quantity
  scopes []~ResourceQuotaScope
  scopeSelector *ScopeSelector
ResourceQuotaStatus
  hard map~ResourceList quantity
  used map~ResourceList quantity
ResourceRequirements
  limits map~ResourceList quantity
  requests map~ResourceList quantity
  claims []ResourceClaim by=name
ResourceStatus
  name! ~ResourceName
  resources []ResourceHealth by=resourceID
SELinuxOptions
  user string
  role string
  type string
  level string
ScaleIOPersistentVolumeSource
  gateway! string
  system! string
  secretRef! *SecretReference
  sslEnabled boolean
  protectionDomain string
  storagePool string
  storageMode string ="ThinProvisioned"
  volumeName string
  fsType string ="xfs"
  readOnly boolean
ScaleIOVolumeSource
  gateway! string
  system! string
  secretRef! *LocalObjectReference
  sslEnabled boolean
  protectionDomain string
  storagePool string
  storageMode string ="ThinProvisioned"
  volumeName string
  fsType string ="xfs"
  readOnly boolean
ScopeSelector atomic
  matchExpressions []ScopedResourceSelectorRequirement
ScopedResourceSelectorRequirement
  scopeName! ~ResourceQuotaScope
  operator! ~ScopeSelectorOperator
  values []string
SeccompProfile
  type! ~SeccompProfileType
  localhostProfile *string
Secret
  + meta/v1.TypeMeta
  metadata! meta/v1.ObjectMeta
  immutable *boolean
  data map bytes
  stringData map string
  type ~SecretType
SecretEnvSource
  + LocalObjectReference
  optional *boolean
SecretKeySelector atomic
  + LocalObjectReference
  key! string
  optional *boolean
SecretProjection
  + LocalObjectReference
  items []KeyToPath
  optional *boolean
SecretReference atomic
  name string
  namespace string
SecretVolumeSource
  secretName string
  items []KeyToPath
  defaultMode *int32
  optional *boolean
SecurityContext
  capabilities *Capabilities
  privileged *boolean
  seLinuxOptions *SELinuxOptions
  windowsOptions *WindowsSecurityContextOptions
  runAsUser *int64
  runAsGroup *int64
  runAsNonRoot *boolean
  readOnlyRootFilesystem *boolean
  allowPrivilegeEscalation *boolean
  procMount *~ProcMountType
  seccompProfile *SeccompProfile
  appArmorProfile *AppArmorProfile
Service
  + meta/v1.TypeMeta
  metadata! meta/v1.ObjectMeta
  spec! ServiceSpec
  status! ServiceStatus
ServiceAccount
  + meta/v1.TypeMeta
  metadata! meta/v1.ObjectMeta
  secrets []ObjectReference by=name patch=merge:name
  imagePullSecrets []LocalObjectReference
  automountServiceAccountToken *boolean
ServiceAccountTokenProjection
  audience string
  expirationSeconds *int64
  path! string
ServicePort
  name string
  protocol ~Protocol ="TCP"
  appProtocol *string
  port! int32
  targetPort! int-or-string
  nodePort int32
ServiceSpec
  ports []ServicePort by=port,protocol patch=merge:port
  selector map string atomic
  clusterIP string
  clusterIPs []string
  type ~ServiceType
  externalIPs []string
  sessionAffinity ~ServiceAffinity
  loadBalancerIP string
  loadBalancerSourceRanges []string
  externalName string
  externalTrafficPolicy ~ServiceExternalTrafficPolicy
  healthCheckNodePort int32
  publishNotReadyAddresses boolean
  sessionAffinityConfig *SessionAffinityConfig
  ipFamilies []~IPFamily
  ipFamilyPolicy *~IPFamilyPolicy
  allocateLoadBalancerNodePorts *boolean
  loadBalancerClass *string
  internalTrafficPolicy *~ServiceInternalTrafficPolicy
  trafficDistribution *string
ServiceStatus
  loadBalancer! LoadBalancerStatus
  conditions []meta/v1.Condition by=type patch=merge:type
SessionAffinityConfig
  clientIP *ClientIPConfig
SleepAction
  seconds! int64
StorageOSPersistentVolumeSource
  volumeName string
  volumeNamespace string
  fsType string
  readOnly boolean
  secretRef *ObjectReference
StorageOSVolumeSource
  volumeName string
  volumeNamespace string
  fsType string
  readOnly boolean
  secretRef *LocalObjectReference
Sysctl
  name! string
  value! string
TCPSocketAction
  port! int-or-string
  host string
Taint
  key! string
  value string
  effect! ~TaintEffect
  timeAdded *time
Toleration
  key string
  operator ~TolerationOperator
  value string
  effect ~TaintEffect
  tolerationSeconds *int64
TopologySelectorLabelRequirement
  key! string
  values! []string
TopologySelectorTerm atomic
  matchLabelExpressions []TopologySelectorLabelRequirement
TopologySpreadConstraint
  maxSkew! int32
  topologyKey! string
  whenUnsatisfiable! ~UnsatisfiableConstraintAction
  labelSelector *meta/v1.LabelSelector
  minDomains *int32
  nodeAffinityPolicy *~NodeInclusionPolicy
  nodeTaintsPolicy *~NodeInclusionPolicy
  matchLabelKeys []string
TypedLocalObjectReference atomic
  apiGroup! *string
  kind! string
  name! string
TypedObjectReference
  apiGroup! *string
  kind! string
  name! string
  namespace *string
Volume
  name! string
  + VolumeSource
VolumeDevice
  name! string
  devicePath! string
VolumeMount
  name! string
  readOnly boolean
  recursiveReadOnly *~RecursiveReadOnlyMode
  mountPath! string
  subPath string
  mountPropagation *~MountPropagationMode
  subPathExpr string
VolumeMountStatus
  name! string
  mountPath! string
  readOnly boolean
  recursiveReadOnly *~RecursiveReadOnlyMode
  volumeStatus *VolumeStatus
VolumeNodeAffinity
  required *NodeSelector
VolumeProjection
  secret *SecretProjection
  downwardAPI *DownwardAPIProjection
  configMap *ConfigMapProjection
  serviceAccountToken *ServiceAccountTokenProjection
  clusterTrustBundle *ClusterTrustBundleProjection
  podCertificate *PodCertificateProjection
VolumeResourceRequirements
  limits map~ResourceList quantity
  requests map~ResourceList quantity
VolumeSource
  hostPath *HostPathVolumeSource
  emptyDir *EmptyDirVolumeSource
  gcePersistentDisk *GCEPersistentDiskVolumeSource
  awsElasticBlockStore *AWSElasticBlockStoreVolumeSource
  gitRepo *GitRepoVolumeSource
  secret *SecretVolumeSource
  nfs *NFSVolumeSource
  iscsi *ISCSIVolumeSource
  glusterfs *GlusterfsVolumeSource
  persistentVolumeClaim *PersistentVolumeClaimVolumeSource
  rbd *RBDVolumeSource
  flexVolume *FlexVolumeSource
  cinder *CinderVolumeSource
  cephfs *CephFSVolumeSource
  flocker *FlockerVolumeSource
  downwardAPI *DownwardAPIVolumeSource
  fc *FCVolumeSource
  azureFile *AzureFileVolumeSource
  configMap *ConfigMapVolumeSource
  vsphereVolume *VsphereVirtualDiskVolumeSource
  quobyte *QuobyteVolumeSource
  azureDisk *AzureDiskVolumeSource
  photonPersistentDisk *PhotonPersistentDiskVolumeSource
  projected *ProjectedVolumeSource
  portworxVolume *PortworxVolumeSource
  scaleIO *ScaleIOVolumeSource
  storageos *StorageOSVolumeSource
  csi *CSIVolumeSource
  ephemeral *EphemeralVolumeSource
  image *ImageVolumeSource
VolumeStatus
  image *ImageVolumeStatus
VsphereVirtualDiskVolumeSource
  volumePath! string
  fsType string
  storagePolicyName string
  storagePolicyID string
WeightedPodAffinityTerm
  weight! int32
  podAffinityTerm! PodAffinityTerm
WindowsSecurityContextOptions
  gmsaCredentialSpecName *string
  gmsaCredentialSpec *string
  runAsUserName *string
  hostProcess *boolean
`;
