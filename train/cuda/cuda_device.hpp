// train/cuda/cuda_device.hpp - the CUDA device: parameters, gradient, update, moments and
// activations live in a GPU's memory.
// Steps are recorded from the second one of a batch size on, once for each slot
// (train/cuda/batch_ring.hpp), and launched again. They do not wait for the GPU. The losses of a
// step come with the step that uses its slot again, or with the first one after take_update(), so
// results do not depend on time.
// Memory: all planned in build(), but for the optimizer's moments, what packing needs once it is
// asked for, and batches of a size that is new: convolutions are prepared and steps recorded. The
// last eight sizes stay so.
// Errors: build(): Unsupported where the GPU has too little memory or refuses a layer; BadInput for
// activations of 2^32 values and more. Later errors end the process (train/cuda/must.hpp).
// Threads: as train/device.hpp.
#pragma once

#include <memory>
#include <variant>
#include <vector>

#include "train/cuda/batch_ring.hpp"
#include "train/cuda/conv_stage.hpp"
#include "train/cuda/dense_stage.hpp"
#include "train/cuda/gpu_optimizer.hpp"
#include "train/cuda/gpu_replica.hpp"
#include "train/cuda/loss_stage.hpp"
#include "train/cuda/lstm_stage.hpp"
#include "train/cuda/norm_stage.hpp"
#include "train/cuda/pool_stage.hpp"
#include "train/cuda/precision.hpp"
#include "train/cuda/relu_stage.hpp"
#include "train/device.hpp"

namespace rubato::train {

class CudaDevice : public Device, public OwnMemory {
 public:
  explicit CudaDevice(std::unique_ptr<cuda::Gpu> gpu) : gpu_(std::move(gpu)) {}
  ~CudaDevice() override;
  std::string_view name() const override { return "cuda"; }
  [[nodiscard]] Result<void> build(const ModelSpec& spec, int batch_max) override;
  std::size_t parameter_count() const override { return replica_->count(); }
  void freeze(const TrainedPart& trained, std::span<const float> model) override;
  int batch_max() const override { return batch_max_; }
  void set_optimizer(const LocalOptimizerOptions& options) override;
  bool keep(const Dataset& data) override;

  void load(std::span<const float> parameters) override {
    replica_->stage(parameters);
    replica_->load_staged(false);
  }
  void load_under_update(std::span<const float> parameters) override {
    replica_->stage(parameters);
    replica_->load_staged(true);
  }
  void read(std::span<float> out) const override { replica_->read(out); }
  bool take_update(Floats& out) override { return take_update({}, out); }
  void give(Floats& /*buffer*/) override {}  // U is not in host memory

  OwnMemory* own_memory() override { return this; }
  void begin_update(const Packing& packing) override { replica_->begin_update(packing); }
  bool take_update(const Packing& packing, Floats& out) override;
  bool finish_update(Floats& out) override { return replica_->end_update(out); }
  void stage(std::span<const float> parameters) override { replica_->stage(parameters); }
  void load_staged() override { replica_->load_staged(true); }

  BatchResult step(const Batch& batch, float rate) override;
  void finish_steps() override { gpu_->wait(cuda::Stream::Compute); }
  std::optional<BatchResult> step_early(const Batch& batch, float rate,
                                        const Arriving& arriving) override;
  BatchResult gradient(const Batch& batch, std::span<float> out) override;
  BatchResult evaluate(const Batch& batch) override;
  void scores(std::span<float> out) const override;

 private:
  using Slot = cuda::BatchRing::Slot;
  using Work = std::variant<cuda::DenseStage, cuda::ConvStage, cuda::PoolStage, cuda::NormStage,
                            cuda::ReluStage, cuda::LstmStage>;
  // One part of the pipeline and its [batch_max, count] activations.
  struct Stage {
    Work work;
    cuda::Memory output, output_gradient;
    std::size_t end = 0;  // of its parameters; they follow those of the stage before
  };
  struct MakeStage;

  [[nodiscard]] Result<void> make_parts(const ModelSpec& spec, const std::vector<LayerPlan>& plans);
  [[nodiscard]] Result<void> add_stages(const ModelSpec& spec, const std::vector<LayerPlan>& plans);
  void wait_for_all();
  // Batches of this size may come; of the sizes not seen for the longest time none may.
  [[nodiscard]] Result<void> prepare(int size);
  // The slot's batch is checked, prepared and on its way to the GPU.
  Slot& fill(const Batch& batch, float rate);
  void check(const Batch& batch) const;

  // These queue work on Compute for the slot's batch.
  void queue_samples(const Slot& slot);
  // `arriving`: where the parameters come from meanwhile; null: they are here. Returns: false if
  // they will not come.
  bool queue_forward(const Slot& slot, const Arriving* arriving);
  void queue_loss(const Slot& slot, float* gradient);
  void queue_backward(const Slot& slot);
  void queue_step(const Slot& slot);
  cuda::Graph& recorded_step(Slot& slot);
  // The step is queued. Returns: the losses of earlier ones.
  BatchResult end_step(Slot& slot);

  std::unique_ptr<cuda::Gpu> gpu_;  // first: all else is its memory
  std::optional<cuda::GpuReplica> replica_;
  std::optional<cuda::GpuOptimizer> optimizer_;
  std::optional<cuda::BatchRing> ring_;
  std::optional<cuda::LossStage> loss_;
  std::optional<cuda::KeptData> data_;
  std::vector<Stage> stages_;
  std::vector<int> sizes_;  // of prepared batches, the last used one at the end
  cuda::Memory scores_;     // pinned [batch_max, classes]
  Shape input_;
  int classes_ = 0;
  int batch_max_ = 0;
};

// On the GPU of this number, from 0. Errors: Unsupported, with the remedy.
[[nodiscard]] Result<std::unique_ptr<Device>> make_cuda_device(int number,
                                                               cuda::Precision precision);

}  // namespace rubato::train
