#!/usr/bin/env bash
# Builds the container image, with or without Docker, and pushes it.
#
#   hack/image.sh build      the static program, the image as dist/image.tar, its SBOM as dist/sbom.cdx.json
#   hack/image.sh push       what was built, to the registry of its name
#
# The image is one layer: the program, certificates of authorities, a user without rights. It is put together by tar, so the
# same commit gives the same bytes everywhere; if a Docker daemon answers, it gets the image too. dist/image.tar is an OCI
# layout and a docker-archive at once: `ctr images import`, `docker load`, `podman load` and `crane push` take it.
#
#   IMG, TAG            name and tag: ghcr.io/polyvirt/polyvirt and the version; IMG may hold a tag itself
#   PROFILE             Cargo profile: release, or fast for a quick one
#   PROGRAM             a program that is built already, to try it in a cluster: it comes stripped and with its libraries,
#                       so that the image is larger than one that is released, and has no SBOM
#   CA_BUNDLE           authorities to trust; without it those of Mozilla, from the package ca-certificates
#   SOURCE_DATE_EPOCH   the time of all files; without it that of the last commit
set -euo pipefail
cd "$(dirname "$0")/.."

DIST=dist
TAR=$DIST/image.tar
PROFILE=${PROFILE:-release}
MAX_MIB=40

say() { printf 'image: %s\n' "$*"; }
die() {
  printf 'error: %s\n' "$*" >&2
  exit 1
}

version() { sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml; }

# The whole name. A colon after the last slash is a tag, one before it is a port.
reference() {
  local name=${IMG:-ghcr.io/polyvirt/polyvirt}
  case "${name##*/}" in
    *:*) echo "$name" ;;
    *) echo "$name:${TAG:-$(version)}" ;;
  esac
}

epoch() { echo "${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 0)}"; }
revision() { git rev-parse HEAD 2>/dev/null || echo unknown; }
triple() { echo "$(uname -m)-unknown-linux-musl"; }
digest() { sha256sum "$1" | cut -d' ' -f1; }

check_tools() {
  command -v jq >/dev/null || hack/packages.sh jq
  command -v jq >/dev/null || die "no jq: install it"
  [ -n "${PROGRAM:-}" ] || check_static_tools
}

check_static_tools() {
  command -v musl-gcc >/dev/null || hack/packages.sh musl-tools
  command -v musl-gcc >/dev/null || die "no musl-gcc, which a static program needs: install musl-tools"
  rustup target list --installed | grep -x "$(triple)" >/dev/null || rustup target add "$(triple)"
}

# A quick build does not tell its commit: each would be a new one.
program_revision() { if [ "$PROFILE" = release ]; then revision; else echo "${POLYVIRT_GIT_SHA:-unknown}"; fi; }

# Paths of this machine do not belong into the program.
program() {
  local home=${CARGO_HOME:-$HOME/.cargo}
  RUSTFLAGS="--remap-path-prefix=$home=/cargo --remap-path-prefix=$PWD=/src" POLYVIRT_GIT_SHA=$(program_revision) \
    nice cargo build --locked --package polyvirt --profile "$PROFILE" --target "$(triple)" >&2
  echo "target/$(triple)/$PROFILE/polyvirt"
}

# put ROOT: the program, and what it needs to run.
put() {
  if [ -z "${PROGRAM:-}" ]; then
    install -m 0755 "$(program)" "$1/polyvirt"
  else
    install -m 0755 --strip "$PROGRAM" "$1/polyvirt"
    libraries "$PROGRAM" | xargs -r cp --parents --dereference --target-directory "$1"
  fi
}

# The files that the dynamic linker would load, and itself.
libraries() { ldd "$1" | grep -o '/[^ ]*' | sort -u; }

