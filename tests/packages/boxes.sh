# tests/packages/boxes.sh - bare Debian systems with systemd and a network between them, for the
# scripts beside it: they source it. Root on Debian 12 or 13; 1 GB below TMPDIR for each box.
# It sets `packages`, the directory of the packages, from the script's first argument, and `place`, a
# directory that goes with the script. `release`, the one of the boxes, is RELEASE in the environment
# (bookworm, trixie), or that of this machine.

skip() { printf 'skipped: %s\n' "$*"; exit 77; }
[ "$(id -u)" -eq 0 ] || skip "boots containers and makes network namespaces, so it needs root"
deploy/install.sh boxes
packages=${1-build/packages}
[ $# -gt 0 ] || deploy/package.sh

release=${RELEASE:-$(. /etc/os-release && echo "$VERSION_CODENAME")}
place=$(mktemp -d)
unset TMPDIR  # what runs in a box would look for it there
boxes=
say() { printf '== %s\n' "$*"; }
fail() {
  printf 'packages: %s\n' "$*" >&2
  for box in $boxes; do
    eval "pid=\${pid_$box-}"
    [ -z "$pid" ] || in_box "$box" journalctl --no-pager -q -n 40 -u 'rubato-*' >&2 || true
  done
  exit 1
}
end() {
  set +e
  for box in $boxes; do
    eval "kill -KILL \${spawn_$box-}" 2>/dev/null
    ip netns delete "rubato-$box" 2>/dev/null
  done
  ip netns delete rubato-switch 2>/dev/null
  sleep 1
  rm -rf "$place" 2>/dev/null || { sleep 5; rm -rf "$place"; }  # while they still end
}
trap end EXIT
trap 'exit 130' INT TERM

# bare_system NAME [PACKAGE,PACKAGE]: in place/NAME, of the release, with these of Debian, and ours
# in /root.
bare_system() {
  mmdebstrap --quiet --variant=minbase --include="systemd,systemd-sysv,iproute2${2:+,$2}" "$release" "$place/$1"
  cp "$packages"/*.deb "$place/$1/root/"
}

# connect NAME ADDRESS/BITS: the box whose system is place/NAME has this address in their network.
connect() {
  if [ -z "$boxes" ]; then
    ip netns add rubato-switch
    ip -n rubato-switch link add switch type bridge
    ip -n rubato-switch link set switch up
  fi
  boxes="$boxes $1"
  ip netns add "rubato-$1"
  ip link add eth0 netns "rubato-$1" type veth peer name "box-$1" netns rubato-switch
  ip -n rubato-switch link set dev "box-$1" master switch up
  ip -n "rubato-$1" address add "$2" dev eth0
  ip -n "rubato-$1" link set eth0 up
  ip -n "rubato-$1" link set lo up
}

# connect_copies NETWORK: head, north and south, with the system of head, at NETWORK.1 and up.
connect_copies() {
  address=1
  for box in head north south; do
    [ "$box" = head ] || cp -a "$place/head" "$place/$box"
    connect "$box" "$1.$address/24"
    address=$((address + 1))
  done
}

# boot NAME: starts systemd in it. Its process is then pid_NAME, as seen from here.
boot() {
  systemd-nspawn --quiet --boot --register=no --keep-unit --directory="$place/$1" \
    --network-namespace-path="/run/netns/rubato-$1" >"$place/$1.log" 2>&1 </dev/null &
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
