#!/bin/bash
# The first page of docs/python.md, "From the installation to a trained model": its commands, word for
# word, on a bare Debian, from `apt install` to the accuracy of a trained model. Prints the time.
# Root on Debian 12 or 13, three minutes, 2 GB below TMPDIR. Usage: [RELEASE=trixie] tests/packages/page.sh [DIRECTORY]
#   DIRECTORY holds the packages; default: deploy/package.sh makes them in build/packages
set -eu
cd "$(dirname "$0")/../.."
. tests/packages/boxes.sh

say "a bare Debian $release"
bare_system box sudo
root=$place/box
# inside COMMAND...: in the box, as root at home.
inside() {
  unshare --mount --pid --fork --kill-child sh -c '
    root=$1; shift
    mount -t proc proc "$root/proc"
    mount --rbind /dev "$root/dev"
    exec chroot "$root" env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 env -C /root "$@"' \
    sh "$root" "$@"
}
inside apt-get -qq update
# Nobody is here to answer apt.
echo 'APT::Get::Assume-Yes "true";' >"$root/etc/apt/apt.conf.d/90yes"
echo 'force-unsafe-io' >"$root/etc/dpkg/dpkg.cfg.d/quick"

# The page's other way, without packages, is left out: tests/debian13.sh quickstart.
PYTHONPATH=tests PYTHONDONTWRITEBYTECODE=1 python3 - >"$root/root/page.sh" <<'END_OF_PYTHON'
import documents

page = documents.read("docs/python.md")
print("set -e")
for line in documents.printed_lines("docs/python.md", page):
    if line.section == "From the installation to a trained model" and not line.text.startswith(
            ("./deploy/", "sudo apt install python3-torch", "export ")):
        print(line.text)
END_OF_PYTHON
say "the commands"
commands='^(sudo|mkdir|cat|RUBATO_ALONE=1|python3|rubato) '
grep -E "$commands" "$root/root/page.sh"
[ "$(grep -cE "$commands" "$root/root/page.sh")" -ge 9 ] ||
  fail "docs/python.md has no first page"
began=$(date +%s)
inside bash page.sh >"$place/out" 2>&1 || { tail -n 60 "$place/out" >&2; fail "the page does not work"; }
seconds=$(($(date +%s) - began))
say "what it prints"
grep -E '^(Model|BSP|ADSP|Tempo)  ' "$place/out"
tail -n 1 "$place/out"
[ "$(grep -cE '^(BSP|ADSP|Tempo)  ' "$place/out")" -eq 4 ] || fail "no table of compare, or of up"
awk '$1 == "accuracy" { found = $2 } END { exit !(found >= 0.99) }' "$place/out" ||
  fail "the model has learned nothing"
printf 'page: %s s from apt install to a trained model\n' "$seconds"
printf 'page: all passed\n'
