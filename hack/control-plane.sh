#!/usr/bin/env bash
# Finds or makes etcd, kube-apiserver and kubectl, and prints the folder that holds them (last line of stdout).
#
# Order: $KUBEBUILDER_ASSETS, the cache, a download of the official binaries, a build from Go modules.
# Progress goes to stderr. Safe to run again and from several processes: the cache is filled by rename.
set -euo pipefail

KUBE_VERSION=${POLYVIRT_KUBE_VERSION:-1.34.4}
ETCD_VERSION=${POLYVIRT_ETCD_VERSION:-3.6.6}
CACHE=${POLYVIRT_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/polyvirt}
DIR=$CACHE/control-plane-$KUBE_VERSION-etcd-$ETCD_VERSION

say() { printf '%s %s\n' "$(date +%H:%M:%S)" "$*" >&2; }
die() { say "error: $*"; exit 1; }
has_all() { [ -x "$1/etcd" ] && [ -x "$1/kube-apiserver" ] && [ -x "$1/kubectl" ]; }

arch() {
  case "$(uname -m)" in
    x86_64) echo amd64 ;;
    aarch64 | arm64) echo arm64 ;;
    *) die "no control plane binaries for $(uname -m); set KUBEBUILDER_ASSETS to a folder with etcd, kube-apiserver and kubectl" ;;
  esac
}

# download NAME URL: 0 if the file came, 1 if this machine cannot reach the URL.
download() {
  command -v curl >/dev/null || return 1
  curl --fail --silent --show-error --location --connect-timeout 5 --retry 1 --output "$1" "$2" 2>/dev/null
}

download_all() {
  local out=$1 base="https://dl.k8s.io/release/v$KUBE_VERSION/bin/linux/$(arch)" etcd="etcd-v$ETCD_VERSION-linux-$(arch)" file
  say "looking for official binaries of Kubernetes $KUBE_VERSION"
  for file in kube-apiserver kubectl; do
    download "$out/$file" "$base/$file" || return 1
    download "$out/$file.sha256" "$base/$file.sha256" || return 1
    echo "$(cat "$out/$file.sha256")  $out/$file" | sha256sum --check --quiet || die "$file: checksum differs from the published one"
    rm -f "$out/$file.sha256"
  done
  download "$out/etcd.tgz" "https://github.com/etcd-io/etcd/releases/download/v$ETCD_VERSION/$etcd.tar.gz" || return 1
  tar -xzf "$out/etcd.tgz" -C "$out" --strip-components=1 "$etcd/etcd" && rm -f "$out/etcd.tgz"
  chmod +x "$out/kube-apiserver" "$out/kubectl" "$out/etcd"
}

# Kubernetes' own go.mod replaces its libraries by folders beside it, so `go install` refuses it. A throw-away
# module that replaces the same libraries by their published versions builds the same program.
kube_module() {
  local work=$1 minor patch libs
  minor=$(echo "$KUBE_VERSION" | cut -d. -f2)
  patch=$(echo "$KUBE_VERSION" | cut -d. -f3)
  mkdir -p "$work" && cd "$work"
  libs=$(go mod download -json "k8s.io/kubernetes@v$KUBE_VERSION" | sed -n 's/.*"GoMod": "\(.*\)".*/\1/p')
  {
    echo "module polyvirt.io/control-plane"
    echo "go $(sed -n 's/^go //p' "$libs")"
    echo "require k8s.io/kubernetes v$KUBE_VERSION"
    sed -n 's#^[[:space:]]*\(k8s.io/[a-z-]*\) => ./staging.*#replace \1 => \1 v0.'"$minor.$patch"'#p' "$libs"
  } >go.mod
  printf 'package main\n\nimport (\n\t_ "k8s.io/kubernetes/cmd/kube-apiserver/app"\n\t_ "k8s.io/kubectl/pkg/cmd"\n)\n\nfunc main() {}\n' >main.go
  go mod tidy -e >/dev/null 2>&1 || true
}

build_kube() {
  local out=$1 work=$2 minor
  minor=$(echo "$KUBE_VERSION" | cut -d. -f2)
  local v=k8s.io/component-base/version
  local flags="-s -w -X $v.gitVersion=v$KUBE_VERSION -X $v.gitMajor=1 -X $v.gitMinor=$minor -X $v.gitTreeState=clean"
  kube_module "$work"
  say "building kube-apiserver $KUBE_VERSION from Go modules (about 5 minutes on 2 cores, once)"
  CGO_ENABLED=0 go build -trimpath -ldflags "$flags" -o "$out/kube-apiserver" k8s.io/kubernetes/cmd/kube-apiserver
  if command -v kubectl >/dev/null; then
    ln -s "$(command -v kubectl)" "$out/kubectl"
  else
    say "building kubectl $KUBE_VERSION"
    CGO_ENABLED=0 go build -trimpath -ldflags "$flags" -o "$out/kubectl" k8s.io/kubernetes/cmd/kubectl
  fi
}

build_etcd() {
  local out=$1 work=$2
  say "building etcd $ETCD_VERSION from Go modules"
  mkdir -p "$work" && cd "$work"
  go mod init polyvirt.io/etcd >/dev/null 2>&1
  go get "go.etcd.io/etcd/server/v3@v$ETCD_VERSION" >/dev/null 2>&1
  CGO_ENABLED=0 go build -mod=mod -trimpath -ldflags '-s -w' -o "$out/etcd" go.etcd.io/etcd/server/v3
}

build_all() {
  local out=$1 work
  command -v go >/dev/null || die "no official binaries could be downloaded and there is no Go to build them: install Go 1.24 or later, or set KUBEBUILDER_ASSETS"
  work=$(mktemp -d)
  # shellcheck disable=SC2064
  trap "rm -rf '$work'" RETURN
  (build_etcd "$out" "$work/etcd")
  (build_kube "$out" "$work/kube")
}

main() {
  if [ -n "${KUBEBUILDER_ASSETS:-}" ] && has_all "$KUBEBUILDER_ASSETS"; then
    say "control plane: \$KUBEBUILDER_ASSETS"
    echo "$KUBEBUILDER_ASSETS"
    return
  fi
  if ! has_all "$DIR"; then
    mkdir -p "$CACHE"
    exec 9>"$CACHE/.control-plane.lock"
    flock 9
  fi
  if ! has_all "$DIR"; then
    local tmp
    tmp=$(mktemp -d "$CACHE/.control-plane.XXXXXX")
    download_all "$tmp" || { rm -rf "${tmp:?}"/*; build_all "$tmp"; }
    rm -rf "$DIR" && mv "$tmp" "$DIR"
  fi
  say "control plane: $DIR"
  echo "$DIR"
}

main "$@"
