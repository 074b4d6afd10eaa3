#!/usr/bin/env bash
# KubeVirt's real virt-api and virt-controller on a real API server, for tests of what we say to KubeVirt.
#
#   hack/kubevirt.sh up       builds what is missing, starts it, and prints the kubeconfig to use
#   hack/kubevirt.sh down     stops it; nothing of it is left
#   hack/kubevirt.sh status   what runs
#   hack/kubevirt.sh test     starts it if it does not run, and runs our tests against it, as `make test-kubevirt` does
#
# Real are etcd, kube-apiserver, kube-controller-manager, kube-scheduler, virt-api with its webhooks and its aggregated API, and
# virt-controller. There is no node: a program plays the kubelet, Multus, virt-handler, CDI and a storage driver
# (crates/testkit/examples/kubevirt_rig). All of it listens on loopback and needs no root. The first build takes minutes.
#
#   POLYVIRT_RIG                folder with its logs and kubeconfigs: .state/kubevirt
#   POLYVIRT_KUBEVIRT_VERSION   another version than the one tested
set -euo pipefail
cd "$(dirname "$0")/.."

STATE=${POLYVIRT_RIG:-$PWD/.state/kubevirt}
PATIENCE=180

say() { printf '%s %s\n' "$(date +%H:%M:%S)" "$*" >&2; }
die() {
  say "error: $*"
  exit 1
}

pid() { cat "$STATE/rig.pid" 2>/dev/null || true; }

# A number may have been given to another process since.
is_up() {
  local pid
  pid=$(pid)
  [ -n "$pid" ] && { tr '\0' '\n' <"/proc/$pid/environ"; } 2>/dev/null | grep -qxF "POLYVIRT_RIG_HOLDER=$STATE"
}

start() {
  local assets programs rig
  command -v setpriv >/dev/null || die "no setpriv: install util-linux"
  assets=$(hack/control-plane.sh etcd kube-apiserver kube-controller-manager kube-scheduler)
  programs=$(hack/kubevirt/programs.sh)
  # The whole workspace is selected, as elsewhere: another selection would build every dependency again.
  cargo build --workspace --locked --example kubevirt_rig
  rig=${CARGO_TARGET_DIR:-target}/debug/examples/kubevirt_rig
  mkdir -p "$STATE"
  chmod 0700 "$STATE"
  (
    echo "$BASHPID" >"$STATE/rig.pid"
    POLYVIRT_RIG_HOLDER=$STATE exec setsid "$rig" "$assets" "$programs" "$STATE"
  ) </dev/null >"$STATE/rig.log" 2>&1 &
}

await() {
  local end=$((SECONDS + PATIENCE))
  until [ -s "$STATE/kubeconfig" ]; do
    sleep 0.3
    is_up || die "it has ended: $(tail -n 3 "$STATE/rig.log")"
    [ "$SECONDS" -lt "$end" ] || die "not ready within $PATIENCE s: see $STATE"
  done
}

up() {
  down
  start
  await
  say "ready after $SECONDS s: export KUBECONFIG=$STATE/kubeconfig"
}

down() {
  if is_up; then
    kill -TERM "$(pid)"
    timeout 30 tail --pid="$(pid)" -f /dev/null || die "process $(pid) does not end"
    say "stopped"
  fi
  rm -rf "$STATE"
}

status() {
  is_up || {
    say "down"
    return 1
  }
  say "up, with process $(pid): export KUBECONFIG=$STATE/kubeconfig"
}

# What needs the simulator is named where it is: tests that make things go wrong, or that start clusters of their own.
tests() {
  is_up || up
  export POLYVIRT_KUBEVIRT_KUBECONFIG=$STATE/kubeconfig KUBEBUILDER_ASSETS
  KUBEBUILDER_ASSETS=$(hack/control-plane.sh)
  cargo test --workspace --locked --test real --test kubevirt -- --test-threads=2 "${NEEDS_SIMULATOR[@]/#/--skip=}" "$@"
}

case "${1:-}" in
  up) up ;;
  down) down ;;
  status) status ;;
  test)
    shift
    tests "$@"
    ;;
  *) die "usage: hack/kubevirt.sh up|down|status|test" ;;
esac
