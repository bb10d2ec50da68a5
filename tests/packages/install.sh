#!/bin/sh
# `cmake --install` to a directory of its own: the command and the documents' readers find its files
# there, every command has a man page, systemd takes the units, and a program outside the tree links and runs.
# Usage: tests/packages/install.sh BUILD
set -eu
build=$(realpath "$1")
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
fail() { printf 'install: %s\n' "$*" >&2; exit 1; }

# A DESTDIR stands before /etc, too; then the tree moves, and must not notice.
cd "$place"
DESTDIR="$place/new" cmake --install "$build" --prefix /usr >log || fail "$(cat log)"
mv "$place/new" "$place/moved"
root="$place/moved"
rubato="$root/usr/bin/rubato"

# The catalog and the examples of this installation, not of the source tree.
"$rubato" --help | grep -q "compare moved/usr/share/rubato/clusters/edge-3.toml" ||
  fail "--help does not name the installed examples"
cp "$root"/usr/share/doc/rubato-dev/examples/embed/cluster.toml .
mv "$root/usr/share/rubato" "$place/away"
"$rubato" compare cluster.toml --quiet >/dev/null 2>log || true
grep -q "needs the catalog" log || fail "a catalog other than the installed one is found: $(cat log)"
mv "$place/away" "$root/usr/share/rubato"
"$rubato" compare cluster.toml --quiet >log || fail "the installed catalog is not found"

# The files that the documents name are there.
grep -rhoE '/usr/share/rubato(/[A-Za-z0-9_.*-]+)*' "$root/usr/share/doc/rubato" | sort -u |
  while read -r path; do
    # shellcheck disable=SC2086  # a pattern
    ls -d $root$path >/dev/null 2>&1 || fail "the documents name $path, which is not installed"
  done

# check_pages PAGE COMMAND...: the page has every option that --help lists; those of its commands, too.
check_pages() {
  page=$1
  shift
  "$rubato" "$@" --help | sed '/^Examples:/,$d' >"$page.help"
  zcat "$root/usr/share/man/man1/$page.1.gz" | tr -d '\\' >"$page.text"
  for option in $(awk '$1 ~ /^--/ { print $1 }' "$page.help"); do
    grep -q -e "$option" "$page.text" || fail "the man page $page lacks $option"
  done
  for command in $(awk '/^Subcommands:/ { on = 1; next } /^$/ { on = 0 } on { print $1 }' "$page.help"); do
    (check_pages "$page-$command" "$@" "$command")
  done
}
if [ -d "$root/usr/share/man" ]; then
  check_pages rubato
else
  echo "no man pages: help2man is not installed"
fi

if command -v systemd-analyze >/dev/null; then
  mkdir units
  for unit in "$root"/usr/lib/systemd/system/*.service; do
    sed "s,^ExecStart=[^ ]*,ExecStart=$rubato,; s,^Documentation=.*,," "$unit" >"units/${unit##*/}"
  done
  mv units/rubato-worker@.service units/rubato-worker@box.service
  systemd-analyze verify --man=no units/*.service 2>log || fail "$(cat log)"
  [ ! -s log ] || fail "$(cat log)"
  # 10 is unsafe, 0 is locked up.
  for unit in units/*.service; do
    systemd-analyze security --offline=yes --threshold=20 "$unit" >log || fail "$(cat log)"
  done
else
  echo "units not checked: systemd-analyze is not installed"
fi

cached() { sed -n "s/^$1:[A-Z]*=//p" "$build/CMakeCache.txt"; }  # sanitizers are in the flags
cmake -S "$root/usr/share/doc/rubato-dev/examples/embed" -B embed -G Ninja \
  -DCMAKE_PREFIX_PATH="$root/usr" -DCMAKE_CXX_COMPILER="$(cached CMAKE_CXX_COMPILER)" \
  -DCMAKE_CXX_FLAGS="$(cached CMAKE_CXX_FLAGS)" >log 2>&1 || fail "$(cat log)"
cmake --build embed >log 2>&1 || fail "$(cat log)"
cp "$root/usr/share/rubato/devices.toml" .  # the program does not know where the tree moved to
embed/embed cluster.toml | tee log
[ "$(wc -l <log)" -ge 4 ] || fail "the embedding program says too little"
# The scheduler, a server and a worker, all in that program.
embed/nodes "$root/usr/share/doc/rubato-dev/examples/embed/training.toml" | tee log
[ "$(grep -c '^loss ' log)" -ge 2 ] || fail "the program with nodes shows no loss"
grep -qE '^[0-9]+ steps, max_seconds.*: .+\.safetensors$' log || fail "the program with nodes ends otherwise"
[ -s model.safetensors ] || fail "the program with nodes leaves no model"
