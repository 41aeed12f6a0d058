{{- /* Settings of brokers' pods. Kubernetes' own rules stand here, because it refuses a StatefulSet only later. */ -}}

{{- define "strandline.crd.labelKey" -}}
type: string
maxLength: 253
pattern: '^([a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$'
{{- end }}

{{- define "strandline.crd.labelValue" -}}
type: string
maxLength: 63
pattern: '^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$'
{{- end }}

{{- /* The rule of a map's keys, which a schema cannot bound, from the map's path. */ -}}
{{- define "strandline.crd.keyRule" -}}
rule: self.all(key, key.matches('^([a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$'))
message: the keys of {{ . }} are of Kubernetes' form, such as team or example.com/team
{{- end }}

{{- define "strandline.crd.labels" -}}
type: object
maxProperties: 32
additionalProperties: {{- include "strandline.crd.labelValue" . | nindent 2 }}
{{- end }}

{{- /* A requirement of labels, from the list of its operators. */ -}}
{{- define "strandline.crd.requirements" -}}
type: array
maxItems: 10
items:
  type: object
  required: [key, operator]
  x-kubernetes-validations:
    - rule: "!(self.operator in ['In', 'NotIn']) || (has(self.values) && size(self.values) > 0)"
      message: matchExpressions with In and NotIn need values
    - rule: "!(self.operator in ['Exists', 'DoesNotExist']) || !has(self.values) || size(self.values) == 0"
      message: matchExpressions with Exists and DoesNotExist have no values
    {{- if has "Gt" . }}
    - rule: "!(self.operator in ['Gt', 'Lt']) || (has(self.values) && size(self.values) == 1 && self.values[0].matches('^[0-9]+$'))"
      message: matchExpressions with Gt and Lt need one whole number
    {{- end }}
  properties:
    key: {{- include "strandline.crd.labelKey" . | nindent 6 }}
    operator: {type: string, enum: {{ toJson . }}}
    values:
      type: array
      maxItems: 50
      items: {{- include "strandline.crd.labelValue" . | nindent 8 }}
{{- end }}

{{- define "strandline.crd.nodeTerm" -}}
type: object
required: [matchExpressions]
properties:
  matchExpressions: {{- include "strandline.crd.requirements" (list "In" "NotIn" "Exists" "DoesNotExist" "Gt" "Lt") | nindent 4 }}
{{- end }}

{{- define "strandline.crd.podTerm" -}}
type: object
required: [topologyKey]
properties:
  topologyKey: {{- include "strandline.crd.labelKey" . | nindent 4 }}
  labelSelector:
    type: object
    properties:
      matchLabels:
        {{- include "strandline.crd.labels" . | nindent 8 }}
        x-kubernetes-validations:
          - {{ include "strandline.crd.keyRule" "matchLabels" | nindent 12 | trim }}
      matchExpressions: {{- include "strandline.crd.requirements" (list "In" "NotIn" "Exists" "DoesNotExist") | nindent 8 }}
{{- end }}

{{- /* Preferred terms, from (list NAME TEMPLATE): weight and the term under its name. */ -}}
{{- define "strandline.crd.preferred" -}}
type: array
maxItems: 10
items:
  type: object
  required: [weight, {{ first . }}]
  properties:
    weight: {type: integer, format: int32, minimum: 1, maximum: 100}
    {{ first . }}: {{- include (last .) . | nindent 6 }}
{{- end }}

{{- define "strandline.crd.affinity" -}}
type: object
properties:
  nodeAffinity:
    type: object
    properties:
      requiredDuringSchedulingIgnoredDuringExecution:
        type: object
        required: [nodeSelectorTerms]
        properties:
          nodeSelectorTerms:
            type: array
            minItems: 1
            maxItems: 10
            items: {{- include "strandline.crd.nodeTerm" . | nindent 14 }}
      preferredDuringSchedulingIgnoredDuringExecution: {{- include "strandline.crd.preferred" (list "preference" "strandline.crd.nodeTerm") | nindent 8 }}
  {{- range list "podAffinity" "podAntiAffinity" }}
  {{ . }}:
    type: object
    properties:
      requiredDuringSchedulingIgnoredDuringExecution:
        type: array
        maxItems: 10
        items: {{- include "strandline.crd.podTerm" . | nindent 10 }}
      preferredDuringSchedulingIgnoredDuringExecution: {{- include "strandline.crd.preferred" (list "podAffinityTerm" "strandline.crd.podTerm") | nindent 8 }}
  {{- end }}
{{- end }}

