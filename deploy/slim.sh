#!/bin/sh
# Removes from the image whatever `rubato` and its health check do not need: the tools that install
# packages and manage users and disks, documents, translations. The list of packages stays right, for
# scanners. docs/containers.md says what is left.
# Usage: deploy/slim.sh --image   while an image is built, never on a machine: apt is gone afterwards
set -eu
[ "${1-}" = --image ] || { echo "slim: removes apt; say --image if this is to be an image" >&2; exit 1; }

# Scripts of packages that go need others that go, in an order that dpkg does not keep.
rm -f /var/lib/dpkg/info/*.prerm /var/lib/dpkg/info/*.postrm

# shellcheck disable=SC2046  # a list of words; names that are not installed are left out
dpkg --purge --force-all $(dpkg-query -W -f='${Package}\n' \
  adduser apt debconf debian-archive-keyring diffutils e2fsprogs gpgv init-system-helpers \
  libapt-pkg6.0 libdb5.3 libdebconfclient0 libext2fs2 libffi8 libgcrypt20 libgdbm6 \
  libgdbm-compat4 libgmp10 libgnutls30 libgpg-error0 libhogweed6 libidn2-0 libnettle8 libp11-kit0 \
  'libpam*' 'libperl5*' libseccomp2 libsemanage2 libsemanage-common libsepol2 libss2 libtasn1-6 \
  libunistring2 login logsave mount ncurses-bin passwd perl perl-base 'perl-modules*' \
  sysvinit-utils tzdata 2>/dev/null | sort -u) >/tmp/purged 2>&1 ||
  { cat /tmp/purged >&2; exit 1; }

# OpenBLAS brings a LAPACK that rubato does not call.
find / -xdev -name 'liblapack.so*' -delete
rm -rf /usr/share/doc /usr/share/info /usr/share/lintian /usr/share/locale /usr/share/man \
  /usr/share/zoneinfo /usr/lib/*/gconv /var/cache/* /var/lib/apt /var/log/* /tmp/*
