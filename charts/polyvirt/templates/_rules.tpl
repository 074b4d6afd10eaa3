{{/* Made from crates/polyvirt/src/rights by make manifests. Change the table there. */}}

{{/* What the manager may do with objects of the cluster, wherever it works. */}}
{{- define "polyvirt.clusterRules" -}}
# engine/src/calls
- apiGroups: [networking.k8s.io]
  resources: [servicecidrs]
  verbs: [list]
# dialects/src/vitistack
- apiGroups: [vitistack.io]
  resources: [machineclasses]
  verbs: [list, watch]
# dialects/src/vitistack/controller/checks.rs
- apiGroups: [apiextensions.k8s.io]
  resources: [customresourcedefinitions]
  resourceNames: [machines.vitistack.io, networkconfigurations.vitistack.io, kubevirtconfigs.vitistack.io]
  verbs: [get]
# dialects/src/shared/desk.rs
- apiGroups: [""]
  resources: [namespaces]
  resourceNames: [kube-system]
  verbs: [get]
{{- if not .Values.scope.namespaces }}
# engine/src/runtime/namespaces.rs
- apiGroups: [""]
  resources: [namespaces]
  verbs: [list, watch]
{{- end }}
{{- if .Values.gateway.enabled }}
# gateway/src
- apiGroups: [apiregistration.k8s.io]
  resources: [apiservices]
  resourceNames: [v1.subresources.polyvirt.io, priority.novacron.io]
  verbs: [patch]
# gateway/src
- apiGroups: [authorization.k8s.io]
  resources: [subjectaccessreviews]
  verbs: [create]
{{- end }}
{{- if .Values.webhooks.enabled }}
# admission/src/register
- apiGroups: [admissionregistration.k8s.io]
  resources: [validatingwebhookconfigurations, mutatingwebhookconfigurations]
  resourceNames: [{{ include "polyvirt.fullname" . }}]
  verbs: [get, patch]
{{- end }}
{{- if .Values.rbac.kubevirt }}
# providers/kubevirt/src/vm
- apiGroups: [""]
  resources: [namespaces]
  verbs: [get, create, patch]
# providers/kubevirt/src/migrate
- apiGroups: [migrations.kubevirt.io]
  resources: [migrationpolicies]
  verbs: [get, list, create, patch, delete]
# providers/kubevirt/src/inventory.rs
- apiGroups: [""]
  resources: [nodes]
  verbs: [list]
# providers/kubevirt/src/inventory.rs
- apiGroups: [storage.k8s.io]
  resources: [storageclasses]
  verbs: [list]
# providers/kubevirt/src/inventory.rs
- apiGroups: [cdi.kubevirt.io]
  resources: [storageprofiles]
  verbs: [list]
# providers/kubevirt/src/inventory.rs
- apiGroups: [kubevirt.io]
  resources: [kubevirts]
  verbs: [list]
{{- end }}
{{- end -}}

{{/* What it may do with the objects of the namespaces in which it works. */}}
{{- define "polyvirt.workRules" -}}
# dialects/src/novacron, dialects/src/vitistack, engine/src/virtual_machine
- apiGroups: [infra.virtrigaud.io]
  resources: [virtualmachines]
  verbs: [get, list, watch, create, patch, delete]
# engine/src/virtual_machine
- apiGroups: [infra.virtrigaud.io]
  resources: [virtualmachines/status]
  verbs: [patch]
# engine/src/virtual_machine
- apiGroups: [infra.virtrigaud.io]
  resources: [virtualmachines/finalizers]
  verbs: [update]
# dialects/src/novacron, engine/src/snapshot, engine/src/virtual_machine
- apiGroups: [infra.virtrigaud.io]
  resources: [vmsnapshots]
  verbs: [get, list, watch, create, patch, delete]
# engine/src/image, engine/src/virtual_machine, runtimes/src/credentials.rs, runtimes/src/process, runtimes/src/remote
- apiGroups: [""]
  resources: [secrets]
  verbs: [get, list, watch, create, patch, delete]
# engine/src/virtual_machine
- apiGroups: [""]
  resources: [namespaces]
  verbs: [get]
# engine/src/shared
- apiGroups: [infra.virtrigaud.io]
  resources: [vmclasses]
  verbs: [list, watch, patch]
# engine/src/image, engine/src/shared
- apiGroups: [infra.virtrigaud.io]
  resources: [vmimages]
  verbs: [list, watch, patch]
