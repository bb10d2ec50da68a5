// train/local_trainer.hpp - one worker's own training: draws mini-batches from its samples, steps
// its device, follows the schedule of the learning rate. It knows nothing of servers.
// Threads: one owner. Errors: none after construction.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/shareable.hpp"
#include "train/data/dataset.hpp"
#include "train/device.hpp"
#include "train/model/learning_rate.hpp"
#include "train/model/partition.hpp"
#include "train/step_plan.hpp"

namespace rubato::train {

class LocalTrainer {
 public:
  // The device keeps the data if it can (Device::keep).
  // Requires: a built device, 1 <= batch <= device.batch_max(), data of the model's input shape.
  // Lifetime: `data` outlives the trainer.
  LocalTrainer(std::unique_ptr<Device> device, const Dataset& data, BatchSampler sampler, int batch,
               LearningRate rate, const LocalOptimizerOptions& optimizer = {});

  // Of the mini-batches from now on.
  void set_plan(const StepPlan& plan);

  // Leaves out so many mini-batches of the configured size: an earlier process has made them.
  void skip(std::uint64_t steps);

  // Trains the next mini-batch.
  BatchResult step();
  // step() on parameters that arrive meanwhile (Device::step_early). Returns: nothing if they will
  // not come: the next step is on the same samples.
  std::optional<BatchResult> step_early(const Arriving& arriving);

  // As in train/device.hpp.
  void load(std::span<const float> parameters) { device_->load(parameters); }
  void load_under_update(std::span<const float> parameters) {
    device_->load_under_update(parameters);
  }
  void read(std::span<float> out) const { device_->read(out); }
  bool take_update(Floats& out) { return device_->take_update(out); }
  void finish_steps() { device_->finish_steps(); }
  // U <- 0, and so are the optimizer's moments. W is to be loaded anew.
  void drop_update();
  // out <- W, U <- 0. Returns: whether all of both is finite.
  bool take_parameters(Floats& out);
  void give(Floats& buffer) { device_->give(buffer); }
  OwnMemory* own_memory() { return device_->own_memory(); }

  std::size_t parameter_count() const { return device_->parameter_count(); }
  int batch() const { return batch_; }
  double part() const { return part_; }
  std::uint64_t steps() const { return steps_; }

 private:
  // At least `size` samples are drawn, in order.
  void draw(std::size_t size);
  // The samples of the next mini-batch; and done with them.
  Batch gather();
  void next();
  float rate() const;

  std::unique_ptr<Device> device_;
  const Dataset* data_;
  bool kept_;  // by the device: batches name their samples
  BatchSampler sampler_;
  LearningRate rate_;
  LocalOptimizerOptions optimizer_;
  int configured_batch_;
  int batch_;
  double part_ = 1;  // of the learning rate
  std::uint64_t steps_ = 0;
  std::size_t drawn_ = 0;               // of indices_, for the steps to come
  std::vector<std::uint32_t> indices_;  // [batch_max]
  // Of the next mini-batch, [batch_max] each: its samples by number where the data are kept, else
  // what they hold.
  std::vector<std::uint32_t> samples_;
  std::vector<float> inputs_;         // [batch_max, shape.count()]
  std::vector<std::int32_t> labels_;  // empty in a regression
  std::vector<float> targets_;        // only there
  std::vector<float> weights_;        // empty where samples have none
};

}  // namespace rubato::train
