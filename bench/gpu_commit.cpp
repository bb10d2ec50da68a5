// bench/gpu_commit.cpp - what commits cost the steps of a GPU: a model of 64 MiB trains alone, and
// then with a commit in flight all the time, in float32 and packed by the device. As in a worker,
// another thread copies the update from the device and the reply to it. The reply comes at once, so
// no link has a part in the time.
// Usage: bench_gpu_commit [--device cuda:NUMBER] [--quick] [--json FILE]; --smoke: on plain loops.
#include <fmt/format.h>

#include <atomic>
#include <cstdio>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "base/rng.hpp"
#include "base/time.hpp"
#include "bench/rows.hpp"
#include "proto/compression.hpp"
#include "tests/train/host_gpu.hpp"
#include "train/cuda/cuda_device.hpp"
#include "train/data/dataset.hpp"
#include "train/device.hpp"
#include "train/local_trainer.hpp"
#include "worker/update_encoder.hpp"

namespace {

using namespace rubato;
using namespace rubato::train;

constexpr std::size_t kChunk = proto::kChunkBytesDefault / sizeof(float);

struct Plan {
  std::string device = "cuda";  // empty: plain loops
  Shape input{1, 32, 32};
  int hidden = 16384;  // 1024 x 16384 weights of 4 bytes: 64 MiB
  std::vector<int> batches = {128, 1024};
  int rounds = 5;
  Duration time = Duration::from_seconds(2);  // of one round
};

Dataset random_pixels(const Shape& shape) {
  constexpr std::size_t kSamples = 4096;
  Rng rng(1);
  Dataset data;
  data.shape = shape;
  data.classes = 10;
  std::vector<std::uint8_t> pixels(kSamples * static_cast<std::size_t>(shape.count()));
  for (auto& pixel : pixels) pixel = static_cast<std::uint8_t>(rng.below(256));
  data.features = std::move(pixels);
  data.pixel_scales.assign(1, {});
  for (std::size_t i = 0; i < kSamples; ++i)
    data.labels.push_back(static_cast<std::int32_t>(rng.below(10)));
  return data;
}

// The thread that copies, and the commit in flight.
class Copier {
 public:
  Copier(LocalTrainer& trainer, const std::vector<float>& reply, const Packing& packing)
      : memory_(*trainer.own_memory()),
        packing_(packing),
        thread_([this, &reply] { copy(reply); }) {}
  ~Copier() {
    at_ = At::Over;
    at_.notify_one();
  }
  Copier(const Copier&) = delete;
  Copier& operator=(const Copier&) = delete;

  // Between two steps. Returns: whether a commit came to its end.
  bool turn() {
    const At at = at_;
    if (at == At::Copying) return false;
    if (at == At::Copied) memory_.load_staged();
    memory_.begin_update(packing_);
    at_ = At::Copying;
    at_.notify_one();
    return at == At::Copied;
  }
  // Waits for the copies under way.
  void finish() {
    at_.wait(At::Copying);
    if (at_ == At::Copied) memory_.load_staged();
    at_ = At::Idle;
  }

 private:
  enum class At { Idle, Copying, Copied, Over };

  void copy(const std::vector<float>& reply) {
    Floats update;
    for (At at = at_; at != At::Over; at = at_) {
      if (at == At::Copying) {
        memory_.finish_update(update);
        memory_.stage(reply);
        at_ = At::Copied;
        at_.notify_one();
        continue;
      }
      at_.wait(at);
    }
  }

