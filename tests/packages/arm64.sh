#!/bin/sh
# Cross-builds the Debian packages for 64-bit ARM, in a Debian of its own that has the libraries of
# both processors. Installs the package there and runs it in an emulator: the version and a comparison
# that trains. Then a loop of Python for ARM trains in a cluster to its target, beside a C++ worker for
# ARM and, where this machine has built `rubato`, a worker of this machine. The packages are then in
# build/packages-arm64.
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

printf '== Python for ARM, emulated: a loop trains in a cluster\n'
# A system has Python for one processor. That for ARM is unpacked beside it, with all that it needs.
python="$root/arm64"
needed=$(dpkg-deb --field build/packages-arm64/librubato0_*.deb Depends |
  sed 's/([^)]*)//g; s/|[^,]*//g; s/ //g')
rm -rf "$python"
mkdir "$python"
mmdebstrap --quiet --mode=root --variant=extract --arch=arm64 \
  --include="python3,python3-numpy,$needed" "$release" "$python"
[ -e "$python/lib" ] || ln -s usr/lib "$python/lib"
for file in "$python"/usr/lib/aarch64-linux-gnu/*/lib*.so.3; do  # no package's script has linked them
  ln -sf "$(basename "$(dirname "$file")")/${file##*/}" "$python/usr/lib/aarch64-linux-gnu/"
done
for package in librubato0 python3-rubato; do
  dpkg-deb --extract build/packages-arm64/"$package"_*.deb "$python"
done

loop="$root/tmp/loop"
rm -rf "$loop"
mkdir "$loop"
# What this machine has built takes part, too: ARM beside x86-64.
native=$(find build/release/cli/rubato build/dev/cli/rubato 2>/dev/null | head -n 1)
{
  printf 'name = "loop"\n'
  for name in python emulated ${native:+native}; do
    printf '[[workers]]\nname = "%s"\nstep_seconds = 0.05\n' "$name"
  done
  cat <<'TOML'
[model]
kind = "mlp"
hidden = []
[dataset]
kind = "csv"
path = "data.csv"
label_column = "kind"
features = 2
classes = 3
standardize = false
[training]
batch = 16
learning_rate = 0.1
[evaluation]
interval_seconds = 0.5
[stop]
target_loss = 0.4
max_seconds = 200
TOML
} >"$loop/loop.toml"
# Three heaps.
awk 'BEGIN { srand(7); print "x,y,kind"
  for (i = 0; i < 600; i++)
    printf "%.3f,%.3f,%d\n", i % 3 * 1.5 - 1.5 + rand(), (i % 3 == 1) * 2 - 1 + rand(), i % 3 }' \
  >"$loop/data.csv"
cat >"$loop/loop.py" <<'PYTHON'
import platform

import numpy
import rubato

table = numpy.loadtxt("data.csv", numpy.float32, delimiter=",", skiprows=1)
inputs, labels = table[:, :2].copy(), table[:, 2].astype(int)
model = {"w": numpy.zeros((3, 2), numpy.float32), "b": numpy.zeros(3, numpy.float32)}
with rubato.Worker("loop.toml", model) as w:
    for x, y in w.batches((inputs, labels)):
        shares = numpy.exp(x @ model["w"].T + model["b"])
        shares /= shares.sum(1, keepdims=True)
        loss = -numpy.log(shares[range(len(y)), y]).mean()
        shares[range(len(y)), y] -= 1
        model["w"] -= 0.1 * shares.T @ x / len(y)
        model["b"] -= 0.1 * shares.mean(0)
        w.step(loss, len(y))
    print(platform.machine(), "Python", platform.python_version(), "NumPy", numpy.__version__,
          "rubato", rubato.__version__, "over", w.over, "after", w.commits, "commits")
PYTHON
# starts NAME COMMAND...: in the background, with its lines in NAME.log.
nodes=
starts() {
  log="$loop/$1.log"
  shift
  "$@" >"$log" 2>&1 &
  nodes="$nodes $!"
}
emulated() { inside timeout 400 env -C /tmp/loop "$@"; }
starts scheduler emulated qemu-aarch64 /usr/bin/rubato scheduler loop.toml --sync bsp --bind 'tcp://127.0.0.1:*' --out out
for _ in $(seq 60); do
  endpoint=$(sed -n 's,.*listens on \(tcp://[0-9.:]*\).*,\1,p' "$loop/scheduler.log" | head -n 1)
  [ -z "$endpoint" ] || break
  sleep 1
done
joins="loop.toml --sync bsp --scheduler $endpoint"
# shellcheck disable=SC2086  # words
{
  starts server emulated qemu-aarch64 /usr/bin/rubato server $joins
  starts emulated emulated qemu-aarch64 /usr/bin/rubato worker $joins --name emulated
  [ -z "$native" ] || starts native timeout 400 env -C "$loop" "$PWD/$native" worker $joins --name native
}
starts python emulated env RUBATO_SCHEDULER="$endpoint" RUBATO_SYNC=bsp RUBATO_NAME=python \
  qemu-aarch64 -L /arm64 /arm64/usr/bin/python3 loop.py
for node in $nodes; do
  wait "$node" || { tail -n 5 "$loop"/*.log >&2; printf 'arm64: a node has failed\n' >&2; exit 1; }
done
tail -n 2 "$loop"/*.log
grep -q 'target reached' "$loop/scheduler.log"
grep -q '^aarch64 .* over True ' "$loop/python.log"
ls -l build/packages-arm64
printf 'arm64: packages made and tried\n'
