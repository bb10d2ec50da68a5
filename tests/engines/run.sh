#!/bin/sh
# Shows that a trained model means the same to programs that we did not write: every kind of model is
# trained for a moment, then onnxruntime runs its model.onnx and PyTorch its model.safetensors, and
# both must give the scores of `rubato predict` to 1e-5. Then tables of every kind of column, gap and
# offset, which OpenCV runs, too, where it can, and sequences of every kind of channel.
# Needs python3-torch, python3-opencv, python3-onnx and onnxruntime, which it installs: Debian 13 has it
# for Python; on Debian 12 it is onnxruntime-web, of the npm registry.
# Usage: tests/engines/run.sh [COMMAND [TABLES]]   the `rubato` to check, default: build/dev/cli/rubato;
# how many random tables, default: 60
set -eu
cd "$(dirname "$0")/../.."
rubato="${1:-build/dev/cli/rubato}"
[ -x "$rubato" ] || { printf 'engines: no %s; build it first\n' "$rubato" >&2; exit 2; }
deploy/install.sh engines
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
has_onnxruntime() { /usr/bin/python3 -c 'import onnxruntime' 2>/dev/null; }
has_onnxruntime || command -v npm >/dev/null || deploy/install.sh onnx
script="$PWD/tests/engines/onnx_jobs.py"
if ! has_onnxruntime; then
  script="$PWD/tests/engines/onnx.mjs"
  npm install --silent --no-audit --no-fund --prefix "$work" onnxruntime-web@1.20.1 >/dev/null
fi
tests/engines/check.py "$(realpath "$rubato")" "$work" "$script"
tests/engines/tables.py "$(realpath "$rubato")" "$work" "$script" ${2:+"$2"}
tests/engines/sequences.py "$(realpath "$rubato")" "$work" "$script"