# dialects/src/novacron, engine/src/shared
- apiGroups: [infra.virtrigaud.io]
  resources: [vmnetworkattachments]
  verbs: [get, list, watch, create, patch, delete]
# engine/src/shared
- apiGroups: [infra.virtrigaud.io]
  resources: [vmclasses/status, vmnetworkattachments/status]
  verbs: [patch]
# engine/src/image
- apiGroups: [infra.virtrigaud.io]
  resources: [vmimages/status]
  verbs: [patch]
# dialects/src/vitistack, engine/src/provider
- apiGroups: [infra.virtrigaud.io]
  resources: [providers]
  verbs: [get, list, watch, create, patch, delete]
# engine/src/provider
- apiGroups: [infra.virtrigaud.io]
  resources: [providers/status]
  verbs: [patch]
# engine/src/snapshot
- apiGroups: [infra.virtrigaud.io]
  resources: [vmsnapshots/status]
  verbs: [patch]
# engine/src/snapshot
- apiGroups: [infra.virtrigaud.io]
  resources: [vmsnapshots/finalizers]
  verbs: [update]
# dialects/src/novacron, engine/src/migration
- apiGroups: [infra.virtrigaud.io]
  resources: [vmmigrations]
  verbs: [get, list, watch, create, patch, delete]
# engine/src/migration
- apiGroups: [infra.virtrigaud.io]
  resources: [vmmigrations/status]
  verbs: [patch]
# engine/src/unimplemented.rs
- apiGroups: [infra.virtrigaud.io]
  resources: [vmclones, vmsets]
  verbs: [list, watch]
# engine/src/unimplemented.rs
- apiGroups: [infra.virtrigaud.io]
  resources: [vmclones/status, vmsets/status]
  verbs: [patch]
# engine/src/placement
- apiGroups: [infra.virtrigaud.io]
  resources: [vmplacementpolicies]
  verbs: [list, watch, patch]
# engine/src/placement
- apiGroups: [infra.virtrigaud.io]
  resources: [vmplacementpolicies/status]
  verbs: [patch]
# engine/src/host
- apiGroups: [infra.virtrigaud.io]
  resources: [hosts, hostpools]
  verbs: [list, watch]
# engine/src/host
- apiGroups: [infra.virtrigaud.io]
  resources: [hosts/status, hostpools/status]
  verbs: [patch]
# engine/src/runtime/events.rs
- apiGroups: [""]
  resources: [events]
  verbs: [create, patch]
# dialects/src/vitistack
- apiGroups: [vitistack.io]
  resources: [machines]
  verbs: [list, watch, patch]
# dialects/src/vitistack
- apiGroups: [vitistack.io]
  resources: [kubevirtconfigs]
  verbs: [get, list, watch]
# dialects/src/vitistack
- apiGroups: [vitistack.io]
  resources: [networkconfigurations]
  verbs: [get, list, watch, create, patch, delete]
# dialects/src/vitistack
- apiGroups: [vitistack.io]
  resources: [networknamespaces]
  verbs: [list, watch]
# dialects/src/vitistack
- apiGroups: [vitistack.io]
  resources: [machines/status, kubevirtconfigs/status]
  verbs: [patch]
# dialects/src/vitistack
- apiGroups: [vitistack.io]
  resources: [machines/finalizers, kubevirtconfigs/finalizers]
  verbs: [update]
# dialects/src/novacron
- apiGroups: [novacron.io]
  resources: [virtualmachines]
  verbs: [list, watch, patch]
# dialects/src/novacron
- apiGroups: [novacron.io]
  resources: [virtualmachines/status]
  verbs: [patch]
# dialects/src/novacron
- apiGroups: [novacron.io]
  resources: [virtualmachines/finalizers]
  verbs: [update]
# runtimes/src/remote
- apiGroups: [apps]
  resources: [deployments]
  verbs: [get, list, watch, create, patch, delete]
# runtimes/src/remote
- apiGroups: [""]
  resources: [services, serviceaccounts]
  verbs: [get, list, watch, create, patch, delete]
# runtimes/src/remote
- apiGroups: [networking.k8s.io]
  resources: [networkpolicies]
  verbs: [get, list, watch, create, patch, delete]
# runtimes/src/remote
- apiGroups: [""]
  resources: [pods]
  verbs: [list]
# runtimes/src/remote
- apiGroups: [infra.virtrigaud.io]
  resources: [providers/finalizers]
  verbs: [update]
# runtimes/src/process
- apiGroups: [""]
  resources: [configmaps]
  verbs: [get]
{{- if .Values.rbac.kubevirt }}
# providers/kubevirt/src/vm
- apiGroups: [kubevirt.io]
  resources: [virtualmachines]
  verbs: [get, list, watch, create, patch, delete]
