#!/bin/sh
# `rubato boxes` on three bare Debian systems with systemd, a network between them, and OpenSSH: start
# installs the package, carries keys and file, and starts the services; status and fetch --wait follow;
# a second start goes on, and one with --new trains anew; the printed script does the same by hand.
# Root on Debian 12 or 13, four minutes, 3 GB below TMPDIR. Usage: [RELEASE=trixie] tests/packages/remote.sh [DIRECTORY]
#   DIRECTORY holds the packages; default: deploy/package.sh makes them in build/packages
set -eu
cd "$(dirname "$0")/../.."
. tests/packages/boxes.sh

say "three bare Debian $release with OpenSSH"
bare_system head openssh-server
# What Debian has for the package is on its disk, for these boxes cannot reach the Internet.
chroot "$place/head" sh -c 'apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq \
  --download-only /root/rubato_*.deb && rm /root/*.deb' >"$place/apt.log" 2>&1 || fail "$(cat "$place/apt.log")"
ssh-keygen -q -t ed25519 -N '' -f "$place/key"
mkdir -p -m 700 "$place/head/root/.ssh"
cp "$place/key.pub" "$place/head/root/.ssh/authorized_keys"
mkdir "$place/head/srv/data"
connect_copies 192.168.78
for box in $boxes; do cp examples/csv/machines.csv "$place/$box/srv/data/"; done
for box in $boxes; do boot "$box"; done
# The user's own machine is a neighbour of the boxes.
ip -n rubato-switch address add 192.168.78.100/24 dev switch
ip -n rubato-switch link set lo up

cat >"$place/machines.toml" <<'END'
name = "machines"
[[workers]]
name = "fast"
data = "/srv/data/machines.csv"
[[workers]]
name = "slow"
data = "/srv/data/machines.csv"
[dataset]
kind = "csv"
partition = "local"
label_column = "state"
[sync.adsp]
check_period_seconds = 2
[stop]
max_seconds = 20
[boxes]
scheduler = "root@192.168.78.1"
fast = "root@192.168.78.2"
slow = "root@192.168.78.3"
END

dpkg-deb -x "$packages"/rubato_*_amd64.deb "$place/here"
ssh="ssh -i $place/key -o UserKnownHostsFile=$place/hosts -o StrictHostKeyChecking=accept-new"
# boxes COMMAND...: as the user types it
boxes_command() {
  command=$1
  shift
  (cd "$place" && ip netns exec rubato-switch env "LD_LIBRARY_PATH=$place/here/usr/lib/x86_64-linux-gnu/rubato" \
    "$place/here/usr/bin/rubato" boxes "$command" machines.toml --ssh "$ssh" "$@")
}
start() { boxes_command start --package "$(realpath "$packages"/rubato_*_amd64.deb)" "$@"; }

say "start"
start || fail "start"
say "status"
boxes_command status || fail "status"
say "fetch --wait"
boxes_command fetch --wait || fail "fetch"
model=$(echo "$place"/out/machines-*-1/best.safetensors)
[ -e "$model" ] || fail "no model was fetched"
[ -s "$place"/out/latest/logs/slow.log ] || fail "no log of a worker was fetched"
[ "$(stat -c %a "$place/head/etc/rubato/keys/scheduler.key")" = 600 ] || fail "others may read a secret key"
[ ! -e "$place/north/etc/rubato/keys/scheduler.key" ] || fail "a secret key has left its box"

say "a start of what has ended says so; with --new it trains anew"
start | tee "$place/again" || fail "a second start"
grep -q "has ended" "$place/again" || fail "it does not say that the run has ended"
start --new || fail "start --new"
boxes_command stop || fail "stop"
[ "$(in_box north systemctl is-active rubato-worker@fast || true)" = inactive ] || fail "a stop left a worker"

say "the printed script, by hand"
boxes_command start --new --dry-run >"$place/start.sh"
(cd "$place" && ip netns exec rubato-switch sh start.sh) || fail "the printed script"
boxes_command fetch --wait --out by-hand || fail "fetch"

say "what came of it"
rubato="env LD_LIBRARY_PATH=$place/here/usr/lib/x86_64-linux-gnu/rubato $place/here/usr/bin/rubato"
for run in "$place"/out/machines-*-1 "$place/by-hand"; do
  $rubato evaluate "$run/best.safetensors" --data examples/csv/new.csv --json >"$place/evaluation"
  accuracy=$(sed -n 's/^ *"accuracy": *\([0-9.]*\).*/\1/p' "$place/evaluation" | head -n 1)
  printf 'accuracy of best.safetensors: %s\n' "$accuracy"
  awk -v accuracy="$accuracy" 'BEGIN { exit !(accuracy > 0.7) }' || fail "the model has learned nothing"
done
printf 'remote: all passed\n'
