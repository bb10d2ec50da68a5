#!/bin/sh
# Makes the Debian packages rubato, librubato0, python3-rubato and rubato-dev in build/packages, and
# checks them with lintian. Debian 12 or 13. Usage: deploy/package.sh
set -eu
cd "$(dirname "$0")/.."
deploy/install.sh build package

# The same tree gives the same packages.
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct 2>/dev/null || date +%s)
export SOURCE_DATE_EPOCH
cmake --preset package >/dev/null
cmake --build --preset package
rm -rf build/packages
cpack --config build/package/CPackConfig.cmake -B build/packages >/dev/null
rm -rf build/packages/_CPack_Packages
lintian --fail-on error,warning build/packages/*.deb
ls -l build/packages
