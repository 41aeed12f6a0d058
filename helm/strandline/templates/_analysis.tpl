{{- /* What a run is, as a Job of its own and in a CronJob: root, name. */ -}}
{{- define "strandline.analysis.job" -}}
{{- $name := last . }}
{{- with first . }}
{{- $prometheus := .Values.analysis.prometheusUrl | default (printf "http://%s:9090" (include "strandline.prometheus" .)) }}
{{- $executors := gt (int .Values.analysis.executors) 0 }}
{{- $summary := ne .Values.analysis.summaryOf "" }}
{{- $scheduled := ne .Values.analysis.schedule "" -}}
backoffLimit: 1
# No data, or too little of it: another try would find the same.
podFailurePolicy:
  rules:
    - action: FailJob
      onExitCodes: {containerName: analysis, operator: In, values: [2, 3]}
activeDeadlineSeconds: {{ .Values.analysis.deadlineSeconds }}
template:
  metadata:
    labels: {{- include "strandline.analysis.pods" (list . $name) | nindent 6 }}
  spec:
    serviceAccountName: {{ $name }}
    automountServiceAccountToken: {{ or $executors $summary }}
    restartPolicy: Never
    {{- with .Values.imagePullSecrets }}
    imagePullSecrets: {{- toYaml . | nindent 6 }}
    {{- end }}
    securityContext: {{- include "strandline.analysis.user" . | nindent 6 }}
    {{- if $scheduled }}
    # First what Prometheus has scraped since the last landed slice comes into the lake.
    initContainers:
      - name: ingest
        image: {{ include "strandline.image" (list . "analysis") | quote }}
        imagePullPolicy: {{ .Values.analysis.image.pullPolicy }}
        args:
          - python
          - -m
          - strandline_analysis.ingest
          - --prometheus={{ $prometheus }}
          - --lake=/lake
          - --slice-ms={{ mul (int .Values.analysis.lake.sliceMinutes) 60000 }}
          - --keep={{ .Values.analysis.lake.keep }}
        resources: {{- toYaml .Values.analysis.resources | nindent 10 }}
        securityContext: {{- include "strandline.restricted" . | nindent 10 }}
        volumeMounts:
          - {name: scratch, mountPath: /tmp}
          - {name: lake, mountPath: /lake}
    {{- end }}
    containers:
      - name: analysis
        image: {{ include "strandline.image" (list . "analysis") | quote }}
        imagePullPolicy: {{ .Values.analysis.image.pullPolicy }}
        args:
          - python
          - -m
          - strandline_analysis.job
          {{- if $scheduled }}
          - --lake=/lake
          - --window={{ .Values.analysis.window }}
          {{- else }}
          - --prometheus={{ $prometheus }}
          {{- end }}
          {{- with .Values.analysis.start }}
          - --start={{ . }}
          {{- end }}
          {{- with .Values.analysis.end }}
          - --end={{ . }}
          {{- end }}
          - --faults=/etc/strandline/faults.json
          - --out=/out
          {{- with .Values.analysis.cluster }}
          - --cluster={{ . }}
          {{- end }}
          - --lag-time-max-ms={{ int .Values.analysis.lagTimeMaxMs }}
          - --coverage-min={{ .Values.analysis.coverageMin }}
          {{- if $summary }}
          - --summary-of={{ .Values.analysis.summaryOf }}
          - --summary-config-map={{ $name }}-summary
          {{- end }}
          {{- if .Values.analysis.printPage }}
          - --print-page
          {{- end }}
          {{- if $executors }}
          - --executors=/etc/strandline/executors.json
          {{- end }}
          {{- if .Values.analysis.allTables }}
          - --all-tables
          {{- end }}
          {{- if .Values.analysis.printTables }}
          - --print-tables
          {{- end }}
        {{- if $executors }}
        env:
          - {name: POD_NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
          - {name: POD_NAMESPACE, valueFrom: {fieldRef: {fieldPath: metadata.namespace}}}
          - {name: POD_IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}
        {{- end }}
        resources: {{- toYaml .Values.analysis.resources | nindent 10 }}
        securityContext: {{- include "strandline.restricted" . | nindent 10 }}
        volumeMounts:
          - {name: faults, mountPath: /etc/strandline, readOnly: true}
          - {name: out, mountPath: /out}
          - {name: scratch, mountPath: /tmp}
          {{- if $scheduled }}
          - {name: lake, mountPath: /lake, readOnly: true}
          {{- end }}
    volumes:
      {{- if $scheduled }}
      - name: lake
        persistentVolumeClaim: {claimName: {{ $name }}}
      {{- end }}
      - name: faults
        configMap: {name: {{ $name }}}
      - name: out
        emptyDir: {}
      - name: scratch
        emptyDir: {}
    {{- with .Values.analysis.nodeSelector }}
    nodeSelector: {{- toYaml . | nindent 6 }}
    {{- end }}
{{- end }}
{{- end }}
