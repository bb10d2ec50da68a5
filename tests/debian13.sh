#!/bin/sh
# A bare Debian 13 in a directory, or a bare Debian 12: the two commands of README.md there, from
# nothing, with the time of each and the table beside that of docs/runs.md; then the packages, made there, and
# installed on bare boxes with systemd. Where this machine is of the other release and has packages in
# build/packages, one of the boxes is of that release: a cluster across both.
# Root on Debian 12 or 13, two hours of one core, 12 GB. Exit code 77: skipped, as the last line says why.
# Usage: tests/debian13.sh [RELEASE [PART...]]
#   RELEASE: trixie (default) or bookworm. PART: quickstart tests engines packages boxes (without
#   PART all of these), python (its tests alone) clang arm64 steps
set -eu
cd "$(dirname "$0")/.."
skip() { printf 'skipped: %s\n' "$*"; exit 77; }
[ "$(id -u)" -eq 0 ] || skip "makes a chroot, so it needs root"
release=${1-trixie}
case $release in
  trixie | bookworm) ;;
  *) printf 'debian13: there is no release "%s"; there are: trixie bookworm\n' "$release" >&2; exit 2 ;;
esac
[ $# -eq 0 ] || shift
[ $# -gt 0 ] || set -- quickstart tests engines packages boxes
deploy/install.sh boxes || skip "mmdebstrap and systemd-container are not here, and cannot be installed"

root="$PWD/build/debian-$release"
here=$(. /etc/os-release && echo "$VERSION_CODENAME")
say() { printf '== %s: %s\n' "$release" "$*"; }
# processor: seconds that the processes which have ended took of it, as `times` wrote them.
processor() { awk -F '[ms ]+' 'NR == 2 { print $1 * 60 + $2 + $3 * 60 + $4 }' "$root.times"; }
# timed COMMAND...: and how long it took, by the clock and of processor.
timed() {
  begin=$(date +%s)
  times >"$root.times"  # not in a subshell, which would have its own
  before=$(processor)
  "$@"
  times >"$root.times"
  say "$*: $(($(date +%s) - begin)) s," \
    "$(awk -v before="$before" -v now="$(processor)" 'BEGIN { printf "%.0f", now - before }') s of processor"
}
# inside COMMAND...: in the system, in the clone, with what a booted one has in /proc, /sys and /dev.
inside() {
  unshare --mount --pid --fork --kill-child sh -c '
    root=$1; shift
    mount -t proc proc "$root/proc"
    mount --rbind /sys "$root/sys"
    mount --rbind /dev "$root/dev"
    exec chroot "$root" env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 env -C /root/rubato "$@"' \
    sh "$root" "$@"
}

if [ ! -e "$root/root/rubato" ]; then
  say "a bare system with git"
  rm -rf --one-file-system "$root"
  mkdir -p "$root"
  mmdebstrap --quiet --variant=apt --include=git,ca-certificates "$release" "$root" ||
    skip "mmdebstrap makes no $release here: it needs Debian's archive, and to mount"
  mkdir "$root/root/rubato"
fi
git ls-files -z --cached --others --exclude-standard |
  tar --null --files-from=- --ignore-failed-read -c | tar -x -C "$root/root/rubato"

for part in "$@"; do
  case $part in
    quickstart)
      timed inside ./deploy/quickstart.sh | tee "$root/root/quickstart.log"
      # The table alone, with the spaces that docs/runs.md puts before it.
      sed -n '/^Model .*Accuracy/,/^ADSP/s/^/    /p' "$root/root/quickstart.log" >"$root/root/table"
      [ "$(wc -l <"$root/root/table")" -eq 5 ] || { say "the quick start printed no table" >&2; exit 1; }
      if sed -n '/^    Model .*Accuracy/,/^    ADSP/p' docs/runs.md | diff - "$root/root/table"; then
        say "the table of docs/runs.md, to the digit"
      else
        say "digits differ from the table of docs/runs.md, as above"
      fi
      ;;
    tests)
      # With PyTorch and onnxruntime, so that the Python package and trained models are tried as well.
      inside deploy/install.sh build run test python
      [ "$release" = bookworm ] || inside deploy/install.sh engines onnx
      timed inside ./tests/run.sh
      ;;
    python)
      inside deploy/install.sh build run test python
      inside cmake --preset dev
      inside cmake --build --preset dev --target rubato librubato
      timed inside ctest --test-dir build/dev -R '^python/' --output-on-failure
      ;;
    clang)
      # With the warnings of the release's clang.
      timed inside ./tests/run.sh clang
      ;;
    arm64)
      timed inside ./tests/arm64.sh
      ;;
    steps)
      # The CPU step beside PyTorch of the release.
      inside deploy/install.sh build bench
      inside cmake -S . -B build/bench -G Ninja -DCMAKE_BUILD_TYPE=Release -DRUBATO_BENCH=ON \
        -DRUBATO_TESTS=OFF
      inside cmake --build build/bench --target bench_cpu_step
      timed inside bench/cpu_step.py
      ;;
    engines)
      # PyTorch and onnxruntime of the release as judges of model files.
      timed inside ./tests/engines/run.sh
      ;;
    packages)
      timed inside deploy/package.sh
      rm -rf "build/packages-$release"
      cp -r "$root/root/rubato/build/packages" "build/packages-$release"
      ;;
    boxes)
      timed env "RELEASE=$release" tests/packages/page.sh "build/packages-$release"
      for script in run loops; do
        timed env "RELEASE=$release" "tests/packages/$script.sh" "build/packages-$release"
        if [ "$release" != "$here" ] && [ -d build/packages ]; then
          timed env "RELEASE=$release" "tests/packages/$script.sh" \
            "build/packages-$release" build/packages "$here"
        fi
      done
      ;;
    *)
      printf 'debian13: there is no part "%s"; there are:' "$part" >&2
      printf ' quickstart tests engines packages boxes python clang arm64 steps\n' >&2
      exit 2
      ;;
  esac
done
say "all passed: $*"
