// Hero SGD: the fastest worker alone trains. Its commits are applied at once, the others wait.
// Source: Fradin et al., arXiv 2509.23207: what one worker reaches without the others is the floor
// that every model has to beat.
//
// A commit of the hero is an update at rate 1 unless given: there is nobody to share it with. The
// first commit of every worker is answered and not used: it tells how fast the worker is. So all
// begin, and the hero is the fastest of those that are known, until somebody is faster by a tenth
// or it leaves. A commit of another worker is held. It is answered and not used when that worker
// becomes the hero.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "sync/model_row.hpp"
#include "sync/queued_tuner.hpp"

namespace rubato::sync {
namespace {

// Phase::number is the hero's id and 1; 0: nobody is known yet.
class HeroGate final : public Gate {
 public:
  void on_join(Instant, WorkerId worker) override {
    RUBATO_CHECK(unknown_.insert(worker).second, "a worker joins once");
  }

  GateActions on_leave(Instant, WorkerId worker) override {
    unknown_.erase(worker);
    held_.erase(worker);
    return {};
  }

  GateActions on_commit(Instant, WorkerId worker) override {
    if (unknown_.erase(worker) == 1) return {.release = {worker}};
    if (worker.value + 1 == hero_) {
      return {.release = {worker}, .collect = {{worker, 1}}, .flush = true};
    }
    RUBATO_CHECK(held_.insert(worker).second, "one commit of a worker is outstanding");
    return {};
  }

  GateActions on_phase(Instant, const Phase& phase) override {
    hero_ = phase.number;
    if (hero_ == 0 || held_.erase({hero_ - 1}) == 0) return {};
    return {.release = {{hero_ - 1}}};
  }

 private:
  std::uint32_t hero_ = 0;      // Phase::number
  std::set<WorkerId> unknown_;  // members without a commit
  std::set<WorkerId> held_;     // members whose commit is here
};

class HeroTuner final : public QueuedTuner {
 public:
  void on_leave(Instant now, WorkerId worker) override {
    QueuedTuner::on_leave(now, worker);
    if (hero_ == worker) hero_.reset();
    choose(now);
  }

  void on_progress(Instant now, WorkerId worker, const WorkerProgress& progress) override {
    QueuedTuner::on_progress(now, worker, progress);
    choose(now);
  }

 private:
  void choose(Instant now) {
    constexpr double kFaster = 0.9;  // of the hero's step time; less is jitter
    const Duration fastest = fastest_timed();
    if (fastest == Duration{}) return;
    if (hero_ && fastest > members().at(*hero_).step_time * kFaster) return;
    for (const auto& [worker, progress] : members()) {
      if (progress.step_time != fastest) continue;
      hero_ = worker;
      break;
    }
    set_phase({.number = hero_->value + 1});
    decide({.at = now,
            .quantity = "hero",
            .value = static_cast<double>(hero_->value),
            .reason = fmt::format("the fastest: {:.3g} s a step", fastest.seconds())});
  }

  std::optional<WorkerId> hero_;
};

}  // namespace

namespace rows {
Model hero_sgd();
}

Model rows::hero_sgd() {
  return {
      .info = {.name = "hero-sgd",
               .title = "Hero SGD",
               .summary = "the fastest worker alone, the others wait",
               .source = "Fradin et al., arXiv 2509.23207"},
      .gate = [](const Options&) -> std::unique_ptr<Gate> { return std::make_unique<HeroGate>(); },
      .tuner = [](const Options&, const RunFacts&) -> std::unique_ptr<Tuner> {
        return std::make_unique<HeroTuner>();
      },
      .tries = {.options = {{}}, .rates = {1, 2}, .means = true}};
}

}  // namespace rubato::sync
