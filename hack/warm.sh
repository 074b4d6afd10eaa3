#!/usr/bin/env bash
# Writes crates/polyvirt/warm.txt again: which functions a manager at work runs. The linker puts them side by side in a release,
# which saves a fifth of its memory. Worth it when the budget `memory` comes near: names that are out of date do no harm.
#
# It builds a release with its symbols, runs the bench with the manager under valgrind and looks what ran. The figures of that
# bench mean nothing. Needs valgrind and nm.
set -euo pipefail
cd "$(dirname "$0")/.."

VMS=100
# Blocks of code after which valgrind writes down what it has seen: the bench kills the manager, which then writes nothing.
EVERY=2000000

die() {
  printf 'error: %s\n' "$*" >&2
  exit 1
}

# The bench starts its processes through setpriv, so this one is met first.
stand_in() {
  mkdir "${1:?}/bin"
  cat >"$1/bin/setpriv" <<EOF
#!/usr/bin/env bash
guard=("\${@:1:3}") run=("\${@:4}")
[ "\${run[1]:-}" != manager ] ||
  run=(valgrind --tool=callgrind --demangle=no --dump-every-bb=$EVERY --callgrind-out-file=$1/ran "\${run[@]}")
exec $(command -v setpriv) "\${guard[@]}" "\${run[@]}"
EOF
  chmod +x "$1/bin/setpriv"
}

for tool in valgrind nm setpriv; do
  command -v "$tool" >/dev/null || die "no $tool: install valgrind, binutils and util-linux"
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cargo rustc --release --locked --package polyvirt --bin polyvirt -- -C strip=none
cp target/release/polyvirt "$work/polyvirt"
stand_in "$work"
KUBEBUILDER_ASSETS=$(hack/control-plane.sh) PATH=$work/bin:$PATH \
  "$work/polyvirt" bench --quick --vms $VMS --only memory,drift-latency,edit-first || echo "warm: budgets mean nothing here; going on"
compgen -G "$work/ran.*" >/dev/null || die "the manager left no profile"
cargo run --quiet --locked --package xtask -- warm "$work/polyvirt" "$work"/ran.*
printf 'warm: %d beginnings in crates/polyvirt/warm.txt\n' "$(grep -vc '^#' crates/polyvirt/warm.txt)"
