// sync/every_step.hpp - the commit rule of BSP, ASP and SSP: commit after every mini-batch.
// Source: algorithms of Valiant 1990 (BSP), Recht et al. 2011 (ASP) and Ho et al. 2013 (SSP); they
// differ only in the gate. Pure. Threads: one owner. Errors: none.
#pragma once

#include "sync/model.hpp"

namespace rubato::sync {

class EveryStep final : public CommitRule {
 public:
  void on_start(Instant) override {}
  bool on_step_end(Instant) override { return true; }
  void on_commit_sent(Instant) override {}
  void on_reply(Instant, Duration) override {}
  void on_directive(Instant, const Directive&) override {}
};

}  // namespace rubato::sync
