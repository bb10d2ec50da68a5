#!/bin/sh
# The Debian packages on bare Debian 12, with systemd: two boxes with a network between them. On the
# first `apt install` and three units; the second joins with one key and one line of configuration. Ends with the
# trained model. On the way: a killed node is started again, bad input is not, a stop is no failure,
# and a program that embeds Rubato builds against rubato-dev alone.
# Root on Debian 12, five minutes, 3 GB below TMPDIR. Usage: tests/packages/run.sh [DIRECTORY]
#   DIRECTORY holds the packages; default: deploy/package.sh makes them in build/packages
set -eu
cd "$(dirname "$0")/../.."
skip() { printf 'skipped: %s\n' "$*"; exit 77; }
[ "$(id -u)" -eq 0 ] || skip "boots containers and makes network namespaces, so it needs root"
deploy/install.sh boxes
packages=${1-build/packages}
[ $# -gt 0 ] || deploy/package.sh

place=$(mktemp -d)
say() { printf '== %s\n' "$*"; }
fail() {
  printf 'packages: %s\n' "$*" >&2
  [ -z "${pid_a-}" ] || in_box a journalctl --no-pager -q -n 60 -u 'rubato-*' >&2 || true
  exit 1
}
end() {
  set +e
  for pid in ${spawn_a-} ${spawn_b-}; do kill -KILL "$pid"; done 2>/dev/null
  ip netns delete rubato-box-a 2>/dev/null
  ip netns delete rubato-box-b 2>/dev/null
  sleep 1
  rm -rf "$place"
}
trap end EXIT
trap 'exit 130' INT TERM

say "a bare Debian 12"
mmdebstrap --quiet --variant=minbase --include=systemd,systemd-sysv,iproute2 bookworm "$place/a"

say "apt install ./rubato_*.deb"
cp "$packages"/rubato_*_amd64.deb "$packages"/rubato-dev_*_amd64.deb "$place/a/root/"
chroot "$place/a" sh -c 'apt-get -qq update; DEBIAN_FRONTEND=noninteractive apt-get install -y -qq /root/rubato_*.deb' \
  >"$place/apt.log" 2>&1 || fail "$(cat "$place/apt.log")"
chroot "$place/a" rubato --version
cp -a "$place/a" "$place/b"

say "rubato-dev: a program outside the tree"
cp -a "$place/a" "$place/dev"
chroot "$place/dev" sh -c 'DEBIAN_FRONTEND=noninteractive
  apt-get install -y -qq --no-install-recommends /root/rubato-dev_*.deb make && cd /root &&
  cmake -S /usr/share/doc/rubato-dev/examples/embed -B embed && cmake --build embed' \
  >"$place/apt.log" 2>&1 || fail "$(tail -n 40 "$place/apt.log")"
mount -t proc proc "$place/dev/proc"
chroot "$place/dev" /root/embed/embed /usr/share/doc/rubato-dev/examples/embed/cluster.toml ||
  { umount "$place/dev/proc"; fail "the embedding program fails"; }
umount "$place/dev/proc"
rm -rf "$place/dev"

say "two boxes"
# A minute, so that there is time to kill a server and to add a worker.
sed -i -e '/^target_loss/d' -e 's/^max_seconds.*/max_seconds = 60/' "$place"/[ab]/etc/rubato/cluster.toml
ip netns add rubato-box-a
ip netns add rubato-box-b
ip link add eth-a netns rubato-box-a type veth peer name eth-b netns rubato-box-b
for box in a:1 b:2; do
  ip -n "rubato-box-${box%:*}" address add "10.77.0.${box#*:}/24" dev "eth-${box%:*}"
  ip -n "rubato-box-${box%:*}" link set "eth-${box%:*}" up
  ip -n "rubato-box-${box%:*}" link set lo up
done
# Box a listens to others.
sed -i -e 's,^SCHEDULER_BIND=.*,SCHEDULER_BIND=tcp://10.77.0.1:5700,' \
  -e 's,^SCHEDULER=.*,SCHEDULER=tcp://10.77.0.1:5700,' \
  -e 's,^SERVER_BIND=.*,SERVER_BIND=tcp://10.77.0.1:5701,' "$place/a/etc/rubato/rubato.conf"
# Box b needs one line, and a key.
sed -i 's,^SCHEDULER=.*,SCHEDULER=tcp://10.77.0.1:5700,' "$place/b/etc/rubato/rubato.conf"
# key BOX COMMAND...: as the user of the services.
key() {
  box=$1
  shift
  chroot "$place/$box" runuser -u rubato -- rubato "$@" --keys /etc/rubato/keys
}
key a keygen scheduler --role scheduler
key a keygen server-0 --role server
key a keygen box --role worker
for node in server-0 box; do key a keys allow "/etc/rubato/keys/$node.pub"; done
for node in attic shed; do
  key b keygen "$node" --role worker
  cp -p "$place/b/etc/rubato/keys/$node.pub" "$place/a/etc/rubato/keys/"
  key a keys allow "/etc/rubato/keys/$node.pub"
done
cp -p "$place/a/etc/rubato/keys/scheduler.pub" "$place/b/etc/rubato/keys/"

# boot BOX: starts systemd in it. Its process is then pid_BOX, as seen from here.
boot() {
  systemd-nspawn --quiet --boot --register=no --keep-unit --directory="$place/$1" \
    --network-namespace-path="/run/netns/rubato-box-$1" >"$place/$1.log" 2>&1 </dev/null &
  eval "spawn_$1=$!"
  for _ in $(seq 60); do
    pid=$(pgrep -P $! | head -n 1 || true)
    if [ -n "$pid" ]; then
      eval "pid_$1=$pid"
      if in_box "$1" systemctl is-system-running --wait >/dev/null 2>&1 ||
        in_box "$1" systemctl is-active -q multi-user.target 2>/dev/null; then return; fi
    fi
    sleep 1
  done
  fail "box $1 does not boot: $(tail -n 20 "$place/$1.log")"
}
in_box() {
  eval "pid=\$pid_$1"
  shift
  nsenter --target "$pid" --all -- "$@"
}
# wait_for SECONDS WHAT COMMAND...
wait_for() {
  seconds=$1 what=$2
  shift 2
  for _ in $(seq "$seconds"); do
    if "$@" >/dev/null 2>&1; then return; fi
    sleep 1
  done
  fail "$what: not within $seconds s"
}
boot a
boot b

say "three units"
in_box a systemctl start rubato-scheduler rubato-server rubato-worker@box
wait_for 30 "training starts" in_box a sh -c 'journalctl -u rubato-scheduler | grep -q "training starts"'
for unit in scheduler server worker@box; do
  in_box a systemctl is-active -q "rubato-$unit" || fail "rubato-$unit does not run"
done
wait_for 10 "worker and server share memory" in_box a sh -c \
  'journalctl -u rubato-worker@box | grep -q "tcp://10.77.0.1:5701: shared memory"'
in_box a systemd-analyze security --no-pager rubato-scheduler rubato-server rubato-worker@box |
  grep -i overall || true

say "a worker box, added with one key and one line: $(grep ^SCHEDULER= "$place/b/etc/rubato/rubato.conf")"
in_box b systemctl start rubato-worker@attic

say "a killed server is started again; bad input is not; a stop is no failure"
in_box a systemctl kill --signal=KILL rubato-server
wait_for 30 "the server comes back" in_box a sh -c '[ "$(systemctl show -P NRestarts rubato-server)" = 1 ] &&
  systemctl is-active -q rubato-server'
in_box b sh -c 'echo "WORKER_OPTIONS=--like nobody" >/etc/rubato/worker-cellar.conf'
in_box b systemctl start rubato-worker@cellar || true
wait_for 20 "bad input ends a node" in_box b sh -c '[ "$(systemctl is-failed rubato-worker@cellar)" = failed ]'
[ "$(in_box b systemctl show -P ExecMainStatus rubato-worker@cellar)" = 2 ] || fail "not exit code 2"
[ "$(in_box b systemctl show -P NRestarts rubato-worker@cellar)" = 0 ] || fail "bad input is started again"
in_box b systemctl start rubato-worker@shed
in_box b systemctl stop rubato-worker@shed
[ "$(in_box b systemctl show -P Result rubato-worker@shed)" = success ] || fail "a stop is a failure"

say "the trained model"
wait_for 300 "the run ends" in_box a sh -c '[ "$(systemctl show -P SubState rubato-scheduler)" = dead ]'
[ "$(in_box a systemctl show -P ExecMainStatus rubato-scheduler)" = 0 ] || fail "the scheduler failed"
wait_for 20 "the worker box ends" in_box b sh -c '[ "$(systemctl show -P SubState rubato-worker@attic)" = dead ]'
[ "$(in_box b systemctl show -P ExecMainStatus rubato-worker@attic)" = 0 ] || fail "the worker box failed"
results=/var/lib/rubato/scheduler/results
in_box a journalctl --no-pager -q -o cat -u rubato-scheduler -n 8
in_box b journalctl --no-pager -q -o cat -u rubato-worker@attic -n 2
in_box a grep -q '"attic"' "$results/results.json" || fail "the worker box has done nothing"
in_box a rubato evaluate "$results/best.safetensors" --data /usr/share/datasets/fashion-mnist --json \
  >"$place/evaluation"
accuracy=$(sed -n 's/^ *"accuracy": *\([0-9.]*\).*/\1/p' "$place/evaluation" | head -n 1)
printf 'accuracy of best.safetensors: %s\n' "$accuracy"
awk -v accuracy="$accuracy" 'BEGIN { exit !(accuracy > 0.8) }' || fail "the model has learned nothing"
say "apt purge"
in_box a sh -c 'DEBIAN_FRONTEND=noninteractive apt-get purge -y -qq rubato' >"$place/apt.log" 2>&1 ||
  fail "$(cat "$place/apt.log")"
[ -f "$place/a/var/lib/rubato/scheduler/results/best.safetensors" ] || fail "purge removed the model"
[ ! -e "$place/a/etc/rubato" ] || fail "purge left $(ls -R "$place/a/etc/rubato")"
printf 'packages: all passed\n'
