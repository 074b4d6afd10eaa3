#!/usr/bin/env bash
# Checks the source without running it: format, clippy, chart, licences, scripts, vocabulary. The same as `make lint`.
set -euo pipefail
cd "$(dirname "$0")/.."
exec make lint "$@"
