{{- define "fleet.natsConfig" -}}
{{- $nats := include "fleet.nats" . -}}
# Of the server in this pod: docs/bus.md, "Server".
server_name: $POD_NAME
listen: "0.0.0.0:4222"
http: "0.0.0.0:8222"
pid_file: "/tmp/nats.pid"
lame_duck_duration: "30s"
lame_duck_grace_period: "5s"
tls {
  cert_file: "/etc/nats-tls/tls.crt"
  key_file: "/etc/nats-tls/tls.key"
  ca_file: "/etc/nats-tls/ca.crt"
}
jetstream {
  store_dir: "/data"
  max_memory_store: 64MB
  max_file_store: {{ .Values.nats.maxFile }}
}
cluster {
  name: {{ .Values.cluster | quote }}
  listen: "0.0.0.0:6222"
  no_advertise: true
  tls {
    cert_file: "/etc/nats-tls/tls.crt"
    key_file: "/etc/nats-tls/tls.key"
    ca_file: "/etc/nats-tls/ca.crt"
    verify: true # only servers with a certificate of this authority join
  }
  routes: [
    {{- range $number := until (int .Values.nats.replicas) }}
    "tls://{{ $nats }}-{{ $number }}.{{ $nats }}.{{ include "fleet.namespace" $ }}.svc:6222"
    {{- end }}
  ]
}
include "../nats-accounts/accounts.conf"
{{- end }}

{{- /* Nine tenths of a quantity of memory, for Go; nothing where there is none, or it is written in another way. */ -}}
{{- define "fleet.goMemoryLimit" -}}
{{- $text := toString . -}}
{{- $number := regexFind "^[0-9]+([.][0-9]+)?" $text -}}
{{- $mebibytes := get (dict "Mi" 1.0 "Gi" 1024.0 "Ti" 1048576.0 "M" 0.95367 "G" 953.67 "T" 953674.0) (trimPrefix $number $text) -}}
{{- if and $number $mebibytes -}}{{ mulf (float64 $number) $mebibytes 0.9 | floor | int64 }}MiB{{- end -}}
{{- end }}
