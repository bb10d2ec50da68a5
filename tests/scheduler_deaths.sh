#!/bin/bash
# Kills the scheduler of real runs three times and freezes it once, then kills everything and gives
# the same commands again. Checks that every run goes on and has learned at its end. Takes a minute
# and a half for each sync model. No part of tests/run.sh.
# Usage: tests/scheduler_deaths.sh [RUBATO [SYNC...]]   (default: build/dev/cli/rubato, four models)
set -eu
cd "$(dirname "$0")/.."
unset OPENBLAS_CORETYPE OPENBLAS_L2_SIZE
rubato=$(realpath "${1:-build/dev/cli/rubato}")
[ $# -gt 0 ] && shift
[ $# -gt 0 ] || set -- bsp ssp adsp tempo

place=$(mktemp -d)
pids=()
trap 'kill -KILL "${pids[@]}" 2> /dev/null || true; rm -rf "$place"' EXIT
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
max_seconds = 70
TOML
endpoint=tcp://127.0.0.1:$((20000 + RANDOM % 10000))

# wait_for WORDS LOG [SECONDS]
wait_for() {
  for _ in $(seq $((${3:-30} * 10))); do
    grep -q -- "$1" "$2" && return 0
    sleep 0.1
  done
  printf 'no word of "%s" in %s\n' "$1" "$2" >&2
  cat "$2" >&2
  return 1
}
life=0
start_scheduler() {
  life=$((life + 1))
  log=$sync-scheduler-$life
  "$rubato" scheduler deaths.toml --sync "$sync" --bind "$endpoint" --state "$sync" --out "$sync" \
    --json > json 2> "$log" &
  scheduler=$!
  pids+=("$scheduler")
}
start_nodes() {
  nodes=()
  for name in server-0 server-1; do
    "$rubato" server deaths.toml --sync "$sync" --scheduler "$endpoint" --name $name \
      --state "$sync" 2> "$sync-$name" & nodes+=($!)
  done
  for name in fast-0 fast-1 slow; do
    "$rubato" worker deaths.toml --sync "$sync" --scheduler "$endpoint" --name $name --stretch \
      2> "$sync-$name" & nodes+=($!)
  done
  pids+=("${nodes[@]}")
}

for sync in "$@"; do
  start_scheduler
  start_nodes
  wait_for 'training starts' "$log"
  for _ in 1 2 3; do
    sleep 3.$((RANDOM % 900 + 100))
    kill -KILL "$scheduler"; wait "$scheduler" || true
    sleep $((RANDOM % 5))
    start_scheduler
    wait_for 'goes on with run' "$log"
    grep -o 'goes on with run.*' "$log" | sed "s/^/$sync: /"
  done
  sleep 3; kill -STOP "$scheduler"; sleep 20; kill -CONT "$scheduler"; sleep 3
  printf '%s: frozen for 20 s\n' "$sync"
  for node in "${nodes[@]}"; do kill -0 "$node" || { printf 'a node has ended\n'; exit 1; }; done
  kill -KILL "$scheduler" "${nodes[@]}"; wait "$scheduler" "${nodes[@]}" || true
  start_scheduler
  start_nodes
  wait_for 'commits are lost' "$log"
  grep -o 'goes on with run.*\|server .*commits are lost' "$log" | sed "s/^/$sync: all killed: /"
  code=0; wait "$scheduler" || code=$?
  [ "$code" = 0 ] || { cat "$log"; printf '%s: exit code %d\n' "$sync" "$code"; exit 1; }
  for node in "${nodes[@]}"; do wait "$node"; done
  python3 - "$sync" <<'PYTHON'
import json, sys
run = json.load(open('json'))['runs'][0]
total = sum(worker['commits'] for worker in run['workers'])
assert run['final_accuracy'] > 0.9, f"accuracy {run['final_accuracy']}"
assert total == run['commits'], f"{total} commits of workers, {run['commits']} of the run"
print(f"{sys.argv[1]}: loss {run['final_loss']:.4f}, accuracy {run['final_accuracy']:.3f}, {total} commits")
PYTHON
done
