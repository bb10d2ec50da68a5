#!/bin/sh
# Shows the time of a program by thread and function. It samples the CPU clock, so it works in
# virtual machines without hardware counters. It needs `perf` (Debian: linux-perf) and the right to
# use it (root, or sysctl kernel.perf_event_paranoid=1).
# Usage: bench/where.sh PROGRAM [ARGUMENT...]   prints every line of 1 % and more
set -eu
unset OPENBLAS_CORETYPE OPENBLAS_L2_SIZE
data="$(mktemp)"
trap 'rm -f "$data"' EXIT
perf record -q -e cpu-clock -F 1999 -o "$data" "$@" >/dev/null
# Libraries without symbols, and code generated at run time, count as one function each.
perf report -q -i "$data" --sort comm,dso,symbol --stdio --field-separator ';' 2>/dev/null |
  awk -F ';' '
    { gsub(/^ +| +$/, "", $2); gsub(/^ +| +$/, "", $3); sub(/^\[.\] /, "", $4); sub(/ +-.*$/, "", $4)
      gsub(/ +$/, "", $4)
      symbol = $4 ~ /^0x/ ? "(all of it)" : $4
      share[$2 ";" $3 ";" symbol] += $1 }
    END { for (key in share) if (share[key] >= 1) printf "%6.1f %%;%s\n", share[key], key }' |
  sort -t ';' -k 1,1nr | awk -F ';' '{ printf "%s  %-16s %-24s %s\n", $1, $2, $3, $4 }'
