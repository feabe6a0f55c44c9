{{- define "portcullis.chart" -}}
{{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "portcullis.image" -}}
{{- with .Values.image.registry }}{{ . }}/{{ end }}{{ .Values.image.repository }}
{{- if .Values.image.digest }}@{{ .Values.image.digest }}{{ else }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{ end }}
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

{{/* The configuration file. */}}
{{- define "portcullis.configuration" -}}
apiVersion: config.portcullis.dev/v1alpha1
kind: PortcullisConfiguration
metadata:
  name: cluster
spec:
  {{- toYaml .Values.settings | nindent 2 }}
{{- end }}
