{{- define "odradek.labels" -}}
app.kubernetes.io/name: odradek
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "odradek.serviceAccount" -}}
{{- if .Values.serviceAccount.create }}{{ .Values.serviceAccount.name | default .Release.Name }}
{{- else }}{{ .Values.serviceAccount.name | default "default" }}{{ end }}
{{- end }}

{{- /* The name of a port, which has at most 15 letters, digits and hyphens. */ -}}
{{- define "odradek.port" -}}
{{ lower . | replace "_" "-" | trunc 15 | trimSuffix "-" }}
{{- end }}

{{- /* A line of server.properties. Backslashes and ends of lines are escaped; large numbers are no floating-point ones. */ -}}
{{- define "odradek.setting" -}}
{{- $value := ternary .value (toJson .value) (kindIs "string" .value) -}}
{{ .name }}={{ $value | replace "\\" "\\\\" | replace "\n" "\\n" }}
{{- end }}

{{- define "odradek.inCluster" -}}
{{- if or .Values.controllers.voters .Values.controllers.bootstrapServers }}true{{ end }}
{{- end }}

{{- /* Whether any listener, or that of the controllers, has TLS or SASL: given as "SSL" or "SASL". */ -}}
{{- define "odradek.has" -}}
{{- $root := index . 0 }}{{ $part := index . 1 }}
{{- $protocols := list }}
{{- range $root.Values.listeners }}{{ $protocols = append $protocols .protocol }}{{ end }}
{{- if $root.Values.external.type }}{{ $protocols = append $protocols $root.Values.external.protocol }}{{ end }}
{{- if include "odradek.inCluster" $root }}{{ $protocols = append $protocols $root.Values.controllers.protocol }}{{ end }}
{{- range $protocols }}
{{- if or (and (eq $part "SSL") (hasSuffix "SSL" .)) (and (eq $part "SASL") (hasPrefix "SASL" .)) }}true{{ end }}
{{- end }}
{{- end }}

{{- /* Where clients outside reach the broker with this index. */ -}}
{{- define "odradek.externalHost" -}}
{{- $root := index . 0 }}{{ $index := index . 1 }}{{ $external := $root.Values.external }}
{{- if $external.hosts }}{{ index $external.hosts $index }}{{ else }}{{ $external.host }}{{ end }}
{{- end }}

{{- /* Whether `settings` have any of these names, be it for one listener. */ -}}
{{- define "odradek.hasSetting" -}}
{{- $root := first . }}
{{- range $wanted := rest . }}{{ range $name, $_ := $root.Values.settings }}{{ if hasSuffix $wanted $name }}true{{ end }}{{ end }}{{ end }}
{{- end }}

{{- /* Whether brokers show each other, or the controllers, certificates. */ -}}
{{- define "odradek.nodesHaveTls" -}}
{{- if include "odradek.inCluster" . }}
{{- $name := .Values.interBrokerListener | default (first .Values.listeners).name }}
{{- range .Values.listeners }}{{ if and (eq .name $name) (hasSuffix "SSL" .protocol) }}true{{ end }}{{ end }}
{{- if hasSuffix "SSL" .Values.controllers.protocol }}true{{ end }}
{{- end }}
{{- end }}

{{- define "odradek.check" -}}
{{- $inCluster := include "odradek.inCluster" . }}
{{- if and (gt (int .Values.brokers) 1) (not $inCluster) }}
{{- fail "brokers: several need controllers.voters or controllers.bootstrapServers (docs/cluster.md)" }}
{{- end }}
{{- if and $inCluster (not .Values.controllers.clusterId) }}
{{- fail "controllers.clusterId: expected the id that the controllers were formatted with" }}
{{- end }}
{{- $names := list }}
{{- range .Values.listeners }}{{ $names = append $names .name }}{{ end }}
{{- if and .Values.interBrokerListener (not (has .Values.interBrokerListener $names)) }}
{{- fail (printf "interBrokerListener: expected one of %s" (join ", " $names)) }}
{{- end }}
{{- /* What else may say it: nobody can look into Secrets here. */ -}}
{{- $else := or .Values.settingsSecret .Values.envFrom .Values.extraEnv }}
{{- $tls := or .Values.tls.existingSecret $else (include "odradek.hasSetting" (list . "ssl.keystore.location" "ssl.keystore.key" "odradek.tls.folder")) }}
{{- if and (include "odradek.has" (list . "SSL")) (not $tls) }}
{{- fail "tls.existingSecret: expected the Secret with key and certificate, for the listeners with TLS" }}
{{- end }}
{{- $sasl := or .Values.sasl.existingSecret .Values.sasl.mechanisms $else (include "odradek.hasSetting" (list . "sasl.enabled.mechanisms" "sasl.jaas.config")) }}
{{- if and (include "odradek.has" (list . "SASL")) (not $sasl) }}
{{- fail "sasl.existingSecret: expected the Secret with the users, or sasl.mechanisms, for the listeners with SASL" }}
{{- end }}
{{- with .Values.external }}
{{- if and .type (not .hosts) (or (ne .type "NodePort") (not .host)) }}
{{- fail "external.hosts: expected where clients reach each broker (for NodePort, external.host will do)" }}
{{- end }}
{{- if and .type .hosts (ne (len .hosts) (int $.Values.brokers)) }}
{{- fail "external.hosts: expected as many as brokers" }}
{{- end }}
{{- if and .type (has .name $names) }}
{{- fail "external.name: expected another than those of listeners" }}
{{- end }}
{{- end }}
{{- end }}
