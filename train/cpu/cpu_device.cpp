#include "train/cpu/cpu_device.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.hpp"
#include "train/cpu/one_thread.hpp"
#include "train/cpu/product_cache.hpp"
#include "train/loss.hpp"

namespace rubato::train {

Result<void> CpuDevice::build(const ModelSpec& spec, int batch_max) {
  RUBATO_CHECK(stages_.empty(), "build() twice");
  RUBATO_CHECK(batch_max > 0, "a batch of no samples");
  RUBATO_ASSIGN(const auto plans, plan_layers(spec));
  const OneThread alone;
  batch_max_ = batch_max;
  try {
    add_stages(spec, plans);
  } catch (const dnnl::error& error) {
    return fail(ErrorCode::Unsupported,
                fmt::format("model {}: oneDNN refuses it ({}); use device = \"reference\"",
                            spec.name, error.what()));
  }
  hold(train::parameter_count(spec));
  input_ = spec.input;
  loss_ = spec.loss;
  classes_ = spec.classes;
  class_weights_ = spec.class_weights;
  if (options_.measure) choose_products();
  return {};
}

// One batch of zeros asks for all products there are, in the memory that steps use.
void CpuDevice::choose_products() {
  const std::vector<float> inputs(static_cast<std::size_t>(batch_max_) * input_.count());
  const bool classes = loss_ != Loss::MeanSquaredError;
  const std::vector<std::int32_t> labels(classes ? static_cast<std::size_t>(batch_max_) : 0);
  const std::vector<float> targets(classes ? 0 : static_cast<std::size_t>(batch_max_));
  ProductCalls calls;
  multiplier_.note_in(&calls);
  gradient({inputs, labels, batch_max_, targets}, gradient_);
  multiplier_.note_in(nullptr);
  const OneThread alone;
  multiplier_.choose(
      choose_libraries(calls, {.directory = options_.cache, .machine = product_machine()}));
}

void CpuDevice::add_stages(const ModelSpec& spec, const std::vector<LayerPlan>& plans) {
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  std::size_t first = 0;
  const auto add = [&](auto work, const LayerPlan& last) {
    const std::size_t count = static_cast<std::size_t>(batch_max_) * last.output.count();
    auto output = std::make_unique_for_overwrite<float[]>(count);
    auto output_gradient = std::make_unique_for_overwrite<float[]>(count);
    stages_.emplace_back(std::move(work), std::move(output), std::move(output_gradient),
                         last.bias_offset + last.bias_count, first);
  };
  for (std::size_t i = 0; i < plans.size();) {
    first = i;
    if (std::holds_alternative<Dense>(spec.layers[i])) {
      const bool relu = i + 1 < plans.size() && std::holds_alternative<Relu>(spec.layers[i + 1]);
      add(DenseStage(plans[i], relu, multiplier_), plans[i]);
      i += relu ? 2 : 1;
    } else if (std::holds_alternative<Lstm>(spec.layers[i])) {
      add(LstmStage(plans[i], batch_max_, multiplier_), plans[i]);
      ++i;
    } else {
      ImageLayers image;
      image.first = i == 0;
      for (; i < plans.size() && !is_flat(spec.layers[i]); ++i) {
        image.layers.push_back(spec.layers[i]);
        image.plans.push_back(plans[i]);
      }
      if (const LaneKernels* kernels = LaneStage::suited(image, batch_max_)) {
        add(LaneStage(*kernels, std::move(image), batch_max_), plans[i - 1]);
      } else {
        add(ImageStage(std::move(image), batch_max_, engine), plans[i - 1]);
      }
    }
  }
}

bool CpuDevice::forward(const Batch& batch, const Arriving* arriving) {
  const float* input = batch.inputs.data();
  std::uint64_t begin = 0;
  for (Stage& stage : stages_) {
    if (arriving && stage.end > begin) {
      if (!(*arriving)(begin, replica_.part(begin, stage.end - begin))) return false;
      begin = stage.end;
    }
    std::visit(
        [&](auto& work) {
          work.forward(replica_.weights().data(), input, stage.output.get(), batch.size);
        },
        stage.work);
    input = stage.output.get();
  }
  return true;
}

BatchResult CpuDevice::backward(const Batch& batch, float* gradient) {
  const Stage& last = stages_.back();
  const BatchResult result =
      loss_and_gradient(loss_, last.output.get(), batch.answers(), batch.size, classes_,
                        last.output_gradient.get(), class_weights_);
  if (clock_) clock_->lap(StepPart::Loss);
  for (std::size_t i = stages_.size(); i-- > 0;) {
    const float* input = i == 0 ? batch.inputs.data() : stages_[i - 1].output.get();
    float* input_gradient = i == 0 ? nullptr : stages_[i - 1].output_gradient.get();
    std::visit(
        [&](auto& work) {
          work.backward(replica_.weights().data(), input, stages_[i].output.get(),
                        stages_[i].output_gradient.get(), input_gradient, gradient, batch.size);
        },
        stages_[i].work);
  }
  return result;
}

void CpuDevice::set_clock(LayerClock* clock) {
  clock_ = clock;
  for (Stage& stage : stages_)
    std::visit([&](auto& work) { work.set_clock({clock, stage.first_layer}); }, stage.work);
}

BatchResult CpuDevice::step(const Batch& batch, float rate) {
  if (clock_) clock_->start();
  const BatchResult result = HostDevice::step(batch, rate);
  if (clock_) clock_->lap(StepPart::Update);
  return result;
}

std::optional<BatchResult> CpuDevice::step_early(const Batch& batch, float rate,
                                                 const Arriving& arriving) {
  check_batch(batch, input_, batch_max_);
  const OneThread alone;
  if (!forward(batch, &arriving)) return std::nullopt;
  const BatchResult result = backward(batch, gradient_.data());
  descend(rate);
  return result;
}

BatchResult CpuDevice::gradient(const Batch& batch, std::span<float> out) {
  RUBATO_CHECK(out.size() == gradient_.size(), "room for another model's gradient");
  check_batch(batch, input_, batch_max_);
  const OneThread alone;
  forward(batch);
  return backward(batch, out.data());
}

BatchResult CpuDevice::evaluate(const Batch& batch) {
  check_batch(batch, input_, batch_max_);
  const OneThread alone;
  forward(batch);
  return loss_and_gradient<float>(loss_, stages_.back().output.get(), batch.answers(), batch.size,
                                  classes_, nullptr, class_weights_);
}

void CpuDevice::scores(std::span<float> out) const {
  RUBATO_CHECK(out.size() <= static_cast<std::size_t>(batch_max_) * classes_,
               "scores of more samples than were evaluated");
  std::copy_n(stages_.back().output.get(), out.size(), out.begin());
}

}  // namespace rubato::train
