#!/usr/bin/env bash
# Finds or makes the programs of a Kubernetes control plane and prints the folder that holds them.
#
#   hack/control-plane.sh [component...]     default: etcd kube-apiserver, and kubectl where the machine has none
#
# Where they come from, first match wins: $KUBEBUILDER_ASSETS, the cache, a download of the official binaries
# (checked against the published sums), a build from Go modules. The folder is the only line on stdout, progress
# goes to stderr. Safe to run again and from several processes: each program enters the cache by one rename.
#
#   POLYVIRT_KUBE_VERSION, POLYVIRT_ETCD_VERSION   other versions than the ones tested
#   POLYVIRT_CACHE                                 other cache than ~/.cache/polyvirt
#   POLYVIRT_NO_DOWNLOAD=1                         build from Go modules without trying the downloads
set -euo pipefail

KUBE_VERSION=${POLYVIRT_KUBE_VERSION:-1.34.4}
ETCD_VERSION=${POLYVIRT_ETCD_VERSION:-3.6.6}
CACHE=${POLYVIRT_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/polyvirt}
DIR=$CACHE/control-plane-$KUBE_VERSION-etcd-$ETCD_VERSION
COMPONENTS=("$@")
if [ $# -eq 0 ]; then
  COMPONENTS=(etcd kube-apiserver)
  command -v kubectl >/dev/null || COMPONENTS+=(kubectl)
fi

say() { printf '%s %s\n' "$(date +%H:%M:%S)" "$*" >&2; }
die() {
  say "error: $*"
  exit 1
}

missing_in() {
  local name
  for name in "${COMPONENTS[@]}"; do
    [ -x "$1/$name" ] || echo "$name"
  done
}

arch() {
  case "$(uname -m)" in
    x86_64) echo amd64 ;;
    aarch64 | arm64) echo arm64 ;;
    *) die "no control plane binaries for $(uname -m); set KUBEBUILDER_ASSETS to a folder with ${COMPONENTS[*]}" ;;
  esac
}

# fetch URL FILE: fails quietly, because a machine without a way out builds instead.
fetch() {
  curl --fail --silent --location --connect-timeout 5 --retry 2 --output "$2" "$1"
}

# verify FILE SUM: a file that came but is not what was published is never used.
verify() {
  echo "$2  $1" | sha256sum --check --quiet >&2 || die "${1##*/}: checksum differs from the published one"
}

download_etcd() {
  local work=$1 arch=$2 name base
  name=etcd-v$ETCD_VERSION-linux-$arch.tar.gz
  base=https://github.com/etcd-io/etcd/releases/download/v$ETCD_VERSION
  fetch "$base/SHA256SUMS" "$work/sums" && fetch "$base/$name" "$work/$name" || return 1
  verify "$work/$name" "$(awk -v name="$name" '$2 == name { print $1 }' "$work/sums")"
  tar -xzf "$work/$name" -C "$work" --strip-components=1 "${name%.tar.gz}/etcd"
}

download_kube() {
  local work=$1 arch=$2 name=$3 base
  base=https://dl.k8s.io/release/v$KUBE_VERSION/bin/linux/$arch
  fetch "$base/$name.sha256" "$work/$name.sha256" && fetch "$base/$name" "$work/$name" || return 1
  verify "$work/$name" "$(cat "$work/$name.sha256")"
}

download() {
  local work=$1 arch=$2 name=$3
  case "$name" in
    etcd) download_etcd "$work" "$arch" ;;
    *) download_kube "$work" "$arch" "$name" ;;
  esac
}

build_etcd() {
  local work=$1
  mkdir -p "$work/etcd.src" && cd "$work/etcd.src"
  printf 'module polyvirt.io/etcd\n\ngo 1.24.0\n\nrequire go.etcd.io/etcd/server/v3 v%s\n' "$ETCD_VERSION" >go.mod
  CGO_ENABLED=0 go build -mod=mod -trimpath -ldflags '-s -w' -o "$work/etcd" go.etcd.io/etcd/server/v3
}

