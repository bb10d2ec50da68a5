#!/bin/sh
# Installs what is missing, builds and runs all tests, preset by preset, and stops at the first that
# fails. Each ends with the test runner's closing line ("100% tests passed ...").
# Usage: tests/run.sh [PRESET...]   of CMakePresets.json; default: dev wire
set -eu
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || set -- dev wire

groups="build run test"
case " $* " in *" tidy "*) groups="$groups check" ;; esac
# shellcheck disable=SC2086  # a list of words
deploy/install.sh $groups

# Many tests wait for processes: twice as many as there are cores.
CTEST_PARALLEL_LEVEL="${CTEST_PARALLEL_LEVEL:-$((2 * $(nproc)))}"
export CTEST_PARALLEL_LEVEL

build() {
  case $1 in wire) configure=asan ;; *) configure=$1 ;; esac
  cmake --preset "$configure" && nice -n "$2" cmake --build --preset "$1"
}

while [ $# -gt 0 ]; do
  printf '== %s\n' "$1"
  build "$1" 0
  # The tests leave the cores idle at times. The next preset is built then; its turn tells what fails.
  [ $# -eq 1 ] || build "$2" 19 >/dev/null 2>&1 &
  tested=0
  ctest --preset "$1" || tested=$?
  wait
  [ "$tested" -eq 0 ] || exit "$tested"
  shift
done
