// Tuners under reports and losses that no honest worker would send, within what the codec and the
// scheduler let in. Under the sanitizers nothing overflows; in every build each order is one that a
// worker may follow.
#include <doctest/doctest.h>
#include <rapidcheck.h>

#include <cmath>
#include <limits>
#include <map>

#include "sync/adsp.hpp"
#include "sync/factory.hpp"

namespace rubato::sync {
namespace {

constexpr int kBatch = 16;

// As proto/messages.hpp bounds them.
std::uint64_t any_number() {
  return *rc::gen::element<std::uint64_t>(0, 1, 2, 7, 1'000'000, (1ull << 53) - 1, 1ull << 53);
}

Duration any_time() {
  return {*rc::gen::element<std::int64_t>(0, 1, 1'000, 1'000'000'000, 1ll << 56, 1ll << 57)};
}

double any_loss() {
  constexpr double kMost = std::numeric_limits<double>::max();
  return *rc::gen::element(0.0, 0.5, 2.0, -1.0, 1e-300, 1e300, kMost, -kMost, HUGE_VAL, -HUGE_VAL,
                           std::nan(""));
}

double any_cosine() {
  return *rc::gen::element(-1.0, -0.5, 0.0, 1e-300, 1.0);
}

class Liars {
 public:
  explicit Liars(Tuner& tuner, int batch_most) : tuner_(tuner), batch_most_(batch_most) {
    for (int i = 0; i < 3; ++i) join();
    tuner_.on_start(now_);
    hear();
  }

  void play() {
    now_ = now_ + Duration::from_ms(*rc::gen::element(0, 1, 100, 60'000));
    switch (*rc::gen::inRange(0, 10)) {
      case 0:
        if (members_.size() < 6) join();
        break;
      case 1:
        if (members_.size() > 1) leave();
        break;
      case 2:
      case 3:
        tuner_.on_evaluation(now_, {.at = now_, .loss = any_loss(), .accuracy = any_loss()});
        break;
      default:
        report();
    }
    if (const auto at = tuner_.poll_wakeup(); at && *at <= now_) tuner_.on_wakeup(now_);
    hear();
  }

 private:
  using Members = std::map<WorkerId, WorkerProgress>;

  Members::iterator any_member() {
    return std::next(members_.begin(), *rc::gen::inRange<std::ptrdiff_t>(
                                           0, static_cast<std::ptrdiff_t>(members_.size())));
  }
  void join() {
    const WorkerId worker{next_++};
    members_[worker] = {};
    tuner_.on_join(now_, worker);
  }
  void leave() {
    const auto gone = any_member();
    tuner_.on_leave(now_, gone->first);
    members_.erase(gone);
  }
  // Totals only grow: the scheduler refuses others.
  void report() {
    const auto& [worker, last] = *any_member();
    WorkerProgress& progress = members_[worker];
    progress = {.steps = std::max(last.steps, any_number()),
                .commits = std::max(last.commits, any_number()),
                .step_time = any_time(),
                .overhead = any_time(),
                .batch = *rc::gen::element<std::uint32_t>(0, 1, kBatch, ~0u),
                .alignment = {any_cosine(), any_cosine()}};
    tuner_.on_progress(now_, worker, progress);
  }
  void hear() {
    while (const auto order = tuner_.poll_order()) {
      RC_ASSERT(is_valid(order->directive));
      RC_ASSERT(order->directive.batch <= static_cast<std::uint32_t>(batch_most_));
    }
    while (tuner_.poll_decision()) continue;
  }

  Tuner& tuner_;
  int batch_most_;
  Instant now_{1'000'000'000};
  std::uint32_t next_ = 0;
  Members members_;
};

TEST_CASE("hostile reports: every tuner gives orders that a worker may follow") {
  Options batched;
  batched.of<AdspOptions>().batches = Batches::Speed;
  for (const ModelInfo& model : models()) {
    for (const Options& options : {Options{}, batched}) {
      if (!make_tuner(model.name, options, {})) continue;
      CAPTURE(model.name);
      CHECK(rc::check([&] {
        const auto tuner = make_tuner(model.name, options,
                                      {.parameter_bytes = 4'000, .batches = 100, .batch = kBatch});
        Liars liars(*tuner, batch_max(model.name, options, kBatch));
        for (int i = 0; i < 60; ++i) liars.play();
      }));
    }
  }
}

}  // namespace
}  // namespace rubato::sync
