#!/bin/sh
# Installs the Debian packages of deploy/dependencies.txt that are missing; where none is missing it
# touches neither network nor system.
# Usage: deploy/install.sh [GROUP...]   groups as in that file; default: build run test
set -eu
list="$(dirname "$0")/dependencies.txt"
[ $# -gt 0 ] || set -- build run test

say() { printf 'install: %s\n' "$*"; }
fail() { say "$*" >&2; exit 1; }

wanted=""
for group in "$@"; do
  packages=$(awk -v group="$group" '$1 == group { print $2 }' "$list")
  [ -n "$packages" ] || fail "no group '$group' in $list (there are: build, run, test, check, fuzz, bench, browser, engines, onnx, peers, arm64, package, slurm, kubernetes, boxes)"
  wanted="$wanted $packages"
done

command -v dpkg-query >/dev/null ||
  fail "this system has no dpkg; install by hand what $list names, then build with CMake"

missing=""
for package in $wanted; do
  status=$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null || true)
  [ "$status" = installed ] || missing="$missing $package"
done
if [ -z "$missing" ]; then
  say "all packages are there ($*)"
  exit 0
fi

as_root=""
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || fail "run as root, or install by hand:$missing"
  as_root="sudo"
fi
say "installing (a few minutes)$missing"
# shellcheck disable=SC2086  # lists of words, and an empty $as_root
{
  $as_root apt-get -qq update || say "apt-get update failed; trying the lists already here"
  $as_root env DEBIAN_FRONTEND=noninteractive DEBCONF_NOWARNINGS=yes \
    apt-get -qq install --yes --no-install-recommends $missing >/dev/null ||
    fail "apt-get could not install:$missing"
}
say "done"
