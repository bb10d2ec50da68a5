#!/bin/bash
# A cluster in containers: 1 scheduler, 2 servers and 6 unequal workers with shaped links train to the
# target under ADSP. A worker is killed and comes back. Results stay in their volume after `down`.
# Then the same as a stack on a swarm of one node, where the engine may be one.
# Needs Docker with Compose, and the image debian:bookworm-slim or IMAGE.
# Usage: tests/containers.sh [RUBATO [IMAGE]]   default: build/dev/cli/rubato; builds deploy/Dockerfile
set -euo pipefail
cd "$(dirname "$0")/.."
rubato=$(realpath "${1-build/dev/cli/rubato}")
image=${2-rubato}
skip() { echo "skipped: $*"; exit 77; }
fail() { printf 'containers: %s\n' "$*" >&2; exit 1; }
docker info >/dev/null 2>&1 || skip "no Docker daemon answers; start dockerd, and run this as a user of it"
if command -v docker-compose >/dev/null; then compose=(docker-compose)
elif docker compose version >/dev/null 2>&1; then compose=(docker compose)
else skip "neither docker-compose nor docker compose is here"; fi
[[ $# -gt 1 ]] || docker build -q -t "$image" -f deploy/Dockerfile .

name=rubato-containers-test-$$
place=$(mktemp -d)
joined=  # the swarm is ours to leave
here() { "${compose[@]}" -p "$name" -f "$place/compose.yaml" "$@"; }
end() {
  docker stack rm "$name" >/dev/null 2>&1 || true
  [[ -z $joined ]] || docker swarm leave --force >/dev/null 2>&1 || true
  here down -v >/dev/null 2>&1 || true
  docker volume ls -q --filter "name=^${name}_" | xargs -r docker volume rm -f >/dev/null 2>&1 || true
  rm -rf "$place"
}
trap end EXIT

cp tests/containers.toml "$place/cluster.toml"
chmod 755 "$place"
chmod 644 "$place/cluster.toml"
cd "$place"
"$rubato" compose cluster.toml --sync adsp --image "$image" >compose.yaml

# within SECONDS WHAT COMMAND...: until the command succeeds.
within() {
  local until=$((SECONDS + $1)) what=$2
  shift 2
  until "$@"; do
    ((SECONDS < until)) || { here logs --tail 5 2>/dev/null; fail "not within its time: $what"; }
    sleep 1
  done
}
id_of() {
  docker ps -aq -f "label=com.docker.compose.project=$name" -f "label=com.docker.compose.service=$1"
}
says() { docker logs "$(id_of "$1")" 2>&1 | grep -q "$2"; }
restarted() { (($(docker inspect -f '{{.RestartCount}}' "$(id_of "$1")") > 0)); }
is_well() { [[ $(docker inspect -f '{{.State.Health.Status}}' "$(id_of "$1")") == healthy ]]; }
# A run's results are read by a container that can see nothing else.
result() { docker run --rm -v "$1:/kept:ro" --entrypoint cat "$image" "/kept/results/$2"; }
reached() { result "$1" results.json | grep -q '"stop_reason": "target reached'; }

here up -d >up.log 2>&1 || fail "up: $(tail -n 3 up.log)"
workers=$("$rubato" compose cluster.toml | sed -n 's/^  \(pi-[0-9]\|slow-[0-9]\):$/\1/p' | sort -u)
[[ $(wc -w <<<"$workers") == 6 ]] || fail "not 6 workers: $workers"
for node in scheduler server-0 server-1 $workers; do
  within 180 "$node is well" is_well "$node"
  [[ $(docker exec "$(id_of "$node")" id -u) != 0 ]] || fail "$node runs as root"
  docker exec "$(id_of "$node")" sh -c 'ls /keys/*.key' | grep -qx "/keys/$node.key" ||
    fail "$node sees another's key, or none"
done
echo "all nodes are well"
[[ $(docker inspect -f '{{.HostConfig.NanoCpus}}' "$(id_of slow-0)") == 330000000 ]] ||
  fail "slow-0 has not a third of a CPU"
[[ $(docker inspect -f '{{.HostConfig.Memory}}' "$(id_of slow-0)") == $((512 << 20)) ]] ||
  fail "slow-0 has not the memory of its device"

docker exec "$(id_of pi-1)" bash -c 'kill -KILL $(for p in /proc/[0-9]*; do
  [ "$(readlink $p/exe)" = /usr/bin/rubato ] && echo ${p#/proc/}; done)' || true
within 60 "pi-1 is started again" restarted pi-1
within 120 "pi-1 is well again" is_well pi-1
echo "a killed worker came back"

scheduler=$(id_of scheduler)
[[ $(timeout 900 docker wait "$scheduler") == 0 ]] || fail "the run failed: $(docker logs "$scheduler" 2>&1 | tail -n 3)"
docker logs "$scheduler" 2>/dev/null
here down >/dev/null 2>&1
reached "${name}_results" || fail "the target is not reached, or the results are lost"
result "${name}_results" best.safetensors >/dev/null || fail "the volume has no model"
echo "trained to the target; the results are there after down"

# The same on a swarm of one node.
if [[ $(docker info -f '{{.Swarm.LocalNodeState}}') == inactive ]]; then
  docker swarm init --advertise-addr 127.0.0.1 >/dev/null 2>&1 ||
    { echo "no swarm: this engine cannot be one"; exit 0; }
  joined=yes
fi
here down -v >/dev/null 2>&1
"$rubato" keygen --cluster cluster.toml --keys keys
"$rubato" compose --swarm cluster.toml --sync adsp --image "$image" >stack.yaml
docker stack deploy --resolve-image never -c stack.yaml "$name" >up.log 2>&1 || fail "stack: $(tail -n 3 up.log)"
ended() { docker service ps -f desired-state=shutdown "${name}_scheduler" --format '{{.CurrentState}}' | grep -q '^Complete'; }
until=$((SECONDS + 900))
until ended; do
  if ((SECONDS > until)); then
    docker service ps "${name}_scheduler" "${name}_server-0" "${name}_pi-0" --no-trunc
    docker service logs --tail 5 "${name}_scheduler"
    fail "the stack does not end its run"
  fi
  sleep 2
done
docker stack rm "$name" >/dev/null
within 60 "the stack's containers are gone" \
  sh -c "[ -z \"\$(docker ps -q --filter label=com.docker.stack.namespace=$name)\" ]"
reached "${name}_results" || fail "the stack did not reach the target"
echo "trained to the target on a swarm"
