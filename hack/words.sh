#!/usr/bin/env bash
# Counts words of hack/words.txt in documentation, messages and comments. A file must not have more of them than
# hack/words.baseline allows, so that new text uses plain technical English while old text is being rewritten.
#
#   hack/words.sh            fails for each file that exceeds its count; prints the total
#   hack/words.sh --update   lowers the baseline to what is there now; never raises it
#   hack/words.sh --reset    writes the baseline again, also where it is higher now: for merges of older branches only
#   hack/words.sh --show F   shows the lines of a file with the words and their replacements
#
#   WORDS_ROOT               another folder than this repository, for tests
set -euo pipefail
export LC_ALL=C
cd "$(dirname "$0")/.."
LIST=$PWD/hack/words.txt
cd "${WORDS_ROOT:-.}"
BASELINE=hack/words.baseline

# Golden files and fixtures of other projects are data, and generated pages follow the code.
files() {
  find . \( -path ./target -o -path './target.*' -o -path ./.git -o -path ./dist \) -prune -o -type f \
    \( -name '*.rs' -o -name '*.md' -o -name '*.sh' -o -name '*.y*ml' -o -name '*.tpl' -o -name '*.toml' -o -name '*.txt' \
    -o -name '*.proto' -o -name Makefile -o -path ./.ci/run \) -print | sed 's|^\./||' |
    { grep -Ev '^(hack/words\.|docs/reference/|config/crd/|charts/polyvirt/crds/|hack/vitistack-crds/.*yaml|crates/api/tests/fixtures/)' || true; } |
    sort
}

pattern() {
  grep -v '^#' "$LIST" | cut -f1 | paste -sd'|'
}

# One line for each file with such words: count, path. Words that are part of an identifier do not count.
counts() {
  files | tr '\n' '\0' | xargs -0 perl -e '
    my $words = shift; my $re = qr/(?<![\w\x27-])(?:$words)(?![\w-])/i;
    for my $file (@ARGV) {
      next if -l $file || !open(my $in, "<", $file);
      local $/; my $text = <$in>; my $n = 0; $n++ while $text =~ /$re/g;
      print "$n $file\n" if $n;
    }' "$(pattern)" | sort -k2
}

show() {
  perl -ne '
    BEGIN { open(my $in, "<", shift) or die; while (<$in>) { next if /^#/; chomp; push @list, [split /\t/] } }
    for my $entry (@list) {
      my ($word, $instead) = @$entry;
      print "$ARGV:$.: \"$&\": use: $instead\n" while /(?<![\w\x27-])(?:$word)(?![\w-])/gi;
    }' "$LIST" "$1"
}

# Shared by both programs below: reads the counts of now, then the baseline. A file that was moved keeps its words: what files
# that no longer exist were allowed is left over for files that are new.
READ='
  FILENAME == ARGV[1] { now[$2] = $1; total += $1; next }
  { allowed[$2] = $1; before += $1 }
  !($2 in now) && (getline line <$2) < 0 { spare += $1 }
  function is_new(file) { return !(file in allowed) }
  function moved(  file, sum) { for (file in now) if (is_new(file)) sum += now[file]; return sum <= spare }'

# The lower count of each file; a file without words leaves the list.
lower() {
  awk "$READ"'
    END {
      for (file in now)
        if (is_new(file)) { if (moved()) print now[file], file }
        else print (now[file] < allowed[file] ? now[file] : allowed[file]), file
    }' "$1" "$BASELINE" | sort -k2
}

check() {
  awk "$READ"'
    END {
      can_be_new = moved()
      for (file in now) {
        if (is_new(file) ? can_be_new : now[file] <= allowed[file]) continue
        most = is_new(file) ? 0 : allowed[file]
        printf "%s: %d words of hack/words.txt, %d allowed: run hack/words.sh --show %s\n", file, now[file], most, file
        bad = 1
      }
      printf "words: %d, baseline %d\n", total, before
      exit bad
    }' "$1" "$BASELINE"
}

[ -e "$BASELINE" ] || : >"$BASELINE"
now=$(mktemp)
trap 'rm -f "$now"' EXIT
case "${1:-}" in
  "")
    counts >"$now"
    check "$now"
    ;;
  --update)
    counts >"$now"
    lower "$now" >"$BASELINE.new"
    mv "$BASELINE.new" "$BASELINE"
    check "$now"
    ;;
  --reset)
    counts >"$BASELINE"
    ;;
  --show) show "$2" ;;
  *)
    echo "usage: hack/words.sh [--update | --reset | --show FILE]" >&2
    exit 2
    ;;
esac
