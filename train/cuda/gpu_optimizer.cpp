#include "train/cuda/gpu_optimizer.hpp"

#include <cmath>
#include <iterator>
#include <span>

#include "train/cuda/must.hpp"

namespace rubato::train::cuda {
namespace {

// The sum of squares is added by so many threads, then by fewer, then by one.
constexpr std::size_t kSquareParts = 16384;
constexpr std::uint32_t kSquareRest = 128;

std::size_t moments_of(LocalOptimizerKind kind) {
  switch (kind) {
    case LocalOptimizerKind::Sgd:
      return 0;
    case LocalOptimizerKind::Momentum:
      return 1;
    case LocalOptimizerKind::AdamW:
      return 2;
  }
  return 0;
}

float unbiased(double beta, std::uint64_t step) {
  return static_cast<float>(1 / (1 - std::pow(beta, static_cast<double>(step))));
}

}  // namespace

Result<GpuOptimizer> GpuOptimizer::make(Gpu& gpu, std::size_t parameters) {
  GpuOptimizer optimizer;
  optimizer.parameters_ = parameters;
  RUBATO_ASSIGN(optimizer.squares_, gpu.allocate((kSquareParts + kSquareRest) * sizeof(double)));
  RUBATO_ASSIGN(optimizer.clip_, allocate_floats(gpu, 1));
  return optimizer;
}

void GpuOptimizer::set(Gpu& gpu, const LocalOptimizerOptions& options) {
  options_ = options;
  steps_ = 0;
  const std::size_t needed = moments_of(options.kind);
  for (std::size_t i = needed; i < std::size(moments_); ++i) moments_[i] = {};
  for (Memory& each : std::span(moments_).first(needed)) {
    if (!each.as<void>()) each = must(allocate_floats(gpu, parameters_));
    gpu.clear(Stream::Compute, each.as<void>(), parameters_ * sizeof(float));
  }
}

StepScalars GpuOptimizer::scalars(float rate) const {
  return {.rate = rate,
          .unbias1 = unbiased(options_.beta1, steps_ + 1),
          .unbias2 = unbiased(options_.beta2, steps_ + 1)};
}

void GpuOptimizer::step(Gpu& gpu, const GpuReplica& replica, const StepScalars* scalars) const {
  const std::size_t count = replica.count();
  StepTarget target{.places = replica.places(),
                    .scalars = scalars,
                    .gradient = replica.gradient(),
                    .clip = nullptr,
                    .decay = static_cast<float>(options_.weight_decay),
                    .weights = replica.weights()};
  if (options_.clip_norm > 0) {
    auto* const squares = squares_.as<double>();
    double* const rest = squares + kSquareParts;
    gpu.launch(Stream::Compute, kSquareParts,
               SumSquares{target.places, target.gradient, squares, count, kSquareParts});
    gpu.launch(Stream::Compute, kSquareRest, SumDoubles{squares, rest, kSquareParts, kSquareRest});
    gpu.launch(Stream::Compute, 1,
               ClipFactor{rest, kSquareRest, options_.clip_norm, clip_.as<float>()});
    target.clip = clip_.as<float>();
  }
  auto* const velocity = moments_[0].as<float>();
  switch (options_.kind) {
    case LocalOptimizerKind::Sgd:
      gpu.launch(Stream::Compute, count, SgdStep{target});
      return;
    case LocalOptimizerKind::Momentum:
      gpu.launch(Stream::Compute, count,
                 MomentumStep{target, velocity, static_cast<float>(options_.momentum)});
      return;
    case LocalOptimizerKind::AdamW:
      gpu.launch(Stream::Compute, count,
                 AdamwStep{.target = target,
                           .mean = velocity,
                           .square = moments_[1].as<float>(),
                           .beta1 = static_cast<float>(options_.beta1),
                           .beta2 = static_cast<float>(options_.beta2),
                           .epsilon = static_cast<float>(options_.epsilon)});
      return;
  }
}

}  // namespace rubato::train::cuda
