#include "worker/host_replica.hpp"

#include <algorithm>

#include "base/check.hpp"
#include "base/multiversion.hpp"

namespace rubato::worker {
namespace {

// Each one pass over memory.
RUBATO_MULTIVERSION void subtract(const float* from, const float* update, float* weights,
                                  std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) weights[i] = from[i] - update[i];
}

RUBATO_MULTIVERSION void take(float* update, float* out, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    out[i] = update[i];
    update[i] = 0;
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
  RUBATO_CHECK(parameters.size() == count(), "parameters of another model");
  subtract(parameters.data(), update_.data(), weights_.data(), count());
}

void HostReplica::read(std::span<float> out) const {
  RUBATO_CHECK(out.size() == count(), "room for another model");
  std::copy(weights_.begin(), weights_.end(), out.begin());
}

void HostReplica::take_update(std::span<float> out) {
  RUBATO_CHECK(out.size() == count(), "room for another model");
  take(update_.data(), out.data(), count());
}

void HostReplica::descend(std::span<const float> gradient, float rate) {
  RUBATO_CHECK(gradient.size() == count(), "gradient of another model");
  change(weights_.data(), update_.data(), gradient.data(), rate, count());
}

}  // namespace rubato::worker