# Not the machine's own bundle, which may hold authorities that only its owner trusts.
authorities() {
  if [ -n "${CA_BUNDLE:-}" ]; then
    cat "$CA_BUNDLE"
  elif [ -d /usr/share/ca-certificates/mozilla ]; then
    cat /usr/share/ca-certificates/mozilla/*.crt
  else
    die "no certificates of authorities: install ca-certificates, or set CA_BUNDLE to a file"
  fi
}

root() {
  local root=$1
  mkdir -p "$root/etc/ssl/certs" "$root/tmp"
  put "$root"
  authorities >"$root/etc/ssl/certs/ca-certificates.crt"
  echo 'nonroot:x:65532:65532:nonroot:/:/sbin/nologin' >"$root/etc/passwd"
  echo 'nonroot:x:65532:' >"$root/etc/group"
  chmod -R u=rwX,go=rX "$root"
  chmod 1777 "$root/tmp"
}

# Plain tar with nothing in it that depends on the machine or the hour.
pack() { tar --sort=name --mtime="@$(epoch)" --owner=0 --group=0 --numeric-owner --format=ustar -C "$1" -cf - .; }

config() {
  local layer=$1 arch
  arch=$(uname -m | sed 's/x86_64/amd64/; s/aarch64/arm64/')
  jq -cn --arg arch "$arch" --arg layer "sha256:$layer" --arg created "$(date -u -d "@$(epoch)" +%FT%TZ)" \
    --arg version "$(version)" --arg revision "$(revision)" '{
      created: $created, architecture: $arch, os: "linux",
      config: {
        User: "65532:65532", Entrypoint: ["/polyvirt"], WorkingDir: "/", Env: ["PATH=/"],
        Labels: {
          "org.opencontainers.image.title": "polyvirt",
          "org.opencontainers.image.description": "Every virtual machine, one Kubernetes API",
          "org.opencontainers.image.licenses": "Apache-2.0",
          "org.opencontainers.image.source": "https://github.com/polyvirt/polyvirt",
          "org.opencontainers.image.version": $version,
          "org.opencontainers.image.revision": $revision,
          "org.opencontainers.image.created": $created
        }
      },
      rootfs: {type: "layers", diff_ids: [$layer]},
      history: [{created: $created, created_by: "hack/image.sh"}]
    }'
}

# descriptor TYPE FILE
descriptor() {
  jq -cn --arg type "$1" --arg digest "sha256:$(digest "$2")" --argjson size "$(stat -c %s "$2")" \
    '{mediaType: $type, digest: $digest, size: $size}'
}

# keep FILE: among the blobs, by its digest; prints its new path.
keep() {
  local path
  path=$(dirname "$1")/layout/blobs/sha256/$(digest "$1")
  mv "$1" "$path"
  echo "$path"
}

layout() {
  local work=$1 layer config manifest kind=application/vnd.oci.image
  mkdir -p "$work/root" "$work/layout/blobs/sha256"
  root "$work/root"
  pack "$work/root" >"$work/layer"
  config "$(digest "$work/layer")" >"$work/config"
  gzip -9n "$work/layer"
  layer=$(keep "$work/layer.gz")
  config=$(keep "$work/config")
  jq -cn --argjson config "$(descriptor $kind.config.v1+json "$config")" \
    --argjson layer "$(descriptor $kind.layer.v1.tar+gzip "$layer")" \
    '{schemaVersion: 2, mediaType: "application/vnd.oci.image.manifest.v1+json", config: $config, layers: [$layer]}' >"$work/manifest"
  manifest=$(keep "$work/manifest")
  jq -cn --argjson manifest "$(descriptor $kind.manifest.v1+json "$manifest")" --arg name "$(reference)" \
    '{schemaVersion: 2, manifests: [$manifest + {annotations: {"io.containerd.image.name": $name, "org.opencontainers.image.ref.name": ($name | split(":") | last)}}]}' >"$work/layout/index.json"
  echo '{"imageLayoutVersion":"1.0.0"}' >"$work/layout/oci-layout"
  jq -cn --arg name "$(reference)" --arg config "${config#"$work"/layout/}" --arg layer "${layer#"$work"/layout/}" \
    '[{Config: $config, RepoTags: [$name], Layers: [$layer]}]' >"$work/layout/manifest.json"
}

has_docker() { command -v docker >/dev/null && docker info >/dev/null 2>&1; }

tell_size() {
  local bytes
  bytes=$(stat -c %s "$TAR")
  say "$(reference): $TAR, $(awk -v b="$bytes" 'BEGIN { printf "%.1f MiB", b / 1048576 }') compressed, program $(stat -c %s "$1/root/polyvirt" | awk '{ printf "%.1f MiB", $1 / 1048576 }'), sha256 $(digest "$TAR")"
  [ -n "${PROGRAM:-}" ] || [ "$bytes" -le $((MAX_MIB * 1048576)) ] || die "the image is larger than $MAX_MIB MiB"
}

sbom() {
  cargo run --quiet --locked --package xtask -- sbom "$(triple)" >"$DIST/sbom.cdx.json"
  say "$DIST/sbom.cdx.json: $(jq '.components | length' "$DIST/sbom.cdx.json") components"
}

build() {
  check_tools
  mkdir -p "$DIST"
  WORK=$(mktemp -d)
  trap 'rm -rf "$WORK"' EXIT
  layout "$WORK"
  pack "$WORK/layout" >"$TAR"
  [ -n "${PROGRAM:-}" ] || sbom
  tell_size "$WORK"
  if has_docker; then docker load --quiet --input "$TAR"; fi
}

push() {
  [ -s "$TAR" ] || die "no $TAR: run make docker-build first"
  say "pushing $(reference)"
  if has_docker; then docker push "$(reference)"; else "$(hack/go-tool.sh crane)" push "$TAR" "$(reference)"; fi
}

case "${1:-}" in
  build) build ;;
  push) push ;;
  *) die "usage: hack/image.sh build|push" ;;
esac
