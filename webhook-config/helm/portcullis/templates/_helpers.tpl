{{/* Labels that select the replicas. */}}
{{- define "portcullis.selectorLabels" -}}
app.kubernetes.io/name: portcullis
app.kubernetes.io/component: admission
{{- end }}

{{/* Labels of webhook configurations. */}}
{{- define "portcullis.webhookLabels" -}}
app.kubernetes.io/name: portcullis
app.kubernetes.io/component: webhooks
app.kubernetes.io/part-of: portcullis
{{- end }}

{{/* Labels and annotations of an object. Arguments: root, the context of the template; component, which is admission by default; labels and annotations in addition to the common ones. */}}
{{- define "portcullis.metadata" -}}
labels:
  app.kubernetes.io/name: portcullis
  app.kubernetes.io/component: {{ .component | default "admission" }}
  app.kubernetes.io/part-of: portcullis
  app.kubernetes.io/managed-by: {{ .root.Release.Service }}
  helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" }}
  {{- with mergeOverwrite (deepCopy .root.Values.commonLabels) (.labels | default dict) }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with mergeOverwrite (deepCopy .root.Values.commonAnnotations) (.annotations | default dict) }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/*
Adds the defaults of absent values, because `helm upgrade --reuse-values` omits the values that a new version of the chart
adds. Values whose default a user can remove with `null` stay absent. Each template includes it before it uses values.
*/}}
{{- define "portcullis.setDefaults" -}}
{{- $defaults := .Files.Get "files/values.yaml" | fromYaml }}
{{- $removable := list "podSecurityContext" "securityContext" "resources" "nodeSelector" "affinity" "topologySpreadConstraints" }}
{{- range $removable }}
{{- $defaults = omit $defaults . }}
{{- end }}
{{- $_ := set . "Values" (mergeOverwrite $defaults .Values) }}
{{- end }}

{{/* Rejects values that contradict other values or the cluster. */}}
{{- define "portcullis.validate" -}}
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
{{- include "portcullis.requireManagedWebhooks" . }}
{{- include "portcullis.requireOwnership" . }}
{{- end }}

{{/* Rejects values that would change the fixed object names. */}}
{{- define "portcullis.requireNames" -}}
{{- range $value, $name := dict "nameOverride" .Values.nameOverride "fullnameOverride" .Values.fullnameOverride "serviceAccount.name" .Values.serviceAccount.name }}
{{- if not (has $name (list "" "portcullis")) }}
{{- fail (printf "%s=%s: API servers, roles and commands find the objects by the name portcullis, and a cluster has one installation: remove the value" $value $name) }}
{{- end }}
{{- end }}
{{- end }}

{{/* Requires an image if anything is enforced. No registry contains the default image, and requests are denied if the replicas cannot start. */}}
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

{{/* Rejects static webhooks, because the chart cannot contain their configurations. */}}
{{- define "portcullis.requireManagedWebhooks" -}}
{{- if eq (dig "webhooks" "management" "managed" .Values.settings) "static" }}
{{- fail "settings.webhooks.management=static requires webhook configurations that match all settings, which a chart cannot contain. Remove the value, or use portcullis install --webhooks=static instead of the chart" }}
{{- end }}
{{- end }}

{{/* Prints commands that adopt CustomResourceDefinitions of another release or tool, which Helm rejects without them. */}}
{{- define "portcullis.requireOwnership" -}}
{{- $names := list }}
{{- range include "portcullis.crds" . | fromYamlArray }}
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

{{- define "portcullis.image" -}}
{{- with .Values.image.registry }}{{ . }}/{{ end }}{{ .Values.image.repository }}
{{- if .Values.image.digest }}@{{ .Values.image.digest }}{{ else }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{ end }}
{{- end }}

{{/* Registry credentials of a pod, which are names or objects with a name. */}}
{{- define "portcullis.imagePullSecrets" -}}
{{- with .Values.imagePullSecrets -}}
imagePullSecrets:
{{- range . }}
  - name: {{ (kindIs "string" . | ternary . (get (kindIs "string" . | ternary dict .) "name")) | quote }}
{{- end }}
{{- end }}
{{- end }}

{{/* Comma-separated features of the installation. */}}
{{- define "portcullis.features" -}}
{{- $features := list }}
{{- range list "rollout" "scc" "kubelet" "olm" }}{{ if index $.Values.features . }}{{ $features = append $features . }}{{ end }}{{ end }}
{{- join "," $features }}
{{- end }}

{{/* Names of the CRDs that the release contains. */}}
{{- define "portcullis.crds" -}}
{{- if .Values.crds.install }}
- portcullisconfigurations.config.portcullis.dev
- podsecurityexceptions.policy.portcullis.dev
{{- if .Values.features.rollout }}
- psaenforcementconfigs.config.openshift.io
{{- end }}
{{- if .Values.features.scc }}
- rangeallocations.security.internal.openshift.io
- securitycontextconstraints.security.openshift.io
{{- end }}
{{- if .Values.crds.nodesConfig }}
- nodes.config.openshift.io
{{- end }}
{{- end }}
{{- end }}
