{{/* What differs between the processes. A secret of "may" is mounted if secrets.optional lists it. */}}
{{- define "paceline.processes" -}}
gateway:
  entrance: http
  port: 8080
  ops: 9100
  grace: 60
  env: { GATEWAY_ADDR: ":8080", GATEWAY_OPS_ADDR: ":9100", ONBOARDING_ADDR: "onboarding-replicas:9001", MESSAGING_ADDR: "messaging-replicas:9002" }
  secrets: [GATEWAY_SIGNING_KEY, TWILIO_AUTH_TOKEN, API_JWT_SECRET]
  qstash: [QSTASH_CURRENT_SIGNING_KEY, QSTASH_NEXT_SIGNING_KEY]
  may:
    - SERVICE_AUTH_SECRET
    - QSTASH_CURRENT_SIGNING_KEY
    - QSTASH_NEXT_SIGNING_KEY
    - KAPSO_WEBHOOK_SECRET
    - SHOPIFY_WEBHOOK_SECRET
    - CONSOLE_KEY
    - OIDC_CLIENT_SECRET
onboarding:
  entrance: grpc
  port: 9001
  ops: 9101
  grace: 545
  env: { ONBOARDING_ADDR: ":9001", ONBOARDING_OPS_ADDR: ":9101", MESSAGING_ADDR: "messaging-replicas:9002" }
  secrets: [ONBOARDING_SIGNING_KEY, SERVICE_PUBLIC_KEYS, ONBOARDING_DATABASE_URL]
  qstash: [QSTASH_TOKEN]
  may: [SERVICE_AUTH_SECRET, QSTASH_TOKEN, REDIS_URL, ONBOARDING_DATABASE_DIRECT_URL]
  migrate: ONBOARDING_DATABASE_MIGRATE_URL
messaging:
  entrance: grpc
  port: 9002
  ops: 9102
  grace: 130
  env: { MESSAGING_ADDR: ":9002", MESSAGING_OPS_ADDR: ":9102" }
  secrets: [SERVICE_PUBLIC_KEYS, MESSAGING_DATABASE_URL, TWILIO_API_KEY_SECRET, PSEUDONYM_KEY]
  qstash: []
  may: [SERVICE_AUTH_SECRET, SENDER_KEYSET, MESSAGING_DATABASE_DIRECT_URL]
  migrate: MESSAGING_DATABASE_MIGRATE_URL
{{- end }}

{{- define "paceline.labels" -}}
app.kubernetes.io/part-of: paceline
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- end }}

{{/* The variables that all processes have. */}}
{{- define "paceline.settings" -}}
{{- $host := required "host is missing: the name by which people and vendors reach the gateway" .Values.host }}
{{- range $name, $value := merge (dict "PUBLIC_BASE_URL" (printf "https://%s" $host) "ALARMS" .Values.alarms) .Values.settings }}
{{ $name }}: {{ $value | quote }}
{{- end }}
{{- end }}

{{- define "paceline.image" -}}
{{- $registry := required "image.registry is missing: where the images are that you built (docs/deploy.md, Containers)" .root.Values.image.registry -}}
{{ $registry }}/{{ .name }}:{{ .root.Values.image.tag | default (printf "v%s" .root.Chart.AppVersion) }}
{{- end }}

{{/* The secrets of a process, as a list of YAML: no key more than it reads. Takes root, process, and also, which are its others. */}}
{{- define "paceline.secrets" -}}
{{- $keys := concat .process.secrets .also }}
{{- if contains "qstash" .root.Values.alarms }}{{ $keys = concat $keys .process.qstash }}{{ end }}
{{- range .process.may }}{{ if has . $.root.Values.secrets.optional }}{{ $keys = append $keys . }}{{ end }}{{ end }}
{{- $keys | uniq | toYaml }}
{{- end }}

{{/* What a pod may do, for services and migrations. */}}
{{- define "paceline.pod" -}}
automountServiceAccountToken: false # no process here calls the API of Kubernetes
enableServiceLinks: false # the environment is ours alone
{{- with .Values.image.pullSecrets }}
imagePullSecrets: {{ toYaml . | nindent 2 }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  fsGroup: 65532 # may read the secrets
  seccompProfile: { type: RuntimeDefault }
{{- end }}

{{- define "paceline.container" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: { drop: [ALL] }
{{- end }}

{{/* The variables that name the files of secrets. */}}
{{- define "paceline.secretEnv" -}}
{{- range . }}
- { name: {{ . }}_FILE, value: /run/secrets/paceline/{{ . }} }
{{- end }}
{{- end }}

{{- define "paceline.secretVolume" -}}
name: secrets
secret:
  secretName: {{ .root.Values.secrets.name }}
  defaultMode: 0440
  items:
    {{- range .keys }}
    - { key: {{ . }}, path: {{ . }} }
    {{- end }}
{{- end }}
