{{/* What the manager may do with the objects of the namespaces in which it works. */}}
{{- define "polyvirt.workRules" -}}
# Kinds that are made for others too: Machines become VirtualMachines and Providers.
- apiGroups: [infra.virtrigaud.io]
  resources: [virtualmachines, providers]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [infra.virtrigaud.io]
  resources: [vmclasses, vmimages, vmplacementpolicies]
  verbs: [list, watch, patch]
- apiGroups: [infra.virtrigaud.io]
  resources: [vmsnapshots, vmnetworkattachments, vmmigrations]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [infra.virtrigaud.io]
  resources: [virtualmachines/status, providers/status, vmclasses/status, vmimages/status, vmnetworkattachments/status, vmsnapshots/status, vmplacementpolicies/status, vmmigrations/status]
  verbs: [patch]
# Machines of Viti Stack.
- apiGroups: [vitistack.io]
  resources: [machines]
  verbs: [list, watch, patch]
- apiGroups: [vitistack.io]
  resources: [kubevirtconfigs]
  verbs: [get, list, watch]
- apiGroups: [vitistack.io]
  resources: [networkconfigurations]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [vitistack.io]
  resources: [networknamespaces]
  verbs: [list, watch]
- apiGroups: [vitistack.io]
  resources: [machines/status, kubevirtconfigs/status]
  verbs: [patch]
# VMs of NovaCron.
- apiGroups: [novacron.io]
  resources: [virtualmachines]
  verbs: [list, watch, patch]
- apiGroups: [novacron.io]
  resources: [virtualmachines/status]
  verbs: [patch]
# What lets them own the objects that are made for them, on clusters that ask for it.
- apiGroups: [infra.virtrigaud.io]
  resources: [providers/finalizers, virtualmachines/finalizers, vmsnapshots/finalizers]
  verbs: [update]
- apiGroups: [vitistack.io]
  resources: [machines/finalizers, kubevirtconfigs/finalizers]
  verbs: [update]
- apiGroups: [novacron.io]
  resources: [virtualmachines/finalizers]
  verbs: [update]
# Credentials of hypervisors, user data, and the certificates of Remote providers.
- apiGroups: [""]
  resources: [secrets]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [""]
  resources: [configmaps]
  verbs: [get]
- apiGroups: [events.k8s.io]
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
  verbs: [list]
{{- if .Values.rbac.kubevirt }}
# VMs in this cluster's own KubeVirt (endpoint kubevirt://in-cluster).
- apiGroups: [kubevirt.io]
  resources: [virtualmachines, virtualmachineinstances, virtualmachineinstancemigrations]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [cdi.kubevirt.io]
  resources: [datavolumes]
  verbs: [get, list, watch, create, patch, delete]
# Disks are copies of images that are kept in another namespace.
- apiGroups: [cdi.kubevirt.io]
  resources: [datavolumes/source]
  verbs: [create]
- apiGroups: [""]
  resources: [persistentvolumeclaims]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [snapshot.kubevirt.io]
  resources: [virtualmachinesnapshots, virtualmachinerestores]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [clone.kubevirt.io]
  resources: [virtualmachineclones]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [k8s.cni.cncf.io]
  resources: [network-attachment-definitions]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [subresources.kubevirt.io]
  resources:
    - virtualmachines/stop
    - virtualmachineinstances/pause
    - virtualmachineinstances/unpause
    - virtualmachineinstances/addvolume
    - virtualmachineinstances/removevolume
  verbs: [update]
- apiGroups: [subresources.kubevirt.io]
  resources: [virtualmachineinstances/console, virtualmachineinstances/vnc]
  verbs: [get]
# What VMs use.
- apiGroups: [metrics.k8s.io]
  resources: [pods]
  verbs: [list]
{{- end }}
{{- end -}}

{{/* What it may do in its own namespace. */}}
{{- define "polyvirt.ownRules" -}}
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [get, watch, create, update]
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create, patch]
# The one that leads marks its pod, and unmarks the one that did.
- apiGroups: [""]
  resources: [pods]
  verbs: [list, patch]
# The authority behind the certificates of Remote providers, webhooks and gateway. The chart makes the Secret, empty.
- apiGroups: [""]
  resources: [secrets]
  resourceNames: [polyvirt-provider-ca]
  verbs: [get, update]
{{- with include "polyvirt.givenCertificates" . }}
# Certificates that somebody else keeps.
- apiGroups: [""]
  resources: [secrets]
  resourceNames: [{{ . }}]
  verbs: [get]
{{- end }}
# What marketplace:// names.
- apiGroups: [""]
  resources: [configmaps]
  resourceNames: [polyvirt-image-catalogue]
  verbs: [get]
{{- end -}}

{{/* The Secrets with certificates that somebody else keeps, separated by commas. */}}
{{- define "polyvirt.givenCertificates" -}}
{{- $webhook := ternary .Values.webhooks.certificateSecret "" .Values.webhooks.enabled }}
{{- $gateway := ternary .Values.gateway.certificateSecret "" .Values.gateway.enabled }}
{{- list $webhook $gateway | compact | uniq | join ", " }}
{{- end -}}

{{/* What it may do with objects of the cluster, wherever it works. */}}
{{- define "polyvirt.clusterRules" -}}
# Hooks call no Service of the cluster, so which addresses those have must be known.
- apiGroups: [networking.k8s.io]
  resources: [servicecidrs]
  verbs: [list]
# Sizes of Machines belong to the cluster.
- apiGroups: [vitistack.io]
  resources: [machineclasses]
  verbs: [list, watch]
# Whether those definitions are of this version is said in the log.
- apiGroups: [apiextensions.k8s.io]
  resources: [customresourcedefinitions]
  resourceNames: [machines.vitistack.io, networkconfigurations.vitistack.io, kubevirtconfigs.vitistack.io]
  verbs: [get]
# What tells this cluster from others: a VM is owned by its Machine only where both are in one.
- apiGroups: [""]
  resources: [namespaces]
  resourceNames: [kube-system]
  verbs: [get]
{{- if .Values.rbac.kubevirt }}
# Where VMs of this cluster's own KubeVirt go, and what storage and nodes there are.
- apiGroups: [""]
  resources: [namespaces]
  verbs: [get, create, patch]
- apiGroups: [""]
  resources: [nodes]
  verbs: [get, list]
- apiGroups: [storage.k8s.io]
  resources: [storageclasses]
  verbs: [get, list]
- apiGroups: [cdi.kubevirt.io]
  resources: [storageprofiles]
  verbs: [get, list]
- apiGroups: [kubevirt.io]
  resources: [kubevirts]
  verbs: [get, list]
# How fast VMs may move.
- apiGroups: [migrations.kubevirt.io]
  resources: [migrationpolicies]
  verbs: [get, list, watch, create, patch, delete]
{{- end }}
{{- if .Values.gateway.enabled }}
- apiGroups: [apiregistration.k8s.io]
  resources: [apiservices]
  resourceNames: [v1.subresources.polyvirt.io]
  verbs: [patch]
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
