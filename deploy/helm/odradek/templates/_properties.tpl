{{- /* server.properties of one broker, given the root, its index and its id. */ -}}
{{- define "odradek.properties" -}}
{{- $root := index . 0 }}{{ $index := index . 1 }}{{ $id := index . 2 }}
{{- $values := $root.Values }}
{{- $inCluster := include "odradek.inCluster" $root }}
{{- $bound := list }}{{ $advertised := list }}{{ $protocols := list }}
{{- range $values.listeners }}
{{- $bound = append $bound (printf "%s://0.0.0.0:%d" .name (int .port)) }}
{{- $host := printf "%s-%d.%s-brokers.%s.svc" $root.Release.Name (int $id) $root.Release.Name $root.Release.Namespace }}
{{- $advertised = append $advertised (printf "%s://%s:%d" .name $host (int .port)) }}
{{- $protocols = append $protocols (printf "%s:%s" .name .protocol) }}
{{- end }}
{{- with $values.external }}{{ if .type }}
{{- $bound = append $bound (printf "%s://0.0.0.0:%d" .name (int .port)) }}
{{- $port := ternary (add .firstNodePort $index) (int .port) (eq .type "NodePort") }}
{{- $advertised = append $advertised (printf "%s://%s:%d" .name (include "odradek.externalHost" (list $root $index)) (int $port)) }}
{{- $protocols = append $protocols (printf "%s:%s" .name .protocol) }}
{{- end }}{{ end }}
{{- if $inCluster }}
{{- $protocols = append $protocols (printf "%s:%s" $values.controllers.listenerName $values.controllers.protocol) }}
{{- end -}}
node.id={{ $id }}
odradek.profile={{ $values.profile }}
listeners={{ join "," $bound }}
advertised.listeners={{ join "," $advertised }}
listener.security.protocol.map={{ join "," $protocols }}
{{- if $inCluster }}
odradek.cluster.id={{ $values.controllers.clusterId }}
process.roles=broker
inter.broker.listener.name={{ $values.interBrokerListener | default (first $values.listeners).name }}
controller.listener.names={{ $values.controllers.listenerName }}
{{- with $values.controllers.voters }}
controller.quorum.voters={{ . }}
{{- end }}
{{- with $values.controllers.bootstrapServers }}
controller.quorum.bootstrap.servers={{ . }}
{{- end }}
{{- end }}
{{- if ge (int $values.brokers) 3 }}
default.replication.factor=3
min.insync.replicas=2
{{- end }}
{{- with $values.tls }}{{ if .existingSecret }}
ssl.keystore.type={{ .type }}
ssl.keystore.location=/etc/odradek/tls{{ with .keystore }}/{{ . }}{{ end }}
{{- if or (include "odradek.nodesHaveTls" $root) (ne .clientAuth "none") }}
ssl.truststore.type={{ .type }}
ssl.truststore.location=/etc/odradek/tls/{{ .truststore }}
{{- end }}
ssl.client.auth={{ .clientAuth }}
{{- end }}{{ end }}
{{- with $values.sasl.existingSecret }}
odradek.users.file=/etc/odradek/users/{{ $values.sasl.usersKey }}
{{- end }}
{{- with $values.sasl.mechanisms }}
sasl.enabled.mechanisms={{ join "," . }}
{{- end }}
{{- range $name, $value := $values.settings }}
{{ include "odradek.setting" (dict "name" $name "value" $value) }}
{{- end }}
{{- end }}
