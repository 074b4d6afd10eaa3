#!/usr/bin/env bash
# All tests by cargo, and once more, alone, those that failed beside others. Tests with real guests, daemons and clocks share two
# cores here with everything else, so a test that fails in company and passes alone is told by name as UNSTEADY, and is a fault
# to mend, but does not hide what the rest has shown. One that fails alone too fails the run.
#
#   hack/test.sh cargo test --workspace --locked --no-fail-fast
#   hack/test.sh --failed LOG    only lists what failed in such a log: program, package, test
set -uo pipefail
cd "$(dirname "$0")/.." || exit

# More than this is not bad luck.
MOST_AGAIN=8

# One line for each test that failed: its program, its package, its name. A program that died without a list of its failures
# is a line without a name.
failed_tests() {
  awk '
    /^ +Running .*\(.*\)$/ { program = $NF; gsub(/[()]/, "", program); count = 0; listing = 0 }
    /^ +Doc-tests / { program = "doc-tests"; count = 0; listing = 0 }
    /^failures:$/ { count = 0; listing = 1; next }
    /^test result: / { listing = 0 }
    listing && /^    [^ ]+$/ { names[count++] = $1 }
    /^error: test failed, to rerun pass / || /^error: doctest failed/ {
      package = $0; sub(/.*-p /, "", package); sub(/[ `].*/, "", package)
      if (count == 0) print program, package, ""
      for (i = 0; i < count; i++) print program, package, names[i]
      count = 0
    }' "$1"
}

folder_of() {
  local id
  id=$(cargo pkgid --package "$1") || return
  id=${id#path+file://}
  echo "${id%%#*}"
}

# Cargo itself would build with the features of this one package, so the program is started as cargo starts it.
alone() {
  local program=$PWD/$1 folder
  folder=$(folder_of "$2") || return
  printf '\n==> again, alone: %s of %s\n' "$3" "$2"
  (cd "$folder" && "$program" --exact "$3" --test-threads 1)
}

# All of them pass alone, or it says which does not.
all_pass_alone() {
  local program package name bad=0
  while read -r program package name; do
    if [ -n "$name" ] && [ -x "$program" ] && alone "$program" "$package" "$name" </dev/null; then
      printf 'UNSTEADY: %s of %s failed beside others and passes alone\n' "$name" "$package"
    else
      printf 'FAILED: %s of %s\n' "${name:-"$program"}" "$package"
      bad=1
    fi
  done
  return "$bad"
}

if [ "${1:-}" = --failed ]; then
  failed_tests "$2"
  exit
fi

log=$(mktemp)
trap 'rm -f "$log"' EXIT
"$@" 2>&1 | tee "$log"
code=${PIPESTATUS[0]}
[ "$code" -ne 0 ] || exit 0
mapfile -t failed < <(failed_tests "$log")
if [ "${#failed[@]}" -eq 0 ] || [ "${#failed[@]}" -gt "$MOST_AGAIN" ]; then exit "$code"; fi
printf '%s\n' "${failed[@]}" | all_pass_alone
