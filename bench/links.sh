#!/bin/sh
# Commit + pull over a shaped link: a real scheduler and server in one network namespace, a worker
# (bench_link_commit) in another, a veth pair between them with `tc tbf` on both ends. Needs root.
# Usage: bench/links.sh [--quick | --smoke] [--json FILE]   after bench/run.sh has built the programs
set -eu
cd "$(dirname "$0")/.."
unset OPENBLAS_CORETYPE OPENBLAS_L2_SIZE
rubato=build/bench/cli/rubato
committer=build/bench/bench/bench_link_commit

json=""
commits=5
model_kib=16384
while [ $# -gt 0 ]; do
  case "$1" in
    --json) json="$2"; shift 2 ;;
    --quick) commits=2; shift ;;
    --smoke) commits=1; model_kib=1024; shift ;;
    *) printf 'links: unknown option %s\n' "$1" >&2; exit 2 ;;
  esac
done

absent=""  # why nothing can be measured; the rows are then told without figures
[ "$(id -u)" -eq 0 ] || absent="needs root"
for command in ip tc; do
  command -v "$command" >/dev/null || absent="needs $command, of the package iproute2"
done

work="$(mktemp -d)"
near="rubato-near-$$"     # the worker
far="rubato-far-$$"       # the scheduler and the server
started=""
stop_nodes() {
  for pid in $started; do
    kill "$pid" 2>/dev/null || true
    wait "$pid" 2>/dev/null || true  # dash would tell how it ended
  done
  started=""
}
clean() {
  stop_nodes
  ip netns del "$near" 2>/dev/null || true
  ip netns del "$far" 2>/dev/null || true
  rm -rf "$work"
}
trap clean EXIT
trap 'exit 130' INT TERM

in_near() { ip netns exec "$near" "$@"; }
in_far() { ip netns exec "$far" "$@"; }

make_link() {
  ip netns add "$near"
  ip netns add "$far"
  ip link add near netns "$near" type veth peer name far netns "$far"
  # One segment a packet: the interface then counts the headers that a wire would carry.
  in_near ip link set near up gso_max_segs 1
  in_far ip link set far up gso_max_segs 1
  in_near ip address add 10.77.0.1/24 dev near
  in_far ip address add 10.77.0.2/24 dev far
  in_near ip link set lo up
  in_far ip link set lo up
}

# shape MBIT: both directions of the link.
shape() {
  [ -z "$absent" ] || return 0
  in_near tc qdisc replace dev near root tbf rate "$1mbit" burst 16kb latency 50ms
  in_far tc qdisc replace dev far root tbf rate "$1mbit" burst 16kb latency 50ms
}

# cluster MODEL_KIB CHUNKS [CODEC]: the file of both ends, 1024 -> hidden -> 10. Nothing trains; the
# data only gives the shape.
cluster() {
  cat <<END
[[workers]]
name = "node"
step_seconds = 1
[model]
hidden = [$(($1 * 256 / 1035))]
[dataset]
kind = "blobs"
features = 1024
samples = 100
[evaluation]
interval_seconds = 3600
[wire]
chunk_kib = $(($1 / $2))
up = "${3:-f32}"
down = "${3:-f32}"
[stop]
max_seconds = 3600
END
}

port=20000
# measure SYNC: "SECONDS UP DOWN LINK_UP LINK_DOWN PARAMETER_BYTES" of a commit, into $work/line.
measure() {
  [ -z "$absent" ] || { echo "1 1 1 1 1 1" >"$work/line"; return 0; }
  port=$((port + 2))
  set -- "$1" "$work/cluster.toml" "tcp://10.77.0.2:$port" "tcp://10.77.0.2:$((port + 1))"
  ip netns exec "$far" "$rubato" scheduler "$2" --sync "$1" --bind "$3" --insecure --quiet \
    --out "$work/out" --overwrite >"$work/scheduler.log" 2>&1 &
  started="$!"
  ip netns exec "$far" "$rubato" server "$2" --sync "$1" --bind "$4" --scheduler "$3" --insecure \
    --quiet >"$work/server.log" 2>&1 &
  started="$started $!"
  in_near "$committer" "$2" "$3" near "$commits" "$1" >"$work/line" || {
    cat "$work/scheduler.log" "$work/server.log" >&2
    return 1
  }
  stop_nodes
}

