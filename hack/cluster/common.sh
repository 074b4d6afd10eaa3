# shellcheck shell=bash
# Names and addresses that all scripts of the cluster share. Read by `.`, with the project's root as the working folder.
# shellcheck disable=SC2034
STATE=$(realpath -m "${POLYVIRT_CLUSTER:-.state/cluster}")
export POLYVIRT_CLUSTER=$STATE
# Clusters with other folders on the same machine have other names and another network.
ID=$(cksum <<<"$STATE" | cut -d' ' -f1)
LINK=${POLYVIRT_CLUSTER_LINK:-10.89.$((ID % 250))}
LINK_NAME=polyvirt$((ID % 1000000))
NODE=polyvirt
NODE_IP=$LINK.2
SERVER=https://$NODE_IP:6443
SERVICES=10.96.0.0/16
KUBERNETES=10.96.0.1
DNS=10.96.0.10
PODS=10.244.0.0/24
CGROUP=polyvirt-$ID
SNAPSHOTTER=overlayfs
CONTAINERD=/run/containerd/containerd.sock
CNI_BIN=${CNI_BIN:-/usr/lib/cni}
PAUSE=docker.io/polyvirt/pause:1
export KUBECONFIG=$STATE/kubeconfig

say() { printf 'cluster: %3d s  %s\n' "$SECONDS" "$*"; }
die() {
  printf 'error: %s\n' "$*" >&2
  exit 1
}
