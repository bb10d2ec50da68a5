#!/bin/sh
# What is due on a machine with a GPU, in order: the tests, compute-sanitizer, a mixed cluster, the
# limits, and one table of step times beside PyTorch and of the time that commits cost. Each command
# has a time limit: at most 95 minutes in all, and the build. One that fails is named at the end, and
# the others run.
# Usage: bench/gpu.sh [--quick] [BUILD]
#   BUILD: a build folder (default: build/gpu, which is configured if it is new)
#   --quick: a part of each, in at most ten minutes, for a machine that is rented by the minute
#   PYTHON=/path/to/python3: one with a PyTorch that knows the GPU; default: python3
set -eu
cd "$(dirname "$0")/.."
unset OPENBLAS_CORETYPE OPENBLAS_L2_SIZE
longest=1200 syncs="bsp adsp tempo easgd" batches=32,128,1024 quick=""
if [ "${1:-}" = --quick ]; then
  longest=60 syncs=adsp batches=128 quick=--quick
  shift
fi
build="${1:-build/gpu}"
python="${PYTHON:-python3}"

refuse() { printf 'gpu: %s\n' "$*" >&2; exit 2; }
command -v nvidia-smi >/dev/null || refuse "no NVIDIA driver is here (nvidia-smi); docs/gpu.md says what a GPU needs"
gpus="$(timeout 30 nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader 2>&1)" ||
  refuse "nvidia-smi shows no GPU: $(printf '%s' "$gpus" | head -n 1)"
[ -n "$gpus" ] || refuse "nvidia-smi shows no GPU"
printf '%s\n' "$gpus"

if [ ! -f "$build/CMakeCache.txt" ]; then
  cmake -S . -B "$build" -DCMAKE_BUILD_TYPE=Release -DRUBATO_CUDA=ON -DRUBATO_BENCH=ON \
    -DRUBATO_TESTS=ON -DCMAKE_CUDA_ARCHITECTURES=native
else
  cmake -B "$build" -DRUBATO_CUDA=ON -DRUBATO_BENCH=ON -DRUBATO_TESTS=ON >/dev/null
fi
cmake --build "$build" -j "$(nproc)" --target rubato test_gpu test_device test_layer bench_gpu_commit
results="$build/gpu-results"
rm -rf "$results"
mkdir -p "$results"

failed=""
# run SECONDS NAME COMMAND...   SECONDS, but at most $longest
run() {
  limit=$(($1 > longest ? longest : $1)) name="$2"
  shift 2
  printf '\n== %s: %s\n' "$name" "$*"
  code=0
  timeout -k 10 "$limit" "$@" || code=$?
  [ $code -eq 0 ] || failed="$failed, $name (exit code $code)"
}

run 600 gpu "$build/tests/train/test_gpu"
for test in device layer; do
  run 600 "$test" env RUBATO_TEST_GPU=1 "$build/tests/train/test_$test"
done
# Errors that calls return are the tests' own matter: one of them asks for memory that no GPU has.
# racecheck looks at our own kernels alone.
if command -v compute-sanitizer >/dev/null; then
  run 1200 memcheck compute-sanitizer --tool memcheck --report-api-errors no --error-exitcode 9 \
    "$build/tests/train/test_gpu"
  run 1200 racecheck compute-sanitizer --tool racecheck --kernel-regex kns=rubato \
    --error-exitcode 9 "$build/tests/train/test_gpu"
else
  failed="$failed, memcheck, racecheck (no compute-sanitizer in PATH)"
fi

cat >"$results/mixed.toml" <<'END'
name = "mixed"
[[workers]]
name = "gpu"
training_device = "cuda"
[[workers]]
name = "cpu"
count = 2
[model]
kind = "mlp"
hidden = [256]
[dataset]
kind = "blobs"
samples = 20000
features = 64
classes = 10
spread = 0.5
[training]
batch = 64
learning_rate = 0.05
[sync.adsp]
overlap = true
check_period_seconds = 2
[evaluation]
interval_seconds = 0.5
[stop]
target_loss = 0.1
max_seconds = 60
END
for sync in $syncs; do
  run 150 "mixed cluster, $sync" "$build/cli/rubato" up "$results/mixed.toml" --sync "$sync" \
    --out "$results/mixed-$sync" --overwrite
done

run 300 limits "$build/cli/rubato" bench --device cuda --model mlp,lenet,cnn,cnn1d,lstm \
  --batch "$batches" --save "$results/steps.toml"
run 300 commits "$build/bench/bench_gpu_commit" ${quick:+"$quick"} --json "$results/commits.json"
run 300 table "$python" bench/gpu_table.py "$results"

if [ -n "$failed" ]; then
  printf '\ngpu: failed: %s\n' "${failed#, }" >&2
  exit 1
fi
