{{- define "tocsin.name" -}}
{{ default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "tocsin.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{ .Values.fullnameOverride | trunc 63 | trimSuffix "-" }}
{{- else if contains (include "tocsin.name" .) .Release.Name -}}
{{ .Release.Name | trunc 63 | trimSuffix "-" }}
{{- else -}}
{{ printf "%s-%s" .Release.Name (include "tocsin.name" .) | trunc 63 | trimSuffix "-" }}
{{- end -}}
{{- end }}

{{- define "tocsin.namespace" -}}
{{ default .Release.Namespace .Values.namespaceOverride }}
{{- end }}

{{- define "tocsin.selector" -}}
app.kubernetes.io/name: {{ include "tocsin.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: tocsin
{{- end }}

{{- define "tocsin.labels" -}}
{{ include "tocsin.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "tocsin.serviceAccount" -}}
{{ if .Values.serviceAccount.create }}{{ default (include "tocsin.fullname" .) .Values.serviceAccount.name }}{{ else }}{{ default "default" .Values.serviceAccount.name }}{{ end }}
{{- end }}

{{- define "tocsin.image" -}}
{{ .Values.image.repository }}{{ if .Values.image.digest }}@{{ .Values.image.digest }}{{ else }}:{{ default .Chart.AppVersion .Values.image.tag }}{{ end }}
{{- end }}

{{- /* What a web configuration is needed for. */ -}}
{{- define "tocsin.secured" -}}
{{ if or .Values.tlsServerConfig.enabled .Values.basicAuth.users }}yes{{ end }}
{{- end }}

{{- define "tocsin.tlsSecret" -}}
{{ default (printf "%s-tls" (include "tocsin.fullname" .)) .Values.tlsServerConfig.existingSecret }}
{{- end }}

{{- define "tocsin.podSecurityContext" -}}
{{- $of := dict "runAsNonRoot" true "runAsUser" 65534 "runAsGroup" 65534 "supplementalGroups" (list 4) "seccompProfile" (dict "type" "RuntimeDefault") -}}
{{- if .Values.tlsServerConfig.enabled -}}
{{- /* So that the key may be read by the pod and not by everybody. */ -}}
{{- $of = mergeOverwrite $of (dict "fsGroup" 65534) -}}
{{- end -}}
{{- toYaml (mergeOverwrite $of .Values.podSecurityContext) -}}
{{- end }}

{{- define "tocsin.securityContext" -}}
{{- $of := dict "allowPrivilegeEscalation" false "readOnlyRootFilesystem" true "capabilities" (dict "drop" (list "ALL")) -}}
{{- toYaml (mergeOverwrite $of .Values.securityContext) -}}
{{- end }}

{{- /* Root with a list of capabilities. */ -}}
{{- define "tocsin.rootContext" -}}
{{- toYaml (dict "runAsNonRoot" false "runAsUser" 0 "runAsGroup" 0 "allowPrivilegeEscalation" false "readOnlyRootFilesystem" true "capabilities" (dict "drop" (list "ALL") "add" .)) -}}
{{- end }}

{{- define "tocsin.helperContext" -}}
{{- $added := list "SYS_PTRACE" "DAC_READ_SEARCH" -}}
{{- if .Values.helper.namespaces -}}
{{- $added = append $added "SYS_ADMIN" -}}
{{- end -}}
{{- toYaml (mergeOverwrite (include "tocsin.rootContext" $added | fromYaml) .Values.helper.securityContext) -}}
{{- end }}

{{- /* One endpoint, for ServiceMonitor and PodMonitor. */ -}}
{{- define "tocsin.endpoint" -}}
{{- with .Values.serviceMonitor -}}
port: metrics
path: /metrics
interval: {{ .interval }}
scrapeTimeout: {{ .scrapeTimeout }}
honorLabels: {{ .honorLabels }}
{{- with .relabelings }}
relabelings: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .metricRelabelings }}
metricRelabelings: {{- toYaml . | nindent 2 }}
{{- end }}
{{- if $.Values.tlsServerConfig.enabled }}
scheme: https
{{- end }}
{{- with .tlsConfig }}
tlsConfig: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .basicAuth }}
basicAuth: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}
{{- end }}

{{- /* The agent's file: .Values.config, with the bus where one is named. */ -}}
{{- define "tocsin.config" -}}
{{- /* In dcgm-exporter's chart the same key is about its own YAML: off by default, with a text beside it. */ -}}
{{- if .Values.config.enabled -}}
{{- fail "config.enabled: dcgm-exporter's YAML is not read: give its fields as a counters file (-f), its interval as -c, the rest as flags; Tocsin's own file is --config.file" -}}
{{- end -}}
{{- $config := omit (deepCopy .Values.config) "enabled" "create" "name" "key" "mountPath" "data" -}}
{{- with .Values.bus -}}
{{- if .servers -}}
{{- $bus := dict "servers" .servers "cluster" .cluster -}}
{{- if .credentialsFile -}}
{{- $bus = set $bus "credentials_file" "/etc/tocsin-bus/bus.creds" -}}
{{- end -}}
{{- if .caSecret -}}
{{- $bus = set $bus "ca_file" "/etc/tocsin-bus-ca/ca.crt" -}}
{{- end -}}
{{- $config = mergeOverwrite $config (dict "bus" $bus) -}}
{{- end -}}
{{- end -}}
{{- toYaml $config -}}
{{- end }}