{{- define "strandline.crd.tolerations" -}}
type: array
maxItems: 32
items:
  type: object
  x-kubernetes-validations:
    - rule: has(self.key) || (has(self.operator) && self.operator == 'Exists')
      message: a toleration without a key needs the operator Exists, and tolerates every taint
    - rule: "!has(self.operator) || self.operator != 'Exists' || !has(self.value) || self.value == ''"
      message: a toleration with the operator Exists has no value
    - rule: "!has(self.tolerationSeconds) || (has(self.effect) && self.effect == 'NoExecute')"
      message: tolerationSeconds needs the effect NoExecute
  properties:
    key: {{- include "strandline.crd.labelKey" . | nindent 6 }}
    operator: {type: string, enum: [Exists, Equal]}
    value: {{- include "strandline.crd.labelValue" . | nindent 6 }}
    effect: {type: string, enum: [NoSchedule, PreferNoSchedule, NoExecute]}
    tolerationSeconds: {type: integer, format: int64, minimum: 0, maximum: 86400}
{{- end }}

{{- define "strandline.crd.pod" -}}
description: Settings of every broker's pod, as Kubernetes spells them; a change takes effect when a pod starts.
type: object
properties:
  labels:
    description: Labels of the pods beside those that the operator sets.
    {{- include "strandline.crd.labels" . | nindent 4 }}
    x-kubernetes-validations:
      - {{ include "strandline.crd.keyRule" "spec.pod.labels" | nindent 8 | trim }}
      - rule: self.all(key, !key.startsWith('strandline.dev/') && !key.startsWith('app.kubernetes.io/'))
        message: spec.pod.labels cannot have keys of strandline.dev or app.kubernetes.io, because the operator finds pods by them
  annotations:
    description: Annotations of the pods.
    type: object
    maxProperties: 32
    additionalProperties: {type: string, maxLength: 4096}
    x-kubernetes-validations:
      - {{ include "strandline.crd.keyRule" "spec.pod.annotations" | nindent 8 | trim }}
  nodeSelector:
    description: Labels of the nodes that may take a broker.
    {{- include "strandline.crd.labels" . | nindent 4 }}
    x-kubernetes-validations:
      - {{ include "strandline.crd.keyRule" "spec.pod.nodeSelector" | nindent 8 | trim }}
  tolerations:
    description: Taints of nodes that brokers tolerate.
    {{- include "strandline.crd.tolerations" . | nindent 4 }}
  affinity:
    description: >-
      Rules of nodes and of other pods of the namespace; spec.spread adds its own. With nodeAffinity the operator does
      not count nodes, and spec.spread.nodes is Preferred unless it is given.
    {{- include "strandline.crd.affinity" . | nindent 4 }}
  priorityClassName:
    description: A PriorityClass that exists.
    type: string
    maxLength: 253
    pattern: '^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$'
  imagePullSecrets:
    description: Secrets of the namespace for the brokers' image, beside those of the chart.
    type: array
    maxItems: 16
    x-kubernetes-list-type: map
    x-kubernetes-list-map-keys: [name]
    items:
      type: object
      required: [name]
      properties:
        name: {type: string, maxLength: 253, pattern: '^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$'}
  terminationGracePeriodSeconds:
    description: >-
      How long a broker may take to hand over its leaders and to flush its logs. Absent means 30 s and the time
      to write the volume's size at 32 MiB/s, at most 330 s. A broker that is killed before it has flushed may have to be
      repaired from others.
    type: integer
    format: int64
    minimum: 30
    maximum: 3600
{{- end }}
