#include "train/cuda/cuda_device.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/check.hpp"
#include "train/cuda/must.hpp"

namespace rubato::train {

using cuda::must;
using cuda::Pass;
using cuda::Stream;

namespace {

// Sizes of batches whose steps stay recorded.
constexpr std::size_t kSizesMax = 8;

// The most values of one sample that a layer has at once.
std::size_t values_of(const Layer& layer, const LayerPlan& plan) {
  const auto output = static_cast<std::size_t>(plan.output.count());
  if (!std::holds_alternative<Lstm>(layer)) return output;
  const auto features = static_cast<std::size_t>(plan.input.channels) * plan.input.width;
  return plan.input.height * std::max(4 * output, features + output);
}

Result<void> check_sizes(const ModelSpec& spec, const std::vector<LayerPlan>& plans,
                         int batch_max) {
  constexpr std::size_t kMost = std::numeric_limits<std::uint32_t>::max();
  std::size_t most = static_cast<std::size_t>(spec.input.count());
  for (std::size_t i = 0; i < plans.size(); ++i)
    most = std::max(most, values_of(spec.layers[i], plans[i]));
  if (most <= kMost / static_cast<std::size_t>(batch_max)) return {};
  return fail(ErrorCode::BadInput,
              fmt::format("model {}: a layer has {} values of one sample, so a GPU takes batches "
                          "of up to {}, not {}",
                          spec.name, most, kMost / most, batch_max));
}

}  // namespace

CudaDevice::~CudaDevice() {
  wait_for_all();
}

void CudaDevice::wait_for_all() {
  for (const Stream stream : {Stream::Upload, Stream::Compute, Stream::Download})
    gpu_->wait(stream);
}

Result<void> CudaDevice::build(const ModelSpec& spec, int batch_max) {
  RUBATO_CHECK(stages_.empty(), "build() twice");
  RUBATO_CHECK(batch_max > 0, "a batch of no samples");
  RUBATO_ASSIGN(const auto plans, plan_layers(spec));
  RUBATO_TRY(check_sizes(spec, plans, batch_max));
  batch_max_ = batch_max;
  input_ = spec.input;
  classes_ = spec.classes;
  if (const auto made = make_parts(spec, plans); !made)
    return fail(made.error().code, fmt::format("model {} in batches of {}: {}", spec.name,
                                               batch_max, made.error().message));
  return {};
}

Result<void> CudaDevice::make_parts(const ModelSpec& spec, const std::vector<LayerPlan>& plans) {
  const std::size_t parameters = train::parameter_count(spec);
  RUBATO_ASSIGN(replica_, cuda::GpuReplica::make(*gpu_, parameters));
  RUBATO_ASSIGN(optimizer_, cuda::GpuOptimizer::make(*gpu_, parameters));
  RUBATO_ASSIGN(ring_, cuda::BatchRing::make(*gpu_, spec.input, batch_max_));
  RUBATO_ASSIGN(loss_, cuda::LossStage::make(*gpu_, spec, batch_max_));
  RUBATO_ASSIGN(scores_, gpu_->allocate_pinned(static_cast<std::size_t>(batch_max_) * classes_ *
                                               sizeof(float)));
  RUBATO_TRY(add_stages(spec, plans));
  sizes_.reserve(kSizesMax);
  return prepare(batch_max_);
}

// The stage of a layer. `relu`: it takes the ReLU behind it along.
struct CudaDevice::MakeStage {
  cuda::Gpu& gpu;
  const LayerPlan& plan;
  bool relu;
  int batch_max;

