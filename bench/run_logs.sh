#!/bin/sh
# Shows that a change left the behaviour of every sync model as it was: runs all of them and compares
# the hashes of their run logs and results with bench/run_logs.golden.txt. Some 25 minutes on two
# cores; with models as arguments only those.
# Usage: bench/run_logs.sh [MODEL...]
set -eu
cd "$(dirname "$0")/.."
unset OPENBLAS_CORETYPE OPENBLAS_L2_SIZE
cmake --preset release -DRUBATO_TESTS=OFF -DRUBATO_BENCH=ON >/dev/null
cmake --build build/release --target bench_run_logs >/dev/null
found=$(mktemp)
trap 'rm -f "$found"' EXIT
build/release/bench/bench_run_logs deploy/clusters "$@" | tee "$found"
different=$(grep -vxFf bench/run_logs.golden.txt "$found" || true)
if [ -n "$different" ]; then
  printf 'run_logs: these runs differ from bench/run_logs.golden.txt:\n%s\n' "$different" >&2
  exit 1
fi
printf 'run_logs: %s runs, all as in bench/run_logs.golden.txt\n' "$(wc -l <"$found")"
