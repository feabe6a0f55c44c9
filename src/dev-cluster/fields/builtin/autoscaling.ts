/** The types of autoscaling/v1. In the notation of notation.ts, as of Kubernetes 1.36. */
export const autoscaling = `
CrossVersionObjectReference atomic
  kind! string
  name! string
  apiVersion string
HorizontalPodAutoscaler
  + meta/v1.TypeMeta
  metadata! meta/v1.ObjectMeta
  spec! HorizontalPodAutoscalerSpec
  status! HorizontalPodAutoscalerStatus
HorizontalPodAutoscalerSpec
  scaleTargetRef! CrossVersionObjectReference atomic
  minReplicas *int32
  maxReplicas! int32
  targetCPUUtilizationPercentage *int32
HorizontalPodAutoscalerStatus
  observedGeneration *int64
  lastScaleTime *time
  currentReplicas! int32
  desiredReplicas! int32
  currentCPUUtilizationPercentage *int32
Scale
  + meta/v1.TypeMeta
  metadata! meta/v1.ObjectMeta
  spec! ScaleSpec
  status! ScaleStatus
ScaleSpec
  replicas int32 =0
ScaleStatus
  replicas! int32
  selector string
`;
