#!/bin/sh
# ADSP's online search beside fixed commit rates: median time to target over seeds, in virtual time.
# Usage: bench/rate_search.sh CLUSTER.toml [SEEDS [RATE...]]
#   default: 5 seeds, rates 1 2 4 8 16 30. RUBATO: the binary, build/release/cli/rubato by default.
# The clusters that it measures are written beside CLUSTER.toml, whose paths are relative to it.
set -eu
unset OPENBLAS_CORETYPE OPENBLAS_L2_SIZE
rubato="${RUBATO:-build/release/cli/rubato}"
file="$1"
seeds="${2:-5}"
if [ $# -gt 2 ]; then shift 2; else set -- 1 2 4 8 16 30; fi

work="$(mktemp -d)"
fixed="$(mktemp --suffix=.toml "$(dirname "$file")/rate-search-XXXXXX")"
trap 'rm -rf "$work" "$fixed"' EXIT

# median FILE: median time to target of ADSP under FILE, "-" where a run did not reach it.
median() {
  "$rubato" compare "$1" --sync adsp --seeds "$seeds" --quiet --json --out "$work/out" --overwrite \
    >"$work/results.json" || exit
  sed -n 's/null/inf/; s/.*"time_to_target_s": \([0-9.inf]*\),*/\1/p' "$work/results.json" |
    sort -g |
    awk '{ t[NR] = $1 } END { m = t[int((NR + 1) / 2)]; print (m == "inf" || m == "") ? "-" : m " s" }'
}

# without_rate: the cluster file, in which ADSP searches.
without_rate() {
  sed '/^ *fixed_rate *=/d' "$file"
}

# with_rate RATE: the same with this rate, in its section [sync.adsp] or in one at the end.
with_rate() {
  without_rate | awk -v line="fixed_rate = $1" '
    { print }
    /^ *\[ *sync *\. *adsp *\]/ { print line; found = 1 }
    END { if (!found) print "\n[sync.adsp]\n" line }'
}

printf '%s, %s seeds\n' "$file" "$seeds"
without_rate >"$fixed"
time="$(median "$fixed")"
printf 'search     %s\n' "$time"
for rate in "$@"; do
  with_rate "$rate" >"$fixed"
  time="$(median "$fixed")"
  printf 'R = %-6s %s\n' "$rate" "$time"
done
