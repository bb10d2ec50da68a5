#!/bin/sh
# Shows that a change left the behaviour of every sync model as it was: builds the commit BASE and
# this tree, runs all models by both on this machine, and compares the hashes of their run logs and
# results. Some 50 minutes on two cores after the builds; with models as arguments only those.
# Usage: bench/run_logs.sh BASE [MODEL...]      BASE: a commit, such as origin/main
set -eu
cd "$(dirname "$0")/.."
if [ $# -eq 0 ]; then
  sed -n 's/^# Usage: /usage: /p' bench/run_logs.sh >&2
  exit 2
fi
base=$(git rev-parse --verify --quiet "$1^{commit}") || {
  printf 'run_logs: %s is no commit of this repository\n' "$1" >&2
  exit 2
}
shift
unset OPENBLAS_CORETYPE OPENBLAS_L2_SIZE
work=$PWD/build/run_logs
mkdir -p "$work"
[ -e "$work/base" ] || git worktree add --quiet --detach "$work/base" "$base"
git -C "$work/base" checkout --quiet --detach "$base"
for tree in "$work/base" .; do
  (
    cd "$tree"
    cmake --preset release -DRUBATO_TESTS=OFF -DRUBATO_BENCH=ON >/dev/null
    cmake --build build/release --target bench_run_logs >/dev/null
  )
done
"$work/base/build/release/bench/bench_run_logs" deploy/clusters "$@" >"$work/before.txt"
build/release/bench/bench_run_logs deploy/clusters "$@" >"$work/after.txt"
if ! diff "$work/before.txt" "$work/after.txt" >"$work/different.txt"; then
  printf 'run_logs: these runs differ, < before and > after:\n' >&2
  cat "$work/different.txt" >&2
  exit 1
fi
printf 'run_logs: %s runs, all as those of %s\n' "$(wc -l <"$work/after.txt")" "$base"
