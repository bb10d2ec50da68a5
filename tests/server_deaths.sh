#!/bin/bash
# Kills and freezes each server of real runs, and checks that every run goes on and has learned at
# its end. Takes two minutes and a half for each sync model. No part of tests/run.sh.
# Usage: tests/server_deaths.sh [RUBATO [SYNC...]]   (default: build/dev/cli/rubato, four models)
set -eu
cd "$(dirname "$0")/.."
unset OPENBLAS_CORETYPE OPENBLAS_L2_SIZE
rubato=$(realpath "${1:-build/dev/cli/rubato}")
[ $# -gt 0 ] && shift
[ $# -gt 0 ] || set -- bsp ssp adsp tempo

place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
cd "$place"
cat > deaths.toml <<'TOML'
name = "deaths"
[[workers]]
name = "fast"
count = 2
step_seconds = 0.005
[[workers]]
name = "slow"
step_seconds = 0.015
[servers]
count = 2
[model]
kind = "mlp"
hidden = [16]
[dataset]
kind = "blobs"
spread = 0.5
samples = 2000
features = 10
classes = 4
[training]
batch = 16
learning_rate = 0.002
[sync.adsp]
check_period_seconds = 1
[evaluation]
interval_seconds = 0.2
[snapshot]
every_seconds = 2
[stop]
max_seconds = 140
TOML

# wait_for WORDS: until the run's log has them once more than before.
seen=0
wait_for() {
  for _ in $(seq 300); do
    [ "$(grep -c -- "$1" log)" -gt "$seen" ] && return 0
    sleep 0.1
  done
  printf 'no word of "%s" within 30 s\n' "$1" >&2
  return 1
}
server() { pgrep -P "$up" -f -- "server deaths.toml .*--name $1( |$)"; }

for sync in "$@"; do
  "$rubato" up deaths.toml --sync "$sync" --out "$sync" --json > json 2> log &
  up=$!
  seen=0; wait_for 'training starts'
  for name in server-0 server-1; do
    for _ in 1 2 3; do
      sleep 0.$((RANDOM % 900 + 100))
      seen=$(grep -c "'$name' is back" log || true)
      began=$(date +%s%N)
      kill -KILL "$(server "$name")"
      wait_for "'$name' is back"
      printf '%s: %s killed, back after %d ms\n' "$sync" "$name" $((($(date +%s%N) - began) / 1000000))
      sleep 10  # three short lives in a row are too many for rubato up
    done
    seen=$(grep -c "'$name' is heard again" log || true)
    pid=$(server "$name")
    kill -STOP "$pid"; sleep 20; kill -CONT "$pid"
    wait_for "'$name' is heard again"
    printf '%s: %s frozen for 20 s, heard again\n' "$sync" "$name"
  done
  code=0; wait "$up" || code=$?
  [ "$code" = 0 ] || { cat log; printf '%s: exit code %d\n' "$sync" "$code"; exit 1; }
  python3 - "$sync" <<'PYTHON'
import json, sys
run = json.load(open('json'))['runs'][0]
total = sum(worker['commits'] for worker in run['workers'])
assert run['final_accuracy'] > 0.9, f"accuracy {run['final_accuracy']}"
assert total == run['commits'], f"{total} commits of workers, {run['commits']} of the run"
print(f"{sys.argv[1]}: accuracy {run['final_accuracy']:.3f}, {total} commits")
PYTHON
  grep 'commits are lost' log
done
