#include "cluster/own_evaluation.hpp"

#include <algorithm>
#include <utility>

#include "server/parameter_average.hpp"
#include "sync/model.hpp"

namespace rubato::cluster {
namespace {

constexpr float kShareMax = 0.5f;  // of one load, but for the first

}  // namespace

bool OwnEvaluation::on_load(Instant now, std::span<const float> parameters) {
  if (averages_) {
    average_.resize(parameters.size());
    ++loads_;
    const float share =
        loads_ == 1 ? 1 : std::min(kShareMax, server::ParameterAverage::share_of(loads_));
    for (std::size_t i = 0; i < average_.size(); ++i)
      average_[i] += share * (parameters[i] - average_[i]);
  }
  if (!every_ || (next_ && now < *next_)) return false;
  next_ = now + *every_;
  loaded_at_ = now;
  return true;
}

std::span<const float> OwnEvaluation::average() const {
  if (!loaded_) return {};
  return average_;
}

std::optional<proto::Evaluation> OwnEvaluation::on_measured(const proto::Evaluation& measured) {
  if (!averages_) return measured;
  if (!loaded_) {
    loaded_ = measured;
    return std::nullopt;
  }
  const auto loaded = *std::exchange(loaded_, std::nullopt);
  proto::Evaluation told = loaded.loss < measured.loss ? loaded : measured;
  told.gap = sync::gap_between(loaded.loss, measured.loss);
  return told;
}

}  // namespace rubato::cluster
