// EASGD end to end, without trainers, sockets or clocks: worker, server and scheduler cores against
// the paper's loop in double, and over links that lose and repeat.
#include <doctest/doctest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <cmath>

#include "base/rng.hpp"
#include "sync/easgd.hpp"
#include "tests/server/core_cluster.hpp"

namespace rubato::tests {
namespace {

constexpr int kSteps = 3;  // tau

CoreClusterOptions elastic() {
  CoreClusterOptions options;
  options.sync = "easgd";
  options.sync_options.of<sync::EasgdOptions>().local_steps = kSteps;
  options.servers = 2;
  options.initial = {1, 2, 3, 4, 5, 6, 7};
  options.chunk = 2;
  options.step_times = {Duration::from_ms(50), Duration::from_ms(83), Duration::from_ms(171)};
  return options;
}

// Zhang et al. 2015, Alg. 1: exchanges in the order in which the workers get to them.
class Paper {
 public:
  Paper(const std::vector<float>& initial, const std::vector<Duration>& step_times, Duration trip)
      : centre_(initial.begin(), initial.end()) {
    for (const Duration step : step_times)
      workers_.push_back({centre_, (step * kSteps).seconds() + trip.seconds(), {}});
    for (auto& worker : workers_) worker.next = worker.interval;
  }
  // The next exchange.
  void turn() {
    const auto next =
        std::min_element(workers_.begin(), workers_.end(),
                         [](const Worker& a, const Worker& b) { return a.next < b.next; });
    const auto k = static_cast<std::size_t>(next - workers_.begin());
    const double alpha = 0.9 / static_cast<double>(workers_.size());
    for (std::size_t i = 0; i < centre_.size(); ++i) {
      double& x = next->x[i];
      const auto target = static_cast<double>((7 * k + 3 * i) % 11);
      for (int step = 0; step < kSteps; ++step) x -= 0.1 * (x - target);
      const double d = alpha * (x - centre_[i]);
      x -= d;
      centre_[i] += d;
    }
    next->next += next->interval;
  }
  const std::vector<double>& centre() const { return centre_; }

 private:
  struct Worker {
    std::vector<double> x;
    double interval;
    double next;
  };
  std::vector<double> centre_;
  std::vector<Worker> workers_;
};

TEST_CASE("easgd: cores of three unequal workers on two shards run the paper's algorithm") {
  const auto options = elastic();
  CoreCluster cluster(options);
  // A commit is one message there and one back, 1 ms each.
  Paper paper(options.initial, options.step_times, options.latency * 2);
  for (Version exchange = 1; exchange <= 40; ++exchange) {
    cluster.run_until([&] { return cluster.all_at_version(exchange); });
    paper.turn();
    const auto ours = cluster.parameters();
    for (std::size_t i = 0; i < ours.size(); ++i)
      CHECK(static_cast<double>(ours[i]) == doctest::Approx(paper.centre()[i]).epsilon(1e-4));
  }
}

TEST_CASE("easgd: over lossy links each shard applies each exchange once, and all stay in bounds") {
  CHECK(rc::check("EASGD with losses and duplicates", [] {
    Rng rng(*rc::gen::arbitrary<std::uint64_t>());
    auto options = elastic();
    options.patient = true;
    bool lossy = false;  // from the start on: nobody repeats what a tuner says
    options.copies = [&](const proto::Message&) {
      const auto draw = lossy ? rng.below(5) : 4;
      return draw == 0 ? 0 : draw == 1 ? 2 : 1;
    };
    CoreCluster cluster(options);
    cluster.run_until([&] { return cluster.all_at_version(1); });
    lossy = true;
    cluster.run_until([&] { return cluster.all_at_version(60); });
    std::uint64_t answered = 0, begun = 0;
    for (std::size_t i = 0; i < options.step_times.size(); ++i) {
      RC_ASSERT(!cluster.worker(i).failure());
      const std::uint64_t commits = cluster.worker(i).progress().commits;
      answered += commits;
      begun += commits + 1;
    }
    for (std::size_t s = 0; s < options.servers; ++s) {
      RC_ASSERT(cluster.server(s).stats().commits_applied >= answered);
      RC_ASSERT(cluster.server(s).stats().commits_applied <= begun);
    }
    // Every move is towards something between the targets, 0 to 10, or the start.
    for (const float w : cluster.parameters()) RC_ASSERT(w >= -1e-3f && w <= 10.001f);
  }));
}

}  // namespace
}  // namespace rubato::tests
