#!/bin/sh
# A program without devices (lean.cpp) needs no oneDNN, OpenBLAS, ONNX, protobuf, zip or image reader: not
# itself, and not by the libraries that it needs. The command needs all of them, by the same names.
# Usage: tests/packages/lean.sh LEAN RUBATO
set -eu
fail() { printf 'lean: %s\n' "$*" >&2; exit 1; }
lean=$(realpath "$1")
rubato=$(realpath "$2")
cd "$(dirname "$0")/../.."
"$lean" deploy/clusters/edge-3.toml | grep -qE '^[0-9]+ parameters, 0 steps$' || fail "it does not run"
for library in dnnl openblas gomp onnx_proto protobuf png jpeg heif webp zip; do
  ldd "$rubato" | grep -q "lib$library" || fail "rubato is not linked with lib$library: has it another name?"
  ! ldd "$lean" | grep "lib$library" || fail "lib$library is needed, and computes or reads data"
done