  Result<Work> operator()(const Dense&) const {
    return cuda::DenseStage::make(gpu, plan, relu, batch_max);
  }
  Result<Work> operator()(const Conv2d& conv) const { return cuda::ConvStage(plan, conv, relu); }
  Result<Work> operator()(const MaxPool2d& pool) const {
    return cuda::PoolStage::make(gpu, plan, pool, batch_max);
  }
  Result<Work> operator()(const LocalResponseNorm& norm) const {
    return cuda::NormStage::make(gpu, plan, norm, batch_max);
  }
  Result<Work> operator()(const Relu&) const { return cuda::ReluStage(plan); }
  Result<Work> operator()(const Lstm&) const { return cuda::LstmStage::make(gpu, plan, batch_max); }
};

Result<void> CudaDevice::add_stages(const ModelSpec& spec, const std::vector<LayerPlan>& plans) {
  for (std::size_t i = 0; i < plans.size(); ++i) {
    const LayerPlan& plan = plans[i];
    const Layer& layer = spec.layers[i];
    const bool has_bias =
        std::holds_alternative<Dense>(layer) || std::holds_alternative<Conv2d>(layer);
    const bool relu =
        has_bias && i + 1 < plans.size() && std::holds_alternative<Relu>(spec.layers[i + 1]);
    RUBATO_ASSIGN(auto work, std::visit(MakeStage{*gpu_, plan, relu, batch_max_}, layer));
    const std::size_t count = static_cast<std::size_t>(batch_max_) * plan.output.count();
    RUBATO_ASSIGN(auto output, cuda::allocate_floats(*gpu_, count));
    RUBATO_ASSIGN(auto output_gradient, cuda::allocate_floats(*gpu_, count));
    stages_.push_back({std::move(work), std::move(output), std::move(output_gradient),
                       plan.bias_offset + plan.bias_count});
    if (relu) ++i;
  }
  return {};
}

Result<void> CudaDevice::prepare(int size) {
  const auto known = std::ranges::find(sizes_, size);
  if (known != sizes_.end()) {
    std::rotate(known, known + 1, sizes_.end());
    return {};
  }
  const auto each_convolution = [&](auto f) {
    for (Stage& stage : stages_)
      if (auto* const conv = std::get_if<cuda::ConvStage>(&stage.work)) f(*conv);
  };
  if (sizes_.size() == kSizesMax) {
    ring_->forget(sizes_.front());
    each_convolution([&](cuda::ConvStage& conv) { conv.forget(sizes_.front()); });
    sizes_.erase(sizes_.begin());
  }
  Result<void> prepared;
  each_convolution([&](cuda::ConvStage& conv) {
    if (prepared) prepared = conv.prepare(*gpu_, size);
  });
  RUBATO_TRY(prepared);
  sizes_.push_back(size);
  return {};
}

void CudaDevice::freeze(const TrainedPart& trained, std::span<const float> model) {
  RUBATO_CHECK(ring_->steps() == 0, "parameters are frozen before the first step");
  replica_->freeze(trained, model);
}

void CudaDevice::set_optimizer(const LocalOptimizerOptions& options) {
  wait_for_all();
  ring_->forget_all();
  optimizer_->set(*gpu_, options);
}

bool CudaDevice::keep(const Dataset& data) {
  RUBATO_CHECK(!data_, "data are kept already");
  RUBATO_CHECK(data.shape == input_ && data.classes == classes_, "data of another model");
  for (const std::int32_t label : data.labels)
    RUBATO_CHECK(label >= 0 && label < classes_, "label outside the model's classes");
  data_ = cuda::KeptData::make(*gpu_, data);
  return data_.has_value();
}

bool CudaDevice::take_update(const Packing& packing, Floats& out) {
  replica_->begin_update(packing);
  const bool finite = replica_->end_update(out);
  ring_->collect(ring_->steps());
  return finite;
}

void CudaDevice::check(const Batch& batch) const {
  if (batch.samples.empty()) {
    check_batch(batch, input_, batch_max_);
    for (const std::int32_t label : batch.labels)
      RUBATO_CHECK(label >= 0 && label < classes_, "label outside the model's classes");
    return;
  }
  RUBATO_CHECK(data_, "samples are chosen from data that the device keeps");
  RUBATO_CHECK(batch.size >= 1 && batch.size <= batch_max_, "batch size outside 1..batch_max");
  RUBATO_CHECK(batch.samples.size() == static_cast<std::size_t>(batch.size) &&
                   batch.inputs.empty() && batch.weights.empty() && batch.answers().size() == 0,
               "a batch of chosen samples has nothing else");
  for (const std::uint32_t sample : batch.samples)
    RUBATO_CHECK(sample < data_->size(), "a sample index lies outside the dataset");
}

CudaDevice::Slot& CudaDevice::fill(const Batch& batch, float rate) {
  check(batch);
  must(prepare(batch.size));
  cuda::StepScalars scalars = optimizer_->scalars(rate);
  scalars.update = replica_->update();
  const bool weighted = batch.samples.empty() ? !batch.weights.empty() : data_->weighted();
  return ring_->fill(batch, weighted, scalars);
}

void CudaDevice::queue_samples(const Slot& slot) {
  if (slot.kind().chosen)
    data_->gather(*gpu_, slot.samples(), slot.kind().size, slot.inputs(), slot.answers(),
                  slot.weights());
}

bool CudaDevice::queue_forward(const Slot& slot, const Arriving* arriving) {
  const Pass pass{*gpu_, replica_->weights(), nullptr, slot.kind().size};
  const float* input = slot.inputs();
  std::size_t begin = 0;
  for (const Stage& stage : stages_) {
    if (arriving && stage.end > begin) {
      const std::size_t count = stage.end - begin;
      if (!(*arriving)(begin, replica_->part(begin, count))) return false;
      replica_->put(begin, count);
      begin = stage.end;
    }
    auto* const output = stage.output.as<float>();
    std::visit([&](const auto& work) { work.forward(pass, input, output); }, stage.work);
    input = output;
  }
  return true;
}

void CudaDevice::queue_loss(const Slot& slot, float* gradient) {
  const auto* const weights =
      slot.kind().weighted ? reinterpret_cast<const float*>(slot.weights()) : nullptr;
  loss_->run(*gpu_, stages_.back().output.as<float>(), slot.answers(), weights, slot.kind().size,
             gradient, slot.sums());
}

void CudaDevice::queue_backward(const Slot& slot) {
  const Pass pass{*gpu_, replica_->weights(), replica_->gradient(), slot.kind().size};
  queue_loss(slot, stages_.back().output_gradient.as<float>());
  for (std::size_t i = stages_.size(); i-- > 0;) {
    const Stage& stage = stages_[i];
    const float* const input = i == 0 ? slot.inputs() : stages_[i - 1].output.as<float>();
    float* const input_gradient = i == 0 ? nullptr : stages_[i - 1].output_gradient.as<float>();
    std::visit(
        [&](const auto& work) {
          work.backward(pass, input, stage.output.as<float>(), stage.output_gradient.as<float>(),
                        input_gradient);
        },
        stage.work);
  }
}

void CudaDevice::queue_step(const Slot& slot) {
  queue_samples(slot);
  queue_forward(slot, nullptr);
  queue_backward(slot);
  optimizer_->step(*gpu_, *replica_, slot.scalars());
}

cuda::Graph& CudaDevice::recorded_step(Slot& slot) {
  std::unique_ptr<cuda::Graph>& graph = slot.recorded();
  if (!graph) {
    gpu_->begin_capture();
    queue_step(slot);
    graph = must(gpu_->end_capture());
  }
  return *graph;
}

BatchResult CudaDevice::step(const Batch& batch, float rate) {
  Slot& slot = fill(batch, rate);
  if (ring_->is_first(slot.kind())) {  // libraries load their code, which cannot be recorded
    queue_step(slot);
  } else {
    gpu_->launch(recorded_step(slot));
  }
  return end_step(slot);
}

BatchResult CudaDevice::end_step(Slot& slot) {
  optimizer_->step_made();
  ring_->end_step(slot);
  return ring_->take_results();
}

std::optional<BatchResult> CudaDevice::step_early(const Batch& batch, float rate,
                                                  const Arriving& arriving) {
  Slot& slot = fill(batch, rate);
  queue_samples(slot);
  replica_->begin_parts();
  if (!queue_forward(slot, &arriving)) {
    ring_->give_up(slot);
    return std::nullopt;
  }
  queue_backward(slot);
  optimizer_->step(*gpu_, *replica_, slot.scalars());
  return end_step(slot);
}

BatchResult CudaDevice::gradient(const Batch& batch, std::span<float> out) {
  Slot& slot = fill(batch, 0);
  queue_samples(slot);
  queue_forward(slot, nullptr);
  queue_backward(slot);
  replica_->read_gradient(out);
  return ring_->finish(slot);
}

BatchResult CudaDevice::evaluate(const Batch& batch) {
  Slot& slot = fill(batch, 0);
  queue_samples(slot);
  queue_forward(slot, nullptr);
  queue_loss(slot, nullptr);
  gpu_->copy(Stream::Compute, scores_.as<float>(), stages_.back().output.as<float>(),
             static_cast<std::size_t>(batch.size) * classes_ * sizeof(float));
  return ring_->finish(slot);
}

void CudaDevice::scores(std::span<float> out) const {
  RUBATO_CHECK(out.size() <= static_cast<std::size_t>(batch_max_) * classes_,
               "scores of more samples than were evaluated");
  std::copy_n(scores_.as<float>(), out.size(), out.begin());
}

Result<std::unique_ptr<Device>> make_cuda_device(int number, cuda::Precision precision) {
  RUBATO_ASSIGN(auto gpu, cuda::open_gpu(number, precision));
  return std::make_unique<CudaDevice>(std::move(gpu));
}

}  // namespace rubato::train
