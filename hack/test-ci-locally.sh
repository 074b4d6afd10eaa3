#!/usr/bin/env bash
# Runs lint and all tests, as CI does before it starts a real node. The same as `make test`.
set -euo pipefail
cd "$(dirname "$0")/.."
exec make test "$@"
