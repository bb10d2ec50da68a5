#!/bin/sh
# From a fresh clone to a comparison: installs what is missing, builds `rubato` (Release) and trains
# the three workers of deploy/clusters/edge-3.toml under BSP, ASP, SSP and ADSP on Fashion-MNIST, in
# virtual time. Ends with the table and the path of the report.
# Usage: deploy/quickstart.sh [further options of `rubato compare`]
set -eu
cd "$(dirname "$0")/.."
log="build/quickstart.log"

# A kernel forced on OpenBLAS for another CPU would be measured instead of this machine.
unset OPENBLAS_CORETYPE OPENBLAS_L2_SIZE

say() { printf '[%s] %s\n' "$1" "$2"; }

# quietly COMMAND...: its output goes to the log, and to the screen only when it fails.
quietly() {
  if ! "$@" >>"$log" 2>&1; then
    tail -n 40 "$log" >&2
    printf 'quickstart: "%s" failed; all of its output is in %s\n' "$*" "$log" >&2
    exit 1
  fi
}

say 1/3 "packages"
deploy/install.sh build run

mkdir -p build
: >"$log"
say 2/3 "building rubato into build/release (a few minutes the first time; log: $log)"
quietly cmake --preset release -DRUBATO_TESTS=OFF
quietly cmake --build --preset release --target rubato librubato

say 3/3 "comparing sync models on deploy/clusters/edge-3.toml"
exec build/release/cli/rubato compare deploy/clusters/edge-3.toml "$@"
