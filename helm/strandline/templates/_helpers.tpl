{{- define "strandline.name" -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" }}
{{- end }}

{{- define "strandline.operator" -}}
{{- include "strandline.name" . }}-operator
{{- end }}

{{- define "strandline.brokerRole" -}}
{{- include "strandline.name" . }}-broker
{{- end }}

{{- define "strandline.labels" -}}
app.kubernetes.io/name: strandline
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "strandline.image" -}}
{{- .repository }}:{{ .tag }}
{{- end }}

{{- define "strandline.crd.resourceList" -}}
type: object
properties:
  cpu: {type: string, maxLength: 20, pattern: '^([1-9][0-9]*m?|0\.[0-9]{1,3}|[1-9][0-9]*\.[0-9]{1,3})$'}
  memory: {type: string, maxLength: 20, pattern: '^[1-9][0-9]*(Ki|Mi|Gi|K|M|G)?$'}
{{- end }}

{{- define "strandline.crd.partitionCounts" -}}
type: object
properties:
  total: {type: integer, format: int32, minimum: 0}
  online: {type: integer, format: int32, minimum: 0}
  offline: {type: integer, format: int32, minimum: 0}
  underReplicated: {type: integer, format: int32, minimum: 0}
  underMinIsr: {type: integer, format: int32, minimum: 0}
  atMinIsr: {type: integer, format: int32, minimum: 0}
{{- end }}

{{- define "strandline.crd.conditions" -}}
type: array
maxItems: 16
x-kubernetes-list-type: map
x-kubernetes-list-map-keys: [type]
items:
  type: object
  required: [type, status, lastTransitionTime, reason, message]
  properties:
    type: {type: string, maxLength: 64, pattern: '^[A-Z][A-Za-z]*$'}
    status: {type: string, enum: ["True", "False", Unknown]}
    observedGeneration: {type: integer, format: int64, minimum: 0}
    lastTransitionTime: {type: string, format: date-time}
    reason: {type: string, maxLength: 64, pattern: '^[A-Z][A-Za-z]*$'}
    message: {type: string, maxLength: 1024}
{{- end }}
