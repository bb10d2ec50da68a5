// sync/commit_spacing.hpp - commit at every mini-batch end, but not sooner than a given time after
// the commit before; none until the tuner has set it.
// Pure. Threads: one owner. Errors: none.
#pragma once

#include <optional>

#include "sync/model.hpp"

namespace rubato::sync {

class CommitSpacing final : public CommitRule {
 public:
  void on_start(Instant) override {}
  bool on_step_end(Instant now) override { return !last_ || now - *last_ >= period_; }
  void on_commit_sent(Instant now) override { last_ = now; }
  void on_reply(Instant, Duration) override {}
  void on_directive(Instant, const Directive& directive) override { period_ = directive.period; }

 private:
  Duration period_;
  std::optional<Instant> last_;
};

}  // namespace rubato::sync
