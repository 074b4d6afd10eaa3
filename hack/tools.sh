#!/usr/bin/env bash
# Sees to it that this machine can build and test Polyvirt: packages, the Rust toolchain, the control plane.
# Installs only what is missing, and says what. Safe to run again: then it only looks.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf '%s\n' "$*"; }
die() {
  printf 'error: %s\n' "$*" >&2
  exit 1
}
has() { command -v "$1" >/dev/null; }

missing_packages() {
  has cc || echo gcc libc6-dev
  { has setpriv && has flock; } || echo util-linux
  # Only to download the control plane: without them it is built, if there is Go.
  has curl || echo curl
  [ -e /etc/ssl/certs/ca-certificates.crt ] || [ -n "${SSL_CERT_FILE:-}" ] || echo ca-certificates
}

as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi
}

install_packages() {
  local command="apt-get install $*"
  has apt-get || die "missing packages: $*. This is no Debian: install them by hand"
  [ "$(id -u)" = 0 ] || { has sudo && sudo --validate; } ||
    die "missing packages: $*. Only root can install them, and sudo is not there or refuses. As root, run: $command"
  say "packages: installing $*"
  as_root apt-get update -qq || say "packages: the lists could not be updated; trying with the old ones"
  if ! as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null; then
    say "packages: not all could be installed; going on with what is there"
  fi
}

packages() {
  local missing
  mapfile -t missing < <(missing_packages | tr ' ' '\n')
  [ "${#missing[@]}" -eq 0 ] || install_packages "${missing[@]}"
  has cc || die "no C compiler: install gcc"
  has flock || die "no flock: install util-linux"
  has setpriv || say "packages: no setpriv (util-linux), so a killed test leaves its control plane running"
  say "packages: ok"
}

rust_works() { cargo --version >/dev/null 2>&1 && cargo fmt --version >/dev/null 2>&1 && cargo clippy --version >/dev/null 2>&1; }

rust() {
  if ! rust_works && has rustup; then
    say "rust: installing the toolchain of rust-toolchain.toml"
    rustup toolchain install
  fi
  rust_works || die "no Rust toolchain with rustfmt and clippy as rust-toolchain.toml asks: install rustup from https://rustup.rs"
  say "rust: $(rustc --version)"
}

control_plane() {
  local folder
  folder=$(hack/control-plane.sh)
  say "control plane: $("$folder/kube-apiserver" --version), $("$folder/etcd" --version | head -1)"
}

packages
rust
control_plane
