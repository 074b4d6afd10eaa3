{{/*
Values in the form of VirtRigaud's chart, put where ours has them, once for a rendering. Every template that reads one of
them includes this first. What has no meaning here is told in NOTES.txt.
*/}}
{{- define "polyvirt.virtrigaud" -}}
{{- if not (hasKey .Values "virtrigaudRead") -}}
{{- $_ := set .Values "virtrigaudRead" true -}}
{{- include "polyvirt.virtrigaud.manager" . -}}
{{- include "polyvirt.virtrigaud.observability" . -}}
{{- include "polyvirt.virtrigaud.rest" . -}}
{{- end -}}
{{- end -}}

{{- define "polyvirt.virtrigaud.manager" -}}
{{- $values := .Values -}}
{{- $manager := get .Values "manager" | default dict -}}
{{- range $name := list "replicaCount" "nodeSelector" "tolerations" "affinity" -}}
{{- if hasKey $manager $name -}}{{- $_ := set $values $name (get $manager $name) -}}{{- end -}}
{{- end -}}
{{/* Merged, as Helm merges them without manager: one value must not remove the rest of the hardening, or all requests. */}}
{{- range $name := list "resources" "podSecurityContext" "securityContext" -}}
{{- $_ := set $values $name (mergeOverwrite (deepCopy (get $values $name | default dict)) (get $manager $name | default dict)) -}}
{{- end -}}
{{- range $name, $value := get $manager "serviceAccount" | default dict -}}
{{- $_ := set $values.serviceAccount $name $value -}}
{{- end -}}
{{- range $variable := get $manager "env" | default list -}}
{{- if eq $variable.name "VIRTRIGAUD_LOG_LEVEL" -}}{{- $_ := set $values.logging "level" $variable.value -}}
{{- else if eq $variable.name "VIRTRIGAUD_LOG_FORMAT" -}}{{- $_ := set $values.logging "format" $variable.value -}}
{{- else if not (hasPrefix "VIRTRIGAUD_" $variable.name) -}}{{- $_ := set $values "extraEnv" (append $values.extraEnv $variable) -}}
{{- end -}}
{{- end -}}
{{- $_ := set $values "extraVolumes" (concat $values.extraVolumes (get $manager "volumes" | default list)) -}}
{{- $_ := set $values "extraVolumeMounts" (concat $values.extraVolumeMounts (get $manager "volumeMounts" | default list)) -}}
{{- end -}}

{{- define "polyvirt.virtrigaud.observability" -}}
{{- $values := .Values -}}
{{- $given := get .Values "observability" | default dict -}}
{{- $prometheus := get $given "prometheus" | default dict -}}
{{- $wanted := dict "serviceMonitor" (get $prometheus "serviceMonitor") "prometheusRule" (get $prometheus "prometheusRule") "dashboard" (dig "grafana" "dashboards" (dict) $given) -}}
{{- range $name, $settings := $wanted -}}
{{- range $key := list "enabled" "interval" "labels" -}}
{{- if and $settings (hasKey $settings $key) -}}{{- $_ := set (get $values.metrics $name) $key (get $settings $key) -}}{{- end -}}
{{- end -}}
{{- end -}}
{{- $endpoint := dig "tracing" "endpoint" "" $given -}}
{{- if and (dig "tracing" "enabled" false $given) (hasPrefix "http" $endpoint) -}}
{{- $_ := set $values.tracing "endpoint" $endpoint -}}
{{- end -}}
{{- end -}}

{{- define "polyvirt.virtrigaud.rest" -}}
{{- $values := .Values -}}
{{- $policies := dig "networkPolicies" (dict) (get .Values "security" | default dict) -}}
{{- if hasKey $policies "enabled" -}}{{- $_ := set $values.networkPolicy "enabled" $policies.enabled -}}{{- end -}}
{{- with dig "validating" "failurePolicy" "" $values.webhooks -}}{{- $_ := set $values.webhooks "failurePolicy" . -}}{{- end -}}
{{- $certificates := get $values.webhooks "certificates" | default dict -}}
{{- if has (get $certificates "source") (list "manual" "cert-manager") -}}
{{- $_ := set $values.webhooks "certificateSecret" (get $certificates "secretName" | default "") -}}
{{- end -}}
{{- range $type, $provider := $values.providers -}}
{{- if kindIs "map" $provider.image -}}
{{- $tag := get $provider.image "tag" | default "latest" -}}
{{- $_ := set $provider "image" (printf "%s:%s" (get $provider.image "repository") $tag) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* VirtRigaud's values that do nothing here, each with what to do instead; one a line. */}}
{{- define "polyvirt.virtrigaud.unused" -}}
{{- $values := .Values -}}
{{- if dig "image" (dict) (get $values "manager" | default dict) }}
manager.image: it is the image of VirtRigaud's own manager; set image.repository and image.tag
{{- end }}
{{- range $type, $provider := $values.providers }}
{{- range $name := list "replicaCount" "resources" "env" }}
{{- if get $provider $name }}
providers.{{ $type }}.{{ $name }}: set spec.runtime.{{ ternary "replicas" $name (eq $name "replicaCount") }} of the Provider
{{- end }}
{{- end }}
{{- end }}
{{- if eq (get $values.rbac "scope" | default "cluster") "namespace" }}
rbac.scope: name the namespaces in scope.namespaces
{{- end }}
{{- if get $values.rbac "additionalRules" }}
rbac.additionalRules: bind a role of your own to the ServiceAccount of the manager
{{- end }}
{{- if dig "tls" (dict) (get $values "security" | default dict) }}
security.tls: providers are always reached by mutual TLS, with certificates that the manager makes; spec.runtime.service.tls of a Provider says otherwise
{{- end }}
{{- if or (dig "manager" "enabled" false (get $values "autoscaling" | default dict)) (dig "providers" "enabled" false (get $values "autoscaling" | default dict)) }}
autoscaling: one manager works and the others stand by; set replicaCount, and spec.runtime.replicas of a Provider
{{- end }}
{{- if get $values "config" }}
config: passes for a provider are limited by concurrency, calls by spec.rateLimit of the Provider; retries need no setting
{{- end }}
{{- if get $values "crds" }}
crds: set crdUpgrade.enabled, or use helm install --skip-crds; they are always kept
{{- end }}
{{- if or (get $values.crdUpgrade "image") (get $values.crdUpgrade "waitSeconds") }}
crdUpgrade.image, crdUpgrade.waitSeconds: the job runs the image of the manager and waits by itself
{{- end }}
{{- if get $values "testing" }}
testing: there is nothing to install for it
{{- end }}
{{- end -}}
