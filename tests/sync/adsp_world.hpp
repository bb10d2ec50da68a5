// tests/sync/adsp_world.hpp - ADSP's rules and tuner among workers that only pass time: steps of
// jittered length, commits that take their overhead, no parameters. Replies and reports are
// instant.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <vector>

#include "base/rng.hpp"
#include "sync/adsp.hpp"
#include "tests/sync/trace.hpp"

namespace rubato::sync {

struct WorldWorker {
  double step_seconds = 1;
  double jitter = 0;  // a step takes (1 +- jitter) x step_seconds
  double overhead_seconds = 0;
};

struct WorldResult {
  std::vector<std::vector<std::uint64_t>>
      counts;  // c_i at every checkpoint, before the next target
  std::vector<Decision> decisions;
  std::vector<std::vector<double>> commit_gaps;  // seconds between commits, by worker
};

class AdspWorld {
 public:
  AdspWorld(AdspOptions options, const std::vector<WorldWorker>& workers, std::uint64_t seed)
      : options_(options), tuner_(options, 0), rng_(seed) {
    for (const WorldWorker& worker : workers) {
      const auto id = static_cast<std::uint32_t>(workers_.size());
      workers_.push_back(
          {.world = worker, .rule = std::make_unique<AdspRule>(options.check_period)});
      tuner_.on_join({}, {id});
      workers_.back().rule->on_start({}, true);
      begin_step(workers_.back());
    }
    tuner_.on_start({});
    drain_tuner({});
  }

  // speed(R): how fast the loss falls, 1 / (0.01 x work + 0.5) + 0.3 with work = seconds x speed.
  WorldResult run(double seconds, const std::function<double(double)>& speed) {
    const Instant end = at_seconds(seconds);
    while (true) {
      const auto worker =
          std::min_element(workers_.begin(), workers_.end(),
                           [](const Worker& a, const Worker& b) { return a.next < b.next; });
      const Instant wakeup = *tuner_.poll_wakeup();
      const Instant now = std::min({worker->next, wakeup, evaluation_});
      if (now > end) return result_;
      if (now == wakeup) {
        checkpoint(now);
      } else if (now == evaluation_) {
        evaluate(now, speed(rate_));
      } else if (worker->committing) {
        reply(*worker);
      } else {
        step_end(*worker);
      }
      drain_tuner(now);
    }
  }

 private:
  struct Worker {
    WorldWorker world;
    std::unique_ptr<AdspRule> rule;
    WorkerProgress progress = {};
    bool committing = false;
    Instant next = {};  // end of the step or of the commit
    Instant last_reply = {};
  };

  void begin_step(Worker& worker) {
    const double factor = 1 + worker.world.jitter * (2 * rng_.uniform() - 1);
    const Duration time = Duration::from_seconds(worker.world.step_seconds * factor);
    worker.progress.step_time = time;
    worker.next = worker.next + time;
  }

  void step_end(Worker& worker) {
    ++worker.progress.steps;
    if (!worker.rule->on_step_end(worker.next)) return begin_step(worker);
    worker.rule->on_commit_sent(worker.next);
    worker.committing = true;
    worker.next = worker.next + Duration::from_seconds(worker.world.overhead_seconds);
  }

  void reply(Worker& worker) {
    const Duration overhead = Duration::from_seconds(worker.world.overhead_seconds);
    worker.rule->on_reply(worker.next, overhead);
    worker.committing = false;
    ++worker.progress.commits;
    worker.progress.overhead = (worker.progress.overhead + overhead) * 0.5;
    const auto id = static_cast<std::uint32_t>(&worker - workers_.data());
    result_.commit_gaps.resize(workers_.size());
    result_.commit_gaps[id].push_back((worker.next - worker.last_reply).seconds());
    worker.last_reply = worker.next;
    tuner_.on_progress(worker.next, {id}, worker.progress);
    begin_step(worker);
  }

  void checkpoint(Instant now) {
    std::vector<std::uint64_t> counts;
    for (const Worker& worker : workers_) counts.push_back(worker.progress.commits);
    result_.counts.push_back(std::move(counts));
    tuner_.on_wakeup(now);
  }

  void evaluate(Instant now, double speed) {
    work_ += 5 * speed;
    tuner_.on_evaluation(now, {.at = now, .loss = 1 / (0.01 * work_ + 0.5) + 0.3, .accuracy = 0});
    evaluation_ = evaluation_ + Duration::from_seconds(5);
  }

  void drain_tuner(Instant now) {
    while (const auto order = tuner_.poll_order()) {
      workers_[order->worker.value].rule->on_directive(now, order->directive);
    }
    while (const auto decision = tuner_.poll_decision()) {
      rate_ = decision->value;
      result_.decisions.push_back(*decision);
    }
  }

  AdspOptions options_;
  AdspTuner tuner_;
  Rng rng_;
  std::vector<Worker> workers_;
  Instant evaluation_;
  double work_ = 0;
  double rate_ = 1;
  WorldResult result_;
};

}  // namespace rubato::sync
