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

{{- /* The namespaces that the operator watches, as a JSON list: its own unless others are given. */ -}}
{{- define "strandline.namespaces" -}}
{{- .Values.watchNamespaces | default (list .Release.Namespace) | toJson }}
{{- end }}

{{- /* The metadata of an object, from (list . NAME) or (list . NAME NAMESPACE); that of one of the whole
cluster from (list . NAME ""). */ -}}
{{- define "strandline.metadata" -}}
name: {{ index . 1 }}
{{- with include "strandline.namespaceOf" . }}
namespace: {{ . }}
{{- end }}
labels: {{- include "strandline.labels" (first .) | nindent 2 }}
{{- end }}

{{- /* The namespace of (list . NAME NAMESPACE), that of the release without one. */ -}}
{{- define "strandline.namespaceOf" -}}
{{- if gt (len .) 2 }}{{ last . }}{{ else }}{{ (first .).Release.Namespace }}{{ end }}
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

{{- /* Gives a ServiceAccount of the release's namespace the Role of the same name, from (list . NAME)
or (list . NAME NAMESPACE); the Role and its binding are in that namespace. */ -}}
{{- define "strandline.roleBinding" -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {{- include "strandline.metadata" . | nindent 2 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: Role
  name: {{ index . 1 }}
subjects:
  - kind: ServiceAccount
    name: {{ index . 1 }}
    namespace: {{ (first .).Release.Namespace }}
{{- end }}

{{- define "strandline.restricted" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{- /* The reference of an image, from (list . COMPONENT); nobody publishes images that could be its default. */ -}}
{{- define "strandline.image" -}}
{{- $values := index (first .).Values (last .) }}
{{- $sentence := printf "%s.image.repository is empty: set it to where your nodes get the image, as in --set %s.image.repository=registry.example.com/strandline-%s" (last .) (last .) (last .) }}
{{- required $sentence $values.image.repository }}:{{ $values.image.tag | default (first .).Chart.AppVersion }}
{{- end }}

{{- /* The image of each version that a BrokerCluster may have: the chart's own one, and broker.versions. */ -}}
{{- define "strandline.brokerImages" -}}
{{- $own := .Chart.AppVersion }}
{{- if hasKey .Values.broker.versions $own }}
{{- fail (printf "broker.versions holds %s, which is the version of this chart: its image is broker.image" $own) }}
{{- end }}
{{- merge (dict $own (include "strandline.image" (list . "broker"))) .Values.broker.versions | toJson }}
{{- end }}

{{- /* The labels of the pods of one analysis, driver and executors, from (list . NAME). */ -}}
{{- define "strandline.analysis.pods" -}}
{{ include "strandline.selector" (list (first .) "analysis") }}
strandline.dev/analysis: {{ last . }}
{{- end }}

{{- define "strandline.analysis.user" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- /* What the driver is told of its executors; strandline_analysis/executors.py names the fields. */ -}}
{{- define "strandline.analysis.executors" -}}
{{- with .Values.analysis }}
count: {{ .executors }}
cores: {{ .executor.cores }}
cpu_request: {{ .executor.cpuRequest | quote }}
memory_mib: {{ .executor.memoryMiB }}
overhead_mib: {{ .executor.overheadMiB }}
pull_policy: {{ .image.pullPolicy }}
{{- end }}
image: {{ include "strandline.image" (list . "analysis") | quote }}
template: /etc/strandline/executor.yaml
{{- end }}

{{- /* The pod that Spark completes for each executor, from (list . NAME): it adds the image, resources, its
environment, a folder for what does not fit in memory, and the driver's pod as owner. */ -}}
{{- define "strandline.analysis.executorPod" -}}
apiVersion: v1
kind: Pod
metadata:
  labels: {{- include "strandline.analysis.pods" . | nindent 4 }}
spec:
  serviceAccountName: {{ last . }}
  automountServiceAccountToken: false
  {{- with (first .).Values.imagePullSecrets }}
  imagePullSecrets: {{- toYaml . | nindent 4 }}
  {{- end }}
  securityContext: {{- include "strandline.analysis.user" (first .) | nindent 4 }}
  containers:
    - name: executor
      command: [tini, --, python, -m, strandline_analysis.executor]
      securityContext: {{- include "strandline.restricted" (first .) | nindent 8 }}
      volumeMounts:
        - {name: scratch, mountPath: /tmp}
  volumes:
    - name: scratch
      emptyDir: {}
  {{- with (first .).Values.analysis.nodeSelector }}
  nodeSelector: {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end }}
