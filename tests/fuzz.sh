#!/bin/sh
# Lets libFuzzer look for bytes that end a reader: SECONDS for each target (default 60), two at a
# time. Prints the executions of each. What it finds lies in build/fuzz/found; tests/fuzz/corpus/TARGET
# is the place for it once it is mended.
# Usage: tests/fuzz.sh [SECONDS [TARGET...]]
set -eu
cd "$(dirname "$0")/.."
seconds="${1:-60}"
[ $# -eq 0 ] || shift
deploy/install.sh build run test check fuzz
cmake --preset fuzz
cmake --build --preset fuzz
program=build/fuzz/tests/fuzz/rubato_fuzz
# shellcheck disable=SC2046  # words
[ $# -gt 0 ] || set -- $(RUBATO_FUZZ=none $program 2>&1 | sed 's/.*://')
mkdir -p build/fuzz/found

# One target. Its corpus stays for the next time.
fuzz() {
  corpus=build/fuzz/corpus/$1
  ended=tests/fuzz/corpus/$1  # what has ended it before
  [ -d "$ended" ] || ended=""
  mkdir -p "$corpus"
  # shellcheck disable=SC2086  # $ended may be empty
  RUBATO_FUZZ=$1 RUBATO_FUZZ_SEEDS=$corpus $program -max_total_time="$seconds" -timeout=10 \
    -rss_limit_mb=2048 -malloc_limit_mb=1024 -max_len=65536 -print_final_stats=1 -verbosity=0 \
    -artifact_prefix="build/fuzz/found/$1-" "$corpus" $ended \
    >"build/fuzz/$1.log" 2>&1 || {
    printf '%-12s FOUND: build/fuzz/%s.log\n' "$1" "$1"
    return 1
  }
  awk -v target="$1" '/number_of_executed_units/ { printf "%-12s %d executions\n", target, $2 }' \
    "build/fuzz/$1.log"
}

failed=0
while [ $# -gt 0 ]; do
  fuzz "$1" & first=$!
  second=""
  if [ $# -gt 1 ]; then fuzz "$2" & second=$!; shift; fi
  shift
  wait $first || failed=1
  [ -z "$second" ] || wait $second || failed=1
done
exit $failed
