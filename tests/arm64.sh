#!/bin/sh
# Cross-builds for 64-bit ARM and runs, in an emulator, the tests of everything whose bits must not
# depend on the processor: compression, server optimizers, sync models, golden traces, batches and
# local step. Then looks into the object files: every compression loop has to be NEON. A few minutes.
# Debian 12 or 13 on x86-64. The libraries for ARM lie in build/arm64/root, nowhere else on this
# system.
# Usage: tests/arm64.sh
set -eu
cd "$(dirname "$0")/.."
unset OPENBLAS_CORETYPE OPENBLAS_L2_SIZE
deploy/install.sh build test arm64

root="$PWD/build/arm64/root"
build=build/arm64/build
libraries="$root/usr/lib/aarch64-linux-gnu"
release=$(. /etc/os-release && echo "$VERSION_CODENAME")
packages=$(deploy/install.sh --list build test | grep -E '^lib|-dev$' | paste -s -d ,)
if [ "$(cat "$root.packages" 2>/dev/null)" != "$release $packages" ]; then
  printf '== libraries for arm64\n'
  rm -rf "$root" "$root.packages"
  mkdir -p "$root"
  # As of `extract`: no package's scripts run, so what they would link is linked here.
  mmdebstrap --quiet --mode="$([ "$(id -u)" -eq 0 ] && echo root || echo unshare)" \
    --variant=extract --arch=arm64 --include="$packages" "$release" "$root"
  [ -e "$root/lib" ] || ln -s usr/lib "$root/lib"
  for file in "$libraries"/openblas-pthread/libopenblas.so*; do
    ln -sf "openblas-pthread/${file##*/}" "$libraries/"
  done
  for file in "$root"/usr/include/aarch64-linux-gnu/openblas-pthread/*.h; do
    ln -sf "openblas-pthread/${file##*/}" "$root/usr/include/aarch64-linux-gnu/"
  done
  ln -sf "$(command -v flatc)" "$root/usr/bin/flatc"  # runs here
  printf '%s' "$release $packages" >"$root.packages"
fi

export RUBATO_ARM64_ROOT="$root" PKG_CONFIG_SYSROOT_DIR="$root"
export PKG_CONFIG_LIBDIR="$libraries/pkgconfig:$root/usr/share/pkgconfig"
tests="proto/test_compression proto/test_codec server/test_server_core server/test_core_trace
  sync/test_sync train/test_layer"
printf '== build\n'
cmake -S . -B "$build" -G Ninja --toolchain "$PWD/cmake/arm64.cmake" -DCMAKE_BUILD_TYPE=Release \
  >/dev/null
# shellcheck disable=SC2086  # a list of words
cmake --build "$build" --target $(printf '%s\n' $tests | sed 's,.*/,,')

for test in $tests; do
  printf '== %s\n' "$test"
  qemu-aarch64 -L "$root" "$build/tests/$test"
done

# needs FILE FUNCTION...: fails where a function of the object file has no arithmetic on vectors.
needs() {
  object=$1; shift
  for function in "$@"; do
    count=$(aarch64-linux-gnu-objdump -d -C --no-show-raw-insn "$build/$object" |
      awk -v name="$function" '
        /^[0-9a-f]+ </ { inside = index($0, name) }
        inside && $2 !~ /^(movi|mvni|mov|dup|umov|ldr|str|ld1|st1)$/ &&
          /[ \t]v[0-9]+\.(16b|8h|4s|2d),/ { count++ }
        END { print count + 0 }')
    printf '%-12s %4d NEON instructions\n' "$function" "$count"
    [ "$count" -gt 0 ] || failed=1
  done
}

printf '== vectors\n'
failed=0
needs proto/CMakeFiles/rubato_proto.dir/compression_kernels.cpp.o \
  ToF16 ToBf16 FromF16 FromBf16 ToInt8 FromInt8 AtLeast Add Subtract
needs server/CMakeFiles/rubato_server.dir/optimizer.cpp.o Optimizer::apply
needs train/CMakeFiles/rubato_train.dir/local_optimizer.cpp.o LocalOptimizer::turn
needs train/CMakeFiles/rubato_train.dir/cpu/lstm_kernels.cpp.o multiply_tile forward backward
needs base/CMakeFiles/rubato_base.dir/numbers.cpp.o all_finite
if [ "$failed" -ne 0 ]; then
  printf 'arm64: a loop without vectors\n' >&2
  exit 1
fi
printf 'arm64: all tests passed, every loop has vectors\n'
