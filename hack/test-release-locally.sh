#!/usr/bin/env bash
# Does what a release does, without publishing anything: checks the chart and builds the image as dist/image.tar.
#
#   hack/test-release-locally.sh [VERSION]   such as v0.2.0-test; without it the version of the workspace
set -euo pipefail
cd "$(dirname "$0")/.."
exec make test-chart docker-build ${1:+TAG="$1"}
