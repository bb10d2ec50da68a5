// sync/words.hpp - the words that sync models share with the wire: what a tuner tells workers and
// gates, what a worker reports, and what each value may be. proto/messages.hpp carries them as they
// are. A new field goes here, and into the wire schema with its codec.
// Plain data. Units: Durations ns; counts are of one worker since it joined.
#pragma once

#include <cstdint>
#include <limits>
#include <map>

#include "base/ids.hpp"
#include "base/time.hpp"

namespace rubato::sync {

// What a value may be. None of them may be NaN.
inline constexpr double kWeightMax = 1e6;
constexpr bool is_commit_rate(double rate) {
  return rate >= 1 && rate <= std::numeric_limits<double>::max();
}
constexpr bool is_weight(double weight) {
  return weight > 0 && weight <= kWeightMax;
}
constexpr bool is_local_rate(double rate) {
  return rate > 0 && rate <= 1;
}
inline constexpr double kQuickSteps = 0.25;
inline constexpr double kQuickStepsMax = 1e6;
constexpr bool is_quick_steps(double steps) {
  return steps >= 0 && steps <= kQuickStepsMax;
}
constexpr bool is_cosine(double cosine) {
  return cosine >= -1 && cosine <= 1;
}

// What a tuner tells one worker. Its commit rule reads the first three, its core the others.
// 0: as before.
struct Directive {
  double commit_rate = 1;         // commits per check period: is_commit_rate
  std::uint32_t local_steps = 0;  // mini-batches per commit
  Duration period = {};           // from a reply, or a commit, to the next commit: its rule's
  // Of the commits from now on, where steps take a local rate of 1: is_weight. The server applies
  // weight x U, divided by the mean local rate of the commit's steps.
  double weight = 1;
  // Samples of a mini-batch, from the next commit on. The weight then holds for commits whose steps
  // all had this batch.
  std::uint32_t batch = 0;
  double local_rate = 1;  // part of the learning rate that steps take: is_local_rate
  // Overlap::UnlessQuick: a commit that takes less than so many steps is waited for: is_quick_steps
  double quick_steps = kQuickSteps;
  bool operator==(const Directive&) const = default;
};

constexpr bool is_valid(const Directive& directive) {
  return is_commit_rate(directive.commit_rate) && is_weight(directive.weight) &&
         is_local_rate(directive.local_rate) && is_quick_steps(directive.quick_steps) &&
         directive.period >= Duration{};
}

// What a tuner tells the gates of all shards. It travels with the list of members. A shard may miss
// a phase that a later one replaces. The model gives the number its meaning.
struct Phase {
  std::uint32_t number = 0;
  struct Apart {
    std::uint64_t from = 0;  // commits after this one, counted since the worker joined
    bool excluded = false;
    bool operator==(const Apart&) const = default;
  };
  std::map<WorkerId, Apart> apart = {};  // members that are treated differently
  bool operator==(const Phase&) const = default;
};

// How the update of a worker's last commit lies, as cosines. 0 where the model does not measure it.
struct Alignment {
  double own = 0;  // with the worker's update before
  // With the way that the global parameters went while this update was made. A worker that waits
  // for replies knows that way for its update before only, and reports it for that one.
  double during = 0;
  bool operator==(const Alignment&) const = default;
};

// What a worker last reported of itself, as far as tuners read it.
struct WorkerProgress {
  std::uint64_t steps = 0;
  std::uint64_t commits = 0;  // with a complete reply
  Duration step_time = {};    // t_i, EWMA, any throttle included
  Duration overhead = {};     // O_i, EWMA
  std::uint32_t batch = 0;    // samples of the steps that step_time speaks of; 0: as configured
  Alignment alignment = {};   // of the last commit
};

}  // namespace rubato::sync
