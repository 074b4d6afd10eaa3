#!/usr/bin/env bash
# Writes the settings of containerd, the network plugins, kubelet, kube-proxy and CoreDNS, and the objects of the cluster's DNS.
set -euo pipefail

# shellcheck source=hack/cluster/common.sh
. hack/cluster/common.sh
cd "$STATE/etc"

# Without restrict_oom_score_adj runc dies where scores cannot be lowered, as in a nested machine.
cat >containerd.toml <<TOML
version = 2
root = "$STATE/containerd"
state = "/run/containerd"
[grpc]
  address = "$CONTAINERD"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "$PAUSE"
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "$SNAPSHOTTER"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "$CNI_BIN"
    conf_dir = "$STATE/etc/cni"
TOML

# A cable from each pod to the node, nothing bridged: so all that pods say to Services passes the node's rules.
mkdir -p cni
cat >cni/10-pods.conflist <<JSON
{"cniVersion": "0.4.0", "name": "pods", "plugins": [{"type": "ptp",
  "ipam": {"type": "host-local", "subnet": "$PODS", "routes": [{"dst": "0.0.0.0/0"}]}}]}
JSON

cat >kubelet.yaml <<YAML
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: $NODE_IP
authentication:
  anonymous: {enabled: false}
  x509: {clientCAFile: $STATE/pki/ca.crt}
authorization: {mode: Webhook}
cgroupDriver: cgroupfs
cgroupsPerQOS: false
enforceNodeAllocatable: []
# Changed Secrets reach pods soon.
syncFrequency: 2s
clusterDNS: [$DNS]
clusterDomain: cluster.local
containerRuntimeEndpoint: unix://$CONTAINERD
evictionHard: {imagefs.available: 0%, memory.available: 1Mi, nodefs.available: 0%, nodefs.inodesFree: 0%}
failSwapOn: false
failCgroupV1: false
imageGCHighThresholdPercent: 100
makeIPTablesUtilChains: false
nodeStatusUpdateFrequency: 5s
podLogsDir: /var/log/pods
resolvConf: ""
YAML

# The limits of connection tracking belong to the machine.
cat >kube-proxy.yaml <<YAML
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: iptables
clusterCIDR: $PODS
clientConnection: {kubeconfig: $STATE/etc/kube-proxy.kubeconfig}
conntrack: {maxPerCore: 0, min: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}
healthzBindAddress: 127.0.0.1:10256
metricsBindAddress: 127.0.0.1:10249
YAML

cat >Corefile <<CORE
.:53 {
  bind $NODE_IP
  errors
  health 127.0.0.1:8088
  ready 127.0.0.1:8188
  kubernetes cluster.local in-addr.arpa {
    kubeconfig $STATE/etc/coredns.kubeconfig
  }
  cache 5
  loadbalance
}
CORE

cat >objects.yaml <<YAML
apiVersion: v1
kind: Service
metadata: {name: kube-dns, namespace: kube-system}
spec:
  clusterIP: $DNS
  ports: [{name: dns, port: 53, protocol: UDP}, {name: dns-tcp, port: 53, protocol: TCP}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: kube-dns, namespace: kube-system, labels: {kubernetes.io/service-name: kube-dns}}
addressType: IPv4
ports: [{name: dns, port: 53, protocol: UDP}, {name: dns-tcp, port: 53, protocol: TCP}]
endpoints: [{addresses: [$NODE_IP], conditions: {ready: true}}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: system:coredns}
rules:
  - {apiGroups: [""], resources: [endpoints, services, pods, namespaces], verbs: [list, watch]}
  - {apiGroups: [discovery.k8s.io], resources: [endpointslices], verbs: [list, watch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: system:coredns}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: system:coredns}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: system:coredns}]
YAML