  OwnMemory& memory_;
  Packing packing_;
  std::atomic<At> at_ = At::Idle;
  std::jthread thread_;  // last: it uses the members above
};

struct Round {
  double step = 0;     // seconds
  double commits = 0;  // a second
};

// `packing`: of the commits; null: there are none.
Round measure(LocalTrainer& trainer, std::vector<float>& parameters, Duration time,
              const Packing* packing) {
  const bool commits = packing != nullptr;
  std::unique_ptr<Copier> copier;
  const std::vector<float> reply = parameters;
  if (commits) copier = std::make_unique<Copier>(trainer, reply, *packing);
  int steps = 0, made = 0;
  const Instant begin = steady_now();
  while (steps < 10 || (commits && made < 3) || steady_now() - begin < time) {
    trainer.step();
    ++steps;
    if (commits && copier->turn()) ++made;
  }
  if (commits) copier->finish();
  trainer.read(parameters);  // the GPU is done
  const double seconds = (steady_now() - begin).seconds();
  return {seconds / steps, made / seconds};
}

Result<void> measure_batch(const Plan& plan, int batch, std::vector<bench::Row>& rows) {
  RUBATO_ASSIGN(const auto spec, make_model({"mlp", {plan.hidden}}, plan.input, 10));
  std::unique_ptr<Device> device;
  if (plan.device.empty()) {
    device = std::make_unique<CudaDevice>(std::make_unique<cuda::HostGpu>());
  } else {
    RUBATO_ASSIGN(device, make_device(plan.device));
  }
  RUBATO_TRY(device->build(spec, batch));
  std::vector<float> parameters = initial_parameters(spec, 1);
  device->load(parameters);
  const Dataset data = random_pixels(plan.input);
  std::vector<std::uint32_t> all(data.size());
  std::iota(all.begin(), all.end(), 0U);
  LocalTrainer trainer(std::move(device), data, {std::move(all), Rng(1)}, batch, {.initial = 1e-4});
  for (int i = 0; i < 10; ++i) trainer.step();
  for (const PayloadCodec codec :
       {PayloadCodec::F32, PayloadCodec::F16, PayloadCodec::Int8, PayloadCodec::TopK}) {
    worker::UpdateEncoder encoder({.codec = codec}, nullptr, parameters.size(), kChunk);
    const Packing packing = encoder.packing({{{{0, parameters.size()}, "a server"}}}, kChunk);
    std::vector<double> alone, with, commits;
    for (int i = 0; i < plan.rounds; ++i) {
      alone.push_back(measure(trainer, parameters, plan.time, nullptr).step);
      const Round round = measure(trainer, parameters, plan.time, &packing);
      with.push_back(round.step);
      commits.push_back(round.commits);
    }
    const std::string what = fmt::format("batch {}, {}", batch, proto::codec_name(codec));
    const double step = bench::median(with), peer = bench::median(alone);
    rows.push_back({.name = what + ": step with commits in flight",
                    .value = step * 1e6,
                    .unit = "us",
                    .peer = "alone",
                    .peer_value = peer * 1e6});
    rows.push_back({.name = what + ": time lost", .value = (1 - peer / step) * 100, .unit = "%"});
    rows.push_back(
        {.name = what + ": commits", .value = bench::median(commits), .unit = "a second"});
  }
  return {};
}

Result<void> run(const Plan& plan, const bench::RunOptions& options) {
  std::vector<bench::Row> rows;
  for (const int batch : plan.batches) RUBATO_TRY(measure_batch(plan, batch, rows));
  return bench::report(options, rows);
}

}  // namespace

int main(int argc, char** argv) {
  const bench::RunOptions options = bench::parse_options(argc, argv);
  Plan plan;
  if (options.quick) plan.rounds = 2;
  if (options.smoke)
    plan = {.device = "", .input = {1, 4, 4}, .hidden = 8, .batches = {4}, .rounds = 1, .time = {}};
  const auto& others = options.others;
  const bool named = others.size() == 2 && others[0] == "--device";
  if (!others.empty() && !named) {
    std::fprintf(stderr, "gpu_commit: --device cuda:NUMBER is the only option of its own\n");
    return 2;
  }
  if (named) plan.device = others[1];
  if (!plan.device.empty() && !gpu_number(plan.device)) {
    std::fprintf(stderr, "gpu_commit: --device %s is no GPU; use cuda or cuda:NUMBER\n",
                 plan.device.c_str());
    return 2;
  }
  if (const auto done = run(plan, options); !done) {
    std::fprintf(stderr, "gpu_commit: %s\n", done.error().message.c_str());
    return done.error().code == ErrorCode::Unsupported ? 2 : 1;
  }
  return 0;
}
