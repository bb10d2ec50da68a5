// sync/local_steps.hpp - commit every tau mini-batches; tau = 1 is the rule of BSP, ASP and SSP.
// Source: Stich, "Local SGD converges fast and communicates little", ICLR 2019; with a tuner that
// moves tau also Wang & Joshi (ADACOMM) and Liu et al. (DyLU). Letters: tau local steps per commit.
// Pure. Threads: one owner. Errors: none; misuse is a bug.
#pragma once

#include <cstdint>

#include "base/check.hpp"
#include "sync/model.hpp"

namespace rubato::sync {

class LocalSteps final : public CommitRule {
 public:
  // Requires: local_steps >= 1.
  explicit LocalSteps(std::uint32_t local_steps) : local_steps_(local_steps) {
    RUBATO_CHECK(local_steps >= 1, "a commit holds at least one step");
  }

  void on_start(Instant, bool anew) override {
    if (anew) steps_ = 0;
  }
  bool on_step_end(Instant) override { return ++steps_ >= local_steps_; }
  void on_commit_sent(Instant) override { steps_ = 0; }
  void on_reply(Instant, Duration) override {}
  void on_directive(Instant, const Directive& directive) override {
    if (directive.local_steps >= 1) local_steps_ = directive.local_steps;
  }

 private:
  std::uint32_t local_steps_;  // tau
  std::uint32_t steps_ = 0;    // since the last commit left
};

}  // namespace rubato::sync
