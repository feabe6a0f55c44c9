{{- define "portcullis.chart" -}}
{{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{/* Adds the defaults of absent values, and rejects values that contradict each other or the cluster. */}}
{{- define "portcullis.prepare" -}}
{{- $_ := set . "Values" (mergeOverwrite (include "portcullis.defaults" . | fromYaml) .Values) }}
{{- with .Values.certManager }}
{{- if and .issuerRef.name (not .enabled) }}
{{- fail "certManager.issuerRef is set, but certManager.enabled is false: set certManager.enabled=true, or remove issuerRef" }}
{{- end }}
{{- end }}
{{- $given := dict "commonLabels" .Values.commonLabels "podLabels" .Values.podLabels "serviceMonitor.labels" .Values.serviceMonitor.labels "prometheusRule.labels" .Values.prometheusRule.labels }}
{{- range $value, $labels := $given }}
{{- range $label, $_ := $labels }}
{{- if regexMatch "^(app\\.kubernetes\\.io/(name|component|part-of|managed-by|version)|helm\\.sh/chart)$" $label }}
{{- fail (printf "%s: the chart sets the label %s, by which Portcullis finds its objects" $value $label) }}
{{- end }}
{{- end }}
{{- end }}
{{- include "portcullis.requireNames" . }}
{{- include "portcullis.requireImage" . }}
{{- include "portcullis.requireStaticWebhooks" . }}
{{- include "portcullis.requireOwnership" . }}
{{- end }}

{{/* The names of the objects are fixed. */}}
{{- define "portcullis.requireNames" -}}
{{- range $value, $name := dict "nameOverride" .Values.nameOverride "fullnameOverride" .Values.fullnameOverride "serviceAccount.name" .Values.serviceAccount.name }}
{{- if not (has $name (list "" "portcullis")) }}
{{- fail (printf "%s=%s: API servers, roles and commands find the objects by the name portcullis, and a cluster has one installation: remove the value" $value $name) }}
{{- end }}
{{- end }}
{{- end }}

{{/* The default image is in no registry. While something is enforced, replicas that do not start would deny requests. */}}
{{- define "portcullis.requireImage" -}}
{{- $scc := dig "scc" "mode" "" .Values.settings }}
{{- $phase := dig "rollout" "phase" "" .Values.settings }}
{{- $level := dig "podSecurity" "defaults" "enforce" "privileged" .Values.settings }}
{{- $enforced := list }}
{{- if eq $scc "enforce" }}{{ $enforced = append $enforced "settings.scc.mode=enforce" }}{{ end }}
{{- if eq $phase "Enforce" }}{{ $enforced = append $enforced "settings.rollout.phase=Enforce" }}{{ end }}
{{- if ne $level "privileged" }}{{ $enforced = append $enforced (printf "settings.podSecurity.defaults.enforce=%s" $level) }}{{ end }}
{{- with .Values.image }}
{{- if and $enforced (eq .repository "portcullis") (not (or .registry .tag .digest)) }}
{{- fail (printf "%s requires an image that the nodes can pull: set image.registry, such as registry.example.com, or image.repository. Set image.tag=%s if the image was loaded into the nodes" (join ", " $enforced) $.Chart.AppVersion) }}
{{- end }}
{{- end }}
{{- end }}

{{/* The release contains webhook configurations only if they are static. */}}
{{- define "portcullis.requireStaticWebhooks" -}}
{{- if ne (dig "webhooks" "management" "managed" .Values.settings) "static" }}
{{- with .Values.webhook }}
{{- if ne .failurePolicy "Fail" }}
{{- fail "webhook.failurePolicy: the leader maintains the webhooks, which fail closed for exactly what the settings enforce: remove the value, or set settings.webhooks.management=static" }}
{{- end }}
{{- if .exemptNamespaces }}
{{- fail "webhook.exemptNamespaces: the leader maintains the webhooks: use settings.scc.exemptNamespaces and settings.podSecurity.exemptions.namespaces, or set settings.webhooks.management=static" }}
{{- end }}
{{- if .annotations }}
{{- fail "webhook.annotations: the leader maintains the webhooks: use --webhook-annotations in extraArgs, or set settings.webhooks.management=static" }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/* Helm rejects CustomResourceDefinitions of another release or tool, and does not print the commands that adopt them. */}}
{{- define "portcullis.requireOwnership" -}}
{{- $names := list }}
{{- range include "portcullis.definitions" . | fromYamlArray }}
{{- $metadata := dig "metadata" dict (lookup "apiextensions.k8s.io/v1" "CustomResourceDefinition" "" .) }}
{{- $release := dig "annotations" "meta.helm.sh/release-name" "" $metadata }}
{{- $namespace := dig "annotations" "meta.helm.sh/release-namespace" "" $metadata }}
{{- $manager := dig "labels" "app.kubernetes.io/managed-by" "" $metadata }}
{{- if and $metadata (ne (list $manager $release $namespace | join " ") (list "Helm" $.Release.Name $.Release.Namespace | join " ")) }}
{{- $names = append $names . }}
{{- end }}
{{- end }}
{{- with $names | join " " }}
{{- fail (printf "these CustomResourceDefinitions exist and do not belong to the release %[2]s: %[1]s\n\nAdopt them, with all their objects, and repeat the command:\n\n  kubectl label crd %[1]s app.kubernetes.io/managed-by=Helm --overwrite\n  kubectl annotate crd %[1]s meta.helm.sh/release-name=%[2]s meta.helm.sh/release-namespace=%[3]s --overwrite\n\nOr let the other tool update them: --set crds.install=false" . $.Release.Name $.Release.Namespace) }}
{{- end }}
{{- end }}

