#!/bin/sh
# Attacks a running cluster in each way that docs/security.md lists, and prints a row for each:
# memory of the scheduler and of the server in MiB, before, at most and after; steps a second
# before, during and after. Usage: tests/attacks.sh [SECONDS of each look, default 10]
set -eu
cd "$(dirname "$0")/.."
cmake --preset dev > /dev/null
cmake --build --preset dev --target test_attacks > /dev/null
echo '| attack | scheduler, MiB | server, MiB | steps a second |'
echo '|---|---|---|---|'
RUBATO_ATTACK_SECONDS="${1:-10}" build/dev/tests/integration/test_attacks --test-case='attacks:*' |
  grep -v '^\[doctest\] \(doctest\|run\)'
