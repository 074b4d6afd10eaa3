#!/usr/bin/env bash
# A real Kubernetes cluster with one node on this machine, for `make e2e`: kubelet, containerd, Services, DNS.
#
#   hack/cluster.sh up                     starts it, and prints the kubeconfig to use
#   hack/cluster.sh down                   stops it; nothing of it is left
#   hack/cluster.sh status                 what runs
#   hack/cluster.sh load IMAGE.tar         imports an image
#   hack/cluster.sh tag NAME OTHER         gives an image another name
#   hack/cluster.sh enter COMMAND...       runs a command inside, for example crictl, ip or iptables
#
# All of it lives in process, mount and network namespaces of its own, joined to this machine by one virtual cable. When their
# first process dies, by `down` or by kill -9, the kernel removes every process, mount, interface and iptables rule.
# Pods have no way to the outside. Needs root. What each part does is in hack/cluster/.
#
#   POLYVIRT_CLUSTER        folder with its state: .state/cluster
#   POLYVIRT_CLUSTER_LINK   first three numbers of the network of the cable: 10.89 and one that depends on the folder
set -euo pipefail
cd "$(dirname "$0")/.."

# shellcheck source=hack/cluster/common.sh
. hack/cluster/common.sh

holder() { cat "$STATE/holder.pid" 2>/dev/null || true; }

# A number may have been given to another process since.
is_up() {
  local pid
  pid=$(holder)
  [ -n "$pid" ] && { tr '\0' '\n' <"/proc/$pid/environ"; } 2>/dev/null | grep -xF "POLYVIRT_CLUSTER_HOLDER=$STATE" >/dev/null
}

# The first process inside, as seen from here: the child of the holder in another process namespace than ours.
inside() {
  local pid
  for pid in $(pgrep --parent "$(holder)" 2>/dev/null); do
    [ "$(readlink "/proc/$pid/ns/pid")" = "$(readlink /proc/self/ns/pid)" ] || echo "$pid"
  done
}

enter() { nsenter --target "$(inside)" --pid --mount --net --uts "$@"; }

check() {
  [ "$(id -u)" = 0 ] || die "only root can run a node: try sudo $0"
  case "$STATE" in /run/* | /var/*) die "$STATE: choose another folder with POLYVIRT_CLUSTER, the node has its own /run and /var" ;; esac
  hack/packages.sh containerd runc containernetworking-plugins iptables conntrack musl-tools openssl procps
  local name
  for name in containerd runc iptables conntrack musl-gcc openssl nsenter unshare pgrep; do
    command -v "$name" >/dev/null || die "no $name: install it"
  done
  [ -x "$CNI_BIN/ptp" ] || die "no $CNI_BIN/ptp: install the CNI plugins, or set CNI_BIN to their folder"
}

programs() {
  local names=(etcd kube-apiserver kube-controller-manager kube-scheduler kubelet kube-proxy)
  command -v kubectl >/dev/null || names+=(kubectl)
  ASSETS=$(hack/control-plane.sh "${names[@]}")
  COREDNS=$(hack/go-tool.sh coredns)
  export ASSETS COREDNS PATH=$PATH:$ASSETS
}

start_holder() {
  (
    echo "$BASHPID" >"$STATE/holder.pid"
    hack/cluster/cgroups.sh enter "$BASHPID"
    POLYVIRT_CLUSTER_HOLDER=$STATE exec setsid unshare --cgroup --pid --fork --kill-child --mount --net --uts --mount-proc \
      hack/cluster/node.sh
  ) </dev/null >"$STATE/log/node.log" 2>&1 &
  local try
  for try in $(seq 50); do
    [ -z "$(inside)" ] || return 0
    sleep 0.1
  done
  die "the node has not started after $try looks: $STATE/log/node.log"
}

# One end here, the other inside. The node goes on when it sees its end.
cable() {
  ip link add "$LINK_NAME" type veth peer name node0 netns "$(inside)"
  ip address add "$LINK.1/30" dev "$LINK_NAME"
  ip link set "$LINK_NAME" up
}

await() {
  local what=$1 seconds=$2 end
  shift 2
  end=$((SECONDS + seconds))
  until "$@" >/dev/null 2>&1; do
    is_up || die "$what: the node has died, see $STATE/log"
    [ "$SECONDS" -lt "$end" ] || die "$what: not within $seconds s, see $STATE/log"
    sleep 0.3
  done
  say "$what"
}

node_is_ready() { kubectl wait --for=condition=Ready node/"$NODE" --timeout=1s; }
containerd_answers() { enter ctr --address "$CONTAINERD" version; }
services_are_routed() { enter iptables -t nat -S KUBE-SERVICES | grep "$DNS/32" >/dev/null; }

up() {
  check
  down
  programs
  mkdir -p "$STATE"/{log,pki,etc,etcd,kubelet,containerd,var,sysctl}
  chmod 0700 "$STATE"/{pki,etc}
  hack/cluster/pki.sh
  say "certificates"
  hack/cluster/config.sh
  start_holder
  cable
  await "API server" 60 kubectl get --raw /readyz
  kubectl apply --server-side -f "$STATE/etc/objects.yaml" >/dev/null
  await "containerd" 30 containerd_answers
  hack/cluster/pause.sh "$STATE/pause.tar"
  load "$STATE/pause.tar"
  await "node" 90 node_is_ready
  await "Services" 30 services_are_routed
  await "accounts" 30 kubectl get serviceaccount default
  say "ready after $SECONDS s: export KUBECONFIG=$KUBECONFIG"
}

load() {
  enter ctr --address "$CONTAINERD" --namespace k8s.io images import --snapshotter "$SNAPSHOTTER" - <"$1" >/dev/null
  say "image $(basename "$1")"
}

tag() { enter ctr --address "$CONTAINERD" --namespace k8s.io images tag --force "$1" "$2" >/dev/null; }

down() {
  if is_up; then
    kill -KILL "$(holder)"
    # The kernel ends all that is inside; the cable goes with the network namespace.
    timeout 30 tail --pid="$(holder)" -f /dev/null || die "process $(holder) does not die"
    say "stopped"
  fi
  local try
  for try in $(seq 100); do
    ip link show "$LINK_NAME" >/dev/null 2>&1 || break
    [ "$try" -lt 100 ] || ip link delete "$LINK_NAME"
    sleep 0.1
  done
  hack/cluster/cgroups.sh remove
  rm -rf "$STATE"
}

status() {
  is_up || {
    say "down"
    return 1
  }
  kubectl get nodes -o wide
  kubectl get pods --all-namespaces -o wide
}

case "${1:-}" in
  up) up ;;
  down) down ;;
  status) status ;;
  load) load "${2:?usage: hack/cluster.sh load IMAGE.tar}" ;;
  tag) tag "${2:?usage: hack/cluster.sh tag NAME OTHER}" "${3:?usage: hack/cluster.sh tag NAME OTHER}" ;;
  enter)
    shift
    enter "$@"
    ;;
  *) die "usage: hack/cluster.sh up|down|status|load|tag|enter" ;;
esac
