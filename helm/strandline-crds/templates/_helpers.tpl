{{- define "strandline.crd.chartLabels" -}}
app.kubernetes.io/name: strandline
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- /* The metadata of an object of the whole cluster, from (list . NAME). */ -}}
{{- define "strandline.crd.metadata" -}}
name: {{ last . }}
labels: {{- include "strandline.crd.chartLabels" (first .) | nindent 2 }}
{{- if (first .).Values.keep }}
annotations:
  helm.sh/resource-policy: keep
{{- end }}
{{- end }}

{{- /* The first part of a CRD, up to the subresources of its version, from (list . KIND SHORTNAME). */ -}}
{{- define "strandline.crd.head" -}}
{{- $kind := index . 1 -}}
{{- $plural := printf "%ss" (lower $kind) -}}
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {{- include "strandline.crd.metadata" (list (first .) (printf "%s.strandline.dev" $plural)) | nindent 2 }}
spec:
  group: strandline.dev
  scope: Namespaced
  names:
    kind: {{ $kind }}
    listKind: {{ $kind }}List
    plural: {{ $plural }}
    singular: {{ lower $kind }}
    shortNames: [{{ last . }}]
    categories: [strandline]
  versions:
    - name: v1alpha1
      served: true
      storage: true
      subresources:
        status: {}
{{- end }}

{{- /* The rule of a field that cannot be changed, from the rule's message. */ -}}
{{- define "strandline.crd.fixed" -}}
x-kubernetes-validations:
  - rule: self == oldSelf
    message: {{ . }}
{{- end }}

{{- define "strandline.crd.resourceList" -}}
type: object
properties:
  cpu: {type: string, maxLength: 20, pattern: '^([1-9][0-9]*m?|0\.[0-9]{1,3}|[1-9][0-9]*\.[0-9]{1,3})$'}
  memory: {type: string, maxLength: 20, pattern: '^[1-9][0-9]*(Ki|Mi|Gi|k|M|G)?$'}
{{- end }}

{{- define "strandline.crd.externalAddress" -}}
nodePort:
  description: Port of every node; absent means that Kubernetes chooses one of its range.
  type: integer
  format: int32
  minimum: 1
  maximum: 65535
advertisedHost:
  description: Host that clients get.
  type: string
  maxLength: 253
  pattern: '^[-A-Za-z0-9.:]+$'
advertisedPort:
  description: Port that clients get; absent means nodePort, or 9094 of a load balancer.
  type: integer
  format: int32
  minimum: 1
  maximum: 65535
{{- end }}

{{- define "strandline.crd.partitionCounts" -}}
type: object
properties:
  {{- range list "total" "online" "offline" "underReplicated" "underMinIsr" "atMinIsr" "moving" }}
  {{ . }}: {type: integer, format: int32, minimum: 0}
  {{- end }}
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
