#!/bin/sh
# Removes from a container whatever `rubato` does not need at run time: documents, translations, and
# the tools that install packages. The list of installed packages stays right for scanners.
# Usage: deploy/slim.sh   in a container that is to be an image, never on a machine
set -eu
[ -f /.dockerenv ] || [ "${1-}" = --really ] || { echo "slim: this is no container" >&2; exit 1; }

# OpenBLAS brings a LAPACK of its own, which rubato does not call.
find / -xdev -name 'liblapack.so*' -delete
rm -rf /usr/share/doc /usr/share/man /usr/share/info /usr/share/locale /usr/share/lintian \
  /usr/share/zoneinfo /usr/lib/*/gconv /var/lib/apt/lists /var/cache/apt /var/cache/debconf /var/log/* \
  /tmp/*
