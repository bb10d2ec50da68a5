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

void HostReplica::load(std::span<const float> parameters) {
  RUBATO_CHECK(parameters.size() == count(), "parameters of another model");
  std::copy(parameters.begin(), parameters.end(), weights_.begin());
}

void HostReplica::load_under_update(std::span<const float> parameters) {
  if (zero_) return load(parameters);
  RUBATO_CHECK(parameters.size() == count(), "parameters of another model");
  subtract(parameters.data(), update_.data(), weights_.data(), count());
}

std::span<float> HostReplica::part(std::size_t begin, std::size_t count) {
  RUBATO_CHECK(zero_, "parameters replace W where no step lies on top of them");
  return std::span(weights_).subspan(begin, count);
}

void HostReplica::read(std::span<float> out) const {
  RUBATO_CHECK(out.size() == count(), "room for another model");
  std::copy(weights_.begin(), weights_.end(), out.begin());
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
  RUBATO_CHECK(gradient.size() == count(), "gradient of another model");
  update_.resize(count());  // nothing, but for the first time
  const auto step = zero_ ? begin_change : change;
  step(weights_.data(), update_.data(), gradient.data(), rate, count());
  zero_ = false;
}

}  // namespace rubato::train
