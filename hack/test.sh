#!/usr/bin/env bash
# Runs all tests: builds the test programs with cargo, runs several of them at the same time, and runs once more, alone, each
# test that failed. A test that fails beside others and passes alone is reported as UNSTEADY: a defect to fix, but the run
# passes. A test that fails alone too fails the run.
#
#   hack/test.sh cargo test --workspace --locked --no-fail-fast
#   hack/test.sh --failed LOG     only lists what failed in such a log: program, package, test
#   hack/test.sh --programs JSON  only lists the programs in messages of cargo: folder, kind, name, source, program
#
#   TEST_LANES=1                  one program after the other, as cargo does
#
# There are two lanes. The first runs the programs that boot guests, one after the other, for each of them keeps both
# processors busy. The second runs all others, which mostly wait for servers; the first helps when it has no guests left.
set -uo pipefail
cd "$(dirname "$0")/.." || exit

# More than this is not bad luck.
MOST_AGAIN=8
# Programs that boot guests, the longest first: the folder of the package and the name of the target.
GUESTS='crates/providers/libvirt:real crates/providers/qemu:real crates/polyvirt:first_vm'
# Wait for servers most of the time: started early in the second lane, so that no long one is left at the end.
LONG='crates/engine:real_api crates/dialects:real_api crates/providers/kubevirt:real crates/engine:simulation crates/polyvirt:rights'
# Tests that measure time would measure the other lane too: they are left out of the lanes and run when these have ended. The
# folder of the package, the name of the target, what the names of the tests contain.
TIMED='crates/providers/libvirt:real=downtime:: crates/providers/qemu:real=pauses::'

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

# One line for each test program, with tabs: the folder of its package, the kind and the name of its target, its source, its file.
programs() {
  awk '
    # The text of a field, whose name occurs once in a message; of a list its first entry.
    function text(name,  found) {
      if (!match($0, "\"" name "\":\\[?\"[^\"]*\"")) return ""
      found = substr($0, RSTART, RLENGTH); sub(/"$/, "", found); sub(/.*"/, "", found)
      return found
    }
    /"reason":"compiler-artifact"/ && /"profile":\{[^}]*"test":true/ && text("executable") != "" {
      folder = text("manifest_path"); sub(/\/Cargo\.toml$/, "", folder)
      print folder "\t" text("kind") "\t" text("name") "\t" text("src_path") "\t" text("executable")
    }' "$1"
}

# pick all|only|without LIST: of the programs of stdin all, or those that the list names, or the others. In the order of the
# list; behind them those that it does not name, integration tests before unit tests.
pick() {
  awk -F '\t' -v how="$1" -v list="$2" -v root="$PWD/" '
    BEGIN { count = split(list, names, " "); for (i = 1; i <= count; i++) rank[names[i]] = i }
    {
      folder = $1; if (index(folder, root) == 1) folder = substr(folder, length(root) + 1)
      key = $2 == "test" ? folder ":" $3 : ""
      if (how == "only" && !(key in rank)) next
      if (how == "without" && key in rank) next
      print (key in rank ? rank[key] : $2 == "test" ? 1000 : 2000) "\t" $0
    }' | sort -s -n -k1,1 | cut -f2-
}

package_of() { sed -n 's/^name = "\(.*\)"/\1/p' "$1/Cargo.toml" | head -n 1; }

# The argument by which cargo finds the target.
target_of() {
  case $1 in
    lib | rlib | proc-macro) echo "--lib" ;;
    *) echo "--$1 $2" ;;
  esac
}

