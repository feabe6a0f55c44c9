/** The types of apps/v1. In the notation of notation.ts, as of Kubernetes 1.36. */
export const apps = `
ControllerRevision
  + meta/v1.TypeMeta
  metadata! meta/v1.ObjectMeta
  data! any
  revision! int64
DaemonSet
  + meta/v1.TypeMeta
  metadata! meta/v1.ObjectMeta
  spec! DaemonSetSpec
  status! DaemonSetStatus
DaemonSetCondition
  type! ~DaemonSetConditionType
  status! ~v1.ConditionStatus
  lastTransitionTime! time
  reason string
  message string
DaemonSetSpec
  selector! *meta/v1.LabelSelector
  template! core/v1.PodTemplateSpec
  updateStrategy! DaemonSetUpdateStrategy
  minReadySeconds int32
  revisionHistoryLimit *int32
DaemonSetStatus
  currentNumberScheduled! int32
  numberMisscheduled! int32
  desiredNumberScheduled! int32
  numberReady! int32
  observedGeneration int64
  updatedNumberScheduled int32
  numberAvailable int32
  numberUnavailable int32
  collisionCount *int32
  conditions []DaemonSetCondition by=type patch=merge:type
DaemonSetUpdateStrategy
  type ~DaemonSetUpdateStrategyType
  rollingUpdate *RollingUpdateDaemonSet
Deployment
  + meta/v1.TypeMeta
  metadata! meta/v1.ObjectMeta
  spec! DeploymentSpec
  status! DeploymentStatus
DeploymentCondition
  type! ~DeploymentConditionType
  status! ~v1.ConditionStatus
  lastUpdateTime! time
  lastTransitionTime! time
  reason string
  message string
DeploymentSpec
  replicas *int32
  selector! *meta/v1.LabelSelector
  template! core/v1.PodTemplateSpec
  strategy! DeploymentStrategy patch=retainKeys
  minReadySeconds int32
  revisionHistoryLimit *int32
  paused boolean
  progressDeadlineSeconds *int32
DeploymentStatus
  observedGeneration int64
  replicas int32
  updatedReplicas int32
  readyReplicas int32
  availableReplicas int32
  unavailableReplicas int32
  terminatingReplicas *int32
  conditions []DeploymentCondition by=type patch=merge:type
  collisionCount *int32
DeploymentStrategy
  type ~DeploymentStrategyType
  rollingUpdate *RollingUpdateDeployment
ReplicaSet
  + meta/v1.TypeMeta
  metadata! meta/v1.ObjectMeta
  spec! ReplicaSetSpec
  status! ReplicaSetStatus
ReplicaSetCondition
  type! ~ReplicaSetConditionType
  status! ~v1.ConditionStatus
  lastTransitionTime! time
  reason string
  message string
ReplicaSetSpec
  replicas *int32
  minReadySeconds int32
  selector! *meta/v1.LabelSelector
  template! core/v1.PodTemplateSpec
ReplicaSetStatus
  replicas! int32
  fullyLabeledReplicas int32
  readyReplicas int32
  availableReplicas int32
  terminatingReplicas *int32
  observedGeneration int64
  conditions []ReplicaSetCondition by=type patch=merge:type
RollingUpdateDaemonSet
  maxUnavailable *int-or-string
  maxSurge *int-or-string
RollingUpdateDeployment
  maxUnavailable *int-or-string
  maxSurge *int-or-string
RollingUpdateStatefulSetStrategy
  partition *int32
  maxUnavailable *int-or-string
StatefulSet
  + meta/v1.TypeMeta
  metadata! meta/v1.ObjectMeta
  spec! StatefulSetSpec
  status! StatefulSetStatus
StatefulSetCondition
  type! ~StatefulSetConditionType
  status! ~v1.ConditionStatus
  lastTransitionTime! time
  reason string
  message string
StatefulSetOrdinals
  start! int32
StatefulSetPersistentVolumeClaimRetentionPolicy
  whenDeleted ~PersistentVolumeClaimRetentionPolicyType
  whenScaled ~PersistentVolumeClaimRetentionPolicyType
StatefulSetSpec
  replicas *int32
  selector! *meta/v1.LabelSelector
  template! core/v1.PodTemplateSpec
  volumeClaimTemplates []core/v1.PersistentVolumeClaim
  serviceName! string
  podManagementPolicy ~PodManagementPolicyType
  updateStrategy! StatefulSetUpdateStrategy
  revisionHistoryLimit *int32
  minReadySeconds int32
  persistentVolumeClaimRetentionPolicy *StatefulSetPersistentVolumeClaimRetentionPolicy
  ordinals *StatefulSetOrdinals
StatefulSetStatus
  observedGeneration int64
  replicas! int32
  readyReplicas int32
  currentReplicas int32
  updatedReplicas int32
  currentRevision string
  updateRevision string
  collisionCount *int32
  conditions []StatefulSetCondition by=type patch=merge:type
  availableReplicas! int32
StatefulSetUpdateStrategy
  type ~StatefulSetUpdateStrategyType
  rollingUpdate *RollingUpdateStatefulSetStrategy
`;
