#!/bin/sh
# Installs missing packages, builds Release with the benchmarks into build/bench, and runs them one
# after the other. Prints one table: ours beside the limit or the peer of the same run.
# build/bench/results.json holds the table and the machine. docs/performance.md has the details.
# A missed bar is a row that says NO; the exit code is 1 only when a benchmark failed to run.
# Usage: bench/run.sh [--quick] [BENCH...]
#   BENCH: path ps-lite shm codec cpu links memory events order early profile recovery throttle
#     simgrid loop steps; default: these. A quarter of an hour: truth. Half an hour each: runs
#     slow-links
#   PSLITE_BENCH=/path/to/ps_lite_peer: the ps-lite peer, built as docs/performance.md tells
set -eu
cd "$(dirname "$0")/.."
unset OPENBLAS_CORETYPE OPENBLAS_L2_SIZE

usual="path ps-lite shm codec cpu links memory events order early profile recovery throttle simgrid loop steps"
all="$usual truth runs slow-links"
quick=""
if [ "${1:-}" = --quick ]; then quick=--quick; shift; fi
# shellcheck disable=SC2086  # a list of words
[ $# -gt 0 ] || set -- $usual
for name in "$@"; do
  case " $all " in
    *" $name "*) ;;
    *) printf 'bench: there is no "%s"; there are: %s\n' "$name" "$all" >&2; exit 2 ;;
  esac
done

deploy/install.sh build run bench
build=build/bench
cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DRUBATO_BENCH=ON -DRUBATO_TESTS=OFF \
  >/dev/null
cmake --build "$build"
rows="$build/rows"
rm -rf "$rows"
mkdir -p "$rows"

# program NAME: what measures it, with the arguments it needs beside --json FILE.
program() {
  case "$1" in
    path) echo "$build/bench/bench_parameter_path ${quick:---full}" ;;
    ps-lite) echo "$build/bench/bench_ps_lite $quick" ;;
    shm) echo "$build/bench/bench_shared_memory $quick" ;;
    codec) echo "$build/bench/bench_compression $quick" ;;
    cpu) echo "bench/cpu_step.py ${quick:+--rounds 3}" ;;
    links) echo "bench/links.sh $quick" ;;
    memory) echo "bench/memory.py $quick" ;;
    events) echo "$build/bench/bench_virtual_events $quick" ;;
    order) echo "$build/bench/bench_forward_order $quick" ;;
    early) echo "bench/early_links.py $quick" ;;
    profile) echo "$build/bench/bench_profile_overhead $quick" ;;
    throttle) echo "bench/throttle.py $quick" ;;
    runs) echo "bench/whole_runs.py $quick" ;;
    slow-links) echo "bench/slow_links.py $quick" ;;
    simgrid) echo "$build/bench/bench_simgrid $quick" ;;
    steps) echo "bench/step_prediction.py $quick" ;;
    truth) echo "bench/truth.py $quick" ;;
    loop) echo "bench/own_loop.py $quick" ;;
    recovery) echo "$build/bench/bench_recovery $quick" ;;
  esac
}

failed=""
for name in "$@"; do
  printf '\n== %s\n' "$name"
  # shellcheck disable=SC2046  # a command and its arguments
  $(program "$name") --json "$rows/$name.json" || failed="$failed $name"
done

printf '\n'
bench/table.py "$rows" "$build/results.json"
if [ -n "$failed" ]; then
  printf 'bench: failed to run:%s\n' "$failed" >&2
  exit 1
fi
