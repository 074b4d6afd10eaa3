#!/usr/bin/env bash
# Finds or makes KubeVirt's own virt-api and virt-controller, and prints the folder that holds them, the only line on stdout.
#
# They are built from Go modules, once for each version, and kept in the cache. Beside them: objects, which writes what
# KubeVirt's operator would install (hack/kubevirt/objects.go), and the resource definitions of volume snapshots and of
# Multus, as the modules that KubeVirt is built with bring them.
#
#   POLYVIRT_KUBEVIRT_VERSION   another version than the one tested
#   POLYVIRT_CACHE              other cache than ~/.cache/polyvirt
set -euo pipefail
cd "$(dirname "$0")"

VERSION=${POLYVIRT_KUBEVIRT_VERSION:-1.7.0}
CACHE=${POLYVIRT_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/polyvirt}
# Another objects.go is another program.
OURS=$(sha256sum objects.go | cut -c1-8)
DIR=$CACHE/kubevirt-$VERSION-$OURS

say() { printf '%s %s\n' "$(date +%H:%M:%S)" "$*" >&2; }
die() {
  say "error: $*"
  exit 1
}

# KubeVirt's own go.mod replaces two of its libraries by folders beside it, so `go install` refuses it. A throw-away module
# with the same lines, and the published versions of those two, builds the same programs.
module() {
  local published
  published=$(go mod download -json "kubevirt.io/kubevirt@v$VERSION" | sed -n 's/.*"GoMod": "\(.*\)".*/\1/p')
  [ -n "$published" ] || die "kubevirt.io/kubevirt $VERSION cannot be had from the Go module proxy"
  echo "module polyvirt.io/kubevirt"
  sed -n '/^go /p' "$published"
  echo "require kubevirt.io/kubevirt v$VERSION"
  sed -n '/^replace (/,/^)/p' "$published" | sed "s#\(kubevirt.io/[a-z-]*\) => ./staging.*#\1 => \1 v$VERSION#"
}

build() {
  local work=$1 stamp=kubevirt.io/client-go/version
  command -v go >/dev/null || die "there is no Go to build KubeVirt: install Go 1.24 or later"
  say "building KubeVirt $VERSION from Go modules, once (about 10 minutes on 2 cores)"
  mkdir -p "$work/src/objects" "$work/out"
  cp objects.go "$work/src/objects/main.go"
  cd "$work/src"
  module >go.mod.new
  mv go.mod.new go.mod
  CGO_ENABLED=0 nice go build -mod=mod -trimpath -ldflags "-s -w -X $stamp.gitVersion=v$VERSION" -o "$work/out/" \
    kubevirt.io/kubevirt/cmd/virt-api kubevirt.io/kubevirt/cmd/virt-controller ./objects >&2
  definitions "$work/out/definitions"
}

definitions() {
  local of='{{.Dir}}'
  mkdir -p "$1"
  cp "$(go list -mod=mod -m -f "$of" github.com/kubernetes-csi/external-snapshotter/client/v4)"/config/crd/snapshot*.yaml "$1"
  cp "$(go list -mod=mod -m -f "$of" github.com/k8snetworkplumbingwg/network-attachment-definition-client)"/artifacts/networks-crd.yaml "$1"
  chmod -R u+w "$1"
}

if [ ! -d "$DIR" ]; then
  mkdir -p "$CACHE"
  exec 9>"$CACHE/.kubevirt.lock"
  flock 9
fi
if [ ! -d "$DIR" ]; then
  # With the lock held, any work folder here is left over from a run that was killed.
  rm -rf "$CACHE"/.kubevirt.??????
  WORK=$(mktemp -d "$CACHE/.kubevirt.XXXXXX")
  trap 'rm -rf "$WORK"' EXIT
  (build "$WORK")
  mv "$WORK/out" "$DIR"
fi
say "KubeVirt: $DIR"
echo "$DIR"