# Kubernetes' own go.mod replaces its libraries by folders beside it, so `go install` refuses it. A throw-away
# module that replaces the same libraries by their published versions builds the same program.
kube_module() {
  local published
  published=$(go mod download -json "k8s.io/kubernetes@v$KUBE_VERSION" | sed -n 's/.*"GoMod": "\(.*\)".*/\1/p')
  [ -n "$published" ] || die "k8s.io/kubernetes $KUBE_VERSION cannot be had from the Go module proxy"
  echo "module polyvirt.io/control-plane"
  sed -n '/^go /p' "$published"
  echo "require k8s.io/kubernetes v$KUBE_VERSION"
  sed -n 's#^[[:space:]]*\(k8s.io/[a-z-]*\) => ./staging.*#replace \1 => \1 v0.'"${KUBE_VERSION#*.}"'#p' "$published"
}

build_kube() {
  local work=$1 name=$2 minor version=k8s.io/component-base/version
  minor=$(echo "$KUBE_VERSION" | cut -d. -f2)
  mkdir -p "$work/kube.src" && cd "$work/kube.src"
  kube_module >go.mod.new
  mv go.mod.new go.mod
  CGO_ENABLED=0 go build -mod=mod -trimpath -o "$work/$name" -ldflags "-s -w \
    -X $version.gitVersion=v$KUBE_VERSION -X $version.gitMajor=1 -X $version.gitMinor=$minor -X $version.gitTreeState=clean" \
    "k8s.io/kubernetes/cmd/$name"
}

build() {
  local work=$1 name=$2
  command -v go >/dev/null || die "$name: cannot be downloaded, and there is no Go to build it. Install Go 1.24 or later, or set KUBEBUILDER_ASSETS to a folder with ${COMPONENTS[*]}"
  say "building $name from Go modules, once (minutes: kube-apiserver about 5 on 2 cores)"
  case "$name" in
    etcd) (build_etcd "$work") ;;
    *) (build_kube "$work" "$name") ;;
  esac
}

can_download() { [ -z "${POLYVIRT_NO_DOWNLOAD:-}" ] && command -v curl >/dev/null; }

fill_cache() {
  local work=$1 arch=$2 name can=no
  can_download && can=yes
  for name in $(missing_in "$DIR"); do
    if [ "$can" = yes ]; then
      say "downloading $name"
      # A call on the left of || runs without `set -e`; the program counts as here only if it is.
      download "$work" "$arch" "$name" && [ -s "$work/$name" ] || can=no
    fi
    [ "$can" = yes ] || build "$work" "$name"
    chmod 0755 "$work/$name"
    mv "$work/$name" "$DIR/$name"
  done
}

main() {
  if [ -n "${KUBEBUILDER_ASSETS:-}" ]; then
    [ -z "$(missing_in "$KUBEBUILDER_ASSETS")" ] && echo "$KUBEBUILDER_ASSETS" && return
    say "\$KUBEBUILDER_ASSETS lacks $(missing_in "$KUBEBUILDER_ASSETS" | xargs): using the cache"
  fi
  local arch
  if [ -n "$(missing_in "$DIR")" ]; then
    arch=$(arch)
    mkdir -p "$DIR"
    exec 9>"$CACHE/.control-plane.lock"
    flock 9
    # With the lock held, any work folder here is left over from a run that was killed.
    rm -rf "$CACHE"/.control-plane.??????
    WORK=$(mktemp -d "$CACHE/.control-plane.XXXXXX")
    trap 'rm -rf "$WORK"' EXIT
    fill_cache "$WORK" "$arch"
  fi
  # The name that does not change with the versions: where the test kit looks.
  [ "$(readlink "$CACHE/control-plane" || true)" = "${DIR##*/}" ] || ln -sfn "${DIR##*/}" "$CACHE/control-plane"
  say "control plane: $DIR"
  echo "$DIR"
}

main
