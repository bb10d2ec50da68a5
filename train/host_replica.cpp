#include "train/host_replica.hpp"

#include <algorithm>
#include <utility>

#include "base/check.hpp"
#include "base/multiversion.hpp"
#include "base/numbers.hpp"

namespace rubato::train {
namespace {

// Each one pass over memory.
RUBATO_MULTIVERSION void subtract(const float* from, const float* update, float* weights,
                                  std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) weights[i] = from[i] - update[i];
}

// The first change of an update that is zero, whatever its memory holds.
RUBATO_MULTIVERSION void begin_change(float* weights, float* update, const float* gradient,
                                      float rate, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const float by = rate * gradient[i];
    weights[i] -= by;
    update[i] = 0.0f + by;  // as change() of 0, to the sign of a zero
  }
}

RUBATO_MULTIVERSION void change(float* weights, float* update, const float* gradient, float rate,
                                std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const float by = rate * gradient[i];
    weights[i] -= by;
    update[i] += by;
  }
}

}  // namespace

void HostReplica::freeze(const TrainedPart& part, std::span<const float> model) {
  RUBATO_CHECK(zero_ && model.size() == weights_.size() && part.parameters() == model.size(),
               "parameters of another model");
  trained_ = part;
  std::copy(model.begin(), model.end(), weights_.begin());
  update_ = {};
}

void HostReplica::load(std::span<const float> parameters) {
  trained_.put(parameters, weights_);
}

void HostReplica::load_under_update(std::span<const float> parameters) {
  if (zero_) return load(parameters);
  RUBATO_CHECK(parameters.size() == count(), "parameters of another model");
  trained_.for_each_piece([&](std::uint64_t at, std::uint64_t begin, std::uint64_t n) {
    subtract(parameters.data() + at, update_.data() + at, weights_.data() + begin, n);
  });
}

std::span<float> HostReplica::part(std::size_t begin, std::size_t count) {
  RUBATO_CHECK(zero_ && trained_.all(), "parameters replace W where no step lies on top of them");
  return std::span(weights_).subspan(begin, count);
}

void HostReplica::read(std::span<float> out) const {
  RUBATO_CHECK(out.size() == count(), "room for another model");
  trained_.for_each_piece([&](std::uint64_t at, std::uint64_t begin, std::uint64_t n) {
    std::copy_n(weights_.data() + begin, n, out.data() + at);
  });
}

bool HostReplica::take_update(Floats& out) {
  RUBATO_CHECK(out.empty() || out.size() == count(), "room for another model");
  if (zero_) {
    out.assign(count(), 0.0f);
    return true;
  }
  std::swap(update_, out);
  zero_ = true;
  return all_finite(out);
}

void HostReplica::give(Floats& buffer) {
  RUBATO_CHECK(buffer.empty() || buffer.size() == count(), "memory for another model");
  if (update_.empty()) std::swap(update_, buffer);
}

void HostReplica::descend(std::span<const float> gradient, float rate) {
  RUBATO_CHECK(gradient.size() == weights_.size(), "gradient of another model");
  update_.resize(count());  // nothing, but for the first time
  const auto step = zero_ ? begin_change : change;
  trained_.for_each_piece([&](std::uint64_t at, std::uint64_t begin, std::uint64_t n) {
    step(weights_.data() + begin, update_.data() + at, gradient.data() + begin, rate, n);
  });
  zero_ = false;
}

}  // namespace rubato::train
