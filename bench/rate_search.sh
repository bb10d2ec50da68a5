#!/bin/sh
# ADSP's online search beside fixed commit rates: median time to target over seeds, in virtual time.
# Usage: bench/rate_search.sh CLUSTER.toml [SEEDS [RATE...]]
#   default: 5 seeds, rates 1 2 4 8 16 30. RUBATO: the binary, build/release/cli/rubato by default.
set -eu
unset OPENBLAS_CORETYPE OPENBLAS_L2_SIZE
rubato="${RUBATO:-build/release/cli/rubato}"
file="$1"
seeds="${2:-5}"
if [ $# -gt 2 ]; then shift 2; else set -- 1 2 4 8 16 30; fi

work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT

# median FILE: median time to target of ADSP under FILE, "-" where a run did not reach it.
median() {
  "$rubato" compare "$1" --sync adsp --seeds "$seeds" --quiet --json --out "$work/out" |
    sed -n 's/null/inf/; s/.*"time_to_target_s": \([0-9.inf]*\),*/\1/p' | sort -g |
    awk '{ t[NR] = $1 } END { m = t[int((NR + 1) / 2)]; print (m == "inf" || m == "") ? "-" : m " s" }'
}

printf '%s, %s seeds\n' "$file" "$seeds"
printf 'search     %s\n' "$(median "$file")"
cp deploy/devices.toml "$work/"
for rate in "$@"; do
  # A fixed rate is one more line at the head of the section.
  sed "s/^\[sync.adsp\].*/&\nfixed_rate = $rate/" "$file" >"$work/fixed.toml"
  printf 'R = %-6s %s\n' "$rate" "$(median "$work/fixed.toml")"
done
