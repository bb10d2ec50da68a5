#include "train/cuda/loss_stage.hpp"

namespace rubato::train::cuda {

Result<LossStage> LossStage::make(Gpu& gpu, const ModelSpec& spec, int batch_max) {
  LossStage stage;
  stage.loss_ = spec.loss;
  stage.classes_ = spec.classes;
  if (const auto& weights = spec.class_weights; !weights.empty()) {
    const std::size_t bytes = weights.size() * sizeof(float);
    RUBATO_ASSIGN(stage.weights_, gpu.allocate(bytes));
    gpu.copy(Stream::Compute, stage.weights_.as<float>(), weights.data(), bytes);
    gpu.wait(Stream::Compute);  // until they are read
  }
  const auto samples = static_cast<std::size_t>(batch_max);
  RUBATO_ASSIGN(stage.losses_, gpu.allocate(samples * sizeof(SampleLoss)));
  RUBATO_ASSIGN(stage.sums_, gpu.allocate((1 + parts_of_sum(samples)) * sizeof(BatchSums)));
  return stage;
}

void LossStage::run(Gpu& gpu, const float* scores, const void* answers, const float* sample_weights,
                    int size, float* gradient, BatchSums* sums) const {
  const auto samples = static_cast<std::size_t>(size);
  auto* const losses = losses_.as<SampleLoss>();
  const float scale = 1.0f / static_cast<float>(size);
  const auto* const labels = static_cast<const std::int32_t*>(answers);
  const float* const weights = weights_.as<float>();
  switch (loss_) {
    case Loss::SoftmaxCrossEntropy:
      gpu.launch(Stream::Compute, samples,
                 SoftmaxCrossEntropy{scores, labels, gradient, losses, classes_, scale, weights,
                                     sample_weights});
      break;
    case Loss::MultiClassHinge:
      gpu.launch(Stream::Compute, samples,
                 MultiClassHinge{scores, labels, gradient, losses, classes_, scale, weights,
                                 sample_weights});
      break;
    case Loss::MeanSquaredError:
      gpu.launch(Stream::Compute, samples,
                 SquaredError{scores, static_cast<const float*>(answers), gradient, losses, scale,
                              sample_weights});
      break;
  }
  const std::uint32_t parts = parts_of_sum(samples);
  auto* const all = sums_.as<BatchSums>();
  BatchSums* const first = parts == 1 ? all : all + 1;
  gpu.launch(Stream::Compute, parts,
             SumLosses{losses, first, static_cast<std::uint32_t>(size), parts});
  if (parts > 1) gpu.launch(Stream::Compute, 1, AddLossParts{first, all, parts});
  gpu.copy(Stream::Compute, sums, all, sizeof(BatchSums));
}

}  // namespace rubato::train::cuda
