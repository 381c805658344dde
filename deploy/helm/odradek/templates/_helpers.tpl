{{- define "odradek.labels" -}}
app.kubernetes.io/name: odradek
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}
{{- define "odradek.check" -}}
{{- if and (gt (int .Values.brokers) 1) (not .Values.controllers.voters) }}
{{- fail "brokers: several need controllers.voters, the controllers of the cluster (docs/cluster.md)" }}
{{- end }}
{{- if and .Values.controllers.voters (not .Values.controllers.clusterId) }}
{{- fail "controllers.clusterId: expected the id that the controllers were formatted with" }}
{{- end }}
{{- end }}
