#include "worker/host_replica.hpp"

#include <algorithm>

#include "base/check.hpp"
#include "base/numbers.hpp"

namespace rubato::worker {

void HostReplica::load(std::span<const float> parameters) {
  RUBATO_CHECK(parameters.size() == count(), "parameters of another model");
  std::copy(parameters.begin(), parameters.end(), weights_.begin());
}

void HostReplica::load_under_update(std::span<const float> parameters) {
  RUBATO_CHECK(parameters.size() == count(), "parameters of another model");
  for (std::size_t i = 0; i < parameters.size(); ++i) weights_[i] = parameters[i] - update_[i];
}

void HostReplica::read(std::span<float> out) const {
  RUBATO_CHECK(out.size() == count(), "room for another model");
  std::copy(weights_.begin(), weights_.end(), out.begin());
}

bool HostReplica::take_update(std::span<float> out) {
  RUBATO_CHECK(out.size() == count(), "room for another model");
  constexpr std::size_t kBlock = 4096;  // three passes over what is in the first cache
  bool finite = true;
  for (std::size_t at = 0; at < out.size(); at += kBlock) {
    const std::span<float> block =
        std::span(update_).subspan(at, std::min(kBlock, out.size() - at));
    finite = all_finite(block) && finite;
    std::copy(block.begin(), block.end(), out.begin() + static_cast<std::ptrdiff_t>(at));
    std::fill(block.begin(), block.end(), 0.0f);
  }
  return finite;
}

void HostReplica::descend(std::span<const float> gradient, float rate) {
  RUBATO_CHECK(gradient.size() == count(), "gradient of another model");
  float* weights = weights_.data();
  float* update = update_.data();
  for (std::size_t i = 0; i < gradient.size(); ++i) {
    const float change = rate * gradient[i];
    weights[i] -= change;
    update[i] += change;
  }
}

}  // namespace rubato::worker
