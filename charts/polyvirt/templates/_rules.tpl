{{/* What the manager may do with the objects of the namespaces in which it works. */}}
{{- define "polyvirt.workRules" -}}
- apiGroups: [infra.virtrigaud.io]
  resources: ["*"]
  verbs: [get, list, watch, create, update, patch, delete]
# Machines of Viti Stack; */finalizers is what lets them own what is made for them.
- apiGroups: [vitistack.io]
  resources: ["*"]
  verbs: [get, list, watch, create, update, patch, delete]
# VMs of NovaCron; */finalizers is what lets them own what is made for them.
- apiGroups: [novacron.io]
  resources: ["*"]
  verbs: [get, list, watch, create, update, patch, delete]
# Credentials of hypervisors, user data, and the certificates of Remote providers.
- apiGroups: [""]
  resources: [secrets]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [""]
  resources: [configmaps]
  verbs: [get, list, watch]
- apiGroups: ["", events.k8s.io]
  resources: [events]
  verbs: [create, patch]
# Remote providers.
- apiGroups: [apps]
  resources: [deployments]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [""]
  resources: [services, serviceaccounts]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [networking.k8s.io]
  resources: [networkpolicies]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list, watch]
{{- end -}}

{{/* What it may do in its own namespace. */}}
{{- define "polyvirt.ownRules" -}}
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [get, list, watch, create, update, patch]
- apiGroups: ["", events.k8s.io]
  resources: [events]
  verbs: [create, patch]
# The one that leads marks its pod, and unmarks the one that did.
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list, patch]
# The certificate authority of Remote providers, and the certificate of the webhooks. The chart makes both Secrets, empty.
- apiGroups: [""]
  resources: [secrets]
  resourceNames: [polyvirt-provider-ca, {{ include "polyvirt.fullname" . }}-webhook-tls]
  verbs: [get, update]
# What marketplace:// names.
- apiGroups: [""]
  resources: [configmaps]
  resourceNames: [polyvirt-image-catalogue]
  verbs: [get]
{{- if .Values.gateway.enabled }}
# The certificate of the gateway, which goes with its Service.
- apiGroups: [""]
  resources: [secrets]
  verbs: [create]
- apiGroups: [""]
  resources: [secrets]
  resourceNames: [{{ include "polyvirt.fullname" . }}-gateway-tls]
  verbs: [get]
- apiGroups: [""]
  resources: [services]
  resourceNames: [{{ include "polyvirt.fullname" . }}-gateway]
  verbs: [get]
{{- end }}
{{- end -}}

{{/* What it may do with objects of the cluster, wherever it works. */}}
{{- define "polyvirt.clusterRules" -}}
# Sizes of Machines belong to the cluster.
- apiGroups: [vitistack.io]
  resources: [machineclasses]
  verbs: [get, list, watch]
# What tells this cluster from others: a VM is owned by its Machine only where both are in one.
- apiGroups: [""]
  resources: [namespaces]
  resourceNames: [kube-system]
  verbs: [get]
{{- if .Values.gateway.enabled }}
- apiGroups: [apiregistration.k8s.io]
  resources: [apiservices]
  resourceNames: [v1.subresources.polyvirt.io]
  verbs: [get, patch]
# Whether a person may do what they ask the gateway for.
- apiGroups: [authorization.k8s.io]
  resources: [subjectaccessreviews]
  verbs: [create]
{{- end }}
{{- if .Values.webhooks.enabled }}
# It puts the authority of its certificate there.
- apiGroups: [admissionregistration.k8s.io]
  resources: [validatingwebhookconfigurations, mutatingwebhookconfigurations]
  resourceNames: [{{ include "polyvirt.fullname" . }}]
  verbs: [get, patch]
{{- end }}
{{- end -}}

{{/* The one that these roles are for. */}}
{{- define "polyvirt.subjects" -}}
subjects:
  - kind: ServiceAccount
    name: {{ include "polyvirt.serviceAccountName" . }}
    namespace: {{ .Release.Namespace }}
{{- end -}}