rows=""
# row NAME VALUE UNIT PEER PEER_VALUE BAR
row() {
  bar=null; [ -z "$6" ] || bar="\"$6\""
  if [ -n "$absent" ]; then
    printf '%-58s (absent: %s)\n' "$1" "$absent"
    rows="$rows${rows:+,}
 {\"name\": \"$1\", \"value\": null, \"unit\": \"$3\", \"peer\": null, \"peer_value\": null, \"ratio\": null, \"bar\": $bar, \"absent\": \"$absent\"}"
    return 0
  fi
  ratio=$(awk -v a="$2" -v b="$5" 'BEGIN { printf "%.4f", a / b }')
  printf '%-58s %9s %s, %s %s, ratio %s %s\n' "$1" "$2" "$3" "$4" "$5" "$ratio" "$6"
  rows="$rows${rows:+,}
 {\"name\": \"$1\", \"value\": $2, \"unit\": \"$3\", \"peer\": \"$4\", \"peer_value\": $5, \"ratio\": $ratio, \"bar\": $bar}"
}
mbit() { awk -v bytes="$1" -v seconds="$2" 'BEGIN { printf "%.3f", bytes * 8e-6 / seconds }'; }

# echo_seconds BYTES: plain TCP, sent back as it comes.
echo_seconds() {
  [ -z "$absent" ] || { echo 1; return 0; }
  port=$((port + 1))
  ip netns exec "$far" bench/tcp_echo.py serve 10.77.0.2 "$port" &
  started="$!"
  in_near bench/tcp_echo.py send 10.77.0.2 "$port" "$1"
  stop_nodes
}

# speed MBIT MODEL_KIB CHUNKS: commits under two gates. One answers chunk by chunk, so both directions
# carry at once. The other holds the whole commit, so the directions take turns.
speed() {
  shape "$1"
  cluster "$2" "$3" >"$work/cluster.toml"
  # A full Ethernet frame is 1514 bytes on the wire, 1448 of them TCP payload.
  limit=$(awk -v rate="$1" 'BEGIN { printf "%.3f", rate * 1448 / 1514 }')
  for sync in asp bsp; do
    measure "$sync"
    read -r seconds _ _ link_up _ parameters <"$work/line"
    row "$1 Mb/s, $sync: commit + pull" "$(mbit $((2 * parameters)) "$seconds")" Mb/s \
      "TCP payload, one direction" "$limit" ">= 0.97"
    [ $sync = asp ] || continue
    row "$1 Mb/s, asp: up, all headers" "$(mbit "$link_up" "$seconds")" Mb/s "link" "$1" ""
    echo_seconds "$parameters" >"$work/echo"
    row "$1 Mb/s, asp: up, while as much comes down" "$(mbit "$parameters" "$seconds")" Mb/s \
      "TCP echo" "$(mbit "$parameters" "$(cat "$work/echo")")" ">= 0.97"
  done
}

# codecs MBIT MODEL_KIB: bytes on the link, both directions, all headers, of a commit beside f32's.
codecs() {
  shape "$1"
  plain=""
  for codec in f32:1 f16:0.51 int8:0.26 top-k:0.0333; do
    cluster "$2" 64 "${codec%:*}" >"$work/cluster.toml"
    measure asp
    read -r seconds _ _ link_up link_down _ <"$work/line"
    bytes=$((link_up + link_down))
    [ -n "$plain" ] || { plain=$bytes; plain_seconds=$seconds; continue; }
    row "$1 Mb/s, ${codec%:*}: bytes of a commit on the link" "$bytes" B f32 "$plain" \
      "<= ${codec#*:}"
    row "$1 Mb/s, ${codec%:*}: commit + pull" "$seconds" s f32 "$plain_seconds" ""
  done
}

[ -n "$absent" ] || make_link
# The answer to the last chunk has nothing to overlap with: one is as long as the link takes for it
# in about 10 ms.
speed 10 "$((model_kib / 4))" 256
speed 100 "$model_kib" 128
codecs 10 "$((model_kib / 4))"
codecs 100 "$model_kib"

[ -z "$json" ] || printf '[%s\n]\n' "$rows" >"$json"
