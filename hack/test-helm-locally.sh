#!/usr/bin/env bash
# Checks the Helm chart: lint, rendering with several values, alerts. The same as `make test-chart`.
#
#   hack/test-helm-locally.sh             without a cluster
#   hack/test-helm-locally.sh --cluster   also installs it on a real node on this machine: `make e2e`, as root
set -euo pipefail
cd "$(dirname "$0")/.."
case "${1:-}" in
  "") exec make test-chart ;;
  --cluster) exec make test-chart e2e ;;
  *)
    echo "usage: hack/test-helm-locally.sh [--cluster]" >&2
    exit 2
    ;;
esac
