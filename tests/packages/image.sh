#!/bin/sh
# The container image: its size, its user, results in a volume, and its health check on a scheduler, a
# server and a worker, well and not well.
# Needs Docker and the image debian:bookworm-slim (docs/containers.md makes one without a registry).
# Usage: tests/packages/image.sh [IMAGE]   default: builds deploy/Dockerfile as `rubato`
set -eu
cd "$(dirname "$0")/../.."
docker info >/dev/null 2>&1 || { echo "skipped: no Docker daemon answers"; exit 77; }
image=${1-rubato}
[ $# -gt 0 ] || docker build -q -t "$image" -f deploy/Dockerfile .
fail() { printf 'image: %s\n' "$*" >&2; exit 1; }

name=rubato-image-test-$$
place=$(mktemp -d)
end() {
  docker rm -f -v "$name-scheduler" "$name-server" "$name-worker" >/dev/null 2>&1 || true
  docker volume rm -f "$name" >/dev/null 2>&1 || true
  docker network rm "$name" >/dev/null 2>&1 || true
  rm -rf "$place"
}
trap end EXIT

bytes=$(docker inspect -f '{{.Size}}' "$image")
printf '%s: %s MB\n' "$image" $((bytes / 1000000))
[ "$bytes" -lt 150000000 ] || fail "150 MB or more"
[ "$(docker run --rm --entrypoint id "$image" -u)" != 0 ] || fail "it runs as root"

sed 's/^max_seconds = .*/max_seconds = 600/; s/^kind = "timing"/kind = "mlp"/; /^parameters/d' \
  examples/embed/cluster.toml >"$place/cluster.toml"
printf '\n[dataset]\nkind = "blobs"\n' >>"$place/cluster.toml"
chmod 755 "$place"
chmod 644 "$place/cluster.toml"
docker run --rm -v "$place/cluster.toml:/cluster.toml:ro" -v "$name:/var/lib/rubato" "$image" \
  compare /cluster.toml --sync adsp --quiet --save --out results
docker run --rm -v "$name:/results:ro" --entrypoint ls "$image" /results/results/adsp-1 |
  grep -qx model.safetensors || fail "the volume has no model"

docker network create "$name" >/dev/null
# start ROLE OPTION...
start() {
  role=$1
  shift
  docker run -d --init --name "$name-$role" --network "$name" \
    -v "$place/cluster.toml:/cluster.toml:ro" "$image" "$role" /cluster.toml "$@" >/dev/null
}
health() { docker exec "$name-$1" rubato-health; }
# becomes_well ROLE: within 30 s.
becomes_well() {
  for _ in $(seq 30); do
    if health "$1" >/dev/null 2>&1; then return; fi
    sleep 1
  done
  health "$1" || fail "the $1 is not well"
}
start scheduler --bind tcp://0.0.0.0:5700 --insecure
start server --scheduler "tcp://$name-scheduler:5700" --bind tcp://0.0.0.0:5701 \
  --advertise "tcp://$name-server:5701" --insecure
start worker --scheduler "tcp://$name-scheduler:5700" --name phone --insecure
for role in scheduler server worker; do becomes_well "$role"; done

# A process that is stopped does not answer; a worker without its scheduler has no connection.
docker exec "$name-server" bash -c 'kill -STOP $(for p in /proc/[0-9]*; do
  [ "$(readlink $p/exe)" = /usr/bin/rubato ] && echo ${p#/proc/}; done)'
if health server; then fail "a stopped server is well"; fi
docker rm -f -v "$name-scheduler" >/dev/null
sleep 2
if health worker; then fail "a worker without a scheduler is well"; fi
printf 'image: all passed\n'
