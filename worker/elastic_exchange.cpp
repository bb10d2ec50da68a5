#include "worker/elastic_exchange.hpp"

namespace rubato::worker {

void elastic_exchange(std::span<const float> committed, std::span<const float> answer,
                      double weight, std::vector<float>& out) {
  const auto part = static_cast<float>(weight / (1 - weight));
  out.resize(answer.size());
  for (std::size_t i = 0; i < answer.size(); ++i)
    out[i] = committed[i] - part * (committed[i] - answer[i]);
}

}  // namespace rubato::worker