# timed_of FOLDER KIND NAME: which tests of the program measure time; nothing if none does.
timed_of() {
  local entry key=${1#"$PWD"/}:$3
  [ "$2" = test ] || return 0
  for entry in $TIMED; do [ "${entry%%=*}" != "$key" ] || echo "${entry#*=}"; done
}

# run_program FOLDER KIND NAME SOURCE PROGRAM [ARGUMENT...]: runs it as cargo does, in the folder of its package, and ends with its code.
run_program() {
  local folder=$1 kind=$2 name=$3 source=${4#"$1"/} program=$5 package code
  shift 5
  package=$(package_of "$folder")
  [ "$kind" = test ] || source="unittests $source"
  printf '     Running %s (%s)\n' "$source" "${program#"$PWD"/}"
  (cd "$folder" && CARGO_MANIFEST_DIR=$folder CARGO_PKG_NAME=$package exec "$program" "$@") </dev/null 2>&1
  code=$?
  if [ "$code" -ne 0 ]; then
    # Why it ended, if it did not say so itself.
    [ "$code" -eq 101 ] || printf 'process ended with code %d\n' "$code"
    # shellcheck disable=SC2016
    printf 'error: test failed, to rerun pass `-p %s %s`\n' "$package" "$(target_of "$kind" "$name")"
  fi
  return "$code"
}

# The next line of a queue, which leaves it. Several lanes may ask at the same time.
next_of() {
  (
    flock 9
    head -n 1 "$1"
    sed -i 1d "$1"
  ) 9>>"$work/queues.lock"
}

# Prints a file, also into the log, without a line of another lane in it.
print_whole() {
  (
    flock 9
    tee -a "$log" <"$1"
  ) 9>>"$work/output.lock"
}

# lane NUMBER QUEUE...: empties the queues one after the other. The output of a program appears when it has ended.
lane() {
  local number=$1 queue job out=$work/lane.$1 begin code timed
  local -a words
  shift
  for queue in "$@"; do
    while job=$(next_of "$queue") && [ -n "$job" ]; do
      IFS=$'\t' read -r -a words <<<"$job"
      begin=$SECONDS
      if [ "${words[0]}" = doc-tests ]; then
        "${DOC_TESTS[@]}" >"$out" 2>&1 </dev/null
      else
        timed=$(timed_of "${words[@]:0:3}")
        run_program "${words[@]}" ${timed:+--skip "$timed"} >"$out"
      fi
      code=$?
      [ "$code" -eq 0 ] || echo "$code" >>"$work/failed"
      printf '==> lane %d: %s %s, %d s\n\n' "$number" "${words[0]#"$PWD"/}" "${words[2]:-}" "$((SECONDS - begin))" >>"$out"
      print_whole "$out"
    done
  done
  echo "$number" >>"$work/ended"
}

# Runs the tests that measure time, with nothing beside them.
run_timed() {
  local job timed out=$work/timed code
  local -a words
  while read -r job; do
    IFS=$'\t' read -r -a words <<<"$job"
    timed=$(timed_of "${words[@]:0:3}")
    [ -n "$timed" ] || continue
    run_program "${words[@]}" "$timed" >"$out"
    code=$?
    [ "$code" -eq 0 ] || echo "$code" >>"$work/failed"
    print_whole "$out"
  done <"$work/programs"
}

# Builds what the command names.
build() {
  "$@" --no-run --message-format=json-render-diagnostics >"$work/messages" </dev/null || return
  programs "$work/messages" >"$work/programs"
  [ -s "$work/programs" ] && return
  echo "error: cargo has built no test program" >&2
  return 1
}

# Runs what the command builds. Ends with 101 if a test failed, as cargo does.
run_in_lanes() {
  local threads=${RUST_TEST_THREADS:-$((3 * $(nproc)))} first second
  build "$@" || return
  pick only "$GUESTS" <"$work/programs" >"$work/guests"
  pick without "$GUESTS" <"$work/programs" | pick all "$LONG" >"$work/others"
  # Cargo refuses to look for them where there is no library.
  if awk -F '\t' '$2 == "lib" { found = 1 } END { exit !found }' "$work/programs"; then printf 'doc-tests\n' >>"$work/others"; fi
  DOC_TESTS=("$@" --doc)
  # With job control each lane is a process group, so that a signal ends its programs too.
  set -m
  RUST_TEST_THREADS=$threads lane 1 "$work/guests" "$work/others" &
  first=$!
  # Its tests share the processors with the guests.
  RUST_TEST_THREADS=$((threads > 3 ? threads * 2 / 3 : threads)) lane 2 "$work/others" &
  second=$!
  # shellcheck disable=SC2064
  trap "kill -- -$first -$second 2>/dev/null; exit 143" INT TERM HUP
  wait "$first" "$second"
  set +m
  if [ "$(wc -l 2>/dev/null <"$work/ended")" != 2 ]; then
    echo "error: a lane of tests ended early, so not all tests were run" >&2
    return 1
  fi
  RUST_TEST_THREADS=$threads run_timed
  [ ! -e "$work/failed" ] || return 101
}

# In company of other programs only when all tests of a whole selection are wanted.
can_use_lanes() {
  local word
  [ "${TEST_LANES:-2}" != 1 ] && [ "$1 ${2:-}" = "cargo test" ] || return
  for word in "$@"; do [ "$word" != -- ] || return; done
  command -v flock >/dev/null
}

folder_of() {
  local id
  id=$(cargo pkgid --package "$1") || return
  id=${id#path+file://}
  echo "${id%%#*}"
}

# Cargo itself would build with the features of this one package, so the program is started as cargo starts it.
alone() {
  local program folder
  program=$(realpath "$1") || return
  folder=$(folder_of "$2") || return
  printf '\n==> again, alone: %s of %s\n' "$3" "$2"
  (cd "$folder" && CARGO_MANIFEST_DIR=$folder CARGO_PKG_NAME=$2 exec "$program" --exact "$3" --test-threads 1)
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

case "${1:-}" in
  --failed)
    failed_tests "$2"
    exit
    ;;
  --programs)
    programs "$2"
    exit
    ;;
esac

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
log=$work/log
: >"$log"
if can_use_lanes "$@"; then
  run_in_lanes "$@"
  code=$?
else
  "$@" 2>&1 | tee "$log"
  code=${PIPESTATUS[0]}
fi
[ "$code" -ne 0 ] || exit 0
mapfile -t failed < <(failed_tests "$log")
if [ "${#failed[@]}" -eq 0 ] || [ "${#failed[@]}" -gt "$MOST_AGAIN" ]; then exit "$code"; fi
printf '%s\n' "${failed[@]}" | all_pass_alone
