#!/bin/bash
# The walk of docs/operations/boxes.md, "From bare boxes to a trained model": its commands, word for word, on
# three bare Debian systems with a network between them and a firewall before the first.
# Root on Debian 12 or 13, eight minutes, 4 GB below TMPDIR. Usage: [RELEASE=trixie] tests/packages/walk.sh [DIRECTORY]
#   DIRECTORY holds the packages; default: deploy/package.sh makes them in build/packages
set -eu
cd "$(dirname "$0")/../.."
. tests/packages/boxes.sh

say "three bare Debian $release"
bare_system head nftables
cat >"$place/head/etc/nftables.conf" <<'END'
table inet filter {
  chain input {
    type filter hook input priority 0; policy drop;
    ct state established,related accept
    iif lo accept
  }
}
END
# What Debian has for the packages is on its disk, for these boxes cannot reach the Internet.
chroot "$place/head" sh -c 'apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq \
  --download-only /root/rubato_*.deb' >"$place/apt.log" 2>&1 || fail "$(cat "$place/apt.log")"
# readings BOX SHIFT: 3,000 measurements of machines that fail when hot or shaking; the boxes' differ.
readings() {
  awk -v shift="$2" 'BEGIN {
    srand(7 + shift); print "temperature,vibration,site,fault"
    for (i = 0; i < 3000; i++) {
      t = 40 + shift + 30 * rand(); v = 5 * rand(); s = rand() < 0.5 ? "roof" : "cellar"
      printf "%.3f,%.3f,%s,%s\n", t, v, s, (t / 20 + v + (s == "roof") > 6.4) ? "yes" : "no"
    }
  }' >"$place/$1/srv/readings.csv"
}
connect_copies 192.168.77
readings north 0
readings south 6
for box in $boxes; do boot "$box"; done
in_box head nft -f /etc/nftables.conf

# The steps: lines "BOXES", each followed by its commands.
mkdir "$place/steps"
awk -v place="$place/steps" '
  function leave() { if (file != "") close(file); file = "" }
  /^## / { leave(); inside = /From bare boxes/ }
  !inside { next }
  /^<!-- on: / {
    leave(); file = sprintf("%s/%02d", place, ++step)
    sub(/^<!-- on: /, ""); sub(/ -->.*/, ""); print > file; next
  }
  /^<!-- carry keys -->/ { leave(); print "carry keys" > sprintf("%s/%02d", place, ++step) }
  /^<!-- carry the model -->/ { leave(); print "carry model" > sprintf("%s/%02d", place, ++step) }
  file != "" && /^    / { print substr($0, 5) > file; next }
  file != "" && /^$/ { print > file; next }
  { leave() }' docs/operations/boxes.md
[ "$(ls "$place/steps" | wc -l)" -ge 20 ] || fail "docs/operations/boxes.md has no walk"

for step in "$place"/steps/*; do
  on=$(head -n 1 "$step")
  case $on in
    "carry keys")
      for box in north south; do
        cp -p "$place/head/etc/rubato/keys/scheduler.pub" "$place/$box/etc/rubato/keys/"
        cp -p "$place/$box/etc/rubato/keys/$box.pub" "$place/head/etc/rubato/keys/"
      done
      continue
      ;;
    "carry model")
      wait_for 300 "the run ends" in_box head sh -c '[ "$(systemctl show -P SubState rubato-scheduler)" = dead ]'
      [ "$(in_box head systemctl show -P ExecMainStatus rubato-scheduler)" = 0 ] || fail "the scheduler failed"
      cp "$place"/head/var/lib/rubato/scheduler/out/latest/best.safetensors "$place/north/srv/"
      continue
      ;;
  esac
  for box in $on; do
    say "$box: $(sed -n 2p "$step") ..."
    { echo "set -e; cd /root"; tail -n +2 "$step"; } >"$place/$box/root/step.sh"
    in_box "$box" sh /root/step.sh >"$place/out" 2>&1 || { cat "$place/out" >&2; fail "$box: $(tail -n +2 "$step")"; }
    tail -n 6 "$place/out"
  done
done

say "what came of it"
in_box head journalctl --no-pager -q -o cat -u rubato-scheduler | grep -E 'goes on with run|is back|revoked|ended|steps' || true
in_box north sh -c 'rubato evaluate /srv/best.safetensors --data /srv/readings.csv --json' >"$place/evaluation"
accuracy=$(sed -n 's/^ *"accuracy": *\([0-9.]*\).*/\1/p' "$place/evaluation" | head -n 1)
printf 'accuracy of best.safetensors: %s\n' "$accuracy"
awk -v accuracy="$accuracy" 'BEGIN { exit !(accuracy > 0.9) }' || fail "the model has learned nothing"
[ "$(in_box north systemctl show -P ExecMainStatus rubato-worker@north)" = 0 ] || fail "north failed"
printf 'walk: all passed\n'
