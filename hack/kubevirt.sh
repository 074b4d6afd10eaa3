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
  [ -n "$pid" ] && { tr '\0' '\n' <"/proc/$pid/environ"; } 2>/dev/null | grep -xF "POLYVIRT_RIG_HOLDER=$STATE" >/dev/null
}

start() {
  local assets programs rig
  command -v setpriv >/dev/null || die "no setpriv: install util-linux"
  assets=$(hack/control-plane.sh etcd kube-apiserver kube-controller-manager kube-scheduler)
  programs=$(hack/kubevirt/programs.sh)
  # The selection and profile of the tests: others would build every dependency again.
  cargo build --profile test --workspace --locked --example kubevirt_rig
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

# Tests that need the simulator: they make things go wrong by its annotations, change or count what the whole cluster does, stop
# the API server, or look at what a metrics server tells.
NEED_SIMULATOR=(
  changes::a_machine_that_cannot_move changes::a_disk_that_never_comes changes::disks_come_as_the_gates
  life::what_cannot_be_scheduled life::what_a_vm_uses moves::a_machine_that_cannot_move refusals::who_may_not
  granted:: kills:: many:: outage:: rights::
)

# The programs of our tests: the provider's, and those of Machines.
executables() {
  cargo test --workspace --locked --no-run --message-format=json --test real --test kubevirt |
    sed -n "s/.*\"package_id\":\"[^\"]*$1@[^\"]*\".*\"executable\":\"\([^\"]*\)\".*/\1/p" | tail -n 1
}

tests() {
  local provider machines
  provider=$(executables polyvirt-provider-kubevirt)
  machines=$(executables polyvirt-dialects)
  is_up || up
  export POLYVIRT_KUBEVIRT_KUBECONFIG=$STATE/kubeconfig KUBEBUILDER_ASSETS
  KUBEBUILDER_ASSETS=$(hack/control-plane.sh)
  say "conformance of the provider, and its tests"
  (cd crates/providers/kubevirt && "$provider" --test-threads=2 "${NEED_SIMULATOR[@]/#/--skip=}")
  say "Machines"
  (cd crates/dialects && "$machines" walk::)
}

case "${1:-}" in
  up) up ;;
  down) down ;;
  status) status ;;
  test) tests ;;
  *) die "usage: hack/kubevirt.sh up|down|status|test" ;;
esac
