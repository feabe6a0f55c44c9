{{- define "portcullis.defaults" -}}
nameOverride: ""
fullnameOverride: ""
replicaCount: 3
revisionHistoryLimit: 3
image:
  registry: ""
  repository: portcullis
  tag: ""
  digest: ""
  pullPolicy: IfNotPresent
imagePullSecrets: []
features:
  scc: true
  rollout: true
  kubelet: false
  olm: false
settings: {}
certManager:
  enabled: false
  issuerRef:
    name: ""
    kind: Issuer
    group: cert-manager.io
webhook:
  failurePolicy: Fail
  exemptNamespaces: []
  annotations: {}
crds:
  install: true
  keep: true
  nodesConfig: false
commonLabels: {}
commonAnnotations: {}
serviceAccount:
  create: true
  name: ""
  annotations: {}
service:
  annotations: {}
deploymentAnnotations: {}
podAnnotations: {}
podLabels: {}
tolerations: []
affinity: {}
priorityClassName: system-cluster-critical
resourceQuota:
  enabled: true
  pods: 20
hostNetwork: false
dnsPolicy: ""
dnsConfig: {}
hostAliases: []
runtimeClassName: ""
ports:
  reviews: 8443
  probes: 8081
terminationGracePeriodSeconds: 60
startupProbe:
  timeoutSeconds: 5
  periodSeconds: 2
  failureThreshold: 30
livenessProbe:
  timeoutSeconds: 5
  periodSeconds: 10
  failureThreshold: 3
readinessProbe:
  timeoutSeconds: 5
  periodSeconds: 5
  failureThreshold: 2
podDisruptionBudget:
  enabled: true
  maxUnavailable: 1
  minAvailable: ""
networkPolicy:
  enabled: true
serviceMonitor:
  enabled: false
  labels: {}
  interval: "30s"
  scrapeTimeout: ""
prometheusRule:
  enabled: false
  labels: {}
  runbookUrl: ""
grafana:
  enabled: false
extraArgs: []
extraEnv: []
extraEnvFrom: []
extraVolumes: []
extraVolumeMounts: []
initContainers: []
extraContainers: []
{{- end }}

{{- define "portcullis.definitions" -}}
{{- if .Values.crds.install }}
- portcullisconfigurations.config.portcullis.dev
{{- end }}
{{- if and .Values.crds.install .Values.features.rollout }}
- psaenforcementconfigs.config.openshift.io
{{- end }}
{{- if and .Values.crds.install .Values.features.scc }}
- rangeallocations.security.internal.openshift.io
{{- end }}
{{- if and .Values.crds.install .Values.features.scc }}
- securitycontextconstraints.security.openshift.io
{{- end }}
{{- if and .Values.crds.install .Values.crds.nodesConfig }}
- nodes.config.openshift.io
{{- end }}
{{- end }}
