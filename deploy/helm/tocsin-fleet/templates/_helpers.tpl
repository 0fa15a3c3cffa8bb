{{- define "fleet.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{ .Values.fullnameOverride | trunc 50 | trimSuffix "-" }}
{{- else if contains (default .Chart.Name .Values.nameOverride) .Release.Name -}}
{{ .Release.Name | trunc 50 | trimSuffix "-" }}
{{- else -}}
{{ printf "%s-%s" .Release.Name (default .Chart.Name .Values.nameOverride) | trunc 50 | trimSuffix "-" }}
{{- end -}}
{{- end }}

{{- define "fleet.gateway" -}}
{{ include "fleet.fullname" . }}-gateway
{{- end }}

{{- define "fleet.nats" -}}
{{ include "fleet.fullname" . }}-nats
{{- end }}

{{- define "fleet.namespace" -}}
{{ default .Release.Namespace .Values.namespaceOverride }}
{{- end }}

{{- /* Of one component: (list . "gateway"). */ -}}
{{- define "fleet.selector" -}}
{{- $root := index . 0 -}}
app.kubernetes.io/name: {{ default $root.Chart.Name $root.Values.nameOverride }}
app.kubernetes.io/instance: {{ $root.Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end }}

{{- define "fleet.labels" -}}
{{- $root := index . 0 -}}
{{ include "fleet.selector" . }}
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" $root.Chart.Name $root.Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "fleet.image" -}}
{{ .Values.image.repository }}{{ if .Values.image.digest }}@{{ .Values.image.digest }}{{ else }}:{{ default .Chart.AppVersion .Values.image.tag }}{{ end }}
{{- end }}

{{- define "fleet.podSecurityContext" -}}
runAsNonRoot: true
runAsUser: 65534
runAsGroup: 65534
fsGroup: 65534
fsGroupChangePolicy: OnRootMismatch
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- define "fleet.securityContext" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{- /* Never two of a component on one node: (list . "gateway"). */ -}}
{{- define "fleet.apart" -}}
podAntiAffinity:
  requiredDuringSchedulingIgnoredDuringExecution:
    - topologyKey: kubernetes.io/hostname
      labelSelector:
        matchLabels: {{- include "fleet.selector" . | nindent 10 }}
{{- end }}

{{- define "fleet.servers" -}}
{{- if .Values.nats.enabled -}}
{{- $nats := include "fleet.nats" . -}}
{{- $servers := list -}}
{{- range $number := until (int .Values.nats.replicas) -}}
{{- $servers = append $servers (printf "tls://%s-%d.%s.%s.svc:4222" $nats $number $nats (include "fleet.namespace" $)) -}}
{{- end -}}
{{ toJson $servers }}
{{- else -}}
{{- if not .Values.bus.servers -}}
{{- fail "bus.servers: the addresses of NATS, or nats.enabled=true" -}}
{{- end -}}
{{ toJson .Values.bus.servers }}
{{- end -}}
{{- end }}

{{- /* The file of the gateway: the bus as the values say, everything else from gateway.config. */ -}}
{{- define "fleet.config" -}}
{{- $bus := dict "servers" (include "fleet.servers" . | fromJsonArray) "cluster" .Values.cluster -}}
{{- with .Values.bus.credentialsSecret -}}
{{- $bus = set $bus "credentials_file" "/etc/tocsin-bus/bus.creds" -}}
{{- end -}}
{{- if or .Values.nats.enabled .Values.bus.caSecret -}}
{{- $bus = set $bus "ca_file" "/etc/tocsin-ca/ca.crt" -}}
{{- end -}}
{{- toYaml (mergeOverwrite (deepCopy .Values.gateway.config) (dict "bus" (mergeOverwrite (dict) (default (dict) .Values.gateway.config.bus) $bus))) -}}
{{- end }}

{{- define "fleet.caSecret" -}}
{{ default (ternary .Values.nats.tlsSecret "" .Values.nats.enabled) .Values.bus.caSecret }}
{{- end }}

{{- /* What a gateway and the Job that creates the stream both mount. */ -}}
{{- define "fleet.volumes" -}}
- name: config
  configMap:
    name: {{ include "fleet.gateway" . }}
- name: tmp
  emptyDir:
    medium: Memory
    sizeLimit: 64Mi
{{- with .Values.bus.credentialsSecret }}
- name: credentials
  secret:
    secretName: {{ . }}
    defaultMode: 288 # 0440: for the pod's group alone
{{- end }}
{{- with include "fleet.caSecret" . }}
- name: ca
  secret:
    secretName: {{ . }}
    items:
      - key: {{ $.Values.bus.caKey }}
        path: ca.crt
{{- end }}
{{- end }}

{{- /* Of the pod that is named: (list . "$(POD_NAME)"). */ -}}
{{- define "fleet.mounts" -}}
{{- $root := index . 0 -}}
- name: config
  mountPath: /etc/tocsin
  readOnly: true
- name: tmp
  mountPath: /tmp
{{- if $root.Values.bus.credentialsSecret }}
- name: credentials
  mountPath: /etc/tocsin-bus/bus.creds
  subPathExpr: {{ index . 1 }}.creds
  readOnly: true
{{- end }}
{{- if include "fleet.caSecret" $root }}
- name: ca
  mountPath: /etc/tocsin-ca
  readOnly: true
{{- end }}
{{- end }}
