#!/bin/sh
# The Debian packages on bare Debian, with systemd: two boxes with a network between them. On the
# first `apt install` and three units; the second joins with one key and one line of configuration. Ends with the
# trained model. On the way: a killed node is started again, bad input is not, a stop is no failure,
# and a program that embeds Rubato builds against rubato-dev alone.
# Root on Debian 12 or 13, five minutes, 3 GB below TMPDIR.
# Usage: [RELEASE=trixie] tests/packages/run.sh [DIRECTORY [OTHER-DIRECTORY OTHER-RELEASE]]
#   DIRECTORY holds the packages; default: deploy/package.sh makes them in build/packages. RELEASE is the
#   one of the boxes; default: of this machine. The second box may be of another release.
set -eu
cd "$(dirname "$0")/../.."
. tests/packages/boxes.sh

# box_with_rubato NAME: a bare system of the release, and on it `apt install`.
box_with_rubato() {
  say "a bare Debian $release: apt install ./rubato_*.deb"
  bare_system "$1"
  chroot "$place/$1" sh -c 'apt-get -qq update; DEBIAN_FRONTEND=noninteractive apt-get install -y -qq /root/rubato_*.deb' \
    >"$place/apt.log" 2>&1 || fail "$(cat "$place/apt.log")"
  chroot "$place/$1" rubato --version
}
box_with_rubato a
if [ $# -lt 3 ]; then
  cp -a "$place/a" "$place/b"
else
  packages=$2 release=$3
  box_with_rubato b
fi

say "rubato-dev: a program outside the tree"
cp -a "$place/a" "$place/dev"
chroot "$place/dev" sh -c 'DEBIAN_FRONTEND=noninteractive
  apt-get install -y -qq --no-install-recommends /root/librubato0_*.deb /root/rubato-dev_*.deb make && cd /root &&
  cmake -S /usr/share/doc/rubato-dev/examples/embed -B embed && cmake --build embed' \
  >"$place/apt.log" 2>&1 || fail "$(tail -n 40 "$place/apt.log")"
mount -t proc proc "$place/dev/proc"
chroot "$place/dev" /root/embed/embed /usr/share/doc/rubato-dev/examples/embed/cluster.toml ||
  { umount "$place/dev/proc"; fail "the embedding program fails"; }
umount "$place/dev/proc"
rm -rf "$place/dev"

say "two boxes"
# A minute or so, so that there is time to kill a server and to add a worker: a step takes as long as
# the cluster file says.
sed -i -e 's/^target_loss.*/target_loss = 0.38/' "$place"/[ab]/etc/rubato/cluster.toml
sed -i 's,^WORKER_OPTIONS=.*,WORKER_OPTIONS=--stretch,' "$place"/[ab]/etc/rubato/rubato.conf
connect a 10.77.0.1/24
connect b 10.77.0.2/24
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
in_box a sh -c 'journalctl -u rubato-scheduler | grep -q "target reached"' || fail "the target is not reached"
wait_for 20 "the worker box ends" in_box b sh -c '[ "$(systemctl show -P SubState rubato-worker@attic)" = dead ]'
[ "$(in_box b systemctl show -P ExecMainStatus rubato-worker@attic)" = 0 ] || fail "the worker box failed"
results=/var/lib/rubato/scheduler/out/latest
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
ls "$place"/a/var/lib/rubato/scheduler/out/*/best.safetensors >/dev/null || fail "purge removed the model"
[ "$(ls "$place/a/etc/rubato")" = keys ] || fail "purge left $(ls "$place/a/etc/rubato"), not the keys alone"
printf 'packages: all passed\n'