{{/* Not empty if Helm installs or upgrades a release. `helm template` and Argo CD render without a cluster, and apply hooks as objects. */}}
{{- define "portcullis.isRelease" -}}
{{- if lookup "v1" "Namespace" "" "kube-system" }}true{{ end }}
{{- end }}

{{- define "portcullis.image" -}}
{{- with .Values.image.registry }}{{ . }}/{{ end }}{{ .Values.image.repository }}
{{- if .Values.image.digest }}@{{ .Values.image.digest }}{{ else }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{ end }}
{{- end }}

{{- define "portcullis.imagePullSecrets" -}}
{{- range .Values.imagePullSecrets }}
{{- if kindIs "string" . }}
- name: {{ . | quote }}
{{- else }}
- {{ toYaml . }}
{{- end }}
{{- end }}
{{- end }}

{{- define "portcullis.network" -}}
{{- if .Values.hostNetwork }}
hostNetwork: true
{{- end }}
{{- with .Values.dnsPolicy | default (ternary "ClusterFirstWithHostNet" "" .Values.hostNetwork) }}
dnsPolicy: {{ . }}
{{- end }}
{{- end }}

{{- define "portcullis.disruptionBudget" -}}
{{- with .Values.podDisruptionBudget }}
{{- if ne (toString .minAvailable) "" }}
minAvailable: {{ .minAvailable }}
{{- else }}
maxUnavailable: {{ .maxUnavailable }}
{{- end }}
{{- end }}
{{- end }}

{{- define "portcullis.issuer" -}}
{{- if .Values.certManager.issuerRef.name }}
{{- toYaml .Values.certManager.issuerRef }}
{{- else }}
kind: Issuer
name: portcullis-authority
{{- end }}
{{- end }}

{{- define "portcullis.webhookAnnotations" -}}
admissions.enforcer/disabled: "true"
{{- if .Values.certManager.enabled }}
cert-manager.io/inject-ca-from: {{ .Release.Namespace }}/portcullis-tls
{{- else }}
portcullis.dev/inject-ca-from: {{ .Release.Namespace }}/portcullis-serving-certificate
{{- end }}
{{- with .Values.webhook.annotations }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "portcullis.crdAnnotations" -}}
{{- if .Values.crds.keep }}
helm.sh/resource-policy: keep
{{- end }}
{{- end }}

{{/* The features of the installation, separated by commas. */}}
{{- define "portcullis.features" -}}
{{- $features := list }}
{{- range list "scc" "rollout" "kubelet" "olm" }}{{ if index $.Values.features . }}{{ $features = append $features . }}{{ end }}{{ end }}
{{- join "," $features }}
{{- end }}

{{/* The annotation of an alert with the URL of its section in the runbook, if the values contain the URL of the runbook. */}}
{{- define "portcullis.runbook" -}}
{{- with .url }}
runbook_url: {{ . }}#{{ $.section }}
{{- end }}
{{- end }}

{{/* The initial policy settings, as JSON. Without its definitions, SCC admission is off. */}}
{{- define "portcullis.settings" -}}
{{- $required := ternary (dict) (dict "scc" (dict "mode" "off")) .Values.features.scc }}
{{- mergeOverwrite (deepCopy .Values.settings) $required | toJson }}
{{- end }}
