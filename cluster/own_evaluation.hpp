// cluster/own_evaluation.hpp - what a worker measures on samples of its own: some of the parameters
// that it loads, and beside them their average, where the sync model averages. To pull the servers'
// average would cost as much as a commit. This one has the same weights, of loads in place of
// commits (server/parameter_average.hpp).
// Pure: time goes in. Memory: a float a parameter for the average. Threads: one owner.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/time.hpp"
#include "proto/messages.hpp"

namespace rubato::cluster {

class OwnEvaluation {
 public:
  // every: from one measurement to the next, at least; nothing: somebody else evaluates.
  OwnEvaluation(std::optional<Duration> every, bool averages)
      : every_(every), averages_(every && averages) {}

  // The shards went back: the average begins anew with the next load.
  void on_set_back() { loads_ = 0; }
  // Parameters were loaded. Returns: whether they are to be measured.
  bool on_load(Instant now, std::span<const float> parameters);
  // Since when those that are measured have been there.
  Instant loaded_at() const { return loaded_at_; }
  // What on_measured() waits for: the average, or else, if empty, the loaded parameters.
  std::span<const float> average() const;
  // A figure is there. Returns: what the scheduler is to hear, which is the better figure with the
  // gap between both; nothing if the average is still to be measured.
  std::optional<proto::Evaluation> on_measured(const proto::Evaluation& measured);

 private:
  std::optional<Duration> every_;
  bool averages_;
  std::optional<Instant> next_;
  Instant loaded_at_;
  std::uint64_t loads_ = 0;
  std::vector<float> average_;
  std::optional<proto::Evaluation> loaded_;  // measured; the average is not yet
};

}  // namespace rubato::cluster
