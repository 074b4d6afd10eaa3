#!/usr/bin/env bash
# Everything that judges the source without running it. Reports all findings, not only the first kind.
set -uo pipefail
cd "$(dirname "$0")/.." || exit

failed=()
check() {
  local name=$1
  shift
  hack/step.sh "lint: $name" "$@" || failed+=("$name")
}

# Tools that few machines have: their absence is said, and does not fail.
check_if_installed() {
  local tool=$1 remedy=$2
  shift 2
  if command -v "$tool" >/dev/null; then
    check "$tool" "$@"
  else
    printf '\n==> lint: %s is not installed, so this was NOT checked: %s\n' "$tool" "$remedy"
  fi
}

check format cargo fmt --all -- --check
check clippy cargo clippy --workspace --all-targets --locked -- -D warnings
check chart hack/chart.sh check
check words hack/words.sh
check_if_installed cargo-deny "cargo install --locked cargo-deny" cargo deny --log-level error check bans licenses sources
# The steps of e2e make sense only in hack/e2e.sh, which takes them in.
check_if_installed shellcheck "apt-get install shellcheck" shellcheck -x -P SCRIPTDIR hack/*.sh hack/cluster/*.sh hack/guest/*.sh .ci/run

if [ "${#failed[@]}" -gt 0 ]; then
  printf 'lint found faults: %s\n' "${failed[*]}" >&2
  exit 1
fi
