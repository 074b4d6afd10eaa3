#!/usr/bin/env bash
# Runs one named step of a longer job and says how it ended and how long it took. Its exit code is the command's.
#
#   hack/step.sh NAME COMMAND [ARGUMENT...]
set -uo pipefail

name=$1
shift
printf '\n==> %s: %s\n' "$name" "$*"
"$@"
code=$?
if [ "$code" -eq 0 ]; then
  printf '==> %s: ok, %d s\n' "$name" "$SECONDS"
else
  printf '==> %s: FAILED with exit code %d after %d s\n' "$name" "$code" "$SECONDS" >&2
fi
exit "$code"
