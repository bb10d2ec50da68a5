#!/bin/bash
# Kills each server and the scheduler of real runs three times and freezes each once, at random
# instants of one run. Then it kills everything and gives the same commands again. Checks that every
# run goes on within 10 s, and has learned at its end. Takes four minutes for each sync model. No
# part of tests/run.sh.
# Usage: tests/deaths.sh [RUBATO [SYNC...]]   (default: build/dev/cli/rubato, four models)
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
max_seconds = 190
TOML
endpoint=tcp://127.0.0.1:$((20000 + RANDOM % 10000))
log=log-of-nobody

now_ms() { echo $(($(date +%s%N) / 1000000)); }
# wait_for WORDS LOG [SECONDS]: until the log has them.
wait_for() {
  for _ in $(seq $((${3:-10} * 20))); do
    grep -q -- "$1" "$2" && return 0
    sleep 0.05
  done
  printf 'no word of "%s" in %s within %s s\n' "$1" "$2" "${3:-10}" >&2
  cat "$2" >&2
  return 1
}

# The process of each node, and how many it has had.
declare -A pid_of lives
start() {
  local name=$1 words=(--sync "$sync")
  lives[$name]=$((${lives[$name]:-0} + 1))
  case $name in
    scheduler) words+=(--bind "$endpoint" --state "$sync" --out "$sync-out" --json) ;;
    server-*) words+=(--scheduler "$endpoint" --name "$name" --state "$sync") ;;
    *) words+=(--scheduler "$endpoint" --name "$name" --stretch) ;;
  esac
  log=$sync-$name-${lives[$name]}
  local role=${name%%-*}
  case $role in fast | slow) role=worker ;; esac
  "$rubato" "$role" deaths.toml "${words[@]}" > "$log.out" 2> "$log" &
  pid_of[$name]=$!
  pids+=("$!")
}
log_of() { printf '%s-%s-%d' "$sync" "$1" "${lives[$1]}"; }
kill_node() { kill -KILL "${pid_of[$1]}"; wait "${pid_of[$1]}" 2> /dev/null || true; }
start_all() { for node in "${nodes[@]}"; do start "$node"; done; }

nodes=(scheduler server-0 server-1 fast-0 fast-1 slow)
victims=(scheduler server-0 server-1)

for sync in "$@"; do
  lives=()
  start_all
  wait_for 'training starts' "$(log_of scheduler)"
  # Each three times, in another order for each run.
  for victim in $(shuf -e "${victims[@]}" "${victims[@]}" "${victims[@]}"); do
    sleep 2.$((RANDOM % 900 + 100))
    kill_node "$victim"
    sleep 0.$((RANDOM % 900 + 100))
    began=$(now_ms)
    start "$victim"
    if [ "$victim" = scheduler ]; then
      wait_for 'goes on with run' "$(log_of scheduler)"
    else
      wait_for 'goes on from snapshot' "$(log_of "$victim")"
    fi
    printf '%s: %s killed, back %d ms after its start\n' "$sync" "$victim" $(($(now_ms) - began))
  done
  for victim in $(shuf -e "${victims[@]}"); do
    sleep 2.$((RANDOM % 900 + 100))
    kill -STOP "${pid_of[$victim]}"; sleep 20; kill -CONT "${pid_of[$victim]}"
    [ "$victim" = scheduler ] || wait_for "'$victim' is heard again" "$(log_of scheduler)"
    printf '%s: %s frozen for 20 s\n' "$sync" "$victim"
  done
  sleep 3
  for node in "${nodes[@]}"; do
    kill -0 "${pid_of[$node]}" || { printf '%s has ended\n' "$node"; exit 1; }
  done
  for node in "${nodes[@]}"; do kill_node "$node"; done
  start_all
  wait_for 'commits lost' "$(log_of scheduler)" 30
  grep -o 'goes on with run.*\|server .*commits lost' "$(log_of scheduler)" |
    sed "s/^/$sync: all killed: /"
  code=0; wait "${pid_of[scheduler]}" || code=$?
  [ "$code" = 0 ] || { cat "$(log_of scheduler)"; printf '%s: exit code %d\n' "$sync" "$code"; exit 1; }
  for node in "${nodes[@]:1}"; do wait "${pid_of[$node]}"; done
  python3 - "$sync" "$(log_of scheduler).out" <<'PYTHON'
import json, sys
sync, path = sys.argv[1:]
run = json.load(open(path))['runs'][0]
total = sum(worker['commits'] for worker in run['workers'])
assert run['final_accuracy'] > 0.9, f"accuracy {run['final_accuracy']}"
assert total == run['commits'], f"{total} commits of workers, {run['commits']} of the run"
print(f"{sync}: loss {run['final_loss']:.4f}, accuracy {run['final_accuracy']:.3f}, {total} commits")
PYTHON
done
