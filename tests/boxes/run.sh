#!/bin/sh
# Four boxes, each with its own file (examples/boxes), train one model by ADSP and by tempo. Prints
# its accuracy on a file that nobody trained on, beside that of scikit-learn on all four files
# together. Fails where Rubato is more than half a point below.
# Usage: tests/boxes/run.sh [RUBATO]   the command; default: built as the quick start does
set -eu
cd "$(dirname "$0")/../.."
unset OPENBLAS_CORETYPE OPENBLAS_L2_SIZE

deploy/install.sh build run peers
if [ $# -gt 0 ]; then
  rubato=$1
else
  cmake --preset release -DRUBATO_TESTS=OFF >/dev/null
  cmake --build --preset release --target rubato
  rubato=build/release/cli/rubato
fi

place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
/usr/bin/python3 examples/boxes/make_data.py "$place"
for sync in adsp tempo; do
  "$rubato" up "$place/boxes.toml" --sync "$sync" --out "$place/$sync" --quiet >/dev/null
  "$rubato" evaluate "$place/$sync/best.safetensors" --data "$place/new.csv" --json >"$place/$sync.json"
done
/usr/bin/python3 tests/boxes/compare.py "$place" adsp tempo
