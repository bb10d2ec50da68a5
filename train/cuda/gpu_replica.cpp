#include "train/cuda/gpu_replica.hpp"

#include <algorithm>
#include <vector>

#include "base/check.hpp"
#include "train/cuda/must.hpp"

namespace rubato::train::cuda {

Result<GpuReplica> GpuReplica::make(Gpu& gpu, std::size_t parameters) {
  GpuReplica replica(gpu);
  replica.trained_ = TrainedPart(parameters);
  for (Memory* const each : {&replica.weights_, &replica.gradient_, &replica.updates_[0],
                             &replica.updates_[1], &replica.arrived_}) {
    RUBATO_ASSIGN(*each, allocate_floats(gpu, parameters));
  }
  RUBATO_ASSIGN(replica.broken_, gpu.allocate(sizeof(std::int32_t)));
  for (Memory* const each : {&replica.staged_, &replica.leaving_}) {
    RUBATO_ASSIGN(*each, gpu.allocate_pinned(parameters * sizeof(float)));
  }
  RUBATO_ASSIGN(replica.is_broken_, gpu.allocate_pinned(sizeof(std::int32_t)));
  for (auto* const each :
       {&replica.uploaded_, &replica.used_, &replica.taken_, &replica.downloaded_})
    *each = gpu.event();
  return replica;
}

void GpuReplica::freeze(const TrainedPart& part, std::span<const float> model) {
  RUBATO_CHECK(model.size() == parameters() && part.parameters() == model.size(),
               "parameters of another model");
  begin_parts();
  std::ranges::copy(model, this->part(0, model.size()).begin());
  put(0, model.size());
  trained_ = part;
  std::vector<std::uint32_t> places(part.count());
  part.for_each_piece([&](std::uint64_t at, std::uint64_t begin, std::uint64_t n) {
    for (std::uint64_t i = 0; i < n; ++i) places[at + i] = static_cast<std::uint32_t>(begin + i);
  });
  const std::size_t bytes = places.size() * sizeof(places[0]);
  places_ = must(gpu_->allocate(bytes));
  gpu_->copy(Stream::Compute, places_.as<std::uint32_t>(), places.data(), bytes);
  gpu_->wait(Stream::Compute);
}

void GpuReplica::stage(std::span<const float> parameters) {
  RUBATO_CHECK(parameters.size() == count(), "parameters of another model");
  gpu_->wait(*uploaded_);
  std::ranges::copy(parameters, staged_.as<float>());
  gpu_->wait(Stream::Upload, *used_);
  gpu_->copy(Stream::Upload, arrived_.as<float>(), staged_.as<float>(), parameters.size_bytes());
  gpu_->record(*uploaded_, Stream::Upload);
}

void GpuReplica::load_staged(bool under_update) {
  gpu_->wait(Stream::Compute, *uploaded_);
  gpu_->launch(
      Stream::Compute, count(),
      LoadParameters{places(), arrived_.as<float>(), under_update ? update() : nullptr, weights()});
  gpu_->record(*used_, Stream::Compute);
}

void GpuReplica::begin_parts() {
  gpu_->wait(*uploaded_);
  gpu_->record(*used_, Stream::Compute);
  gpu_->wait(Stream::Upload, *used_);
}

std::span<float> GpuReplica::part(std::size_t begin, std::size_t count) {
  RUBATO_CHECK(trained_.all() && begin + count <= parameters(),
               "parameters replace W where nothing is frozen");
  return {staged_.as<float>() + begin, count};
}

void GpuReplica::put(std::size_t begin, std::size_t count) {
  gpu_->copy(Stream::Upload, weights() + begin, staged_.as<float>() + begin, count * sizeof(float));
  gpu_->record(*uploaded_, Stream::Upload);
  gpu_->wait(Stream::Compute, *uploaded_);
}

std::span<const float> GpuReplica::fetch(const float* from) const {
  gpu_->copy(Stream::Compute, staged_.as<float>(), from, parameters() * sizeof(float));
  gpu_->wait(Stream::Compute);
  return {staged_.as<float>(), parameters()};
}

void GpuReplica::read(std::span<float> out) const {
  RUBATO_CHECK(out.size() == count(), "room for another model");
  const auto model = fetch(weights());
  trained_.for_each_piece([&](std::uint64_t at, std::uint64_t begin, std::uint64_t n) {
    std::copy_n(model.data() + begin, n, out.data() + at);
  });
}

void GpuReplica::read_gradient(std::span<float> out) const {
  RUBATO_CHECK(out.size() == parameters(), "room for another model's gradient");
  std::ranges::copy(fetch(gradient()), out.begin());
}

void GpuReplica::begin_update(const Packing& packing) {
  RUBATO_CHECK(!leaves_, "an update is on its way already");
  leaves_ = true;
  auto* const broken = broken_.as<std::int32_t>();
  gpu_->record(*taken_, Stream::Compute);
  gpu_->wait(Stream::Download, *taken_);
  gpu_->clear(Stream::Download, broken, sizeof(std::int32_t));
  gpu_->launch(Stream::Download, count(), FindBroken{update(), broken});
  gpu_->copy(Stream::Download, is_broken_.as<void>(), broken, sizeof(std::int32_t));
  leaving_floats_ =
      packing.runs.empty() ? count() : packer_.pack(*gpu_, packing, update(), count(), broken);
  gpu_->copy(Stream::Download, leaving_.as<float>(), update(), leaving_floats_ * sizeof(float));
  gpu_->record(*downloaded_, Stream::Download);
  current_ = 1 - current_;
  gpu_->clear(Stream::Compute, update(), count() * sizeof(float));
}

bool GpuReplica::end_update(Floats& out) {
  RUBATO_CHECK(leaves_, "no update is on its way");
  leaves_ = false;
  gpu_->wait(*downloaded_);
  const bool finite = *is_broken_.as<std::int32_t>() == 0;
  if (!finite && leaving_floats_ < count()) {  // it was not packed
    leaving_floats_ = count();
    gpu_->copy(Stream::Download, leaving_.as<float>(), updates_[1 - current_].as<float>(),
               count() * sizeof(float));
    gpu_->record(*downloaded_, Stream::Download);
    gpu_->wait(*downloaded_);
  }
  out.resize(leaving_floats_);
  std::copy_n(leaving_.as<float>(), leaving_floats_, out.begin());
  return finite;
}

}  // namespace rubato::train::cuda