# providers/kubevirt/src/vm
- apiGroups: [kubevirt.io]
  resources: [virtualmachineinstances]
  verbs: [get, list, watch, delete]
# providers/kubevirt/src/vm
- apiGroups: [cdi.kubevirt.io]
  resources: [datavolumes]
  verbs: [get, list, watch, create, patch, delete]
# providers/kubevirt/src/vm
- apiGroups: [cdi.kubevirt.io]
  resources: [datavolumes/source]
  verbs: [create]
# providers/kubevirt/src/vm
- apiGroups: [""]
  resources: [persistentvolumeclaims]
  verbs: [get, list, watch, create, patch, delete]
# providers/kubevirt/src/vm
- apiGroups: [k8s.cni.cncf.io]
  resources: [network-attachment-definitions]
  verbs: [get, list, create, patch, delete]
# providers/kubevirt/src/access.rs
- apiGroups: [cdi.kubevirt.io]
  resources: [datasources]
  verbs: [get]
# providers/kubevirt/src/access.rs
- apiGroups: [snapshot.storage.k8s.io]
  resources: [volumesnapshots]
  verbs: [get]
# providers/kubevirt/src/subresource.rs
- apiGroups: [subresources.kubevirt.io]
  resources: [virtualmachines/stop, virtualmachineinstances/pause, virtualmachineinstances/unpause, virtualmachineinstances/addvolume, virtualmachineinstances/removevolume]
  verbs: [update]
# providers/kubevirt/src/subresource.rs
- apiGroups: [subresources.kubevirt.io]
  resources: [virtualmachineinstances/console, virtualmachineinstances/vnc]
  verbs: [get]
# providers/kubevirt/src/usage.rs
- apiGroups: [metrics.k8s.io]
  resources: [pods]
  verbs: [list]
# providers/kubevirt/src/snapshot.rs
- apiGroups: [snapshot.kubevirt.io]
  resources: [virtualmachinesnapshots, virtualmachinerestores]
  verbs: [get, list, watch, create, patch, delete]
# providers/kubevirt/src/clone.rs
- apiGroups: [clone.kubevirt.io]
  resources: [virtualmachineclones]
  verbs: [get, list, watch, create, patch, delete]
# providers/kubevirt/src/migrate
- apiGroups: [kubevirt.io]
  resources: [virtualmachineinstancemigrations]
  verbs: [get, list, watch, create, patch, delete]
{{- end }}
{{- end -}}

{{/* What it may do in its own namespace. */}}
{{- define "polyvirt.ownRules" -}}
# dialects/src/novacron
- apiGroups: [""]
  resources: [configmaps]
  resourceNames: [polyvirt-image-catalogue]
  verbs: [get]
# pki/src
- apiGroups: [""]
  resources: [secrets]
  resourceNames: [polyvirt-provider-ca]
  verbs: [get, update]
{{- if include "polyvirt.leaderElection" . }}
# engine/src/leader
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [get, watch, create, update]
# polyvirt/src/leader_label.rs
- apiGroups: [""]
  resources: [pods]
  verbs: [list, patch]
{{- end }}
{{- with include "polyvirt.givenCertificates" . }}
# pki/src
- apiGroups: [""]
  resources: [secrets]
  resourceNames: [{{ . }}]
  verbs: [get]
{{- end }}
{{- end -}}

{{/* What the job that brings CRDs up to date may do. */}}
{{- define "polyvirt.crdUpgradeRules" -}}
# polyvirt/src/commands/crds.rs
- apiGroups: [apiextensions.k8s.io]
  resources: [customresourcedefinitions]
  verbs: [get, list, watch, create, patch]
{{- end -}}

{{/* Consoles of VMs and commands in their guests. */}}
{{- define "polyvirt.guestRules" -}}
# gateway/src/routes.rs
- apiGroups: [subresources.polyvirt.io]
  resources: [virtualmachines/console, virtualmachines/vnc, virtualmachines/log]
  verbs: [get]
# gateway/src/routes.rs
- apiGroups: [subresources.polyvirt.io]
  resources: [virtualmachines/exec]
  verbs: [create]
{{- end -}}

{{/* What serial consoles have shown. */}}
{{- define "polyvirt.guestLogRules" -}}
# gateway/src/routes.rs
- apiGroups: [subresources.polyvirt.io]
  resources: [virtualmachines/log]
  verbs: [get]
{{- end -}}
