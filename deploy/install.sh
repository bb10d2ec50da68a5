#!/bin/sh
# Installs the Debian packages of deploy/dependencies.txt that are missing; where none is missing it
# touches neither network nor system. docs/operations/install.md has a table of the systems that it is for.
# Usage: deploy/install.sh [GROUP...]         groups as in that file; default: build run test
#        deploy/install.sh --list GROUP...    prints the names that these packages have here
set -eu
list="$(dirname "$0")/dependencies.txt"
print_only=""
if [ "${1-}" = --list ]; then print_only=yes; shift; fi
[ $# -gt 0 ] || set -- build run test

say() { printf 'install: %s\n' "$*"; }
fail() { say "$*" >&2; exit 1; }

wanted=""
for group in "$@"; do
  packages=$(awk -v group="$group" '$1 == group { print $2 }' "$list")
  [ -n "$packages" ] || fail "no group '$group' in $list (there are: $(awk '/^[a-z]/ { print $1 }' "$list" | uniq | paste -s -d ' '))"
  wanted="$wanted $packages"
done

command -v dpkg-query >/dev/null ||
  fail "this system has no dpkg; install by hand what $list names, then build with CMake"

is_installed() {
  [ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null || true)" = installed ]
}
# choose PACKAGE|PACKAGE...: the one that is installed, or the first that this release has.
choose() {
  names=$(printf '%s' "$1" | tr '|' ' ')
  for name in $names; do
    if is_installed "$name"; then printf '%s\n' "$name"; return; fi
  done
  for name in $names; do
    if apt-cache show "$name" 2>/dev/null | grep -q .; then printf '%s\n' "$name"; return; fi
  done
  printf '%s\n' "${names%% *}"
}

if [ -n "$print_only" ]; then
  for entry in $wanted; do choose "$entry"; done | sort -u
  exit 0
fi

missing=""
for entry in $wanted; do
  is_installed "$(choose "$entry")" || missing="$missing $entry"
done
if [ -z "$missing" ]; then
  say "all packages are there ($*)"
  exit 0
fi

system=$(. /etc/os-release && printf '%s %s' "${ID-}" "${VERSION_ID-}")
case $system in
  "debian 12" | "debian 13") ;;
  "debian 1"[01] | "debian "?) fail "this is Debian ${system#* }; Rubato needs 12 or 13" ;;
  *) say "not tested on $system: its packages may have other names than those of Debian 12 and 13" ;;
esac

as_root=""
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || fail "run as root, or install by hand:$missing"
  as_root="sudo"
fi
$as_root apt-get -qq update || say "apt-get update failed; trying the lists already here"
chosen=""
for entry in $missing; do chosen="$chosen $(choose "$entry")"; done
say "installing (a few minutes)$chosen"
# shellcheck disable=SC2086  # lists of words, and an empty $as_root
$as_root env DEBIAN_FRONTEND=noninteractive DEBCONF_NOWARNINGS=yes \
  apt-get -qq install --yes --no-install-recommends $chosen >/dev/null ||
  fail "apt-get could not install:$chosen"
say "done"
