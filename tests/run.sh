#!/bin/sh
# Installs what is missing, builds and runs all tests, preset by preset, and stops at the first that
# fails. Each ends with the test runner's closing line ("100% tests passed ...").
# Usage: tests/run.sh [PRESET...]   of CMakePresets.json; default: dev
set -eu
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || set -- dev

groups="build run test"
case " $* " in *" tidy "* | *" clang "*) groups="$groups check" ;; esac
# shellcheck disable=SC2086  # a list of words
deploy/install.sh $groups

# Many tests wait for processes: twice as many as there are cores.
CTEST_PARALLEL_LEVEL="${CTEST_PARALLEL_LEVEL:-$((2 * $(nproc)))}"
export CTEST_PARALLEL_LEVEL
for preset in "$@"; do
  printf '== %s\n' "$preset"
  cmake --preset "$preset"
  # GCC 12 may crash on a precompiled header (docs/lessons.md): the workflow builds what is missing.
  cmake --build --preset "$preset" || printf '== %s, again\n' "$preset"
  cmake --workflow --preset "$preset"
done
