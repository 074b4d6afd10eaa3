#!/usr/bin/env bash
# The first process inside the namespaces of the cluster: mounts, network, then one program after the other.
# Started by hack/cluster.sh, never by hand. Ends when one of the programs ends, and with it all others.
set -euo pipefail

# shellcheck source=hack/cluster/common.sh
. hack/cluster/common.sh
PKI=$STATE/pki
PROGRAMS=()

# The node's own /run and /var. Settings of the whole machine that kubelet would change are covered by files that it
# may write to.
mounts() {
  local setting
  mount -t tmpfs -o mode=755 run /run
  mkdir -p "$STATE"/var/{lib,log,tmp,cache,run}
  mount --bind "$STATE/var" /var
  for setting in vm/overcommit_memory=1 vm/panic_on_oom=0 kernel/panic=10 kernel/panic_on_oops=1 \
    kernel/keys/root_maxkeys=1000000 kernel/keys/root_maxbytes=25000000; do
    echo "${setting#*=}" >"$STATE/sysctl/${setting//[\/=]/-}"
    mount --bind "$STATE/sysctl/${setting//[\/=]/-}" "/proc/sys/${setting%=*}"
  done
}

# Services have addresses that no interface has: the route sends them to where the rules of kube-proxy change them.
network() {
  until ip link show node0 >/dev/null 2>&1; do sleep 0.1; done
  ip link set lo up
  ip address add "$NODE_IP/30" dev node0
  ip link set node0 up
  ip route add "$SERVICES" dev node0
  echo 1 >/proc/sys/net/ipv4/ip_forward
}

run() {
  local name=$1
  shift
  echo "$(date +%H:%M:%S) starting $name"
  "$@" >"$STATE/log/$name.log" 2>&1 &
  PROGRAMS+=($!)
}

control_plane() {
  run etcd "$ASSETS/etcd" --data-dir="$STATE/etcd" --unsafe-no-fsync \
    --listen-client-urls=http://127.0.0.1:2379 --advertise-client-urls=http://127.0.0.1:2379 --listen-peer-urls=http://127.0.0.1:2380
  run kube-apiserver "$ASSETS/kube-apiserver" --etcd-servers=http://127.0.0.1:2379 \
    --bind-address="$NODE_IP" --advertise-address="$NODE_IP" --secure-port=6443 --allow-privileged \
    --authorization-mode=Node,RBAC --enable-admission-plugins=NodeRestriction --anonymous-auth=false \
    --client-ca-file="$PKI/ca.crt" --tls-cert-file="$PKI/apiserver.crt" --tls-private-key-file="$PKI/apiserver.key" \
    --kubelet-client-certificate="$PKI/apiserver-kubelet-client.crt" --kubelet-client-key="$PKI/apiserver-kubelet-client.key" \
    --kubelet-preferred-address-types=InternalIP \
    --requestheader-client-ca-file="$PKI/front-proxy-ca.crt" --requestheader-allowed-names=front-proxy-client \
    --requestheader-extra-headers-prefix=X-Remote-Extra- --requestheader-group-headers=X-Remote-Group --requestheader-username-headers=X-Remote-User \
    --proxy-client-cert-file="$PKI/front-proxy-client.crt" --proxy-client-key-file="$PKI/front-proxy-client.key" \
    --service-account-issuer=https://kubernetes.default.svc.cluster.local \
    --service-account-key-file="$PKI/accounts.key" --service-account-signing-key-file="$PKI/accounts.key" \
    --service-cluster-ip-range="$SERVICES"
  run kube-controller-manager "$ASSETS/kube-controller-manager" --bind-address=127.0.0.1 --leader-elect=false \
    --kubeconfig="$STATE/etc/kube-controller-manager.kubeconfig" --use-service-account-credentials \
    --root-ca-file="$PKI/ca.crt" --service-account-private-key-file="$PKI/accounts.key" \
    --cluster-signing-cert-file="$PKI/ca.crt" --cluster-signing-key-file="$PKI/ca.key"
  run kube-scheduler "$ASSETS/kube-scheduler" --bind-address=127.0.0.1 --leader-elect=false \
    --kubeconfig="$STATE/etc/kube-scheduler.kubeconfig"
}

node() {
  run containerd containerd --config "$STATE/etc/containerd.toml"
  run kubelet "$ASSETS/kubelet" --config="$STATE/etc/kubelet.yaml" --kubeconfig="$STATE/etc/kubelet.kubeconfig" \
    --root-dir="$STATE/kubelet" --cert-dir="$STATE/kubelet/pki" --hostname-override="$NODE" --node-ip="$NODE_IP"
  run kube-proxy "$ASSETS/kube-proxy" --config="$STATE/etc/kube-proxy.yaml" --hostname-override="$NODE"
  run coredns "$COREDNS" -conf "$STATE/etc/Corefile"
}

hostname "$NODE"
mounts
hack/cluster/cgroups.sh cover
network
control_plane
until curl --silent --insecure --output /dev/null "$SERVER/readyz" --cert "$PKI/admin.crt" --key "$PKI/admin.key" --fail; do sleep 0.2; done
node
echo "$(date +%H:%M:%S) all started"
# Shims of containerd become children too when their parents end, which is no reason to stop: only ours are waited for.
wait -n "${PROGRAMS[@]}" || true
echo "$(date +%H:%M:%S) a program has ended: see the logs beside this one"
jobs
