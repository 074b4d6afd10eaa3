#!/usr/bin/env bash
# The whole way on a real node: image, chart, VMs, deaths, rotation of certificates, upgrade, uninstallation, plain manifests.
# Needs root, starts a cluster by hack/cluster.sh and removes it in the end, whatever happens. The steps are in hack/e2e/.
#
#   KEEP=1          leaves the cluster running, to look around
#   PROFILE         Cargo profile of the image: fast
#   PROGRAM         a program that is built already, instead: CI takes the one that its tests have built
set -euo pipefail
cd "$(dirname "$0")/.."

export KUBECONFIG=$PWD/.state/cluster/kubeconfig PROFILE=${PROFILE:-fast}
unset POLYVIRT_CLUSTER

# shellcheck source=hack/e2e/common.sh
. hack/e2e/common.sh
# shellcheck source=hack/e2e/begin.sh
. hack/e2e/begin.sh
# shellcheck source=hack/e2e/deaths.sh
. hack/e2e/deaths.sh
# shellcheck source=hack/e2e/ends.sh
. hack/e2e/ends.sh
# shellcheck source=hack/e2e/seeds.sh
. hack/e2e/seeds.sh
# shellcheck source=hack/e2e/vitistack.sh
. hack/e2e/vitistack.sh
# shellcheck source=hack/e2e/novacron.sh
. hack/e2e/novacron.sh

trap finish EXIT
start
install
first_vm
remote_provider
kill_provider
rotation
refusals
leaders
upgrade
uninstall
one_namespace
seeds_install
seeds_provider
seeds_trouble
vitistack
novacron
plain_manifests
step_done
printf '\ne2e: all passed, %d s\n' "$SECONDS"
