#!/bin/sh
# Cross-builds the Debian packages for 64-bit ARM, in a Debian of its own that has the libraries of
# both processors. Installs the package there and runs it in an emulator: the version and a comparison
# that trains. The packages are then in build/packages-arm64.
# Root on Debian 12 or 13, x86-64; half an hour on two cores, 4 GB.
# Usage: [RELEASE=trixie] tests/packages/arm64.sh   RELEASE: for which they are; default: this machine's
set -eu
cd "$(dirname "$0")/../.."
if [ "$(id -u)" -ne 0 ]; then echo "skipped: makes a chroot, so it needs root"; exit 77; fi
deploy/install.sh boxes

root="$PWD/build/packages-arm64.root"
# Programs run here; libraries are those of arm64, where they depend on the processor at all.
release=${RELEASE:-$(. /etc/os-release && echo "$VERSION_CODENAME")}
packages=$(deploy/install.sh --list build package)
libraries=$(apt-cache show $(printf '%s\n' $packages | grep -E '^lib|-dev$') |
  awk '/^Package:/ { name = $2 } /^Architecture:/ && $2 != "all" { print name }' | grep -v '^dpkg' |
  sort -u)
for library in $libraries; do
  packages=$(printf '%s\n' $packages | sed "s/^$library\$/$library:arm64/")
done
packages=$(printf '%s\n' $packages crossbuild-essential-arm64 qemu-user | tr '\n' ,)
if [ "$(cat "$root.packages" 2>/dev/null)" != "$release $packages" ]; then
  printf '== a Debian with the cross compiler and the libraries\n'
  rm -rf --one-file-system "$root" "$root.packages"
  mkdir -p "$root"
  mmdebstrap --quiet --variant=apt --architectures=amd64,arm64 --include="$packages" "$release" "$root"
  printf '%s' "$release $packages" >"$root.packages"
fi

printf '== build\n'
mkdir -p "$root/src"
git ls-files -z --cached --others --exclude-standard |
  tar --null --files-from=- --ignore-failed-read -c | tar -x -C "$root/src"
# inside COMMAND...: in the chroot, in the source tree, with /proc.
inside() {
  SOURCE_DATE_EPOCH=$(git log -1 --format=%ct) \
    PKG_CONFIG_LIBDIR=/usr/lib/aarch64-linux-gnu/pkgconfig:/usr/share/pkgconfig \
    unshare --mount --pid --fork --kill-child sh -c \
    'root=$1; shift; mount -t proc proc "$root/proc"; exec chroot "$root" env -C /src "$@"' \
    sh "$root" "$@"
}
# The preset names the compiler of this machine; a configuration that stays would have that one.
inside cmake --fresh --preset package --toolchain cmake/arm64.cmake \
  -DCMAKE_CXX_COMPILER=aarch64-linux-gnu-g++ >/dev/null
inside cmake --build --preset package
inside sh -c 'rm -rf build/packages && eval "$(dpkg-architecture -aarm64 -s)" &&
  cpack --config build/package/CPackConfig.cmake -B build/packages >/dev/null'
rm -rf build/packages-arm64
mkdir -p build/packages-arm64
cp "$root"/src/build/packages/*.deb build/packages-arm64/
inside sh -c 'lintian --fail-on error,warning build/packages/*.deb'

printf '== smoke, emulated\n'
inside sh -c 'apt-get -qq update && apt-get install -y -qq --no-install-recommends ./build/packages/rubato_*_arm64.deb >/dev/null'
inside qemu-aarch64 /usr/bin/rubato --version
inside file -L /usr/bin/rubato
sed 's/^max_seconds = .*/max_seconds = 20/; s/^kind = "timing"/kind = "mlp"/; /^parameters/d' \
  examples/embed/cluster.toml >"$root/tmp/smoke.toml"
printf '\n[dataset]\nkind = "blobs"\n' >>"$root/tmp/smoke.toml"
inside qemu-aarch64 /usr/bin/rubato compare /tmp/smoke.toml --quiet --out /tmp/smoke
ls -l build/packages-arm64
printf 'arm64: packages made and tried\n'
