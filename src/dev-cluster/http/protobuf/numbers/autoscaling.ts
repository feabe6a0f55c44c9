/** The numbers of the fields of autoscaling/v1. Printed by scripts/protobuf-numbers.ts. */
export const autoscaling = `
CrossVersionObjectReference kind name apiVersion
HorizontalPodAutoscaler metadata spec status
HorizontalPodAutoscalerSpec scaleTargetRef minReplicas maxReplicas targetCPUUtilizationPercentage
HorizontalPodAutoscalerStatus observedGeneration lastScaleTime currentReplicas desiredReplicas currentCPUUtilizationPercentage
Scale metadata spec status
ScaleSpec replicas
ScaleStatus replicas selector
`;
