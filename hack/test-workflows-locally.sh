#!/usr/bin/env bash
# Runs the steps of CI on this machine.
#
#   hack/test-workflows-locally.sh setup              installs the tools that are missing
#   hack/test-workflows-locally.sh lint|ci|helm       one step
#   hack/test-workflows-locally.sh release [VERSION]  the steps of a release, without publishing
#   hack/test-workflows-locally.sh all                ci and helm; ci includes lint
set -euo pipefail
cd "$(dirname "$0")/.."
step=${1:-help}
[ $# -eq 0 ] || shift
case "$step" in
  setup) exec make tools ;;
  lint | ci | helm | release) exec "hack/test-$step-locally.sh" "$@" ;;
  all)
    hack/test-ci-locally.sh
    hack/test-helm-locally.sh
    ;;
  *)
    echo "usage: hack/test-workflows-locally.sh setup|lint|ci|helm|release [VERSION]|all" >&2
    exit 2
    ;;
esac
