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

{{- /* The metadata of an object, from (list . NAME). */ -}}
{{- define "strandline.metadata" -}}
name: {{ last . }}
labels: {{- include "strandline.labels" (first .) | nindent 2 }}
{{- end }}

{{- /* The labels that select the pods of a component, from (list . COMPONENT). */ -}}
{{- define "strandline.selector" -}}
app.kubernetes.io/name: strandline
app.kubernetes.io/instance: {{ (first .).Release.Name }}
app.kubernetes.io/component: {{ last . }}
{{- end }}

{{- /* The labels of every broker's pod, whatever its cluster; the operator sets them. */ -}}
{{- define "strandline.brokerPods" -}}
app.kubernetes.io/name: strandline
app.kubernetes.io/component: broker
{{- end }}

{{- /* Gives a ServiceAccount the Role of the same name, from (list . NAME). */ -}}
{{- define "strandline.roleBinding" -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {{- include "strandline.metadata" . | nindent 2 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: Role
  name: {{ last . }}
subjects:
  - kind: ServiceAccount
    name: {{ last . }}
    namespace: {{ (first .).Release.Namespace }}
{{- end }}

{{- define "strandline.restricted" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{- define "strandline.image" -}}
{{- .repository }}:{{ .tag }}
{{- end }}
