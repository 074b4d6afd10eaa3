#!/usr/bin/env bash
# Finds or makes one program that is a Go module, and prints its path, the only line on stdout.
#
#   hack/go-tool.sh helm|crane|coredns
#
# Where it comes from, first match wins: the cache, a download (helm only, checked against the published sum), a build
# from Go modules. Each version has its own place in the cache, and a program enters it by one rename.
#
#   POLYVIRT_CACHE           other cache than ~/.cache/polyvirt
#   POLYVIRT_NO_DOWNLOAD=1   build from Go modules without trying the download
set -euo pipefail

CACHE=${POLYVIRT_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/polyvirt}
NAME=${1:?usage: hack/go-tool.sh helm|crane|coredns}

say() { printf '%s %s\n' "$(date +%H:%M:%S)" "$*" >&2; }
die() {
  say "error: $*"
  exit 1
}

case "$NAME" in
  helm) VERSION=3.22.0 MODULE=helm.sh/helm/v3 PACKAGE=helm.sh/helm/v3/cmd/helm ;;
  crane) VERSION=0.22.1 MODULE=github.com/google/go-containerregistry PACKAGE=$MODULE/cmd/crane ;;
  coredns) VERSION=1.15.0 MODULE=github.com/coredns/coredns PACKAGE=. ;;
  *) die "no program of this name is known: $NAME" ;;
esac
TARGET=$CACHE/tools/$NAME-$VERSION

arch() { uname -m | sed 's/x86_64/amd64/; s/aarch64/arm64/'; }

download_helm() {
  local file base
  file=helm-v$VERSION-linux-$(arch).tar.gz
  base=https://get.helm.sh/$file
  curl --fail --silent --location --connect-timeout 5 --output "$1/$file" "$base" &&
    curl --fail --silent --location --connect-timeout 5 --output "$1/sum" "$base.sha256sum" || return 1
  (cd "$1" && sha256sum --check --quiet sum >&2) || die "$file: checksum differs from the published one"
  tar -xzf "$1/$file" -C "$1" --strip-components=1 "linux-$(arch)/helm"
}

# Only the plugins that the DNS of a small cluster needs: the others pull in the libraries of three clouds.
coredns_main() {
  printf 'package main\n\nimport (\n\t"github.com/coredns/coredns/coremain"\n'
  printf '\t_ "github.com/coredns/coredns/plugin/%s"\n' bind cache errors health kubernetes loadbalance ready reload
  printf ')\n\nfunc main() { coremain.Run() }\n'
}

# Helm takes the versions from its own build: without them it says v3 and thinks that the cluster is 1.20.
stamps() {
  [ "$NAME" = helm ] || return 0
  local package
  for package in pkg/chartutil pkg/lint/rules; do
    echo "-X $MODULE/$package.k8sVersionMajor=1 -X $MODULE/$package.k8sVersionMinor=34"
  done
  echo "-X $MODULE/internal/version.version=v$VERSION"
}

build() {
  command -v go >/dev/null || die "$NAME cannot be downloaded, and there is no Go to build it: install Go 1.25 or later"
  say "building $NAME $VERSION from Go modules, once"
  cd "$1"
  printf 'module polyvirt.io/tool\n\ngo 1.25.0\n\nrequire %s v%s\n' "$MODULE" "$VERSION" >go.mod
  if [ "$NAME" = coredns ]; then
    coredns_main >main.go
    go mod tidy -e >&2
  fi
  CGO_ENABLED=0 nice go build -mod=mod -trimpath -ldflags "-s -w $(stamps | xargs)" -o "$1/$NAME" "$PACKAGE" >&2
}

can_download() { [ "$NAME" = helm ] && [ -z "${POLYVIRT_NO_DOWNLOAD:-}" ] && command -v curl >/dev/null; }

make_it() {
  if can_download && download_helm "$1" && [ -s "$1/$NAME" ]; then return; fi
  (build "$1")
}

if [ ! -x "$TARGET" ]; then
  mkdir -p "$CACHE/tools"
  exec 9>"$CACHE/tools/.$NAME.lock"
  flock 9
fi
if [ ! -x "$TARGET" ]; then
  rm -rf "$CACHE/tools/.$NAME".??????
  WORK=$(mktemp -d "$CACHE/tools/.$NAME.XXXXXX")
  trap 'rm -rf "$WORK"' EXIT
  make_it "$WORK"
  chmod 0755 "$WORK/$NAME"
  mv "$WORK/$NAME" "$TARGET"
fi
echo "$TARGET"
