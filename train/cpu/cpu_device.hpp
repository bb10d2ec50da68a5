// train/cpu/cpu_device.hpp - the fast host device: OpenBLAS and oneDNN, loops of ours where they
// are faster, one thread. A model becomes a pipeline of stages; all memory is planned in build(),
// except that a batch of another size than the last one re-plans its image layers.
// Errors: Unsupported from build() if oneDNN refuses a layer.
#pragma once

#include <memory>
#include <utility>
#include <variant>
#include <vector>

#include "train/cpu/dense_stage.hpp"
#include "train/cpu/gemm.hpp"
#include "train/cpu/image_stage.hpp"
#include "train/cpu/lane_stage.hpp"
#include "train/cpu/lstm_stage.hpp"
#include "train/host_device.hpp"

namespace rubato::train {

class CpuDevice final : public HostDevice {
 public:
  explicit CpuDevice(DeviceOptions options = {}) : options_(std::move(options)) {}
  std::string_view name() const override { return "cpu"; }
  [[nodiscard]] Result<void> build(const ModelSpec& spec, int batch_max) override;
  int batch_max() const override { return batch_max_; }
  std::optional<BatchResult> step_early(const Batch& batch, float rate,
                                        const Arriving& arriving) override;
  BatchResult gradient(const Batch& batch, std::span<float> out) override;
  BatchResult evaluate(const Batch& batch) override;
  void scores(std::span<float> out) const override;
  // Steps note what each part of them takes; null: no longer. Requires: built, a clock of the
  // model's layers that outlives the steps.
  void set_clock(LayerClock* clock);
  BatchResult step(const Batch& batch, float rate) override;

 private:
  // One part of the pipeline and its [batch_max, count] activations. These are not cleared, so a
  // device that only evaluates never touches the gradient's pages.
  struct Stage {
    std::variant<DenseStage, LstmStage, ImageStage, LaneStage> work;
    std::unique_ptr<float[]> output;
    std::unique_ptr<float[]> output_gradient;
    std::uint64_t end = 0;  // of its parameters; they follow those of the stage before
    std::size_t first_layer = 0;
  };

  void add_stages(const ModelSpec& spec, const std::vector<LayerPlan>& plans);
  // Which library multiplies which product of a batch of batch_max.
  void choose_products();
  // `arriving`: where the parameters come from meanwhile; null: they are here. Returns: false if
  // they will not come.
  bool forward(const Batch& batch, const Arriving* arriving = nullptr);
  // Into gradient_ or the like. Requires: forward() of this batch.
  BatchResult backward(const Batch& batch, float* gradient);

  DeviceOptions options_;
  Multiplier multiplier_;  // of all stages
  std::vector<Stage> stages_;
  Shape input_;
  Loss loss_ = Loss::SoftmaxCrossEntropy;
  std::vector<float> class_weights_;  // as in ModelSpec
  int classes_ = 0;
  int batch_max_ = 0;
  LayerClock* clock_ = nullptr;
};

}  // namespace rubato::train
