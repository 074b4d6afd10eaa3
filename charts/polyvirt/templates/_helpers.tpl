{{/* The name of the chart, cut to what a label holds. */}}
{{- define "polyvirt.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/* The name of the release and the chart, once if they are the same. Short enough for our suffixes. */}}
{{- define "polyvirt.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- $name := include "polyvirt.name" . -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* What does not change in the life of a release. */}}
{{- define "polyvirt.selector" -}}
app.kubernetes.io/name: {{ include "polyvirt.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{/* Labels of every object, and its component: (dict "root" . "component" "manager"). */}}
{{- define "polyvirt.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" }}
{{ include "polyvirt.selector" .root }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
app.kubernetes.io/part-of: polyvirt
app.kubernetes.io/component: {{ .component }}
{{- with .root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* metadata of an object: (dict "root" . "component" "manager" "name" "x" "annotations" (dict)). The namespace is added by hand. */}}
{{- define "polyvirt.metadata" -}}
name: {{ .name }}
labels:
  {{- include "polyvirt.labels" . | nindent 2 }}
  {{- with .labels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with merge (dict) (.annotations | default dict) .root.Values.commonAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "polyvirt.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (printf "%s-manager" (include "polyvirt.fullname" .)) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{/* An image name with the global registry in place of its own: (dict "root" . "name" "ghcr.io/a/b:1"). */}}
{{- define "polyvirt.inRegistry" -}}
{{- $registry := .root.Values.global.imageRegistry | trimSuffix "/" -}}
{{- $parts := splitList "/" .name -}}
{{- $first := first $parts -}}
{{- if not $registry -}}
{{- .name -}}
{{- else if and (gt (len $parts) 1) (or (contains "." $first) (contains ":" $first) (eq $first "localhost")) -}}
{{- printf "%s/%s" $registry (join "/" (rest $parts)) -}}
{{- else -}}
{{- printf "%s/%s" $registry .name -}}
{{- end -}}
{{- end -}}

{{- define "polyvirt.image" -}}
{{- $tag := printf ":%s" (default .Chart.AppVersion .Values.image.tag) -}}
{{- if .Values.image.digest -}}
{{- $tag = printf "@%s" .Values.image.digest -}}
{{- end -}}
{{- include "polyvirt.inRegistry" (dict "root" . "name" (printf "%s%s" .Values.image.repository $tag)) -}}
{{- end -}}

{{- define "polyvirt.imagePullSecrets" -}}
{{- with .Values.global.imagePullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- end -}}

{{/* The Lease by which managers agree who works; also the value of the label of the pod that does. */}}
{{- define "polyvirt.lease" -}}
{{ include "polyvirt.fullname" . }}-manager
{{- end -}}

{{- define "polyvirt.leaderElection" -}}
{{- if or .Values.leaderElection.enabled (gt (int .Values.replicaCount) 1) -}}true{{- end -}}
{{- end -}}

{{/* The types of providers that are enabled, by comma. */}}
{{- define "polyvirt.providerTypes" -}}
{{- $types := list -}}
{{- range $type, $provider := .Values.providers -}}
{{- if $provider.enabled -}}{{- $types = append $types $type -}}{{- end -}}
{{- end -}}
{{- join "," (sortAlpha $types) -}}
{{- end -}}

{{/* What all webhooks have in common: (dict "root" . "path" "/validate" "policy" "Fail"). */}}
{{- define "polyvirt.webhook" -}}
admissionReviewVersions: [v1]
clientConfig:
  service:
    name: {{ include "polyvirt.fullname" .root }}-webhook
    namespace: {{ .root.Release.Namespace }}
    path: {{ .path }}
    port: 443
failurePolicy: {{ .policy }}
matchPolicy: Equivalent
# Our own writes, and whatever does not change what is asked for, are never held up: finalizers, labels, status.
matchConditions:
  - name: spec-changes
    expression: request.operation != 'UPDATE' || (!has(object.metadata.deletionTimestamp) && object.spec != oldObject.spec)
  - name: not-the-manager
    expression: request.userInfo.username != "system:serviceaccount:{{ .root.Release.Namespace }}:{{ include "polyvirt.serviceAccountName" .root }}"
  {{- if .owned }}
  - name: has-an-owner
    expression: has(oldObject.metadata.ownerReferences) && oldObject.metadata.ownerReferences.exists(o, has(o.controller) && o.controller)
  - name: not-garbage-collection
    expression: '!(request.userInfo.username in ["system:serviceaccount:kube-system:generic-garbage-collector","system:serviceaccount:kube-system:namespace-controller","system:kube-controller-manager"])'
  {{- end }}
namespaceSelector:
  matchExpressions:
    {{- if .root.Values.scope.namespaces }}
    - {key: kubernetes.io/metadata.name, operator: In, values: {{ toJson .root.Values.scope.namespaces }}}
    {{- else }}
    - {key: kubernetes.io/metadata.name, operator: NotIn, values: [kube-system, {{ .root.Release.Namespace }}]}
    {{- end }}
sideEffects: None
timeoutSeconds: 5
{{- end -}}

{{/* The Secrets with certificates that somebody else keeps, separated by commas. */}}
{{- define "polyvirt.givenCertificates" -}}
{{- $webhook := ternary .Values.webhooks.certificateSecret "" .Values.webhooks.enabled }}
{{- $gateway := ternary .Values.gateway.certificateSecret "" .Values.gateway.enabled }}
{{- list $webhook $gateway | compact | uniq | join ", " }}
{{- end -}}

{{/* The one that these roles are for. */}}
{{- define "polyvirt.subjects" -}}
subjects:
  - kind: ServiceAccount
    name: {{ include "polyvirt.serviceAccountName" . }}
    namespace: {{ .Release.Namespace }}
{{- end -}}
