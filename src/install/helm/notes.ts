/** What Helm says after an installation or upgrade: what comes next. */
export const NOTES = `{{- if .Values.webhook.enabled -}}
API servers ask Portcullis. Until a replica is ready, pods are refused outside of the namespaces that fail open:

  kubectl -n {{ .Release.Namespace }} rollout status deployment/portcullis

Does all fit together?

  portcullis doctor -n {{ .Release.Namespace }}

The way out, should it keep pods from starting: portcullis break-glass on
{{- else -}}
Portcullis is installed, and nobody asks it yet. When its replicas are ready, have API servers ask them:

  kubectl -n {{ .Release.Namespace }} rollout status deployment/portcullis
  helm upgrade {{ .Release.Name }} CHART -n {{ .Release.Namespace }} --reuse-values --set webhook.enabled=true
{{- end }}

A chart cannot label its namespace:

  kubectl label namespace {{ .Release.Namespace }} pod-security.kubernetes.io/enforce=restricted
`;
