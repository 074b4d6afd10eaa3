#!/usr/bin/env bash
# Finds promtool, which checks alert rules, and prints its path, the only line on stdout.
#
# Where it comes from, first match wins: PATH, the cache, Debian's package prometheus. Of that only the program is taken out: nothing
# is installed or started, and nobody needs to be root.
#
#   POLYVIRT_CACHE   other cache than ~/.cache/polyvirt
set -euo pipefail

CACHE=${POLYVIRT_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/polyvirt}
TARGET=$CACHE/tools/promtool

die() {
  printf 'error: %s\n' "$*" >&2
  exit 1
}

# unpack FOLDER: the program in FOLDER/root
unpack() {
  (cd "$1" && apt-get download -qq prometheus) >&2 2>/dev/null || return 1
  dpkg-deb --extract "$1"/prometheus_*.deb "$1/root" && [ -x "$1/root/usr/bin/promtool" ]
}

if command -v promtool; then exit 0; fi
if [ ! -x "$TARGET" ]; then
  { command -v apt-get && command -v dpkg-deb; } >/dev/null ||
    die "no promtool, and this is no Debian to take it from: install Prometheus, whose archive has it"
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  unpack "$work" || die "no promtool, and the package prometheus cannot be downloaded: run apt-get update, or put promtool into PATH"
  mkdir -p "$(dirname "$TARGET")"
  mv "$work/root/usr/bin/promtool" "$TARGET.new"
  mv "$TARGET.new" "$TARGET"
fi
echo "$TARGET"
