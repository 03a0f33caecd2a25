{{/* The name of the objects: that of the release, which alerts know. */}}
{{- define "ip-masq-agent.fullname" -}}
{{ .Values.fullnameOverride | default .Release.Name | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "ip-masq-agent.serviceAccountName" -}}
{{ .Values.serviceAccount.name | default (include "ip-masq-agent.fullname" .) }}
{{- end }}

{{/* The name of an object of this release: `operator` is ip-masq-operator in the release ip-masq-agent. */}}
{{- define "ip-masq-agent.nameOf" -}}
{{ trimSuffix "-agent" .release }}-{{ .suffix }}
{{- end }}

{{- define "ip-masq-agent.configMapName" -}}
{{ .Values.configMap.name | default (include "ip-masq-agent.nameOf" (dict "release" (include "ip-masq-agent.fullname" .) "suffix" "operator")) }}
{{- end }}

{{- define "ip-masq-agent.dualStackName" -}}
{{ include "ip-masq-agent.nameOf" (dict "release" (include "ip-masq-agent.fullname" .) "suffix" "dual-stack") }}
{{- end }}

{{- define "ip-masq-agent.selector" -}}
app.kubernetes.io/name: {{ .Values.nameOverride | default "ip-masq-agent" }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "ip-masq-agent.labels" -}}
{{ include "ip-masq-agent.selector" . }}
{{ include "ip-masq-agent.otherLabels" . }}
{{- end }}

{{- define "ip-masq-agent.otherLabels" -}}
app.kubernetes.io/version: {{ .Chart.AppVersion }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version | replace "+" "_" }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "ip-masq-agent.image" -}}
{{- $repository := .Values.image.repository }}
{{- with .Values.global.imageRegistry }}
{{- $repository = printf "%s/%s" . (regexReplaceAll "^([^/]*[.:][^/]*|localhost)/" $repository "") }}
{{- end }}
{{- if .Values.image.digest -}}
{{ $repository }}@{{ .Values.image.digest }}
{{- else if .Values.components.hardened -}}
{{ fail "components.hardened takes the image only by its digest; set image.digest, which is in images.txt of a release" }}
{{- else -}}
{{ $repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}
{{- end }}

{{/* The rows of "Size" in docs/install.md, by their numbers of CIDRs. */}}
{{- define "ip-masq-agent.sizing" -}}
"1000": {memory: 96Mi, flags: {}}
"5000": {memory: 192Mi, flags: {cidr-limit-max: 5000}}
"10000": {memory: 288Mi, flags: {cidr-limit-max: 10000}}
"50000": {memory: 352Mi, flags: {cidr-limit-max: 50000, backend: nftables}}
"100000": {memory: 640Mi, flags: {cidr-limit-max: 100000, backend: nftables}}
{{- end }}

{{- define "ip-masq-agent.row" -}}
{{ get (fromYaml (include "ip-masq-agent.sizing" .)) (.Values.sizing | toString) | toYaml }}
{{- end }}

{{/* The bytes of a quantity such as 96Mi. */}}
{{- define "ip-masq-agent.bytes" -}}
{{- $units := dict "" 1 "k" 1e3 "M" 1e6 "G" 1e9 "Ki" 1024 "Mi" 1048576 "Gi" 1073741824 }}
{{- $unit := get $units (regexFind "[A-Za-z]*$" .) | required (printf "resources.limits.memory is %s; write it in Mi or Gi" .) }}
{{- mulf (regexFind "^[0-9.]+" . | float64) $unit | int64 }}
{{- end }}

{{- define "ip-masq-agent.resources" -}}
{{- $memory := (include "ip-masq-agent.row" . | fromYaml).memory }}
{{- $resources := mergeOverwrite (dict "limits" (dict "memory" $memory)) (deepCopy .Values.resources) }}
{{- if lt (include "ip-masq-agent.bytes" ($resources.limits.memory | toString) | int64) (include "ip-masq-agent.bytes" $memory | int64) }}
{{- fail (printf "resources.limits.memory is %v, but %v CIDRs need %s; raise the limit, or set another sizing" $resources.limits.memory .Values.sizing $memory) }}
{{- end }}
{{- toYaml $resources }}
{{- end }}

{{/* The host and port of flags.metrics-bind-address. */}}
{{- define "ip-masq-agent.probed" -}}
{{- $address := index .Values.flags "metrics-bind-address" | default "" }}
{{- $port := regexFind "[0-9]+$" $address | required "flags.metrics-bind-address is empty, but kubelet probes it; set 127.0.0.1:9614" }}
{{- $host := $address | trimSuffix (printf ":%s" $port) | trimPrefix "[" | trimSuffix "]" }}
{{- if has $host (list "" "0.0.0.0" "::") }}{{ $host = "127.0.0.1" }}{{ end -}}
host: {{ $host | quote }}
port: {{ $port }}
{{- end }}

{{/* All flags by name: those of components, else those of the values, else those of the sizing. */}}
{{- define "ip-masq-agent.flags" -}}
{{- $flags := dict }}
{{- with .Values.components }}
{{- if .dualStack }}{{ $_ := set $flags "enable-ipv6" true }}{{ end }}
{{- if .nftables }}{{ $_ := set $flags "backend" "nftables" }}{{ end }}
{{- if or .strict .hardened }}{{ $_ := set $flags "strict" true }}{{ end }}
{{- if .hardened }}{{ $_ := set $flags "require-file" $.Values.configMap.file }}{{ end }}
{{- if or .large .waves }}{{ $_ := set $flags "on-invalid-config" "keep" }}{{ end }}
{{- if .waves }}{{ $_ := set $flags "rollout-window" "30m" }}{{ end }}
{{- if not .noState }}{{ $_ := set $flags "state-dir" "/var/lib/ip-masq-agent" }}{{ end }}
{{- if .podMonitor }}
{{- $_ := set $flags "scrape-bind-address" (printf "[$(HOST_IP)]:%v" (include "ip-masq-agent.probed" $ | fromYaml).port) }}
{{- end }}
{{- end }}
{{- merge $flags (deepCopy .Values.flags) (include "ip-masq-agent.row" . | fromYaml).flags | toYaml }}
{{- end }}

{{- define "ip-masq-agent.args" -}}
{{- range $name, $value := include "ip-masq-agent.flags" . | fromYaml }}
{{- range kindIs "slice" $value | ternary $value (list $value) }}
{{- if and (kindIs "bool" .) . }}
- --{{ $name }}
{{- else if kindIs "float64" . }}
- --{{ $name }}={{ int64 . }}
{{- else }}
- {{ printf "--%s=%v" $name . | quote }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/* A source of the projected volume: the ConfigMap `name`, its `key`, and the `file` that it becomes. */}}
{{- define "ip-masq-agent.source" -}}
{{- $key := .key | default .name }}
- configMap:
    name: {{ .name }}
    optional: {{ .optional }}
    items:
      - {key: {{ $key }}, path: {{ .file | default $key }}}
{{- end }}
